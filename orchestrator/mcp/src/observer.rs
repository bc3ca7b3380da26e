//! What tabs of Chromium say and ask for while an agent uses them, over a DevTools connection of the daemon's own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use warmpool_sessions::cdp::{Cdp, CdpEvent};
use warmpool_sessions::session::Session;

/// Events of one tab waiting to be read.
const EVENTS: usize = 4096;
/// The longest text that is kept of one, in characters.
const LONGEST: usize = 1000;

/// Follows the tabs of a browser.
pub(crate) struct Observer {
    cdp: Arc<Cdp>,
    tabs: HashMap<String, Followed>,
    most: usize,
}

struct Followed {
    log: Arc<Mutex<TabLog>>,
    _events: AbortOnDropHandle<()>,
}

/// How bad a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

/// A message of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsoleMessage {
    pub(crate) level: Level,
    pub(crate) text: String,
    /// Where it was written, if that is known.
    pub(crate) place: Option<String>,
    /// Of which page, counted from the first one.
    page: u64,
}

/// A request of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRequest {
    id: String,
    pub(crate) method: String,
    pub(crate) url: String,
    /// As DevTools names it, such as `Image`.
    pub(crate) kind: String,
    pub(crate) status: Option<u64>,
    pub(crate) failure: Option<String>,
}

/// What one tab said and asked for.
#[derive(Debug, Default)]
pub(crate) struct TabLog {
    messages: VecDeque<ConsoleMessage>,
    requests: VecDeque<PageRequest>,
    page: u64,
    most: usize,
}

impl Observer {
    /// Connects to a browser. None where its DevTools cannot be reached: all else works without.
    pub(crate) async fn connect(session: &Session, most: usize) -> Option<Self> {
        match Cdp::connect(session).await {
            Ok(cdp) => Some(Self { cdp: Arc::new(cdp), tabs: HashMap::new(), most }),
            Err(error) => {
                tracing::debug!(%error, "an agent's browser is not followed");
                None
            }
        }
    }

    /// Follows a tab from now on, if it is not followed already.
    pub(crate) async fn follow(&mut self, tab: &str) {
        if self.tabs.contains_key(tab) {
            return;
        }
        let attach = json!({"targetId": tab, "flatten": true});
        let Ok(attached) = self.cdp.call(None, "Target.attachToTarget", attach).await else { return };
        let Some(id) = attached["sessionId"].as_str().map(str::to_owned) else { return };
        let mut events = self.cdp.listen_for(&id, EVENTS, |method, _| {
            matches!(
                method,
                "Runtime.consoleAPICalled"
                    | "Runtime.exceptionThrown"
                    | "Log.entryAdded"
                    | "Network.requestWillBeSent"
                    | "Network.responseReceived"
                    | "Network.loadingFailed"
            )
        });
        let log = Arc::new(Mutex::new(TabLog { most: self.most, ..TabLog::default() }));
        let (noted, frame) = (Arc::clone(&log), tab.to_owned());
        let work = async move {
            while let Some(event) = events.recv().await {
                noted.lock().note(&event, &frame);
            }
        };
        let followed = Followed { log, _events: AbortOnDropHandle::new(tokio::spawn(work)) };
        self.tabs.insert(tab.to_owned(), followed);
        for (method, params) in [
            // It keeps no bodies of answers.
            ("Network.enable", json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})),
            ("Runtime.enable", json!({})),
            ("Log.enable", json!({})),
        ] {
            let _ = self.cdp.call(Some(&id), method, params).await;
        }
    }

    /// The messages of a tab of this level and worse ones, of the page that is there or of all.
    pub(crate) fn messages(&self, tab: &str, level: Level, all: bool) -> Vec<ConsoleMessage> {
        let Some(followed) = self.tabs.get(tab) else { return Vec::new() };
        let log = followed.log.lock();
        log.messages.iter().filter(|it| it.level <= level && (all || it.page == log.page)).cloned().collect()
    }

    /// The requests of the page that a tab shows.
    pub(crate) fn requests(&self, tab: &str) -> Vec<PageRequest> {
        self.tabs.get(tab).map(|followed| followed.log.lock().requests.iter().cloned().collect()).unwrap_or_default()
    }
}

impl TabLog {
    fn note(&mut self, event: &CdpEvent, frame: &str) {
        let params = &event.params;
        match event.method.as_str() {
            "Runtime.consoleAPICalled" => {
                let words = params["args"].as_array().into_iter().flatten().map(argument);
                let call = &params["stackTrace"]["callFrames"][0];
                self.say(level(text(&params["type"])), words.collect::<Vec<_>>().join(" "), place(call));
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                let words = details["exception"]["description"].as_str().unwrap_or_else(|| text(&details["text"]));
                self.say(Level::Error, words.to_owned(), place(details));
            }
            "Log.entryAdded" => {
                let entry = &params["entry"];
                self.say(level(text(&entry["level"])), text(&entry["text"]).to_owned(), place(entry));
            }
            "Network.requestWillBeSent" => self.ask(params, frame),
            "Network.responseReceived" => {
                let status = params["response"]["status"].as_u64();
                self.answered(params, |request| request.status = status);
            }
            "Network.loadingFailed" => {
                let why = short(text(&params["errorText"]));
                self.answered(params, |request| request.failure = Some(why));
            }
            _ => {}
        }
    }

    fn say(&mut self, level: Level, words: String, place: Option<String>) {
        self.messages.push_back(ConsoleMessage { level, text: short(&words), place, page: self.page });
        if self.messages.len() > self.most {
            self.messages.pop_front();
        }
    }

    fn ask(&mut self, params: &Value, frame: &str) {
        let is_page = params["type"] == "Document" && params["frameId"] == frame;
        let is_first = is_page && params["redirectResponse"].is_null();
        if is_first {
            // The page before is left.
            self.requests.clear();
            self.page += 1;
        } else if params["redirectResponse"].is_object() {
            let status = params["redirectResponse"]["status"].as_u64();
            self.answered(params, |request| request.status = status);
        }
        let request = &params["request"];
        self.requests.push_back(PageRequest {
            id: text(&params["requestId"]).to_owned(),
            method: short(text(&request["method"])),
            url: short(text(&request["url"])),
            kind: short(text(&params["type"])),
            status: None,
            failure: None,
        });
        if self.requests.len() > self.most {
            self.requests.pop_front();
        }
    }

    fn answered(&mut self, params: &Value, note: impl FnOnce(&mut PageRequest)) {
        let id = text(&params["requestId"]);
        if let Some(request) = self.requests.iter_mut().rev().find(|request| request.id == id) {
            note(request);
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

fn level(name: &str) -> Level {
    match name {
        "error" | "assert" => Level::Error,
        "warning" => Level::Warning,
        "debug" | "verbose" => Level::Debug,
        _ => Level::Info,
    }
}

/// What a page wrote, as a person would see it.
fn argument(value: &Value) -> String {
    match &value["value"] {
        Value::String(text) => text.clone(),
        Value::Null => text(&value["description"]).to_owned(),
        other => other.to_string(),
    }
}

fn place(value: &Value) -> Option<String> {
    let url = value["url"].as_str().filter(|url| !url.is_empty())?;
    let line = value["lineNumber"].as_u64().map_or_else(String::new, |line| format!(":{}", line + 1));
    Some(format!("{}{line}", short(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(method: &str, params: Value) -> CdpEvent {
        CdpEvent { method: method.to_owned(), params }
    }

    #[test]
    fn a_log_keeps_no_more_than_it_may() {
        let mut log = TabLog { most: 2, ..TabLog::default() };
        for number in 0..5 {
            log.note(&event("Runtime.consoleAPICalled", json!({"type": "log", "args": [{"value": number}]})), "f");
            let sent = json!({"requestId": number.to_string(), "type": "Image", "request": {"url": "http://a/", "method": "GET"}});
            log.note(&event("Network.requestWillBeSent", sent), "f");
        }
        assert_eq!((log.messages.len(), log.requests.len()), (2, 2));
        assert_eq!(log.messages[1].text, "4");
    }

    #[test]
    fn a_new_page_begins_a_new_list_of_requests() {
        let mut log = TabLog { most: 9, ..TabLog::default() };
        let sent = |id: &str, frame: &str| json!({"requestId": id, "type": "Document", "frameId": frame, "request": {"url": "http://a/", "method": "GET"}});
        log.note(&event("Network.requestWillBeSent", sent("1", "f")), "f");
        log.note(&event("Network.responseReceived", json!({"requestId": "1", "response": {"status": 404}})), "f");
        log.note(&event("Network.requestWillBeSent", sent("2", "inner")), "f");
        assert_eq!((log.requests.len(), log.requests[0].status), (2, Some(404)));
        log.note(&event("Network.requestWillBeSent", sent("3", "f")), "f");
        assert_eq!(log.requests.len(), 1);
    }
}
