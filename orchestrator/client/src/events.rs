//! Server-sent events, read from an answer as they come.

use bytes::BytesMut;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;

/// The longest event, in bytes.
const LONGEST: usize = 64 << 20;

/// The events of one answer.
pub(super) struct Events {
    body: Incoming,
    text: BytesMut,
}

impl Events {
    pub(super) fn new(response: Response<Incoming>) -> Self {
        Self { body: response.into_body(), text: BytesMut::new() }
    }

    /// The next event's name and data; none when the stream is over or broke off.
    pub(super) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block = self.text.split_to(end + 2);
                match parse(&String::from_utf8_lossy(&block)) {
                    Some(event) => return Some(event),
                    // A sign of life.
                    None => continue,
                }
            }
            if self.text.len() > LONGEST {
                return None;
            }
            let frame = self.body.frame().await?.ok()?;
            if let Some(data) = frame.data_ref() {
                self.text.extend_from_slice(data);
            }
        }
    }
}

/// One block of lines. The daemon's data is JSON, and so one line.
fn parse(block: &str) -> Option<(String, Value)> {
    let field = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|text| text.trim_start_matches(' '))
    };
    let data = serde_json::from_str(field("data")?).ok()?;
    Some((field("event").unwrap_or("message").to_owned(), data))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keep_alives_are_no_events() {
        assert_eq!(parse("event: end\ndata: {\"a\":1}\n\n"), Some(("end".to_owned(), json!({"a": 1}))));
        assert_eq!(parse("data:2\n\n"), Some(("message".to_owned(), json!(2))));
        assert_eq!(parse(":\n\n"), None);
    }
}
