//! The origins that a browser's tabs and frames have visited, by browser context: no command lists who has stored something.
//! And the visits that the agent makes to them by itself.

use std::collections::{BTreeSet, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::overrides::Command;
use crate::storage::origin;

/// The most origins of pages, and of frames, that are remembered. A page may open as many frames as it likes.
const MAX_ORIGINS: usize = 1000;
/// A document that asks for nothing, not even an icon.
const BLANK: &str = "<!doctype html><link rel=icon href=data:,>";

/// Origins, each with the context in which it was visited.
#[derive(Default)]
pub(super) struct Visited(Mutex<Origins>);

#[derive(Default)]
struct Origins {
    pages: BTreeSet<(String, String)>,
    frames: BTreeSet<(String, String)>,
}

impl Visited {
    /// Remembers the origin of a target's document. Workers and the browser's own pages have none that counts.
    pub(super) fn saw(&self, target: &Value) {
        let (Some(context), Some(url)) = (target["browserContextId"].as_str(), target["url"].as_str()) else { return };
        let Some(origin) = origin(url) else { return };
        let mut all = self.0.lock();
        let same_kind = match target["type"].as_str() {
            Some("page") => &mut all.pages,
            Some("iframe") => &mut all.frames,
            _ => return,
        };
        if same_kind.len() < MAX_ORIGINS {
            same_kind.insert((context.to_owned(), origin));
        }
    }

    /// Those of one context.
    pub(super) fn of(&self, context: &str) -> BTreeSet<String> {
        let all = self.0.lock();
        let visited = all.pages.iter().chain(&all.frames);
        visited.filter(|(of, _)| of == context).map(|(_, origin)| origin.clone()).collect()
    }
}

/// Visits of the agent's own: the tab asks for an origin, and gets a blank document from the agent. Nobody else hears of it.
#[derive(Default)]
pub(super) struct Visits(Mutex<HashMap<String, String>>);

impl Visits {
    /// The session's tab will ask for this address next, and for nothing else.
    pub(super) fn expect(&self, session: &str, address: &str) {
        self.0.lock().insert(session.to_owned(), address.to_owned());
    }

    /// The session makes no visits any more.
    pub(super) fn end(&self, session: &str) {
        self.0.lock().remove(session);
    }

    /// How to go on with a request that Chromium has paused: as it would without the agent, if the session makes no visits.
    pub(super) fn answer(&self, session: &str, paused: &Value) -> Command {
        let Some(expected) = self.0.lock().get(session).cloned() else {
            return ("Fetch.continueRequest", json!({"requestId": paused["requestId"]}));
        };
        if paused["request"]["url"] != *expected || paused["resourceType"] != "Document" {
            let refused = json!({"requestId": paused["requestId"], "errorReason": "BlockedByClient"});
            return ("Fetch.failRequest", refused);
        }
        let document = json!({
            "requestId": paused["requestId"], "responseCode": 200, "body": STANDARD.encode(BLANK),
            "responseHeaders": [{"name": "content-type", "value": "text/html; charset=utf-8"}],
        });
        ("Fetch.fulfillRequest", document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn origins_are_those_of_documents_in_one_context() {
        let visited = Visited::default();
        let saw = |kind: &str, context: &str, url: &str| {
            visited.saw(&json!({"type": kind, "browserContextId": context, "url": url}));
        };
        saw("page", "A", "https://a.example/x?y");
        saw("page", "A", "https://a.example:443/z");
        saw("iframe", "A", "http://b.example:8080/");
        saw("page", "B", "https://c.example/");
        saw("worker", "A", "https://d.example/");
        saw("page", "A", "chrome://version");
        saw("page", "A", "about:blank");
        assert_eq!(visited.of("A").into_iter().collect::<Vec<_>>(), ["http://b.example:8080", "https://a.example"]);
        assert_eq!(visited.of("C").len(), 0);
        for number in 0..2 * MAX_ORIGINS {
            saw("iframe", "A", &format!("https://frame{number}.example/"));
        }
        saw("page", "A", "https://z.example/");
        assert!(visited.of("A").contains("https://z.example"), "frames leave pages their places");
    }

    #[test]
    fn a_visit_is_answered_and_nothing_else_goes_out() {
        let visits = Visits::default();
        let ask = |url: &str, kind: &str| {
            let paused = json!({"requestId": "1", "request": {"url": url}, "resourceType": kind});
            visits.answer("S", &paused).0
        };
        assert_eq!(ask("https://a.b/", "Document"), "Fetch.continueRequest");
        visits.expect("S", "https://a.b/");
        assert_eq!(ask("https://a.b/", "Document"), "Fetch.fulfillRequest");
        assert_eq!(ask("https://a.b/", "Image"), "Fetch.failRequest");
        assert_eq!(ask("https://c.d/", "Document"), "Fetch.failRequest");
        visits.end("S");
        assert_eq!(ask("https://a.b/", "Document"), "Fetch.continueRequest");
    }
}
