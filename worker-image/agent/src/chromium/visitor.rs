//! A tab that visits origins without asking their sites: it asks for a page of each, which the agent answers.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use futures_util::future::{try_join, try_join3};
use serde_json::{Value, json};
use tokio::fs;
use tokio::time::{sleep, timeout};

use crate::cdp::{Cdp, CdpError};
use crate::plain_file;
use crate::storage::{Answer, PAGE_SCRIPT, Request};

use super::browser::{Browser, POLL_INTERVAL};

/// How long an origin may take.
pub(super) const ORIGIN_LIMIT: Duration = Duration::from_secs(20);
/// The longest request that goes to the script as an argument, in bytes. The browser takes about a tenth of a second for each
/// megabyte of DevTools' messages, and next to nothing for a file's.
const LONGEST_ARGUMENT: usize = 64 << 10;
/// An upload field that is in no document.
const FILE_FIELD: &str = "Object.assign(document.createElement('input'), {type: 'file'})";

/// A tab that nobody sees, which visits origins.
pub(super) struct HiddenTab<'a> {
    browser: &'a Browser,
    tab: OwnTab,
    session: String,
}

/// A tab of the agent's own, which closes when this is dropped.
struct OwnTab {
    cdp: Cdp,
    target: String,
    is_closed: bool,
}

impl OwnTab {
    /// Opens it in a task, so that the tab of a caller who leaves meanwhile closes as well.
    async fn open(cdp: Cdp) -> Result<Self, CdpError> {
        let opening = tokio::spawn(async move {
            let params = json!({"url": "about:blank", "hidden": true, "background": true});
            let made = cdp.call(None, "Target.createTarget", params).await?;
            let target = made["targetId"].as_str().unwrap_or_default().to_owned();
            Ok(Self { cdp, target, is_closed: false })
        });
        opening.await.unwrap_or_else(|error| Err(CdpError::Refused(error.to_string())))
    }

    async fn close(mut self) -> Result<(), CdpError> {
        close(&self.cdp, &self.target).await?;
        self.is_closed = true;
        Ok(())
    }
}

impl Drop for OwnTab {
    fn drop(&mut self) {
        if !self.is_closed {
            let (cdp, target) = (self.cdp.clone(), std::mem::take(&mut self.target));
            tokio::spawn(async move { close(&cdp, &target).await });
        }
    }
}

async fn close(cdp: &Cdp, target: &str) -> Result<(), CdpError> {
    cdp.call(None, "Target.closeTarget", json!({"targetId": target})).await.map(drop)
}

impl<'a> HiddenTab<'a> {
    pub(super) async fn open(browser: &'a Browser) -> Result<Self, CdpError> {
        let tab = OwnTab::open(browser.cdp.clone()).await?;
        let session = browser.attach(&tab.target).await?;
        Visitor::begin(browser, &session).await?;
        Ok(Self { browser, tab, session })
    }

    pub(super) async fn ask(&self, origin: &str, request: Request<'_>) -> Result<Answer, CdpError> {
        Visitor { browser: self.browser, session: &self.session }.ask(origin, request).await
    }

    pub(super) async fn close(self) -> Result<(), CdpError> {
        self.tab.close().await
    }
}

/// A session of a tab that visits origins without asking their sites.
pub(super) struct Visitor<'a> {
    browser: &'a Browser,
    session: &'a str,
}

impl<'a> Visitor<'a> {
    pub(super) async fn begin(browser: &'a Browser, session: &'a str) -> Result<Self, CdpError> {
        let call = |method, params| browser.cdp.call(Some(session), method, params);
        try_join3(
            call("Network.enable", json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})),
            // A service worker would answer before anybody who intercepts.
            call("Network.setBypassServiceWorker", json!({"bypass": true})),
            call("Fetch.enable", json!({"patterns": [{"requestStage": "Request"}]})),
        )
        .await?;
        Ok(Self { browser, session })
    }

    /// Leaves a tab of the client's as it was before: blank, and without a history.
    pub(super) async fn forget(&self) -> Result<(), CdpError> {
        let call = |method, params| self.browser.cdp.call(Some(self.session), method, params);
        try_join3(
            call("Page.navigate", json!({"url": "about:blank"})),
            call("Fetch.disable", json!({})),
            call("Network.disable", json!({})),
        )
        .await?;
        let forget = async {
            // The answer comes before the blank page is there, and meanwhile no history can be asked for.
            loop {
                let _ = call("Page.resetNavigationHistory", json!({})).await;
                let history = call("Page.getNavigationHistory", json!({})).await;
                if history.is_ok_and(|history| is_forgotten(&history)) {
                    return;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let forgotten = timeout(ORIGIN_LIMIT, forget).await;
        forgotten.map_err(|_| CdpError::Refused("the first tab does not become blank".to_owned()))
    }

    pub(super) async fn ask(&self, origin: &str, request: Request<'_>) -> Result<Answer, CdpError> {
        let asked = timeout(ORIGIN_LIMIT, self.visit(origin, request)).await;
        asked.unwrap_or_else(|_| Err(CdpError::Refused("it took too long".to_owned())))
    }

    async fn visit(&self, origin: &str, request: Request<'_>) -> Result<Answer, CdpError> {
        let (cdp, session) = (&self.browser.cdp, self.session);
        let call = |method, params| cdp.call(Some(session), method, params);
        let address = format!("{origin}/");
        self.browser.targets.visits.expect(session, &address);
        let navigated = call("Page.navigate", json!({"url": address})).await?;
        if let Some(error) = navigated["errorText"].as_str() {
            return Err(CdpError::Refused(format!("its page was not made: {error}")));
        }
        let text = request.text().map_err(CdpError::Refused)?;
        let by_file = text.len() > LONGEST_ARGUMENT;
        let expression = if by_file { FILE_FIELD } else { "globalThis" };
        let (object, is) = try_join(
            call("Runtime.evaluate", json!({"expression": expression})),
            call("Runtime.evaluate", json!({"expression": "origin", "returnByValue": true})),
        )
        .await?;
        if is["result"]["value"] != origin {
            return Err(CdpError::Refused("the browser opened another address for it".to_owned()));
        }
        let at = json!({"objectId": object["result"]["objectId"]});
        if !by_file {
            return run(cdp, session, PAGE_SCRIPT.trim_end(), json!({"value": text}), at).await;
        }
        let path = self.browser.storage_file.lock().await;
        let asked = self.run_with_file(&path, text, at).await;
        let removed = fs::remove_file(&*path).await;
        let asked = asked?;
        removed.map_err(|error| CdpError::Refused(format!("its file was not removed: {error}")))?;
        Ok(asked)
    }

    /// Runs the script with a text that it reads from a file, which an upload field is given.
    async fn run_with_file(&self, path: &Path, text: String, field: Value) -> Result<Answer, CdpError> {
        let (cdp, session) = (&self.browser.cdp, self.session);
        let unwritten = |error| CdpError::Refused(format!("its file was not written: {error}"));
        plain_file::create(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(unwritten)?;
        let params = json!({"files": [path], "objectId": field["objectId"]});
        cdp.call(Some(session), "DOM.setFileInputFiles", params).await?;
        // Opening the origin's databases takes about as long as reading the file, so that begins at the same time.
        let script = format!(
            "async field => {{ indexedDB.databases().catch(() => {{}}); return ({})(await field.files[0].text()); }}",
            PAGE_SCRIPT.trim_end()
        );
        run(cdp, session, &script, field.clone(), field).await
    }
}

/// Whether a tab's history has nothing but the blank page.
fn is_forgotten(history: &Value) -> bool {
    let entries = history["entries"].as_array();
    entries.is_some_and(|entries| entries.len() == 1 && entries[0]["url"] == "about:blank")
}

/// Runs the script in a session, with an argument, in the world or on the object that `at` names.
pub(super) async fn run(
    cdp: &Cdp,
    session: &str,
    script: &str,
    argument: Value,
    at: Value,
) -> Result<Answer, CdpError> {
    let mut params = json!({
        "functionDeclaration": script, "arguments": [argument], "awaitPromise": true, "returnByValue": true, "silent": true,
    });
    if let (Some(params), Value::Object(at)) = (params.as_object_mut(), at) {
        params.extend(at);
    }
    let done = cdp.call(Some(session), "Runtime.callFunctionOn", params).await?;
    match done["result"]["value"].as_str() {
        Some(text) => Answer::read(text).map_err(CdpError::Refused),
        None => Err(CdpError::Refused(reason(&done["exceptionDetails"]))),
    }
}

/// Why a script failed, in its own words.
fn reason(exception: &Value) -> String {
    let description = exception["exception"]["description"].as_str().unwrap_or("its script failed");
    let first = description.lines().next().unwrap_or_default();
    first.split_once("Error: ").map_or(first, |(_, words)| words).to_owned()
}

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt, StreamExt};
    use tokio::net::UnixStream;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;

    use super::*;

    async fn hear(browser: &mut WebSocketStream<UnixStream>) -> Value {
        let said = browser.next().await.unwrap().unwrap();
        serde_json::from_str(said.to_text().unwrap()).unwrap()
    }

    /// Answers the next command, which opens a tab.
    async fn open_tab(browser: &mut WebSocketStream<UnixStream>) {
        let command = hear(browser).await;
        assert_eq!(command["method"], "Target.createTarget");
        let answer = json!({"id": command["id"], "result": {"targetId": "T"}});
        browser.send(Message::text(answer.to_string())).await.unwrap();
    }

    #[tokio::test]
    async fn a_hidden_tab_closes_wherever_its_caller_left() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let accept = tokio_tungstenite::accept_async(theirs);
        let (cdp, browser) = tokio::join!(Cdp::over(ours, "ws://127.0.0.1/devtools", |_, _| {}), accept);
        let (cdp, mut browser) = (cdp.unwrap(), browser.unwrap());
        let (tab, ()) = tokio::join!(OwnTab::open(cdp.clone()), open_tab(&mut browser));
        drop(tab.unwrap());
        let closes = |command: Value| command["method"] == "Target.closeTarget" && command["params"]["targetId"] == "T";
        assert!(closes(hear(&mut browser).await));
        let left = timeout(Duration::from_millis(1), OwnTab::open(cdp.clone())).await;
        assert!(left.is_err(), "the browser has not answered yet");
        open_tab(&mut browser).await;
        assert!(closes(hear(&mut browser).await));
    }
}
