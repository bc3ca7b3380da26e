//! Request targets without a path: a client that is given `ws://host:4444?token=…` may ask for `?token=…`, which is no
//! target by the standard and which hyper refuses before any route. Here it gets its slash.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How such a request begins. Only a connection's first request can be one: it opens a websocket.
const BARE: &[u8] = b"GET ?";
/// Where the slash belongs.
const PATH: usize = BARE.len() - 1;

/// A connection whose first request gets a path where it has none.
#[derive(Debug)]
pub(super) struct WithPath<S> {
    stream: S,
    begun: bool,
}

impl<S> WithPath<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self { stream, begun: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithPath<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.begun {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        this.begun = true;
        let end = buf.filled().len();
        if buf.filled()[before..].starts_with(BARE) && buf.remaining() > 0 {
            buf.put_slice(b" ");
            let filled = buf.filled_mut();
            filled.copy_within(before + PATH..end, before + PATH + 1);
            filled[before + PATH] = b'/';
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithPath<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The path of a WebDriver request without the second slash that appending to a `connect_url` leaves; `None` when there
/// is nothing to mend.
pub(super) fn single_slash(path: &str) -> Option<String> {
    // A grid's address with a slash at its end, and a client that appends `/session` to it.
    for prefix in ["", "/wd/hub"] {
        let rest = path.strip_prefix(prefix).filter(|rest| rest.starts_with("//"));
        if let Some(rest) = rest.map(|rest| rest.trim_start_matches('/')).filter(|rest| is_grid(rest)) {
            return Some(format!("{prefix}/{rest}"));
        }
    }
    let (before, after) = path.split_once("/webdriver/")?;
    let (token, rest) = after.split_once("//")?;
    let mends = !token.is_empty() && !token.contains('/');
    mends.then(|| format!("{before}/webdriver/{token}/{}", rest.trim_start_matches('/')))
}

fn is_grid(path: &str) -> bool {
    matches!(path.split('/').next(), Some("session" | "status"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    async fn seen(sent: &[u8]) -> String {
        let mut text = String::new();
        WithPath::new(sent).read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_query_without_a_path_gets_one() {
        assert_eq!(seen(b"GET ?token=T HTTP/1.1\r\n\r\n").await, "GET /?token=T HTTP/1.1\r\n\r\n");
        assert_eq!(seen(b"GET ?").await, "GET /?");
        for plain in ["GET /?token=T HTTP/1.1\r\n\r\nGET ?x", "POST ?x HTTP/1.1", "GET", ""] {
            assert_eq!(seen(plain.as_bytes()).await, plain);
        }
    }

    #[tokio::test]
    async fn it_is_passed_on_where_there_is_no_room() {
        let mut stream = WithPath::new(&b"GET ?token=T"[..]);
        let mut small = [0; 4];
        stream.read_exact(&mut small).await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&small, rest.as_str()), (b"GET ", "?token=T"));
    }

    #[test]
    fn only_the_slash_behind_the_token_is_mended() {
        let mended = single_slash("/sessions/s/webdriver/T//session/1/url");
        assert_eq!(mended.as_deref(), Some("/sessions/s/webdriver/T/session/1/url"));
        assert_eq!(single_slash("//session/1/url").as_deref(), Some("/session/1/url"));
        assert_eq!(single_slash("/wd/hub//session").as_deref(), Some("/wd/hub/session"));
        for path in [
            "//evil.example/x",
            "/session//x",
            "/sessions/s/webdriver/T/session/1//x",
            "/sessions//s/files",
            "/sessions/s/webdriver//session",
        ] {
            assert_eq!(single_slash(path), None, "{path}");
        }
    }
}
