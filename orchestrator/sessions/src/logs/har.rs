//! Requests as HAR 1.2 (<http://www.softwareishard.com/blog/har-12-spec/>).

use serde_json::{Value, json};
use url::Url;

use super::buffer::LogBuffer;
use super::exchange::{Answer, Exchange};

/// The requests that a buffer keeps. Members that begin with an underscore are ours, as the format provides.
#[must_use]
pub fn har(buffer: &LogBuffer, browser: Option<&str>, left_out: &[String]) -> Value {
    let (exchanges, dropped) = buffer.exchanges();
    let mut entries: Vec<&Exchange> = exchanges.iter().map(AsRef::as_ref).collect();
    entries.sort_by(|a, b| a.began_ms.total_cmp(&b.began_ms));
    let entries: Vec<Value> = entries.into_iter().map(entry).collect();
    let mut log = json!({
        "version": "1.2",
        "creator": {"name": "Warmpool", "version": env!("CARGO_PKG_VERSION")},
        "pages": [],
        "entries": entries,
        "_dropped": dropped,
        "_left_out": left_out,
    });
    // "Chrome/140.0.0.0" and the like.
    if let Some(browser) = browser {
        let (name, version) = browser.split_once('/').unwrap_or((browser, ""));
        log["browser"] = json!({"name": name, "version": version});
    }
    json!({"log": log})
}

fn entry(exchange: &Exchange) -> Value {
    let url = Url::parse(&exchange.url).ok();
    let query: Vec<Value> =
        url.iter().flat_map(Url::query_pairs).map(|(name, value)| json!({"name": name, "value": value})).collect();
    let answer = exchange.answer.clone().unwrap_or_default();
    let mut entry = json!({
        "startedDateTime": moment(exchange.began_ms),
        "time": exchange.took_ms,
        "request": {
            "method": exchange.method,
            "url": exchange.url,
            "httpVersion": protocol(&answer),
            "cookies": [],
            "headers": pairs(&exchange.headers),
            "queryString": query,
            "headersSize": -1,
            "bodySize": if exchange.had_body { -1 } else { 0 },
        },
        "response": response(exchange, &answer),
        "cache": {},
        "timings": timings(exchange, &answer),
        "_resourceType": exchange.resource.to_lowercase(),
    });
    if let Some(remote) = &answer.remote {
        entry["serverIPAddress"] = json!(remote);
    }
    entry
}

/// As the format has it, a request without an answer has the status 0.
fn response(exchange: &Exchange, answer: &Answer) -> Value {
    let size = exchange.bytes.and_then(|bytes| i64::try_from(bytes).ok());
    let mut response = json!({
        "status": answer.status,
        "statusText": answer.reason,
        "httpVersion": protocol(answer),
        "cookies": [],
        "headers": pairs(&answer.headers),
        // The body is not kept, and how long it is decoded is not known.
        "content": {"size": -1, "mimeType": answer.media_type, "comment": "bodies are not kept"},
        "redirectURL": answer.location,
        "headersSize": -1,
        "bodySize": -1,
        "_transferSize": size,
    });
    if let Some(failure) = &exchange.failure {
        response["_error"] = json!(failure);
    }
    response
}

fn timings(exchange: &Exchange, answer: &Answer) -> Value {
    let timing = &answer.timing;
    let known = |part: Option<f64>| part.unwrap_or(-1.0);
    let (send, wait) = (timing.send.unwrap_or_default(), timing.wait.unwrap_or_default());
    let receive = timing.until_headers.map_or(0.0, |headers| (exchange.took_ms - headers).max(0.0));
    // What is left is the time before the request could be sent.
    let others = timing.dns.unwrap_or_default() + timing.connect.unwrap_or_default() + send + wait + receive;
    json!({
        "blocked": (exchange.took_ms - others).max(0.0),
        "dns": known(timing.dns),
        "connect": known(timing.connect),
        "ssl": known(timing.ssl),
        "send": send,
        "wait": wait,
        "receive": receive,
    })
}

fn protocol(answer: &Answer) -> &str {
    if answer.protocol.is_empty() { "unknown" } else { &answer.protocol }
}

fn pairs(headers: &[(String, String)]) -> Vec<Value> {
    headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

/// A time in Unix milliseconds as ISO 8601.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which will do")]
fn moment(ms: f64) -> String {
    jiff::Timestamp::from_millisecond(ms as i64).unwrap_or_default().to_string()
}
