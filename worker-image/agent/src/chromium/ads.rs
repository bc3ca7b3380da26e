//! Blocks ads, over a DevTools connection of its own.
//!
//! Rules that the image was built with the browser's filter has (see `ad_filter.rs`). The agent hides elements, and sees to it
//! that the filter is on before a page arrives. About rules of the operator's own the browser asks the agent.
//!
//! The browser's own `Fetch` domain, and not that of a page, sees the requests of all contexts, frames and workers. It
//! stands behind the client's interception: the client meets each request first, and one that it answers itself never
//! comes here. Nothing is attached to a page but for hiding elements, and no page waits for that.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::ads::{AdBlocker, Names};
use crate::cdp::{Cdp, CdpError, CdpEvent};

use super::browser::Browser;
use super::targets::Targets;

/// What hides elements in a frame.
const SCRIPT: &str = include_str!("ads.js");
/// The world in which it runs.
const WORLD: &str = "ads";
/// Frames whose addresses are remembered at most.
const MAX_FRAMES: usize = 10_000;

/// Who decides on requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilteredBy {
    /// The browser's own filter.
    Browser,
    /// The agent, which the browser asks about each of them.
    Agent,
}

impl FilteredBy {
    /// Which requests the browser asks about. A new tab may have its first page before an event has told of the tab, and the
    /// browser's filter has to be on when that page arrives.
    ///
    /// A document that arrives while the browser asks about anything has all its requests go through the browser's own
    /// process, which costs as much as asking about each. So with the filter it stops asking from the request of a page until
    /// the page is there.
    fn asks(self) -> Value {
        match self {
            Self::Browser => json!({"patterns": [{"urlPattern": "http*", "resourceType": "Document"}]}),
            Self::Agent => json!({"patterns": [{"urlPattern": "http*"}]}),
        }
    }
}

/// The frames of one browser, by their ids.
struct Frames {
    blocker: Arc<AdBlocker>,
    filtered_by: FilteredBy,
    /// Turns the browser's filter on, over its own connection.
    targets: Arc<Targets>,
    settings_cdp: Cdp,
    /// The address of each frame's document; a frame without one of its own has that of its parent.
    urls: Mutex<HashMap<String, String>>,
    /// Tabs and popups. Their documents are never ads.
    pages: Mutex<HashSet<String>>,
    /// Requests for pages that wait for the browser's filter.
    waiting: AtomicUsize,
    /// Whether targets that are announced were there before.
    joining: AtomicBool,
}

/// Blocks ads in a browser until it ends.
pub(super) async fn block(
    browser: &Arc<Browser>,
    blocker: &Arc<AdBlocker>,
    filtered_by: FilteredBy,
) -> Result<(), CdpError> {
    if filtered_by == FilteredBy::Browser {
        browser.targets.filter_ads(&browser.cdp, blocker).await?;
    }
    let connection = connect(browser, blocker, filtered_by).await?;
    let (browser, blocker) = (Arc::clone(browser), Arc::clone(blocker));
    // When a connection ends, the browser lets the requests go on that waited for an answer over it.
    tokio::spawn(async move { browser.keep_connected(connection, || connect(&browser, &blocker, filtered_by)).await });
    Ok(())
}

async fn connect(browser: &Browser, blocker: &Arc<AdBlocker>, filtered_by: FilteredBy) -> Result<Cdp, CdpError> {
    let frames = Arc::new(Frames {
        blocker: Arc::clone(blocker),
        filtered_by,
        targets: Arc::clone(&browser.targets),
        settings_cdp: browser.cdp.clone(),
        urls: Mutex::default(),
        pages: Mutex::default(),
        waiting: AtomicUsize::new(0),
        // Only the browser's interception has to be renewed for what was there before.
        joining: AtomicBool::new(filtered_by == FilteredBy::Agent),
    });
    let handler = Arc::clone(&frames);
    let cdp = Cdp::connect(browser.port, &browser.path, move |cdp, event| handler.handle(cdp, &event)).await?;
    cdp.call(None, "Fetch.enable", filtered_by.asks()).await?;
    // The events for existing targets come before the reply.
    let kinds = ["page", "iframe"].map(|kind| json!({"type": kind}));
    cdp.call(None, "Target.setDiscoverTargets", json!({"discover": true, "filter": kinds})).await?;
    frames.joining.store(false, Ordering::Release);
    Ok(cdp)
}

impl Frames {
    /// Handles an event. Never waits: replies come over the same socket.
    fn handle(self: &Arc<Self>, cdp: &Cdp, event: &CdpEvent) {
        let text = |field: &str| event.params[field].as_str().unwrap_or_default();
        match (event.method.as_str(), &event.session) {
            ("Fetch.requestPaused", _) if self.filtered_by == FilteredBy::Browser => {
                self.let_document_go_on(cdp, &event.params)
            }
            ("Fetch.requestPaused", _) => self.decide(cdp, &event.params),
            // Not by attaching automatically: with that, a page that opens a window would wait for someone to let it go.
            ("Target.targetCreated", _) => {
                let target = &event.params["targetInfo"];
                let id = target["targetId"].as_str().unwrap_or_default().to_owned();
                if target["type"] == "page" {
                    self.pages.lock().insert(id.clone());
                }
                let joins = self.joining.load(Ordering::Acquire);
                tokio::spawn(Arc::clone(self).enter(cdp.clone(), id, joins));
            }
            ("Target.targetDestroyed", _) => {
                self.pages.lock().remove(text("targetId"));
                self.ask_again(cdp);
            }
            ("Page.frameStoppedLoading", _) if self.pages.lock().contains(text("frameId")) => self.ask_again(cdp),
            ("Page.frameAttached", _) => self.inherit(text("frameId"), text("parentFrameId")),
            ("Page.frameDetached", _) if text("reason") == "remove" => {
                self.urls.lock().remove(text("frameId"));
            }
            ("Page.frameNavigated", Some(session)) => {
                let frame = &event.params["frame"];
                if frame["parentId"].is_null() {
                    self.ask_again(cdp);
                }
                self.show(cdp, session, frame);
            }
            _ => {}
        }
    }

    /// Lets the request for a document go on; one for a page once the browser's filter is on in its tab.
    fn let_document_go_on(self: &Arc<Self>, cdp: &Cdp, params: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let frame = text(&params["frameId"]);
        self.remember(frame.clone(), text(&params["request"]["url"]));
        let is_page = self.pages.lock().contains(&frame);
        let (frames, cdp, request) = (Arc::clone(self), cdp.clone(), json!({"requestId": params["requestId"]}));
        if is_page {
            self.waiting.fetch_add(1, Ordering::AcqRel);
        }
        tokio::spawn(async move {
            let mut commands = vec![("Fetch.continueRequest", request)];
            if is_page {
                frames.targets.filter_tab(&frames.settings_cdp, &frame).await;
                // That would let other requests go on too.
                if frames.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
                    commands.push(("Fetch.disable", json!({})));
                }
            }
            // The browser takes them in this order, and the second one before the page can arrive.
            join_all(commands.into_iter().map(|(method, params)| cdp.call(None, method, params))).await
        });
    }

    /// A page is there, or will not come.
    fn ask_again(&self, cdp: &Cdp) {
        if self.filtered_by == FilteredBy::Browser {
            let (cdp, asks) = (cdp.clone(), self.filtered_by.asks());
            tokio::spawn(async move { cdp.call(None, "Fetch.enable", asks).await });
        }
    }

    /// Lets a request go on, or not.
    fn decide(&self, cdp: &Cdp, params: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (url, method, frame) =
            (text(&params["request"]["url"]), text(&params["request"]["method"]), text(&params["frameId"]));
        let headers = &params["request"]["headers"];
        let header = |name| headers[name].as_str().map(str::to_owned);
        let source = self.urls.lock().get(&frame).cloned();
        let source = source.or_else(|| header("Referer")).or_else(|| header("Origin")).unwrap_or_default();
        let kind = params["resourceType"].as_str().unwrap_or_default();
        let is_document = kind == "Document";
        let is_page = is_document && self.pages.lock().contains(&frame);
        let blocked = !is_page && self.blocker.blocks(&url, &source, kind_of_rules(kind), &method);
        if is_document && !blocked {
            self.remember(frame, url);
        }
        let mut answer = json!({"requestId": params["requestId"]});
        if blocked {
            answer["errorReason"] = "BlockedByClient".into();
        }
        let cdp = cdp.clone();
        tokio::spawn(async move {
            let command = if blocked { "Fetch.failRequest" } else { "Fetch.continueRequest" };
            cdp.call(None, command, answer).await
        });
    }

    /// Hides ads in a target's frames. Those in other processes are targets too.
    async fn enter(self: Arc<Self>, cdp: Cdp, target: String, joins: bool) {
        let params = json!({"targetId": target, "flatten": true});
        let Ok(attached) = cdp.call(None, "Target.attachToTarget", params).await else { return };
        let session = attached["sessionId"].as_str().unwrap_or_default();
        if joins {
            // A page that has loaded goes on past the browser's interception until something renews its own.
            let nothing = json!({"patterns": [{"urlPattern": "nothing:"}]});
            let renewed = [("Fetch.enable", nothing), ("Fetch.disable", json!({}))];
            join_all(renewed.map(|(method, params)| cdp.call(Some(session), method, params))).await;
        }
        let commands = ["Page.enable", "Page.getFrameTree"];
        let calls = commands.map(|method| cdp.call(Some(session), method, json!({})));
        if let Some(Ok(tree)) = join_all(calls).await.pop() {
            self.show_tree(&cdp, session, &tree["frameTree"]);
        }
    }

    fn show_tree(self: &Arc<Self>, cdp: &Cdp, session: &str, tree: &Value) {
        self.show(cdp, session, &tree["frame"]);
        for child in tree["childFrames"].as_array().into_iter().flatten() {
            self.show_tree(cdp, session, child);
        }
    }

    /// Notes a frame's document, and hides in it what is to be hidden.
    fn show(self: &Arc<Self>, cdp: &Cdp, session: &str, frame: &Value) {
        let text = |field: &str| frame[field].as_str().unwrap_or_default().to_owned();
        let (id, url) = (text("id"), text("url"));
        if url.starts_with("http") {
            self.remember(id.clone(), url);
        } else {
            self.inherit(&id, &text("parentId"));
        }
        let Some(url) = self.urls.lock().get(&id).cloned() else { return };
        let (frames, cdp, session) = (Arc::clone(self), cdp.clone(), session.to_owned());
        tokio::spawn(async move {
            if let Err(error) = frames.hide(&cdp, &session, &id, &url).await {
                tracing::trace!(%error, "a document has gone");
            }
        });
    }

    /// Hides elements of a document for as long as it is there.
    async fn hide(&self, cdp: &Cdp, session: &str, frame: &str, url: &str) -> Result<(), CdpError> {
        let hidden = self.blocker.hidden(url);
        if hidden.css.is_empty() && !hidden.generic {
            return Ok(());
        }
        let world = json!({"frameId": frame, "worldName": WORLD});
        let world = cdp.call(Some(session), "Page.createIsolatedWorld", world).await?;
        let mut expression = format!("({SCRIPT})({}, {})", Value::from(hidden.css), hidden.generic);
        loop {
            let params = json!({
                "contextId": world["executionContextId"], "expression": expression, "awaitPromise": true,
                "returnByValue": true,
            });
            let mut answer = cdp.call(Some(session), "Runtime.evaluate", params).await?;
            let Ok(names) = serde_json::from_value::<Names>(answer["result"]["value"].take()) else { return Ok(()) };
            let css = self.blocker.generic_css(&names, &hidden.exceptions);
            expression = format!("adBlocker({})", Value::from(css));
        }
    }

    fn remember(&self, frame: String, url: String) {
        let mut urls = self.urls.lock();
        if urls.len() >= MAX_FRAMES {
            urls.clear();
        }
        urls.insert(frame, url);
    }

    /// Gives a frame without an address the one of its parent.
    fn inherit(&self, frame: &str, parent: &str) {
        let url = self.urls.lock().get(parent).cloned();
        if let Some(url) = url {
            self.remember(frame.to_owned(), url);
        }
    }
}

/// What rules call a type of resource.
fn kind_of_rules(kind: &str) -> &'static str {
    match kind {
        "Document" => "sub_frame",
        "Stylesheet" => "stylesheet",
        "Image" => "image",
        "Media" | "TextTrack" => "media",
        "Font" => "font",
        "Script" => "script",
        "XHR" | "Fetch" | "EventSource" => "xmlhttprequest",
        "Ping" => "ping",
        "CSPViolationReport" => "csp_report",
        _ => "other",
    }
}
