//! SOCKS for the fuzzer, from both sides: however the bytes are split, the same is made of them, and none behind the
//! message is taken.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use url::Host;

use super::{Credentials, Target, accept, request};
use warmpool_core::secret::Secret;

/// The first byte of an input sets the side and the length of the pieces.
pub fn seeds() -> Vec<Vec<u8>> {
    let requests: [&[u8]; 4] = [
        b"\x05\x01\0\x05\x01\0\x03\x09EXAMPLE.x\x01\xbbGET",
        b"\x05\x02\0\x02\x05\x01\0\x01\x0a\0\0\x01\0\x50",
        b"\x05\x01\0\x05\x01\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\0\x50",
        b"\x05\x01\0\x05\x03\0\x03\x0a0x7f.1.2.3\0\x50",
    ];
    let answers: [&[u8]; 3] =
        [b"\x05\x02\x01\0\x05\0\0\x01\0\0\0\0\0\0HTTP", b"\x05\0\x05\0\0\x03\x01a\0\x50", b"\x05\x02\x01\x01"];
    let client = requests.into_iter().map(|bytes| [&[6], bytes].concat());
    client.chain(answers.into_iter().map(|bytes| [&[7], bytes].concat())).collect()
}

/// Panics when the outcome depends on how the bytes were split, or a byte is taken that belongs to somebody else.
pub fn check(bytes: &[u8]) {
    let [options, stream @ ..] = bytes else { return };
    let step = usize::from(options >> 1) + 1;
    let run = |step| match options & 1 {
        0 => accepted(stream, step),
        _ => asked(stream, step),
    };
    assert_eq!(run(stream.len().max(1)), run(step));
}

/// What a browser's bytes ask for, what it was answered, and what is left of the bytes.
fn accepted(stream: &[u8], step: usize) -> (Option<Target>, Vec<u8>, usize) {
    // Browsers wait for the answer to their greeting.
    let greeting = stream.get(1).map_or(2, |methods| 2 + usize::from(*methods)).min(stream.len());
    let mut pieces = Pieces { rest: stream, step, pause: greeting, written: Vec::new() };
    let target = now(accept(&mut pieces, BytesMut::new(), drop)).and_then(Result::ok);
    if let Some(Target { host: Host::Domain(name), .. }) = &target {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'@' | b':' | b'%');
        assert!(name.bytes().all(is_plain) && !name.ends_with('.'), "{name:?} is no name");
    }
    let left = if target.is_some() { pieces.rest.len() } else { 0 };
    (target, pieces.written, left)
}

/// Whether a proxy's bytes give a connection, what it was sent, and what is left of the bytes.
fn asked(stream: &[u8], step: usize) -> (Option<Target>, Vec<u8>, usize) {
    let credentials = Credentials { user: "u".to_owned(), password: Secret::new("p".to_owned()) };
    let mut pieces = Pieces { rest: stream, step, pause: 0, written: Vec::new() };
    let host = Host::Domain("a.example".to_owned());
    let given = now(request(&mut pieces, Some(&credentials), &host, 443)).is_some_and(|asked| asked.is_ok());
    let left = if given { pieces.rest.len() } else { 0 };
    (given.then_some(Target { host, port: 443 }), pieces.written, left)
}

/// The outcome of what never has to wait.
pub(in crate::egress) fn now<T>(work: impl Future<Output = T>) -> Option<T> {
    futures_util::FutureExt::now_or_never(work)
}

/// A stream that hands out its bytes in pieces, and then ends.
pub(in crate::egress) struct Pieces<'a> {
    pub rest: &'a [u8],
    pub step: usize,
    /// No piece goes past this many bytes and on.
    pub pause: usize,
    pub written: Vec<u8>,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let next = if self.pause > 0 { self.pause } else { self.rest.len() };
        let count = self.step.min(buf.remaining()).min(next);
        self.pause = self.pause.saturating_sub(count);
        let (piece, rest) = self.rest.split_at(count);
        buf.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
