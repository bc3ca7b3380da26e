//! A stream of the agent's: JSON, one value a line.

use std::marker::PhantomData;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

/// The lines of one stream. Dropping it hangs up.
#[derive(Debug)]
pub struct Lines<T> {
    body: Incoming,
    buffer: BytesMut,
    limit: usize,
    value: PhantomData<fn() -> T>,
}

impl<T> Lines<T> {
    /// The stream that is this body, with no line longer than `limit` bytes.
    pub(super) fn new(body: Incoming, limit: usize) -> Self {
        Self { body, buffer: BytesMut::new(), limit, value: PhantomData }
    }
}

impl<T: DeserializeOwned> Lines<T> {
    /// The next value, or `None` when the stream ended. Safe to cancel.
    pub async fn next(&mut self) -> Option<T> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                match serde_json::from_slice(&line) {
                    Ok(value) => return Some(value),
                    Err(error) => {
                        tracing::warn!(%error, "a line of the agent cannot be read");
                        continue;
                    }
                }
            }
            if self.buffer.len() > self.limit {
                return None;
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) | None => return None,
            }
        }
    }
}
