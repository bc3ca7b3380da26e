//! Makes entries of a log of what an agent tells; no I/O.

use std::collections::BTreeMap;

use super::buffer::{LogBuffer, NewEntry};
use super::exchange::{Answer, Exchange, Timing, kept_headers, short};
use warmpool_api::log::LogEvent;
use warmpool_protocol::{DoneRequest, LogLine, RequestAnswer};

/// Writes a line into the buffer.
pub(super) fn write(buffer: &LogBuffer, line: LogLine) {
    let (time, event) = match line {
        LogLine::Console { time, level, text, url, line } => {
            (time, LogEvent::Console { level: level.into(), text: short(&text), url: shorter(url), line })
        }
        LogLine::PageError { time, text, url, line } => {
            (time, LogEvent::PageError { text: short(&text), url: shorter(url), line })
        }
        LogLine::Download { time, name, url } => (time, LogEvent::Download { name: short(&name), url: shorter(url) }),
        LogLine::Request(done) => return buffer.write(request(*done)),
        LogLine::Missed { count } => return buffer.miss(count),
    };
    buffer.write(NewEntry { time, event, exchange: None });
}

fn request(done: DoneRequest) -> NewEntry {
    let exchange = Exchange {
        method: short(&done.method),
        url: short(&done.url),
        resource: short(&done.resource),
        headers: headers(&done.headers),
        had_body: done.had_body,
        began_ms: done.began_ms,
        began: done.began_ms / 1000.0,
        took_ms: done.took_ms.max(0.0),
        answer: done.answer.map(answer),
        failure: shorter(done.failure),
        bytes: done.bytes,
    };
    exchange.into()
}

fn answer(told: RequestAnswer) -> Answer {
    let location = told.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
    Answer {
        status: told.status,
        reason: short(&told.reason),
        protocol: short(&told.protocol),
        location: location.map(|(_, place)| short(place)).unwrap_or_default(),
        headers: headers(&told.headers),
        media_type: short(&told.media_type),
        timing: Timing {
            dns: told.timing.dns,
            connect: told.timing.connect,
            ssl: told.timing.ssl,
            send: None,
            wait: told.timing.wait,
            until_headers: told.timing.until_headers,
        },
        remote: None,
    }
}

fn headers(told: &BTreeMap<String, String>) -> Vec<(String, String)> {
    kept_headers(told.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

fn shorter(text: Option<String>) -> Option<String> {
    text.as_deref().map(short)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use warmpool_api::log::Level;
    use warmpool_config::{ByteSize, LogSettings};

    #[test]
    fn lines_become_entries_and_requests() {
        let buffer = LogBuffer::new(&LogSettings { max_entries: 9, max_size: ByteSize(1 << 20), keep_ended: 1 }, &[]);
        for line in [
            json!({"type": "console", "time": 5, "level": "warning", "text": "a", "url": "http://a.test/x.js", "line": 7}),
            json!({"type": "request", "method": "GET", "url": "http://a.test/", "resource": "Document", "bytes": 12,
                "headers": {"Cookie": "a=b"}, "began_ms": 1000.5, "took_ms": 500.0,
                "answer": {"status": 302, "headers": {"Location": "/b", "Set-Cookie": "c=d"}, "timing": {"wait": 3.0}}}),
            json!({"type": "missed", "count": 3}),
        ] {
            write(&buffer, serde_json::from_value(line).unwrap());
        }
        let (entries, dropped) = buffer.entries(0);
        assert_eq!((entries.len(), dropped, entries[0].time, entries[1].time), (2, 3, 5, 1500));
        let url = Some("http://a.test/x.js".to_owned());
        let said = LogEvent::Console { level: Level::Warning, text: "a".into(), url, line: Some(7) };
        assert_eq!(entries[0].event, said);
        let LogEvent::Request { status, duration, bytes, .. } = &entries[1].event else { panic!("{:?}", entries[1]) };
        assert_eq!((*status, *duration, *bytes), (Some(302), 500, Some(12)));
        let exchange = buffer.exchanges().0.remove(0);
        let answer = exchange.answer.as_ref().unwrap();
        assert_eq!((answer.location.as_str(), answer.timing.wait), ("/b", Some(3.0)));
        assert!(!format!("{exchange:?}").contains("a=b") && !format!("{exchange:?}").contains("c=d"));
    }
}
