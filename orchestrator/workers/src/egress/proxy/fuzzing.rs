//! Answers of HTTP proxies for the fuzzer: no byte behind the answer is taken, and only a 2xx is a connection.

use url::Host;

use super::{MAX_HEAD, Proxy, connect};
use crate::egress::head::END;
use crate::egress::socks::fuzzing::{Pieces, now};
use warmpool_config::ProxyScheme;

/// Answers, with the site's first bytes.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        &b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nhello"[..],
        b"HTTP/1.0 407 No\r\n\r\n",
        b"HTTP/1.1 502 Bad\r\nA: b\r\n\r\n\r\n\r\n",
        b"HTTP/1.1 two\r\n\r\n",
    ]
    .map(<[u8]>::to_vec)
    .into()
}

/// Panics when a connection is given for another answer, or a byte of the site's is taken.
pub fn check(bytes: &[u8]) {
    let proxy = Proxy { scheme: ProxyScheme::Http, host: Host::Domain("p".to_owned()), port: 1, credentials: None };
    let pieces = Pieces { rest: bytes, step: 7, pause: 0, written: Vec::new() };
    let Some(Ok(stream)) = now(connect(pieces, &proxy, &Host::Domain("a.example".to_owned()), 443)) else { return };
    let (head, _) = bytes.split_at(bytes.len() - stream.rest.len());
    assert!(head.starts_with(b"HTTP/") && head.len() <= MAX_HEAD);
    let ends = head.windows(END.len()).filter(|window| *window == END).count();
    assert!(ends == 1 && head.ends_with(END), "the first empty line ends it");
    let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    assert!(matches!(status.strip_prefix(b"+").unwrap_or(status).trim_ascii_start(), [.., b'2', _, _]), "{status:?}");
}
