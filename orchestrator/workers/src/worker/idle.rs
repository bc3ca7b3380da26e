//! Bodies whose other side must not go silent: no limit is set to the whole of a file or a recording, but to each pause in it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::agent::{AgentError, Body};
use warmpool_core::error::Cause;

/// What a worker sends, streamed.
pub type Content = UnsyncBoxBody<Bytes, AgentError>;

/// A body that fails with `Timeout` where nothing more comes for this long while somebody waits for it, and with `Broken` where it
/// breaks off.
pub fn unless_silent<B>(body: B, limit: Duration) -> Content
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Cause>,
{
    Patient { body, limit, pause: None }.boxed_unsync()
}

struct Patient<B> {
    body: B,
    limit: Duration,
    /// Runs while somebody waits: a reader who takes their time is none of the other side's fault.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<B> HttpBody for Patient<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<Cause>,
{
    type Data = Bytes;
    type Error = AgentError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AgentError>>> {
        let Self { body, limit, pause } = &mut *self;
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            *pause = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| AgentError::Broken(error.into()))));
        }
        let pause = pause.get_or_insert_with(|| Box::pin(sleep(*limit)));
        pause.as_mut().poll(cx).map(|()| Some(Err(AgentError::Timeout(*limit))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whose turn it is while a body is sent.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The sender's: there is nothing to send yet. What takes long here has its own limits.
    Source,
    /// The receiver's, since this moment.
    Receiver(Instant),
}

/// The body, and what ends when its receiver has neither taken another part for this long, nor answered after the last.
pub(super) fn watched(body: Body, limit: Duration) -> (Body, impl Future<Output = ()> + Send) {
    let (turn, whose) = watch::channel(Turn::Receiver(Instant::now()));
    (Watched { body, turn }.boxed_unsync(), receiver_is_silent(limit, whose))
}

async fn receiver_is_silent(limit: Duration, mut turn: watch::Receiver<Turn>) {
    loop {
        let now = *turn.borrow_and_update();
        let changed = match now {
            Turn::Source => turn.changed().await,
            Turn::Receiver(since) => tokio::select! {
                changed = turn.changed() => changed,
                () = sleep_until(since + limit) => return,
            },
        };
        // The body is gone: what is left is the answer.
        if changed.is_err() {
            return sleep(limit).await;
        }
    }
}

struct Watched {
    body: Body,
    turn: watch::Sender<Turn>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Cause;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cause>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let turn = if polled.is_pending() { Turn::Source } else { Turn::Receiver(Instant::now()) };
        self.turn.send_replace(turn);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::StreamBody;

    use super::super::agent::full;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);
    /// Shorter than the limit, and more than half of it.
    const PAUSE: Duration = Duration::from_secs(20);

    /// A part after each pause, and then nothing more, though it does not end.
    fn parts(pauses: Vec<Duration>) -> Body {
        let pauses = pauses.into_iter();
        let parts = stream::unfold(pauses, async |mut pauses| {
            match pauses.next() {
                Some(pause) => sleep(pause).await,
                None => std::future::pending().await,
            }
            Some((Ok(Frame::data(Bytes::from_static(b"x"))), pauses))
        });
        StreamBody::new(Box::pin(parts)).boxed_unsync()
    }

    #[tokio::test(start_paused = true)]
    async fn each_pause_has_the_limit_and_not_the_whole() {
        let mut body = unless_silent(parts(vec![PAUSE, PAUSE, PAUSE]), LIMIT);
        for _ in 0..3 {
            assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        }
        // Nobody asks for more meanwhile.
        sleep(10 * LIMIT).await;
        let began = Instant::now();
        let error = body.frame().await.unwrap().unwrap_err();
        assert!(matches!(error, AgentError::Timeout(LIMIT)), "{error}");
        assert!(began.elapsed() >= LIMIT);
    }

    #[test]
    fn a_body_keeps_its_length() {
        assert_eq!(unless_silent(full("four"), LIMIT).size_hint().exact(), Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_source_is_not_the_receivers_fault() {
        let (mut body, silence) = watched(parts(vec![10 * LIMIT, 10 * LIMIT]), LIMIT);
        let taken = async {
            for _ in 0..2 {
                assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
            }
        };
        tokio::select! {
            () = taken => {}
            () = silence => panic!("it waited for nobody"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_takes_nothing_or_does_not_answer_is_late() {
        let began = Instant::now();
        let (untaken, silence) = watched(full("four"), LIMIT);
        silence.await;
        drop(untaken);
        let (taken, silence) = watched(full("four"), LIMIT);
        assert!(taken.collect().await.is_ok());
        silence.await;
        assert_eq!(began.elapsed(), 2 * LIMIT);
    }
}
