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
    buffer: LineBuffer,
    limit: usize,
    value: PhantomData<fn() -> T>,
}

impl<T> Lines<T> {
    /// The stream that is this body, with no line longer than `limit` bytes.
    pub(super) fn new(body: Incoming, limit: usize) -> Self {
        Self { body, buffer: LineBuffer::default(), limit, value: PhantomData }
    }
}

impl<T: DeserializeOwned> Lines<T> {
    /// The next value, or `None` when the stream ended. Safe to cancel.
    pub async fn next(&mut self) -> Option<T> {
        loop {
            if let Some(value) = self.buffer.take_value() {
                return Some(value);
            }
            if self.buffer.bytes.len() > self.limit {
                return None;
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.bytes.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) | None => return None,
            }
        }
    }
}

/// What has come of a stream and was not read yet.
#[derive(Debug, Default)]
struct LineBuffer {
    bytes: BytesMut,
    /// How many bytes at the beginning have no end of a line. An agent may send a long line byte by byte, and nobody searches it anew
    /// for each of them.
    searched: usize,
    /// Whether a line of this stream could not be read.
    met_nonsense: bool,
}

impl LineBuffer {
    /// Takes out the first value whose line is whole, and whatever stands in front of it. The log has the first line that cannot be
    /// read, since an agent may send any number of them.
    fn take_value<T: DeserializeOwned>(&mut self) -> Option<T> {
        while let Some(line) = self.take_line() {
            match serde_json::from_slice(&line) {
                Ok(value) => return Some(value),
                Err(error) => {
                    if !std::mem::replace(&mut self.met_nonsense, true) {
                        tracing::warn!(%error, "a line of the agent cannot be read");
                    }
                }
            }
        }
        None
    }

    /// Takes out the first line, with its end, if it is whole.
    fn take_line(&mut self) -> Option<BytesMut> {
        let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return None;
        };
        let line = self.bytes.split_to(self.searched + end + 1);
        self.searched = 0;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    #[test]
    fn a_line_is_searched_once_however_it_comes() {
        let mut buffer = LineBuffer::default();
        for byte in b"12" {
            buffer.bytes.extend_from_slice(&[*byte]);
            assert_eq!(buffer.take_value::<u32>(), None);
            assert_eq!(buffer.searched, buffer.bytes.len(), "the next search begins behind it");
        }
        buffer.bytes.extend_from_slice(b"3\n4\n\n5");
        let mut values = std::iter::from_fn(|| buffer.take_value::<u32>());
        assert_eq!((values.next(), values.next(), values.next()), (Some(123), Some(4), None));
        assert_eq!((&buffer.bytes[..], buffer.searched), (&b"5"[..], 1));
        buffer.bytes.extend_from_slice(b"6\n");
        assert_eq!(buffer.take_value::<u32>(), Some(56));
    }

    /// Counts what is logged.
    struct LogCount(Arc<AtomicUsize>);

    impl Subscriber for LogCount {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn nonsense_fills_no_log() {
        let count = Arc::new(AtomicUsize::new(0));
        let _listening = tracing::subscriber::set_default(LogCount(Arc::clone(&count)));
        let mut buffer = LineBuffer::default();
        for _ in 0..3 {
            buffer.bytes.extend_from_slice("x\n".repeat(100).as_bytes());
            buffer.bytes.extend_from_slice(b"7\n");
            assert_eq!(buffer.take_value::<u32>(), Some(7));
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
