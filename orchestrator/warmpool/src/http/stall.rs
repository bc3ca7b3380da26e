//! Clients that do not read: each has a time to take what it is sent, and while it takes nothing nothing more is done
//! for it. And clients that still send when they have been answered: they are heard out for a moment, because closing a
//! connection with something unread in it takes the answer back.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// How long a client that has been answered may be silent before its connection is closed.
const LINGER: Duration = Duration::from_secs(2);

/// What a connection and the requests on it know of each other.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The client takes nothing at the moment.
    blocked: AtomicBool,
    taken: Notify,
    /// The new owner of the connection has a write deadline of its own.
    handed_over: AtomicBool,
}

impl Flow {
    /// Waits until the client has taken the last answer: a client that does not read gets no further answers.
    pub(super) async fn caught_up(&self) {
        loop {
            // In this order, so that nothing falls between the two.
            let taken = self.taken.notified();
            if !self.blocked.load(Ordering::Relaxed) {
                return;
            }
            taken.await;
        }
    }

    /// The connection becomes a websocket.
    pub(super) fn hand_over(&self) {
        self.handed_over.store(true, Ordering::Relaxed);
    }
}

/// The time in which a client that has been answered is heard out.
struct ClosingWindow {
    /// When it last sent something.
    heard: Instant,
    /// When it is heard no longer, whatever it sends.
    end: Instant,
    timer: Pin<Box<Sleep>>,
}

impl ClosingWindow {
    fn new(limit: Duration) -> Self {
        let now = Instant::now();
        Self { heard: now, end: now + limit, timer: Box::pin(sleep(LINGER.min(limit))) }
    }

    /// Notes that the client sent something; answers whether it may go on.
    fn hear(&mut self) -> bool {
        self.heard = Instant::now();
        self.heard < self.end
    }

    /// Waits until the client has been silent for too long, or has had its time.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let over = (self.heard + LINGER).min(self.end);
            if Instant::now() >= over {
                return Poll::Ready(());
            }
            self.timer = Box::pin(sleep_until(over));
        }
    }
}

/// A connection whose client has `limit` to take something of what it is sent, and `hearing` to send what it has begun
/// when it has been answered. It ends when the time is over. It holds what it takes of the limits until it is closed, also
/// where it has become a websocket.
pub(super) struct StallGuard<S, P = ()> {
    stream: S,
    _place: P,
    limit: Duration,
    hearing: Duration,
    /// Only while the client takes nothing.
    timer: Option<Pin<Box<Sleep>>>,
    /// Once the answer has been sent.
    linger: Option<ClosingWindow>,
    flow: Arc<Flow>,
}

impl<S, P> StallGuard<S, P> {
    pub(super) fn new(stream: S, place: P, limit: Duration, hearing: Duration) -> Self {
        Self { stream, _place: place, limit, hearing, timer: None, linger: None, flow: Arc::default() }
    }

    pub(super) fn flow(&self) -> Arc<Flow> {
        Arc::clone(&self.flow)
    }

    /// Looks at the outcome of a write.
    fn watch<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.timer = None;
            // Looked at first: that costs less than to write it each time.
            if self.flow.blocked.load(Ordering::Relaxed) {
                self.flow.blocked.store(false, Ordering::Relaxed);
                self.flow.taken.notify_waiters();
            }
            return outcome;
        }
        self.flow.blocked.store(true, Ordering::Relaxed);
        if self.flow.handed_over.load(Ordering::Relaxed) {
            return outcome;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        match timer.as_mut().poll(cx) {
            Poll::Pending => outcome,
            Poll::Ready(()) => {
                metrics::counter!("warmpool_connections_stalled_total").increment(1);
                tracing::debug!("a client took nothing of its answer; its connection is cut");
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncRead + Unpin, P: Unpin> AsyncRead for StallGuard<S, P> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, P: Unpin> AsyncWrite for StallGuard<S, P> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if this.flow.handed_over.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        let linger = this.linger.get_or_insert_with(|| ClosingWindow::new(this.hearing));
        let mut unwanted = [0; 8 << 10];
        loop {
            let mut unwanted = ReadBuf::new(&mut unwanted);
            match Pin::new(&mut this.stream).poll_read(cx, &mut unwanted) {
                Poll::Ready(Ok(())) if !unwanted.filled().is_empty() && linger.hear() => {}
                // It has closed its side, or is gone, or has had its time.
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(linger.poll_over(cx));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::{Instant, timeout};

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_cut_off() {
        let (_client, server) = duplex(8);
        let mut server = StallGuard::new(server, (), LIMIT, LIMIT);
        let begun = Instant::now();
        let error = server.write_all(b"more than eight bytes").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_little_at_a_time_stays() {
        let (mut client, server) = duplex(8);
        let mut server = StallGuard::new(server, (), LIMIT, LIMIT);
        let reading = tokio::spawn(async move {
            let mut taken = [0; 4];
            for _ in 0..10 {
                sleep(LIMIT.mul_f64(0.9)).await;
                client.read_exact(&mut taken).await.unwrap();
            }
        });
        server.write_all(&[0; 40]).await.unwrap();
        reading.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_still_sends_is_heard_out_but_not_for_ever() {
        let (mut client, server) = duplex(8);
        let mut server = StallGuard::new(server, (), LIMIT, LIMIT);
        let sending = tokio::spawn(async move {
            client.write_all(&[0; 100]).await.unwrap();
            drop(client);
        });
        server.shutdown().await.unwrap();
        sending.await.unwrap();

        let (_client, server) = duplex(8);
        let begun = Instant::now();
        StallGuard::new(server, (), LIMIT, LIMIT).shutdown().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), LINGER.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_slowly_is_heard_out_until_the_time_is_over() {
        let slowly = async |times: usize| {
            let (mut client, server) = duplex(8);
            let begun = Instant::now();
            let sending = tokio::spawn(async move {
                for _ in 0..times {
                    sleep(LINGER.mul_f64(0.9)).await;
                    client.write_all(&[0; 8]).await?;
                }
                drop(client);
                io::Result::Ok(())
            });
            // The connection closes when the shutdown is done.
            let mut server = StallGuard::new(server, (), LIMIT, LIMIT);
            server.shutdown().await.unwrap();
            drop(server);
            (sending.await.unwrap().is_ok(), begun.elapsed().as_secs())
        };
        assert_eq!(slowly(20).await, (true, 36));
        let (sent, after) = slowly(100).await;
        assert!(!sent && (60..64).contains(&after), "{after}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_websocket_has_a_deadline_of_its_own() {
        let (_client, server) = duplex(8);
        let mut server = StallGuard::new(server, (), LIMIT, LIMIT);
        server.flow().hand_over();
        assert!(timeout(LIMIT * 2, server.write_all(b"more than eight bytes")).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_more_is_done_for_who_does_not_read() {
        let (mut client, server) = duplex(8);
        let mut server = StallGuard::new(server, (), LIMIT, LIMIT);
        let flow = server.flow();
        flow.caught_up().await;
        let writing = tokio::spawn(async move { server.write_all(&[0; 16]).await });
        assert!(
            timeout(LIMIT / 2, async {
                while !flow.blocked.load(Ordering::Relaxed) {
                    tokio::task::yield_now().await
                }
            })
            .await
            .is_ok()
        );
        assert!(timeout(LIMIT / 2, flow.caught_up()).await.is_err());
        client.read_exact(&mut [0; 16]).await.unwrap();
        flow.caught_up().await;
        writing.await.unwrap().unwrap();
    }
}
