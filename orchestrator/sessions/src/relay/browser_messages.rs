//! Chromium's messages to a client, in which the daemon puts what Chromium cannot know: where a response came from, and why a
//! connection failed; and the name that clients know for a request that is blocked as an ad.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use memchr::memmem;
use serde::Deserialize;
use url::Url;
use warmpool_protocol::EGRESS_PORT;
use warmpool_workers::egress::Outcomes;

use super::frames::{self, Sender, Text};
use super::reading::Verdict;
use crate::net_errors;

/// How events begin that tell of a response, or of a failure.
const EVENTS: [&[u8]; 2] = [b"{\"method\":\"Network.re", b"{\"method\":\"Network.lo"];
/// The length of such a beginning, in bytes.
const BEGINNING: usize = EVENTS[0].len();
/// The longest such event that is read, in bytes. A request's body and a page's headers may make one longer; it passes as it is.
const LONGEST_EVENT: usize = 64 << 10;
/// How Chromium tells of a request that its filter of ads has blocked, and one that the agent has; and how an extension's would be
/// told. A page's text cannot hold these, because its quotation marks are escaped.
const BLOCKED: [(&str, &str); 2] = [
    (
        r#""errorText":"","canceled":false,"blockedReason":"subresource-filter""#,
        r#""errorText":"net::ERR_BLOCKED_BY_CLIENT","canceled":false,"blockedReason":"subresource-filter""#,
    ),
    (r#""errorText":"net::ERR_BLOCKED_BY_CLIENT.Inspector""#, r#""errorText":"net::ERR_BLOCKED_BY_CLIENT""#),
];

/// Reads Chromium's messages to one client.
pub(super) struct BrowserMessages {
    outcomes: Arc<Outcomes>,
    /// Whether ads are blocked.
    blocks_ads: bool,
}

impl BrowserMessages {
    pub(super) const fn new(outcomes: Arc<Outcomes>, blocks_ads: bool) -> Self {
        Self { outcomes, blocks_ads }
    }

    pub(super) fn judge(&self, text: &Text, payload: &[u8]) -> Verdict {
        let length = usize::try_from(text.payload).unwrap_or(usize::MAX);
        if !text.is_whole || !(BEGINNING..=LONGEST_EVENT).contains(&length) {
            return Verdict::Pass;
        }
        let Some(beginning) = payload.get(..BEGINNING) else { return Verdict::Wait(BEGINNING) };
        let [of_response, of_failure] = EVENTS.map(|event| beginning == event);
        if !(of_response || of_failure && self.blocks_ads) {
            return Verdict::Pass;
        }
        let Some(event) = payload.get(..length) else { return Verdict::Wait(length) };
        let changed = if of_response { with_address(&self.outcomes, event) } else { with_name_of_block(event) };
        match changed {
            Some(event) => Verdict::Replace(frames::text(Sender::Browser, &event).into()),
            None => Verdict::Pass,
        }
    }

    pub(super) fn amend(&self, bytes: &mut [u8]) -> usize {
        self.outcomes.error_name().map_or(0, |name| net_errors::name_in_place(name, bytes))
    }
}

/// An event with the address that its response came from; none for every other message.
fn with_address(outcomes: &Outcomes, event: &[u8]) -> Option<Vec<u8>> {
    let ours = format!("\"remoteIPAddress\":\"127.0.0.1\",\"remotePort\":{EGRESS_PORT}");
    // In a string of JSON its quotation marks would not be bare, so this is a member of the response's.
    let at = memmem::find(event, ours.as_bytes())?;
    let Event { params } = serde_json::from_slice(event).ok()?;
    let url: Url = params.response.or(params.redirect_response)?.url.parse().ok()?;
    let address = outcomes.address_of(url.host()?.to_owned(), url.port_or_known_default()?)?;
    let theirs = format!("\"remoteIPAddress\":\"{}\",\"remotePort\":{}", written(address), address.port());
    Some([&event[..at], theirs.as_bytes(), &event[at + ours.len()..]].concat())
}

/// An event with the name of an error that clients know for a blocked ad; none for every other message.
fn with_name_of_block(event: &[u8]) -> Option<Vec<u8>> {
    BLOCKED.iter().find_map(|(theirs, ours)| {
        let at = memmem::find(event, theirs.as_bytes())?;
        Some([&event[..at], ours.as_bytes(), &event[at + theirs.len()..]].concat())
    })
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    response: Option<Response<'a>>,
    #[serde(borrow)]
    redirect_response: Option<Response<'a>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
}

/// The address as Chromium writes it.
fn written(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

#[cfg(test)]
mod tests {
    use url::Host;

    use super::*;

    fn event(method: &str, member: &str, url: &str, address: &str, port: u16) -> String {
        format!(
            r#"{{"method":"Network.{method}","params":{{"requestId":"1","{member}":{{"url":"{url}","headers":{{"a":"\"remotePort\":1080"}},"remoteIPAddress":"{address}","remotePort":{port},"fromDiskCache":false}}}},"sessionId":"A"}}"#
        )
    }

    #[test]
    fn a_response_has_the_address_that_it_came_from() {
        let outcomes = Outcomes::known(
            [("http://a.x", "192.0.2.7:80"), ("https://b.x", "[2001:db8::1]:443"), ("http://[::1]:8080", "[::1]:8080")]
                .map(|(url, address)| {
                    let url = Url::parse(url).unwrap();
                    let host: Host = url.host().unwrap().to_owned();
                    (host, url.port_or_known_default().unwrap(), address.parse().unwrap())
                }),
            false,
        );
        let messages = BrowserMessages::new(Arc::new(outcomes), false);
        let ours = |method, member, url| event(method, member, url, "127.0.0.1", EGRESS_PORT);
        for (event, address) in [
            (ours("responseReceived", "response", "http://a.x/"), Some(("192.0.2.7", 80))),
            (ours("responseReceived", "response", "https://b.x?q"), Some(("[2001:db8::1]", 443))),
            (ours("requestWillBeSent", "redirectResponse", "http://[::1]:8080/|{#x"), Some(("[::1]", 8080))),
            (ours("responseReceived", "response", "http://unknown.x/"), None),
            (ours("responseReceived", "response", "http://a.x:81/"), None),
            (event("responseReceived", "response", "http://a.x/", "127.0.0.1", 80), None),
            (
                r#"{"method":"Runtime.consoleAPICalled","a":{"remoteIPAddress":"127.0.0.1","remotePort":1080}}"#
                    .to_owned(),
                None,
            ),
            (r#"{"id":1,"result":{}}"#.to_owned(), None),
        ] {
            let text = Text { header: 4, payload: event.len() as u64, mask: [0; 4], is_whole: true };
            let ours = r#""remoteIPAddress":"127.0.0.1","remotePort":1080"#;
            let expected = match address {
                Some((ip, port)) => {
                    let event = event.replace(ours, &format!(r#""remoteIPAddress":"{ip}","remotePort":{port}"#));
                    Verdict::Replace(frames::text(Sender::Browser, event.as_bytes()).into())
                }
                None => Verdict::Pass,
            };
            assert_eq!(messages.judge(&text, event.as_bytes()), expected, "{event}");
            let part = messages.judge(&text, &event.as_bytes()[..event.len() - 1]);
            let waits = event.as_bytes().starts_with(EVENTS[0]);
            assert_eq!(part, if waits { Verdict::Wait(event.len()) } else { Verdict::Pass }, "{event}");
            let begins = event.len() >= BEGINNING;
            let start = messages.judge(&text, &event.as_bytes()[..3]);
            assert_eq!(start, if begins { Verdict::Wait(BEGINNING) } else { Verdict::Pass }, "{event}");
        }
        let long = Text { header: 10, payload: 1 << 20, mask: [0; 4], is_whole: true };
        assert_eq!(messages.judge(&long, EVENTS[0]), Verdict::Pass);
    }
    #[test]
    fn a_blocked_ad_has_a_name() {
        let failed = |error: &str, reason: &str| {
            format!(
                r#"{{"method":"Network.loadingFailed","params":{{"requestId":"1","type":"Image","errorText":"{error}","canceled":false,{reason}"corsErrorStatus":null}},"sessionId":"A"}}"#
            )
        };
        let filtered = r#""blockedReason":"subresource-filter","#;
        for (event, expected) in [
            (failed("", filtered), Some(failed("net::ERR_BLOCKED_BY_CLIENT", filtered))),
            (failed("net::ERR_BLOCKED_BY_CLIENT.Inspector", ""), Some(failed("net::ERR_BLOCKED_BY_CLIENT", ""))),
            (failed("net::ERR_FAILED", ""), None),
            (failed("", r#""blockedReason":"csp","#), None),
            (r#"{"method":"Network.loadingFinished","params":{}}"#.to_owned(), None),
        ] {
            let text = Text { header: 4, payload: event.len() as u64, mask: [0; 4], is_whole: true };
            let judge = |blocks_ads| BrowserMessages::new(Arc::default(), blocks_ads).judge(&text, event.as_bytes());
            let expected = expected.map_or(Verdict::Pass, |event| {
                Verdict::Replace(frames::text(Sender::Browser, event.as_bytes()).into())
            });
            assert_eq!(judge(true), expected, "{event}");
            assert_eq!(judge(false), Verdict::Pass, "a client's own interception blocks otherwise");
        }
    }
}
