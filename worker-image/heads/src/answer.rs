//! The body of an answer, behind which the connection waits for the next head.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::count::HeadCount;

/// The body of an answer. When it has been sent, the connection waits for the next head.
pub struct AnswerBody<B> {
    body: B,
    count: Option<HeadCount>,
}

impl<B> AnswerBody<B> {
    /// The body of an answer on this connection; `None` where the connection has another protocol from now on.
    pub const fn new(body: B, count: Option<HeadCount>) -> Self {
        Self { body, count }
    }
}

/// hyper drops a body as soon as it has passed all of it on.
impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            count.answered();
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
