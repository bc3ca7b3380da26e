//! Bodies that are passed on while they arrive, so that a large file takes no memory: with a limit of their length, and
//! of the time that a client may pause.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as Streamed, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use super::App;
use crate::http::error::Error;
use warmpool_core::error::Cause;
use warmpool_workers::worker;

/// What is wrong with a body that is on its way: its client's own fault, and not the worker's.
pub(super) struct BodyFault(Option<oneshot::Receiver<Error>>);

impl BodyFault {
    /// For a body that is here already.
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Does what needs the body, and breaks it off when the body is at fault.
    /// Errors: the body's fault, and those of `work`.
    pub(super) async fn or<T, E: Into<Error>>(self, work: impl Future<Output = Result<T, E>>) -> Result<T, Error> {
        let Some(mut fault) = self.0 else { return work.await.map_err(Into::into) };
        let failed = tokio::select! {
            biased;
            // Where nothing is said, it came as it should.
            Ok(error) = &mut fault => return Err(error),
            done = work => match done {
                Ok(done) => return Ok(done),
                Err(error) => error.into(),
            },
        };
        // The work itself may have been the first to hear of the fault.
        Err(fault.try_recv().unwrap_or(failed))
    }
}

/// A body to pass on, of at most `limit` bytes; `setting` is the limit's name.
/// Errors: `BodyTooLarge` when it says itself that it is longer.
pub(super) fn forwarded_body(
    app: &App,
    body: Body,
    limit: u64,
    setting: &'static str,
) -> Result<(worker::Body, BodyFault), Error> {
    forward(body, limit, setting, app.config.server.body_timeout)
}

/// The same with the longest `pause` of its client.
/// Errors: those of [`forwarded_body`].
pub(super) fn forward(
    body: Body,
    limit: u64,
    setting: &'static str,
    pause: Duration,
) -> Result<(worker::Body, BodyFault), Error> {
    if body.size_hint().exact() == Some(0) {
        return Ok((worker::full(""), BodyFault::none()));
    }
    let too_large = Error::BodyTooLarge { limit, setting };
    if body.size_hint().lower() > limit {
        return Err(too_large);
    }
    let (sender, receiver) = oneshot::channel();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let passed = ForwardedBody {
        body: Limited::new(body, most),
        pause,
        timer: None,
        too_large: Some(too_large),
        fault: Some(sender),
    };
    Ok((passed.boxed_unsync(), BodyFault(Some(receiver))))
}

struct ForwardedBody {
    body: Limited<Body>,
    pause: Duration,
    /// Only while the client pauses.
    timer: Option<Pin<Box<Sleep>>>,
    too_large: Option<Error>,
    fault: Option<oneshot::Sender<Error>>,
}

impl ForwardedBody {
    fn blame(&mut self, error: Error) -> Poll<Option<Result<Frame<Bytes>, Cause>>> {
        let message = error.to_string();
        if let Some(fault) = self.fault.take() {
            let _ = fault.send(error);
        }
        Poll::Ready(Some(Err(message.into())))
    }
}

impl Streamed for ForwardedBody {
    type Data = Bytes;
    type Error = Cause;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cause>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Err(error))) => {
                let too_large = this.too_large.take().filter(|_| error.is::<LengthLimitError>());
                this.blame(too_large.unwrap_or_else(broke_off))
            }
            Poll::Ready(frame) => {
                this.timer = None;
                Poll::Ready(frame.map(|frame| frame.map_err(|never: Cause| never)))
            }
            Poll::Pending => {
                let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(this.pause)));
                ready!(timer.as_mut().poll(cx));
                let after = this.pause;
                this.blame(Error::BodyTimeout { after })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The client left in the middle of its body.
pub(super) fn broke_off() -> Error {
    Error::InvalidBody { message: "the body broke off before all of it was there: send it again".to_owned() }
}
