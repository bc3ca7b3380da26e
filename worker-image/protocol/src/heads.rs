//! How long a connection waits for a request, and how long the request's head may take once it has begun. hyper has one
//! limit for both. But an idle connection of the daemon's clients must outlast a load balancer's patience, or the balancer sends a
//! request into a connection that is just being closed, and one of the daemon's with an agent is there for the launch, however late
//! that comes. A client that sends its head byte by byte, however, only holds a place.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Whether a connection waits for a request's head: from its start, and again after each answer.
#[derive(Clone, Debug)]
pub struct AwaitsHead(Arc<AtomicBool>);

impl AwaitsHead {
    fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// A head has come: what follows belongs to the request, or to the protocol that it switches to.
    pub fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The body of an answer. When it has been sent, the connection waits for the next head.
pub struct AnswerBody<B> {
    body: B,
    awaits_head: Option<AwaitsHead>,
}

impl<B> AnswerBody<B> {
    /// The body of an answer on this connection; `None` where the connection has another protocol from now on.
    pub const fn new(body: B, awaits_head: Option<AwaitsHead>) -> Self {
        Self { body, awaits_head }
    }
}

/// hyper drops a body as soon as it has passed all of it on.
impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        if let Some(awaits_head) = &self.awaits_head {
            awaits_head.begin();
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How long a connection may wait.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// For a head to come whole, counted from its first byte; on a new connection, from the start.
    pub head: Duration,
    /// For the next head to begin; `None` for as long as it likes.
    pub idle: Option<Duration>,
}

/// What a connection waits for, and until when.
struct Wait {
    /// The client has sent some of the head.
    begun: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A connection that ends for its reader, as if the client had closed it, when the time for a head is over.
pub struct HeadGuard<S> {
    stream: S,
    limits: HeadLimits,
    awaits_head: AwaitsHead,
    /// Only while a head is awaited.
    wait: Option<Wait>,
}

impl<S> HeadGuard<S> {
    /// Guards a new connection. To be called within a runtime with a clock.
    pub fn new(stream: S, limits: HeadLimits) -> Self {
        let wait = Wait { begun: true, timer: Some(Box::pin(sleep(limits.head))) };
        Self { stream, limits, awaits_head: AwaitsHead(Arc::new(AtomicBool::new(true))), wait: Some(wait) }
    }

    /// What tells it of heads and answers.
    pub fn awaits_head(&self) -> AwaitsHead {
        self.awaits_head.clone()
    }

    /// Something is written, so the head that was awaited has come.
    fn answers(&mut self) {
        if self.wait.as_ref().is_some_and(|wait| wait.begun) {
            self.wait = None;
        }
    }

    /// The present wait, which begins now where there is none.
    fn wait(&mut self) -> &mut Wait {
        let idle = self.limits.idle;
        self.wait.get_or_insert_with(|| Wait { begun: false, timer: idle.map(|idle| Box::pin(sleep(idle))) })
    }

    /// The connection without its guard, for another protocol.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let outcome = Pin::new(&mut this.stream).poll_read(cx, buf);
        if !this.awaits_head.get() {
            this.wait = None;
            return outcome;
        }
        let head = this.limits.head;
        let wait = this.wait();
        if outcome.is_ready() {
            if !wait.begun && buf.filled().len() > before {
                wait.begun = true;
                let until = Instant::now() + head;
                wait.timer.get_or_insert_with(|| Box::pin(sleep_until(until))).as_mut().reset(until);
            }
            return outcome;
        }
        let Some(timer) = &mut wait.timer else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        tracing::debug!(begun = wait.begun, "a request's head did not come in time; its connection is closed");
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.answers();
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.answers();
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes each answer, but does not read again where nothing had come when it last did: so the wait begins here.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.awaits_head.get()
            && let Some(timer) = &mut this.wait().timer
        {
            // The next read sees whether the time is over.
            let _ = timer.as_mut().poll(cx);
        }
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::timeout;

    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    fn connection() -> (DuplexStream, HeadGuard<DuplexStream>) {
        limited(Some(IDLE))
    }

    fn limited(idle: Option<Duration>) -> (DuplexStream, HeadGuard<DuplexStream>) {
        let (client, server) = duplex(64);
        (client, HeadGuard::new(server, HeadLimits { head: HEAD, idle }))
    }

    /// The seconds until a read ends without anything.
    async fn closed_after(server: &mut HeadGuard<DuplexStream>) -> u64 {
        let begun = Instant::now();
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_the_time_of_a_head() {
        let (_client, mut server) = connection();
        assert_eq!(closed_after(&mut server).await, HEAD.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_byte_by_byte_has_no_more_time() {
        let (mut client, mut server) = connection();
        let sending = tokio::spawn(async move {
            while client.write_all(b"G").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        assert_eq!(closed_after(&mut server).await, HEAD.as_secs());
        drop(server);
        sending.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_head_may_be_long_in_coming_but_must_come_whole() {
        let (mut client, mut server) = connection();
        let awaits_head = server.awaits_head();
        awaits_head.end();
        let mut byte = [0];
        // A request takes as long as it takes.
        assert!(timeout(IDLE * 9, server.read(&mut byte)).await.is_err());
        drop(AnswerBody::new((), Some(awaits_head)));
        assert!(timeout(IDLE.mul_f64(0.9), server.read(&mut byte)).await.is_err());
        client.write_all(b"G").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        assert_eq!(closed_after(&mut server).await, HEAD.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_nothing_more_is_let_go() {
        let (_client, mut server) = connection();
        let awaits_head = server.awaits_head();
        awaits_head.end();
        assert!(timeout(HEAD, server.read(&mut [0])).await.is_err());
        drop(AnswerBody::new((), Some(awaits_head)));
        assert_eq!(closed_after(&mut server).await, IDLE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_be_idle_for_ever_sends_its_heads_in_time_all_the_same() {
        let (_client, mut new) = limited(None);
        assert_eq!(closed_after(&mut new).await, HEAD.as_secs(), "it has asked for nothing yet");
        let (mut client, mut server) = limited(None);
        let awaits_head = server.awaits_head();
        for _ in 0..2 {
            awaits_head.end();
            assert!(timeout(HEAD * 2, server.read(&mut [0])).await.is_err(), "a request takes as long as it takes");
            drop(AnswerBody::new((), Some(awaits_head.clone())));
            assert!(timeout(IDLE * 1000, server.read(&mut [0])).await.is_err());
            client.write_all(b"G").await.unwrap();
            server.read_exact(&mut [0]).await.unwrap();
        }
        assert_eq!(closed_after(&mut server).await, HEAD.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn another_protocol_has_no_heads() {
        let (_client, mut server) = connection();
        server.awaits_head().end();
        drop(AnswerBody::new((), None));
        assert!(timeout(IDLE * 9, server.read(&mut [0])).await.is_err());
    }
}
