//! Streams in the form that hyper's pooled client wants.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{self, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that is connected already, of which the client has nothing to know.
#[derive(Debug)]
pub struct Connected<S>(pub S);

impl<S> Connection for Connected<S> {
    fn connected(&self) -> connect::Connected {
        connect::Connected::new()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connected<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connected<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn bytes_pass_both_ways_and_several_pieces_at_once() {
        let (near, mut far) = duplex(64);
        let mut near = Connected(near);
        assert!(near.is_write_vectored());
        assert_eq!(near.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).await.unwrap(), 4);
        near.write_all(b"ef").await.unwrap();
        near.shutdown().await.unwrap();
        let mut there = String::new();
        far.read_to_string(&mut there).await.unwrap();
        far.write_all(b"gh").await.unwrap();
        drop(far);
        let mut back = String::new();
        near.read_to_string(&mut back).await.unwrap();
        assert_eq!((there.as_str(), back.as_str()), ("abcdef", "gh"));
    }
}
