//! The page in which a call's code runs, and what passes between it and its browser.
//!
//! Its address is one that no site has, and the daemon itself answers for it. So the page is a secure context with an origin of its
//! own, and nothing else can come to have that origin. The binding is in the page's one script context and in no other: not in
//! a frame, not in a page that the code opens, and not in what its own tab shows once the code has left it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Script;
use super::popups::Popups;
use crate::Error;
use crate::chromium::value;
use crate::perform::left;
use crate::tab::TabError;
use warmpool_config::Config;
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::cdp::{Cdp, CdpError, CdpEvent};
use warmpool_sessions::relay::inner_client::{self, InnerReceiver, InnerSender};
use warmpool_sessions::session::Session;

/// The origin of the page. Names below `localhost` belong to no site and count as secure; without TLS, the code may load from sites
/// that have none.
const ORIGIN: &str = "http://function.localhost";
/// Its address.
const ADDRESS: &str = "http://function.localhost/";
/// What it is made of: the code finds an empty document.
const DOCUMENT: &str = "<!doctype html><title>Function</title>";
/// The function by which the page sends; `function.ts` takes it away before any other code runs.
const BINDING: &str = "warmpoolSend";
/// How many of the code's commands may wait to be sent.
const COMMANDS: usize = 4096;
/// About how many bytes of the browser's messages reach the page at once.
const AT_ONCE: usize = 256 << 10;

/// A page that is ready for code.
pub(crate) struct Runner {
    cdp: Arc<Cdp>,
    /// The attachment to its tab.
    tab: String,
    /// Its script context.
    context: i64,
    events: mpsc::Receiver<CdpEvent>,
    popups: Popups,
    sender: InnerSender,
    receiver: InnerReceiver,
    /// The most bytes of an answer.
    limit: u64,
}

impl Runner {
    /// Opens the page in the first tab of the session's browser.
    pub(crate) async fn open(
        session: &Arc<Session>,
        config: &Config,
        limit: u64,
        until: Instant,
    ) -> Result<Self, Error> {
        let unready =
            |error: CdpError| warmpool_sessions::Error::worker("the browser's DevTools cannot be reached", error);
        // An answer may be base64, within a message of Puppeteer's, within one of the daemon's.
        let longest = usize::try_from(limit.saturating_mul(3).saturating_add(1 << 20)).unwrap_or(usize::MAX);
        let cdp = Arc::new(Cdp::connect_within(session, longest).await.map_err(unready)?);
        let tab = crate::chromium::first_tab(session).await?;
        let attach = json!({"targetId": tab, "flatten": true});
        let attached = cdp.call(None, "Target.attachToTarget", attach).await.map_err(unready)?;
        let id = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        let mut events = cdp.listen_for(&id, COMMANDS, wanted);
        for (method, params) in [
            ("Page.enable", json!({})),
            ("Runtime.enable", json!({})),
            ("Fetch.enable", json!({"patterns": [{"urlPattern": ADDRESS}]})),
        ] {
            cdp.call(Some(&id), method, params).await.map_err(unready)?;
        }
        let opened = show(&cdp, &id, &mut events, &tab);
        let context = tokio::time::timeout(left(until), opened).await.unwrap_or(Err(TabError::Late));
        let context = context.map_err(|error| error.when("open the code's page", limit))?;
        for (method, params) in [
            ("Fetch.disable", json!({})),
            ("Runtime.addBinding", json!({"name": BINDING, "executionContextId": context})),
        ] {
            cdp.call(Some(&id), method, params).await.map_err(unready)?;
        }
        let popups = Popups::follow(&cdp, tab).await.map_err(unready)?;
        let (sender, receiver) = inner_client::connect(session, config, longest).await?;
        Ok(Self { cdp, tab: id, context, events, popups, sender, receiver, limit })
    }

    /// Runs the script, with what is given, beside a page of this viewport. Returns the value of the script. `failed` turns what
    /// went wrong meanwhile into an error of the call.
    pub(crate) async fn run(
        self,
        script: &Script,
        viewport: Value,
        given: &[Value],
        until: Instant,
        failed: fn(TabError) -> Error,
    ) -> Result<Value, Error> {
        let Self { cdp, tab, context, events, popups, sender, receiver, limit } = self;
        let page = CodePage { cdp, tab, until };
        let untaken = |error: TabError| error.when("take the script of the call", limit);
        let object = page.evaluate(context, script).await.map_err(untaken)?;
        let work = async {
            let opened = page.call(&object, "async function(it) { await this.open(it); }", &[viewport]).await;
            opened.map_err(|error| error.when("open a page for the script", limit))?;
            let run = page.call(&object, "function(...given) { return this.run(...given); }", given).await;
            run.map_err(failed)
        };
        tokio::select! {
            biased;
            value = work => value,
            end = page.carry_up(context, events, sender) => Err(end),
            end = page.carry_down(&object, receiver) => Err(end),
            never = popups.release() => match never {},
        }
    }
}

/// What of the page's events is read.
fn wanted(method: &str, _: &Value) -> bool {
    matches!(
        method,
        "Runtime.bindingCalled"
            | "Runtime.executionContextCreated"
            | "Fetch.requestPaused"
            | "Page.javascriptDialogOpening"
    )
}

/// Shows the page in a tab, whose target this is, and returns its script context.
async fn show(cdp: &Cdp, id: &str, events: &mut mpsc::Receiver<CdpEvent>, target: &str) -> Result<i64, TabError> {
    let navigated = cdp.call(Some(id), "Page.navigate", json!({"url": ADDRESS}));
    tokio::pin!(navigated);
    let mut answered = false;
    loop {
        let event = tokio::select! {
            answer = &mut navigated, if !answered => {
                if let Some(why) = answer?["errorText"].as_str().filter(|why| !why.is_empty()) {
                    return Err(TabError::Refused(why.to_owned()));
                }
                answered = true;
                continue;
            }
            event = events.recv() => event.ok_or(TabError::Gone)?,
        };
        let params = &event.params;
        match event.method.as_str() {
            "Fetch.requestPaused" => {
                let document = json!({
                    "requestId": params["requestId"],
                    "responseCode": 200,
                    "responseHeaders": [
                        {"name": "content-type", "value": "text/html; charset=utf-8"},
                        // What the code opens by itself cannot reach back.
                        {"name": "cross-origin-opener-policy", "value": "same-origin"},
                    ],
                    "body": STANDARD.encode(DOCUMENT),
                });
                cdp.notify(id, "Fetch.fulfillRequest", document).await?;
            }
            "Runtime.executionContextCreated" => {
                let (context, of) = (&params["context"], &params["context"]["auxData"]);
                let is_ours = context["origin"] == ORIGIN && of["isDefault"] == true && of["frameId"] == target;
                if let Some(context) = context["id"].as_i64().filter(|_| is_ours) {
                    return Ok(context);
                }
            }
            _ => {}
        }
    }
}

/// The code's page while it runs.
struct CodePage {
    cdp: Arc<Cdp>,
    tab: String,
    until: Instant,
}

impl CodePage {
    /// Evaluates the script, and returns the object that it makes.
    async fn evaluate(&self, context: i64, script: &Script) -> Result<String, TabError> {
        let params = json!({"expression": expression(script), "contextId": context, "awaitPromise": true});
        let answer = self.cdp.call_within(left(self.until), Some(&self.tab), "Runtime.evaluate", params).await?;
        let object = answer["result"]["objectId"].as_str().map(str::to_owned);
        value(answer)?;
        object.ok_or_else(|| TabError::Refused("it makes no object".to_owned()))
    }

    /// Calls a function on that object, and waits for what it promises.
    async fn call(&self, object: &str, function: &str, given: &[Value]) -> Result<Value, TabError> {
        let given: Vec<Value> = given.iter().map(|value| json!({"value": value})).collect();
        let params = json!({
            "functionDeclaration": function,
            "objectId": object,
            "arguments": given,
            "returnByValue": true,
            "awaitPromise": true,
        });
        let answer = self.cdp.call_within(left(self.until), Some(&self.tab), "Runtime.callFunctionOn", params).await?;
        value(answer)
    }

    /// Carries the code's messages to the browser, for as long as that goes.
    async fn carry_up(&self, context: i64, mut events: mpsc::Receiver<CdpEvent>, mut sender: InnerSender) -> Error {
        while let Some(CdpEvent { method, mut params, .. }) = events.recv().await {
            let outcome = match method.as_str() {
                "Runtime.bindingCalled" if params["executionContextId"] == context && params["name"] == BINDING => {
                    match params["payload"].take() {
                        Value::String(message) => sender.send(message).await.map_err(|closed| closed.to_string()),
                        _ => Ok(()),
                    }
                }
                // Nobody is there to answer.
                "Page.javascriptDialogOpening" => {
                    let accept = json!({"accept": params["type"] == "beforeunload"});
                    let closed = self.cdp.notify(&self.tab, "Page.handleJavaScriptDialog", accept).await;
                    closed.map_err(|error| error.to_string())
                }
                _ => Ok(()),
            };
            if let Err(why) = outcome {
                return cut(&why);
            }
        }
        cut("the code sends more commands at once than the daemon can carry")
    }

    /// Carries the browser's messages to the code.
    async fn carry_down(&self, object: &str, mut receiver: InnerReceiver) -> Error {
        loop {
            let messages = match receiver.next(AT_ONCE).await {
                Ok(messages) => messages,
                Err(closed) => return cut(&closed.to_string()),
            };
            match self.call(object, "function(it) { this.receive(it); }", &[json!(messages)]).await {
                // A mistake of Puppeteer's with one message is none of the next.
                Ok(_) | Err(TabError::Threw(_)) => {}
                // What the call itself says is clearer.
                Err(_) => std::future::pending().await,
            }
        }
    }
}

/// What makes the script's object in the page. Nothing of the script is left in the page's own scope.
fn expression(script: &Script) -> String {
    let made = "return warmpoolFunction.runner;";
    match script {
        Script::Text(text) => format!("(() => {{\n{text}\n{made}\n}})()"),
        Script::Gzip(bytes) => format!(
            "(async () => {{\n\
             const bytes = Uint8Array.from(atob('{}'), (letter) => letter.charCodeAt(0));\n\
             const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));\n\
             return new Function(await new Response(stream).text() + '\\n{made}')();\n\
             }})()",
            STANDARD.encode(bytes)
        ),
    }
}

/// The code has lost its connection to the browser.
fn cut(why: &str) -> Error {
    Error::Failed { message: format!("the code was cut off from its browser: {why}") }
}

/// What went wrong with the code itself.
pub(super) fn code_error(error: TabError) -> Error {
    match error {
        TabError::Threw(words) => Error::invalid("code", format!("failed: {words}")),
        TabError::Refused(_) => Error::invalid(
            "code",
            "left the page in which it runs, closed it, or took all of its memory: it has a `page` of its own to open sites in",
        ),
        TabError::Late => Error::Late { message: "the code did not come to its end in time".to_owned(), field: None },
        TabError::Gone | TabError::TooLarge => {
            cut("it was lost, or a message was longer than three times `pages.max_answer`")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    #[test]
    fn what_the_code_did_wrong_is_the_codes() {
        assert_eq!(code_error(TabError::Threw("Error: x".to_owned())).field(), Some("code"));
        assert_eq!(code_error(TabError::Refused("closed".to_owned())).field(), Some("code"));
        assert_eq!(code_error(TabError::Gone).field(), None);
    }
}
