//! A connection that ends when a head does not come in time.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::bare_target;
use crate::count::HeadCount;

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
    /// The number of the head.
    number: usize,
    /// The client has sent some of the head.
    begun: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A connection that ends for its reader, as if the client had closed it, when the time for a head is over.
pub struct HeadGuard<S> {
    stream: S,
    limits: HeadLimits,
    count: HeadCount,
    /// Only while a head is awaited.
    wait: Option<Wait>,
    /// Whether what comes first gets a path where it lacks one.
    adds_path: bool,
}

impl<S> HeadGuard<S> {
    /// Guards a new connection. To be called within a runtime with a clock.
    pub fn new(stream: S, limits: HeadLimits) -> Self {
        let wait = Wait { number: 0, begun: true, timer: Some(Box::pin(sleep(limits.head))) };
        Self { stream, limits, count: HeadCount::default(), wait: Some(wait), adds_path: false }
    }

    /// Gives the connection's first request a path where its target is a query alone, which hyper would refuse.
    #[must_use]
    pub fn adding_path(mut self) -> Self {
        self.adds_path = true;
        self
    }

    /// What tells it of heads and answers.
    pub fn count(&self) -> HeadCount {
        self.count.clone()
    }

    /// The wait for the head of this number, which begins now unless it has. One for an earlier head is over: it came and was
    /// answered before anything else was read.
    fn wait(&mut self, number: usize) -> &mut Wait {
        let idle = self.limits.idle;
        let wait = self.wait.take().filter(|wait| wait.number == number);
        self.wait.insert(wait.unwrap_or_else(|| Wait {
            number,
            begun: false,
            timer: idle.map(|idle| Box::pin(sleep(idle))),
        }))
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
        if outcome.is_ready() && std::mem::take(&mut this.adds_path) {
            bare_target::add_path(buf, before);
        }
        let Some(number) = this.count.awaited() else {
            this.wait = None;
            return outcome;
        };
        let head = this.limits.head;
        let wait = this.wait(number);
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
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes each answer, but does not read again where nothing had come when it last did: so the wait begins here.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(number) = this.count.awaited()
            && let Some(timer) = &mut this.wait(number).timer
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
    use crate::AnswerBody;
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
        let count = server.count();
        count.came();
        let mut byte = [0];
        // A request takes as long as it takes.
        assert!(timeout(IDLE * 9, server.read(&mut byte)).await.is_err());
        drop(AnswerBody::new((), Some(count)));
        assert!(timeout(IDLE.mul_f64(0.9), server.read(&mut byte)).await.is_err());
        client.write_all(b"G").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        assert_eq!(closed_after(&mut server).await, HEAD.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_nothing_more_is_let_go() {
        let (_client, mut server) = connection();
        let count = server.count();
        count.came();
        assert!(timeout(HEAD, server.read(&mut [0])).await.is_err());
        drop(AnswerBody::new((), Some(count)));
        assert_eq!(closed_after(&mut server).await, IDLE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_a_read_before_it_ends_the_wait_for_its_head() {
        let (mut client, mut server) = connection();
        client.write_all(b"G").await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
        let count = server.count();
        count.came();
        drop(AnswerBody::new((), Some(count)));
        assert_eq!(closed_after(&mut server).await, IDLE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_still_written_of_an_answer_gives_the_next_head_no_more_time() {
        let (mut client, mut server) = connection();
        let count = server.count();
        count.came();
        drop(AnswerBody::new((), Some(count)));
        client.write_all(b"G").await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
        tokio::time::sleep(HEAD / 2).await;
        server.write_all(b"the rest").await.unwrap();
        assert_eq!(closed_after(&mut server).await, (HEAD / 2).as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_be_idle_for_ever_sends_its_heads_in_time_all_the_same() {
        let (_client, mut new) = limited(None);
        assert_eq!(closed_after(&mut new).await, HEAD.as_secs(), "it has asked for nothing yet");
        let (mut client, mut server) = limited(None);
        let count = server.count();
        for _ in 0..2 {
            count.came();
            assert!(timeout(HEAD * 2, server.read(&mut [0])).await.is_err(), "a request takes as long as it takes");
            drop(AnswerBody::new((), Some(count.clone())));
            assert!(timeout(IDLE * 1000, server.read(&mut [0])).await.is_err());
            client.write_all(b"G").await.unwrap();
            server.read_exact(&mut [0]).await.unwrap();
        }
        assert_eq!(closed_after(&mut server).await, HEAD.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn another_protocol_has_no_heads() {
        let (_client, mut server) = connection();
        server.count().came();
        drop(AnswerBody::new((), None));
        assert!(timeout(IDLE * 9, server.read(&mut [0])).await.is_err());
    }
}
