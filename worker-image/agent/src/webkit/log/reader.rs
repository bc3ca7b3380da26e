//! Makes lines of a log of what the inspector of one page tells; no I/O.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use warmpool_protocol::{DoneRequest, LogLevel, LogLine, RequestAnswer, RequestTiming, with_whole_characters};

use crate::log::now;

/// The longest text that is kept, in characters.
const LONGEST: usize = 4000;
/// The most headers of a message that are kept, and the longest of them, in characters.
const MAX_HEADERS: usize = 64;
const LONGEST_HEADER: usize = 1000;
/// Requests under way whose ends are waited for; further ones are counted as missed.
const UNDER_WAY: usize = 2000;

/// A request under way.
struct Begun {
    done: DoneRequest,
    /// When it began by the browser's own clock, in seconds.
    at: f64,
}

/// Reads the messages of one page. In it there is a target for each of its processes, which come and go.
#[derive(Default)]
pub(super) struct PageReader {
    /// By target and number.
    under_way: HashMap<(String, String), Begun>,
    last: u64,
    /// The command after whose answer a target tells everything.
    awaited: Option<u64>,
    tells: bool,
    answers: Vec<String>,
}

impl PageReader {
    /// The first message to the page: a process that is to take the page over waits until it is listened to.
    pub(super) fn begin(&mut self) -> String {
        self.command("Target.setPauseOnStart", &json!({"pauseOnStart": true}))
    }

    /// Whether the page tells what happens in it.
    pub(super) const fn tells(&self) -> bool {
        self.tells
    }

    /// What is to be sent to the page now.
    pub(super) fn take_answers(&mut self) -> Vec<String> {
        std::mem::take(&mut self.answers)
    }

    fn command(&mut self, method: &str, params: &Value) -> String {
        self.last += 1;
        json!({"id": self.last, "method": method, "params": params}).to_string()
    }

    /// Reads a message.
    pub(super) fn hear(&mut self, message: &str) -> Vec<LogLine> {
        let Ok(message) = serde_json::from_str::<Value>(&with_whole_characters(message)) else { return Vec::new() };
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Target.targetCreated" => {
                let info = &params["targetInfo"];
                if info["type"] == "page" {
                    self.listen(text(&info["targetId"]));
                }
                if info["isPaused"] == true {
                    let resume = self.command("Target.resume", &json!({"targetId": info["targetId"]}));
                    self.answers.push(resume);
                }
                Vec::new()
            }
            "Target.targetDestroyed" => {
                let gone = text(&params["targetId"]);
                self.under_way.retain(|(target, _), _| target != gone);
                Vec::new()
            }
            "Target.dispatchMessageFromTarget" => {
                let Ok(inner) = serde_json::from_str::<Value>(&with_whole_characters(text(&params["message"]))) else {
                    return Vec::new();
                };
                if self.awaited.is_some() && inner["id"].as_u64() == self.awaited {
                    self.tells = true;
                }
                self.event(text(&params["targetId"]), text(&inner["method"]), &inner["params"])
            }
            _ => Vec::new(),
        }
    }

    /// Has a target tell what happens in it.
    fn listen(&mut self, target: &str) {
        for method in ["Network.enable", "Console.enable"] {
            let inner = self.command(method, &json!({}));
            self.awaited = Some(self.last);
            let outer = self.command("Target.sendMessageToTarget", &json!({"targetId": target, "message": inner}));
            self.answers.push(outer);
        }
    }

    fn event(&mut self, target: &str, method: &str, params: &Value) -> Vec<LogLine> {
        let key = || (target.to_owned(), text(&params["requestId"]).to_owned());
        let at = params["timestamp"].as_f64().unwrap_or_default();
        match method {
            "Console.messageAdded" => vec![said(&params["message"])],
            "Network.requestWillBeSent" => {
                let redirect = &params["redirectResponse"];
                let before = self.under_way.remove(&key()).filter(|_| redirect.is_object()).map(|mut before| {
                    answer(&mut before.done, redirect);
                    ended(before, at)
                });
                let mut lines: Vec<_> = before.into_iter().collect();
                if self.under_way.len() < UNDER_WAY {
                    self.under_way.insert(key(), begun(params, at));
                } else {
                    lines.push(LogLine::Missed { count: 1 });
                }
                lines
            }
            "Network.responseReceived" => {
                if let Some(begun) = self.under_way.get_mut(&key()) {
                    answer(&mut begun.done, &params["response"]);
                    if let Some(kind) = params["type"].as_str() {
                        begun.done.resource = resource(kind);
                    }
                }
                Vec::new()
            }
            "Network.loadingFinished" => {
                let Some(mut begun) = self.under_way.remove(&key()) else { return Vec::new() };
                measure(&mut begun.done, &params["metrics"]);
                vec![ended(begun, at)]
            }
            "Network.loadingFailed" => {
                let Some(mut begun) = self.under_way.remove(&key()) else { return Vec::new() };
                begun.done.failure = Some(short(text(&params["errorText"]), LONGEST));
                vec![ended(begun, at)]
            }
            _ => Vec::new(),
        }
    }
}

fn begun(params: &Value, at: f64) -> Begun {
    let request = &params["request"];
    let done = DoneRequest {
        method: short(text(&request["method"]), LONGEST),
        url: short(text(&request["url"]), LONGEST),
        resource: resource(text(&params["type"])),
        headers: headers(&request["headers"]),
        had_body: !request["postData"].is_null(),
        began_ms: params["walltime"].as_f64().map_or_else(|| milliseconds(now()), |seconds| seconds * 1000.0),
        ..DoneRequest::default()
    };
    Begun { done, at }
}

fn ended(Begun { mut done, at }: Begun, now: f64) -> LogLine {
    done.took_ms = ((now - at) * 1000.0).max(0.0);
    LogLine::Request(Box::new(done))
}

/// As DevTools names it.
fn resource(kind: &str) -> String {
    match kind {
        "StyleSheet" => "Stylesheet",
        "Beacon" => "Ping",
        "" => "Other",
        other => other,
    }
    .to_owned()
}

fn answer(done: &mut DoneRequest, response: &Value) {
    let Some(status @ 1..) = response["status"].as_u64().and_then(|status| u16::try_from(status).ok()) else { return };
    if response["requestHeaders"].as_object().is_some_and(|headers| !headers.is_empty()) {
        done.headers = headers(&response["requestHeaders"]);
    }
    let times = &response["timing"];
    let moment = |name: &str| times[name].as_f64().filter(|moment| *moment > 0.0);
    let between = |from: &str, to: &str| Some((moment(to)? - moment(from)?).max(0.0));
    done.answer = Some(RequestAnswer {
        status,
        reason: short(text(&response["statusText"]), LONGEST),
        protocol: String::new(),
        media_type: short(text(&response["mimeType"]), LONGEST),
        headers: headers(&response["headers"]),
        timing: RequestTiming {
            dns: between("domainLookupStart", "domainLookupEnd"),
            connect: between("connectStart", "connectEnd"),
            ssl: between("secureConnectionStart", "connectEnd"),
            wait: between("requestStart", "responseStart"),
            until_headers: moment("responseStart"),
        },
    });
}

/// What is known at the end alone.
fn measure(done: &mut DoneRequest, metrics: &Value) {
    let bytes = |name: &str| metrics[name].as_u64();
    done.bytes =
        bytes("responseBodyBytesReceived").map(|body| body + bytes("responseHeaderBytesReceived").unwrap_or(0));
    if let Some(answer) = &mut done.answer {
        answer.protocol = short(text(&metrics["protocol"]), LONGEST);
    }
}

/// A message of the console.
fn said(message: &Value) -> LogLine {
    let time = message["timestamp"].as_f64().map_or_else(now, |seconds| whole(seconds * 1000.0));
    let stack = &message["stackTrace"];
    let frames = stack["callFrames"].as_array().or_else(|| stack.as_array());
    let frame = frames.and_then(|frames| frames.first()).unwrap_or(&Value::Null);
    let address = |place: &Value| place.as_str().filter(|url| !url.is_empty()).map(|url| short(url, LONGEST));
    let url = address(&message["url"]).or_else(|| address(&frame["url"]));
    let line = message["line"].as_u64().or_else(|| frame["lineNumber"].as_u64());
    let line = line.filter(|line| *line > 0 && url.is_some());
    let (level, words) = (text(&message["level"]), text(&message["text"]));
    if message["source"] == "javascript" && level == "error" {
        let frames = frames.map(Vec::as_slice).unwrap_or_default();
        return LogLine::PageError { time, text: short(&format!("{words}{}", stack_of(frames)), LONGEST), url, line };
    }
    let given: Vec<_> = message["parameters"].as_array().into_iter().flatten().map(argument).collect();
    let words = if given.is_empty() { words.to_owned() } else { given.join(" ") };
    let level = match (level, text(&message["type"])) {
        ("error", _) | (_, "assert") => LogLevel::Error,
        ("warning", _) => LogLevel::Warning,
        ("debug", _) => LogLevel::Debug,
        _ => LogLevel::Info,
    };
    LogLine::Console { time, level, text: short(&words, LONGEST), url, line }
}

fn stack_of(frames: &[Value]) -> String {
    let line = |frame: &Value| {
        let name = Some(text(&frame["functionName"])).filter(|name| !name.is_empty()).unwrap_or("<anonymous>");
        format!("\n    at {name} ({}:{}:{})", text(&frame["url"]), frame["lineNumber"], frame["columnNumber"])
    };
    frames.iter().map(line).collect()
}

/// What a page wrote, as a person would see it.
fn argument(value: &Value) -> String {
    match (&value["value"], text(&value["description"])) {
        (Value::String(text), _) => text.clone(),
        (Value::Null, "") => {
            Some(text(&value["type"])).filter(|kind| *kind == "undefined").unwrap_or("null").to_owned()
        }
        (Value::Null, description) => description.to_owned(),
        (other, _) => other.to_string(),
    }
}

fn headers(of: &Value) -> BTreeMap<String, String> {
    let kept = |(name, value): (&String, &Value)| (short(name, LONGEST_HEADER), short(text(value), LONGEST_HEADER));
    of.as_object().into_iter().flatten().take(MAX_HEADERS).map(kept).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn short(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, which will do")]
fn whole(number: f64) -> u64 {
    number as u64
}

#[expect(clippy::cast_precision_loss, reason = "a time in milliseconds is far below the limit")]
fn milliseconds(time: u64) -> f64 {
    time as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(method: &str, params: &Value) -> String {
        let message = json!({"method": method, "params": params}).to_string();
        json!({"method": "Target.dispatchMessageFromTarget", "params": {"targetId": "page-1", "message": message}})
            .to_string()
    }

    fn hear(reader: &mut PageReader, method: &str, params: &Value) -> Vec<LogLine> {
        reader.hear(&told(method, params))
    }

    #[test]
    fn a_process_waits_until_it_is_listened_to() {
        let mut reader = PageReader::default();
        assert!(reader.begin().contains("pauseOnStart"));
        let info = json!({"targetId": "page-2", "type": "page", "isProvisional": true, "isPaused": true});
        let created = json!({"method": "Target.targetCreated", "params": {"targetInfo": info}});
        assert!(reader.hear(&created.to_string()).is_empty());
        let answers = reader.take_answers();
        let methods: Vec<_> = ["Network.enable", "Console.enable", "Target.resume"].into_iter().collect();
        assert_eq!(answers.len(), methods.len());
        for (answer, method) in answers.iter().zip(methods) {
            assert!(answer.contains(method) && answer.contains("page-2"), "{answer}");
        }
        assert!(!reader.tells());
        for (id, tells) in [(2, false), (4, true)] {
            let message = json!({"id": id, "result": {}}).to_string();
            let params = json!({"targetId": "page-2", "message": message});
            reader.hear(&json!({"method": "Target.dispatchMessageFromTarget", "params": params}).to_string());
            assert_eq!(reader.tells(), tells, "{id}");
        }
    }

    #[test]
    fn a_request_is_told_at_its_end() {
        let mut reader = PageReader::default();
        let sent = |redirect: Value| {
            json!({"requestId": "1", "type": "Document", "timestamp": 10.0, "walltime": 1000.0, "redirectResponse": redirect,
                "request": {"url": "http://a.test/", "method": "POST", "postData": "private", "headers": {"A": "b"}}})
        };
        assert!(hear(&mut reader, "Network.requestWillBeSent", &sent(Value::Null)).is_empty());
        let moved = json!({"status": 302, "headers": {"Location": "/b"}});
        let lines = hear(&mut reader, "Network.requestWillBeSent", &sent(moved));
        let [LogLine::Request(first)] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((first.answer.as_ref().unwrap().status, first.had_body, first.began_ms), (302, true, 1e6));
        assert!(!format!("{first:?}").contains("private"));
        let response = json!({"requestId": "1", "type": "StyleSheet", "response": {"status": 200, "headers": {},
            "timing": {"requestStart": 2.0, "responseStart": 5.0, "connectStart": 0}}});
        assert!(hear(&mut reader, "Network.responseReceived", &response).is_empty());
        let finished = json!({"requestId": "1", "timestamp": 10.5, "metrics": {"protocol": "h2",
            "responseHeaderBytesReceived": 100, "responseBodyBytesReceived": 20}});
        let lines = hear(&mut reader, "Network.loadingFinished", &finished);
        let [LogLine::Request(done)] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((done.took_ms, done.bytes, done.resource.as_str()), (500.0, Some(120), "Stylesheet"));
        let answer = done.answer.as_ref().unwrap();
        assert_eq!((answer.timing.wait, answer.timing.connect, answer.protocol.as_str()), (Some(3.0), None, "h2"));
        hear(&mut reader, "Network.requestWillBeSent", &sent(Value::Null));
        let failed = json!({"requestId": "1", "timestamp": 11.0, "errorText": "refused"});
        let lines = hear(&mut reader, "Network.loadingFailed", &failed);
        let [LogLine::Request(done)] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((done.failure.as_deref(), &done.answer), (Some("refused"), &None));
    }

    #[test]
    fn words_and_errors_are_told_apart() {
        let mut reader = PageReader::default();
        let said = json!({"message": {"source": "console-api", "level": "warning", "type": "log", "text": "a", "timestamp": 5.0,
            "url": "http://a.test/x.js", "line": 7, "parameters": [{"type": "string", "value": "a"},
                {"type": "object", "description": "Object"}, {"type": "number", "value": 7, "description": "7"}, {"type": "undefined"}]}});
        let url = Some("http://a.test/x.js".to_owned());
        let text = "a Object 7 undefined".to_owned();
        let line = LogLine::Console { time: 5000, level: LogLevel::Warning, text, url, line: Some(7) };
        assert_eq!(hear(&mut reader, "Console.messageAdded", &said), [line]);
        let thrown = json!({"message": {"source": "javascript", "level": "error", "type": "log", "text": "Error: no", "timestamp": 5.0,
            "stackTrace": {"callFrames": [{"functionName": "f", "url": "http://a.test/", "lineNumber": 3, "columnNumber": 9}]}}});
        let line = LogLine::PageError {
            time: 5000,
            text: "Error: no\n    at f (http://a.test/:3:9)".to_owned(),
            url: Some("http://a.test/".to_owned()),
            line: Some(3),
        };
        assert_eq!(hear(&mut reader, "Console.messageAdded", &thrown), [line]);
    }
}
