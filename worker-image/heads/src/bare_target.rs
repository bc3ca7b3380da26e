//! Request targets without a path: a client that is given `ws://host:4444?token=…` may ask for `?token=…`, which is no
//! target by the standard and which hyper refuses before any route. Here it gets its slash.

use tokio::io::ReadBuf;

/// How such a request begins. Only a connection's first request can be one: it opens a websocket.
const BARE: &[u8] = b"GET ?";
/// Where the slash belongs.
const PATH: usize = BARE.len() - 1;

/// Adds the path to what was read first, which begins at `start` of the buffer, where it lacks one and there is room.
pub(crate) fn add_path(buf: &mut ReadBuf<'_>, start: usize) {
    let end = buf.filled().len();
    if buf.filled()[start..].starts_with(BARE) && buf.remaining() > 0 {
        buf.put_slice(b" ");
        let filled = buf.filled_mut();
        filled.copy_within(start + PATH..end, start + PATH + 1);
        filled[start + PATH] = b'/';
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;

    use crate::{HeadGuard, HeadLimits};

    fn guarded(sent: &[u8]) -> HeadGuard<&[u8]> {
        HeadGuard::new(sent, HeadLimits { head: Duration::from_secs(10), idle: None })
    }

    async fn seen(sent: &[u8]) -> String {
        let mut text = String::new();
        guarded(sent).adding_path().read_to_string(&mut text).await.unwrap();
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
        let mut stream = guarded(b"GET ?token=T").adding_path();
        let mut small = [0; 4];
        stream.read_exact(&mut small).await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&small, rest.as_str()), (b"GET ", "?token=T"));
    }

    #[tokio::test]
    async fn it_is_passed_on_where_nobody_asked_for_a_path() {
        let mut text = String::new();
        guarded(b"GET ?token=T").read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "GET ?token=T");
    }
}
