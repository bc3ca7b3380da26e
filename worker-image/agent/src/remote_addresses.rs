//! Tells clients of Chromium what address a response came from.
//!
//! Chromium knows only that of its proxy, which is the agent. The daemon says in its answer to a SOCKS request where the
//! connection leads, and the agent puts that in the place of its own address in Chromium's messages.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use memchr::memmem;
use parking_lot::Mutex;
use serde::Deserialize;
use warmpool_protocol::EGRESS_PORT;

use crate::frames::{Piece, Pieces, servers_text_message};
use crate::socks::Site;

/// How events begin that tell of a response.
const EVENT: &[u8] = b"{\"method\":\"Network.re";
/// The longest such event that is read, in bytes. A request's body and a page's headers may make one longer; it passes as it is.
const LONGEST_EVENT: u64 = 64 << 10;
/// Sites at most: a page can name as many as it likes.
const MOST_SITES: usize = 4096;

/// Where the connections of a browser led that it opened last.
#[derive(Default)]
pub(crate) struct RemoteAddresses {
    of: Mutex<HashMap<Site, SocketAddr>>,
}

impl RemoteAddresses {
    /// A connection to this site has come about.
    pub(crate) fn note(&self, site: &Site, address: SocketAddr) {
        let mut of = self.of.lock();
        if of.len() >= MOST_SITES && !of.contains_key(site) {
            of.clear();
        }
        of.insert(site.clone(), address);
    }

    /// Where the last connection to this site led; none where nobody said so.
    pub(crate) fn of(&self, site: &Site) -> Option<SocketAddr> {
        self.of.lock().get(site).copied()
    }

    /// An event with the address that its response came from; none for every other message.
    fn corrected(&self, event: &[u8]) -> Option<Vec<u8>> {
        let ours = format!("\"remoteIPAddress\":\"127.0.0.1\",\"remotePort\":{EGRESS_PORT}");
        // In a string of JSON its quotation marks would not be bare, so this is a member of the response's.
        let at = memmem::find(event, ours.as_bytes())?;
        let Event { params } = serde_json::from_slice(event).ok()?;
        let response = params.response.or(params.redirect_response)?;
        let address = self.of(&site(&response.url)?)?;
        let theirs = format!("\"remoteIPAddress\":\"{}\",\"remotePort\":{}", written(address), address.port());
        Some([&event[..at], theirs.as_bytes(), &event[at + ours.len()..]].concat())
    }
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

/// The site of an address, as a browser asks a SOCKS proxy for it.
fn site(url: &str) -> Option<Site> {
    // A `Uri` has no fragment, and does not take every character that a browser leaves in a path.
    let end = url.find("://")? + 3;
    let end = end + url[end..].find(['/', '?', '#']).unwrap_or(url.len() - end);
    let uri: Uri = url[..end].parse().ok()?;
    let port = uri.port_u16().or_else(|| match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    })?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    Some(Site { host, port })
}

/// The address as Chromium writes it.
fn written(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// The messages on their way to one client.
pub(crate) struct TrueAddresses {
    known: Arc<RemoteAddresses>,
    pieces: Pieces,
}

impl TrueAddresses {
    pub(crate) fn new(known: Arc<RemoteAddresses>) -> Self {
        Self { known, pieces: Pieces::new(EVENT, LONGEST_EVENT) }
    }

    /// Takes what was read; returns what may be written.
    pub(crate) fn pass<'a>(&mut self, read: &'a [u8]) -> Cow<'a, [u8]> {
        if self.pieces.passes(read) {
            return Cow::Borrowed(read);
        }
        self.pieces.add(read);
        let mut passed = Vec::with_capacity(read.len());
        while let Some(piece) = self.pieces.next() {
            match piece {
                Piece::Bytes(bytes) => passed.extend(bytes),
                Piece::Message { frame, text } => passed.extend(match self.known.corrected(&text) {
                    Some(event) => servers_text_message(&event),
                    None => frame,
                }),
            }
        }
        Cow::Owned(passed)
    }

    /// What was held when the stream ended.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.pieces.rest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(method: &str, member: &str, url: &str, address: &str, port: u16) -> String {
        format!(
            r#"{{"method":"Network.{method}","params":{{"requestId":"1","{member}":{{"url":"{url}","headers":{{"a":"\"remotePort\":1080"}},"remoteIPAddress":"{address}","remotePort":{port},"fromDiskCache":false}}}},"sessionId":"A"}}"#
        )
    }

    fn known() -> Arc<RemoteAddresses> {
        let known = RemoteAddresses::default();
        for (host, port, address) in
            [("a.x", 80, "192.0.2.7:80"), ("b.x", 443, "[2001:db8::1]:443"), ("::1", 8080, "[::1]:8080")]
        {
            known.note(&Site { host: host.to_owned(), port }, address.parse().unwrap());
        }
        Arc::new(known)
    }

    #[test]
    fn a_response_has_the_address_that_it_came_from() {
        let ours = |method, member, url| event(method, member, url, "127.0.0.1", EGRESS_PORT);
        let cases = [
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
        ];
        let stream = cases.iter().flat_map(|(event, _)| servers_text_message(event.as_bytes())).collect::<Vec<u8>>();
        let expected = cases.iter().flat_map(|(event, address)| {
            let ours = r#""remoteIPAddress":"127.0.0.1","remotePort":1080"#;
            let event = match address {
                Some((ip, port)) => event.replace(ours, &format!(r#""remoteIPAddress":"{ip}","remotePort":{port}"#)),
                None => event.clone(),
            };
            servers_text_message(event.as_bytes())
        });
        let expected: Vec<u8> = expected.collect();
        for step in [1, 7, 100, stream.len()] {
            let mut addresses = TrueAddresses::new(known());
            let mut passed: Vec<u8> = stream.chunks(step).flat_map(|part| addresses.pass(part).into_owned()).collect();
            passed.extend(addresses.rest());
            assert_eq!(String::from_utf8_lossy(&passed), String::from_utf8_lossy(&expected), "in steps of {step}");
        }
    }

    #[test]
    fn nothing_is_lost_when_a_stream_breaks_off() {
        let whole =
            servers_text_message(event("responseReceived", "response", "http://a.x/", "127.0.0.1", 1080).as_bytes());
        for end in 0..whole.len() {
            let mut addresses = TrueAddresses::new(known());
            let mut passed = addresses.pass(&whole[..end]).into_owned();
            passed.extend(addresses.rest());
            assert_eq!(passed, whole[..end]);
        }
    }

    #[test]
    fn sites_are_not_kept_without_end() {
        let known = RemoteAddresses::default();
        for port in 0..=u16::MAX {
            known.note(&Site { host: "a.x".to_owned(), port }, ([192, 0, 2, 1], port).into());
        }
        assert!(known.of.lock().len() <= MOST_SITES);
        assert!(known.of(&Site { host: "a.x".to_owned(), port: u16::MAX }).is_some());
    }
}
