//! Finds challenges in Chromium's documents, over a DevTools connection of its own.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::captchas::{Captchas, DOCUMENT_SCRIPT, Document, PAGE_SCRIPT};
use crate::cdp::{Cdp, CdpError, CdpEvent};
use warmpool_protocol::CaptchaSolver;

use super::browser::Browser;

/// The world in which the script runs.
const WORLD: &str = "captchas";

/// Watches every document of a browser until it ends.
pub(super) async fn watch(browser: &Arc<Browser>, captchas: &Arc<Captchas>) -> Result<(), CdpError> {
    let connection = connect(browser, captchas).await?;
    let (browser, captchas) = (Arc::clone(browser), Arc::clone(captchas));
    tokio::spawn(async move { browser.keep_connected(connection, || connect(&browser, &captchas)).await });
    Ok(())
}

async fn connect(browser: &Browser, captchas: &Arc<Captchas>) -> Result<Cdp, CdpError> {
    let captchas = Arc::clone(captchas);
    let handle = move |cdp: &Cdp, event: CdpEvent| handle(&captchas, cdp, event);
    let cdp = Cdp::connect(browser.port, &browser.path, handle).await?;
    // Not by attaching automatically: with that, a page that opens a window would wait for someone to let it go.
    let kinds = ["page", "iframe"].map(|kind| json!({"type": kind}));
    cdp.call(None, "Target.setDiscoverTargets", json!({"discover": true, "filter": kinds})).await?;
    Ok(cdp)
}

/// Handles an event. Never waits: replies come over the same socket.
fn handle(captchas: &Arc<Captchas>, cdp: &Cdp, mut event: CdpEvent) {
    match (event.method.as_str(), event.session) {
        ("Target.targetCreated", _) => {
            let target = event.params["targetInfo"]["targetId"].as_str().unwrap_or_default().to_owned();
            tokio::spawn(enter(Arc::clone(captchas), cdp.clone(), target));
        }
        ("Page.frameNavigated", Some(session)) => begin(captchas, cdp, &session, &event.params["frame"].take()),
        _ => {}
    }
}

/// Looks into a target's frames. Those in other processes are targets too.
async fn enter(captchas: Arc<Captchas>, cdp: Cdp, target: String) {
    let params = json!({"targetId": target, "flatten": true});
    let Ok(attached) = cdp.call(None, "Target.attachToTarget", params).await else { return };
    let session = attached["sessionId"].as_str().unwrap_or_default();
    let calls = ["Page.enable", "Page.getFrameTree"].map(|method| cdp.call(Some(session), method, json!({})));
    if let Some(Ok(tree)) = join_all(calls).await.pop() {
        begin_tree(&captchas, &cdp, session, &tree["frameTree"]);
    }
}

fn begin_tree(captchas: &Arc<Captchas>, cdp: &Cdp, session: &str, tree: &Value) {
    begin(captchas, cdp, session, &tree["frame"]);
    for child in tree["childFrames"].as_array().into_iter().flatten() {
        begin_tree(captchas, cdp, session, child);
    }
}

fn begin(captchas: &Arc<Captchas>, cdp: &Cdp, session: &str, frame: &Value) {
    if !frame["url"].as_str().is_some_and(|url| url.starts_with("http")) {
        return;
    }
    let (captchas, cdp, session) = (Arc::clone(captchas), cdp.clone(), session.to_owned());
    let frame = frame["id"].as_str().unwrap_or_default().to_owned();
    tokio::spawn(async move {
        let by_person = captchas.solver == CaptchaSolver::Person;
        match Frame::open(cdp, session, frame, by_person).await {
            Ok(Some(frame)) => captchas.watch(frame).await,
            Ok(None) => {}
            Err(error) => tracing::trace!(%error, "a document has gone"),
        }
    });
}

/// The document of a frame, and the script's world in it.
struct Frame {
    cdp: Cdp,
    session: String,
    context: Value,
    page: Option<String>,
}

impl Frame {
    /// Starts the script; nothing when it runs there already.
    async fn open(cdp: Cdp, session: String, frame: String, by_person: bool) -> Result<Option<Self>, CdpError> {
        let world = json!({"frameId": frame, "worldName": WORLD});
        let world = cdp.call(Some(&session), "Page.createIsolatedWorld", world).await?;
        // Of a frame in a process of its own nobody says here which page it is in.
        let info = cdp.call(Some(&session), "Target.getTargetInfo", json!({})).await?;
        let info = &info["targetInfo"];
        let own = if info["type"] == "page" { &info["targetId"] } else { &Value::Null };
        let page = own.as_str().map(str::to_owned);
        let opened = Self { cdp, session, context: world["executionContextId"].clone(), page };
        let begun = opened.evaluate(format!("({DOCUMENT_SCRIPT})({by_person})"), true).await?;
        Ok((begun["result"]["value"] == true).then_some(opened))
    }

    async fn evaluate(&self, expression: String, by_value: bool) -> Result<Value, CdpError> {
        let params = json!({
            "contextId": self.context, "expression": expression, "awaitPromise": true, "returnByValue": by_value,
        });
        self.cdp.call(Some(&self.session), "Runtime.evaluate", params).await
    }

    /// The same document, as the page's own scripts know it.
    async fn document_of_page(&self) -> Result<Value, CdpError> {
        let own = self.evaluate("document".to_owned(), false).await?;
        let node = json!({"objectId": own["result"]["objectId"]});
        let node = self.cdp.call(Some(&self.session), "DOM.describeNode", node).await?;
        let node = json!({"backendNodeId": node["node"]["backendNodeId"]});
        let mut found = self.cdp.call(Some(&self.session), "DOM.resolveNode", node).await?;
        Ok(found["object"]["objectId"].take())
    }
}

impl Document for Frame {
    fn page(&self) -> Option<String> {
        self.page.clone()
    }

    async fn call(&self, method: &'static str, argument: Option<&str>) -> Option<String> {
        let argument = argument.map(Value::from).unwrap_or_default();
        let answer = self.evaluate(format!("captchas.{method}({argument})"), true).await.ok()?;
        answer["result"]["value"].as_str().map(str::to_owned)
    }

    async fn tell_page(&self, arguments: [Value; 3]) {
        let told = async {
            let params = json!({
                "objectId": self.document_of_page().await?,
                "functionDeclaration": PAGE_SCRIPT,
                "arguments": arguments.map(|value| json!({"value": value})),
                "returnByValue": true,
            });
            self.cdp.call(Some(&self.session), "Runtime.callFunctionOn", params).await
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "a page did not hear of an answer");
        }
    }
}
