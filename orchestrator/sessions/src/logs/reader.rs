//! Makes entries of a log of DevTools events.

use std::collections::HashMap;

use serde_json::Value;

use super::buffer::NewEntry;
use super::exchange::{Answer, Exchange, Timing, headers, short, whole};
use warmpool_api::log::{Level, LogEvent};

/// The events that are read.
pub(super) const EVENTS: [&str; 8] = [
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
    "Log.entryAdded",
    "Network.requestWillBeSent",
    "Network.responseReceived",
    "Network.loadingFinished",
    "Network.loadingFailed",
    "Page.downloadWillBegin",
];

/// Requests under way whose ends are waited for; the end of a further one has no beginning, and is counted as missed.
const UNDER_WAY: usize = 2000;

/// The requests that are under way, by target and number.
#[derive(Debug)]
pub(super) struct Reader {
    under_way: HashMap<(String, String), Exchange>,
    /// The bytes of their texts, and how many those may be.
    bytes: usize,
    max_bytes: usize,
    missed: u64,
}

impl Reader {
    /// One that keeps at most so many bytes of the requests that are under way.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { under_way: HashMap::new(), bytes: 0, max_bytes, missed: 0 }
    }

    /// Waits for the end of a request, if there is room for what is known of it.
    fn begin(&mut self, key: (String, String), exchange: Exchange) {
        let bytes = self.bytes + weight(&key, &exchange);
        if self.under_way.len() < UNDER_WAY && bytes <= self.max_bytes {
            self.bytes = bytes;
            self.under_way.insert(key, exchange);
        } else {
            self.missed += 1;
        }
    }

    /// Takes out a request whose end has come.
    fn end(&mut self, key: &(String, String)) -> Option<Exchange> {
        let exchange = self.under_way.remove(key)?;
        self.bytes -= weight(key, &exchange);
        Some(exchange)
    }

    /// How many requests were not written down since the last call.
    pub(super) fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }

    /// Forgets what is under way: the connection ended.
    pub(super) fn reset(&mut self) {
        self.missed += self.under_way.drain().count() as u64;
        self.bytes = 0;
    }

    /// Reads an event of one attached target, at a time in Unix milliseconds.
    pub(super) fn read(&mut self, target: &str, method: &str, params: &Value, now: u64) -> Option<NewEntry> {
        let at = |time: &Value| time.as_f64().map_or(now, whole);
        match method {
            "Runtime.consoleAPICalled" => {
                let words: Vec<_> = params["args"].as_array().into_iter().flatten().map(argument).collect();
                let call = &params["stackTrace"]["callFrames"][0];
                let (url, line) = place(call);
                let event =
                    LogEvent::Console { level: level(text(&params["type"])), text: short(&words.join(" ")), url, line };
                Some(NewEntry { time: at(&params["timestamp"]), event, exchange: None })
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                let words = details["exception"]["description"].as_str().unwrap_or_else(|| text(&details["text"]));
                let (url, line) = place(details);
                let event = LogEvent::PageError { text: short(words), url, line };
                Some(NewEntry { time: at(&params["timestamp"]), event, exchange: None })
            }
            "Log.entryAdded" => {
                let entry = &params["entry"];
                let (url, line) = place(entry);
                let (level, text) = (level(text(&entry["level"])), short(text(&entry["text"])));
                Some(NewEntry {
                    time: at(&entry["timestamp"]),
                    event: LogEvent::Console { level, text, url, line },
                    exchange: None,
                })
            }
            "Page.downloadWillBegin" => {
                let (name, url) = (short(text(&params["suggestedFilename"])), Some(short(text(&params["url"]))));
                Some(NewEntry { time: now, event: LogEvent::Download { name, url }, exchange: None })
            }
            _ => self.network(target, method, params),
        }
    }

    fn network(&mut self, target: &str, method: &str, params: &Value) -> Option<NewEntry> {
        let key = (target.to_owned(), text(&params["requestId"]).to_owned());
        let now = params["timestamp"].as_f64().unwrap_or_default();
        match method {
            "Network.requestWillBeSent" => {
                let redirect = &params["redirectResponse"];
                let before = self.end(&key).filter(|_| redirect.is_object()).map(|before| {
                    let answer = answer(redirect);
                    ended(Exchange { answer: Some(answer), ..before }, now)
                });
                self.begin(key, begun(params));
                before
            }
            "Network.responseReceived" => {
                let exchange = self.end(&key)?;
                self.begin(key, Exchange { answer: Some(answer(&params["response"])), ..exchange });
                None
            }
            "Network.loadingFinished" => {
                let exchange = self.end(&key)?;
                let bytes = params["encodedDataLength"].as_f64().map(whole);
                Some(ended(Exchange { bytes, ..exchange }, now))
            }
            "Network.loadingFailed" => {
                let exchange = self.end(&key)?;
                let failure = Some(short(text(&params["errorText"])));
                Some(ended(Exchange { failure, ..exchange }, now))
            }
            _ => None,
        }
    }
}

/// The bytes of a request's texts, and of its target and number.
fn weight(key: &(String, String), exchange: &Exchange) -> usize {
    key.0.len() + key.1.len() + exchange.weight()
}

fn begun(params: &Value) -> Exchange {
    let request = &params["request"];
    Exchange {
        method: short(text(&request["method"])),
        url: short(text(&request["url"])),
        resource: short(text(&params["type"])),
        headers: headers(&request["headers"]),
        had_body: request["hasPostData"] == true,
        began_ms: params["wallTime"].as_f64().unwrap_or_default() * 1000.0,
        began: params["timestamp"].as_f64().unwrap_or_default(),
        took_ms: 0.0,
        answer: None,
        failure: None,
        bytes: None,
    }
}

fn ended(mut exchange: Exchange, now: f64) -> NewEntry {
    exchange.took_ms = ((now - exchange.began) * 1000.0).max(0.0);
    exchange.into()
}

fn answer(response: &Value) -> Answer {
    let headers = headers(&response["headers"]);
    let location = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
    Answer {
        status: response["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default(),
        reason: short(text(&response["statusText"])),
        protocol: short(text(&response["protocol"])),
        location: location.map(|(_, place)| place.clone()).unwrap_or_default(),
        headers,
        media_type: short(text(&response["mimeType"])),
        timing: timing(&response["timing"]),
        remote: response["remoteIPAddress"].as_str().map(short),
    }
}

/// The lengths of the parts, of the moments that DevTools tells.
fn timing(timing: &Value) -> Timing {
    let moment = |name: &str| timing[name].as_f64().filter(|moment| *moment >= 0.0);
    let between = |from: &str, to: &str| Some((moment(to)? - moment(from)?).max(0.0));
    Timing {
        dns: between("dnsStart", "dnsEnd"),
        connect: between("connectStart", "connectEnd"),
        ssl: between("sslStart", "sslEnd"),
        send: between("sendStart", "sendEnd"),
        wait: between("sendEnd", "receiveHeadersEnd"),
        until_headers: moment("receiveHeadersEnd"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
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

fn place(value: &Value) -> (Option<String>, Option<u64>) {
    let url = value["url"].as_str().filter(|url| !url.is_empty()).map(short);
    let line = value["lineNumber"].as_u64().filter(|_| url.is_some()).map(|line| line + 1);
    (url, line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(id: &str, redirect: Value) -> Value {
        json!({"requestId": id, "type": "Document", "timestamp": 10.0, "wallTime": 1000.0, "redirectResponse": redirect,
            "request": {"url": "http://a.test/?q=1", "method": "GET", "headers": {"Cookie": "a=b"}}})
    }

    #[test]
    fn a_request_is_written_down_at_its_end() {
        let mut reader = Reader::new(1 << 20);
        assert!(reader.read("t", "Network.requestWillBeSent", &sent("1", Value::Null), 0).is_none());
        let moved = json!({"status": 302, "headers": {"Location": "/b"}});
        let first = reader.read("t", "Network.requestWillBeSent", &sent("1", moved), 0).unwrap();
        assert_eq!(first.exchange.unwrap().answer.unwrap().location, "/b");
        let response = json!({"requestId": "1", "response": {"status": 200, "headers": {}, "mimeType": "text/html"}});
        assert!(reader.read("t", "Network.responseReceived", &response, 0).is_none());
        assert!(
            reader.read("u", "Network.loadingFinished", &json!({"requestId": "1"}), 0).is_none(),
            "another target's"
        );
        let finished = json!({"requestId": "1", "timestamp": 10.5, "encodedDataLength": 12.0});
        let note = reader.read("t", "Network.loadingFinished", &finished, 0).unwrap();
        let LogEvent::Request { status, duration, bytes, .. } = note.event else { panic!("{note:?}") };
        assert_eq!((status, duration, bytes, note.time), (Some(200), 500, Some(12), 1_000_500));
    }

    #[test]
    fn requests_without_end_are_bounded() {
        let mut reader = Reader::new(1 << 20);
        for id in 0..=UNDER_WAY {
            reader.read("t", "Network.requestWillBeSent", &sent(&id.to_string(), Value::Null), 0);
        }
        assert_eq!((reader.under_way.len(), reader.take_missed()), (UNDER_WAY, 1));
        reader.reset();
        assert_eq!((reader.under_way.len(), reader.take_missed()), (0, UNDER_WAY as u64));
    }

    #[test]
    fn long_requests_without_end_take_a_limited_memory() {
        let mut reader = Reader::new(100_000);
        let headers: serde_json::Map<String, Value> =
            (0..64).map(|number| (format!("x-{number:0>3000}"), json!("1"))).collect();
        let mut sent = sent("1", Value::Null);
        sent["request"]["headers"] = headers.into();
        for id in 0..9 {
            sent["requestId"] = json!(id.to_string());
            assert!(reader.read("t", "Network.requestWillBeSent", &sent, 0).is_none());
        }
        assert!(reader.bytes <= 100_000 && reader.take_missed() > 0, "{}", reader.bytes);
        for id in 0..9 {
            reader.read("t", "Network.loadingFinished", &json!({"requestId": id.to_string()}), 0);
        }
        assert_eq!((reader.bytes, reader.under_way.len()), (0, 0));
    }

    #[test]
    fn words_and_errors_have_their_place() {
        let mut reader = Reader::new(1 << 20);
        let said = json!({"type": "warning", "args": [{"value": "a"}, {"value": 1}, {"description": "Object"}], "timestamp": 5.0,
            "stackTrace": {"callFrames": [{"url": "http://a.test/x.js", "lineNumber": 6}]}});
        let note = reader.read("t", "Runtime.consoleAPICalled", &said, 0).unwrap();
        let url = Some("http://a.test/x.js".to_owned());
        assert_eq!(
            note.event,
            LogEvent::Console { level: Level::Warning, text: "a 1 Object".into(), url, line: Some(7) }
        );
        let thrown = json!({"timestamp": 5.0, "exceptionDetails": {"text": "Uncaught", "exception": {"description": "Error: no"}}});
        let note = reader.read("t", "Runtime.exceptionThrown", &thrown, 0).unwrap();
        assert_eq!(note.event, LogEvent::PageError { text: "Error: no".into(), url: None, line: None });
    }
}
