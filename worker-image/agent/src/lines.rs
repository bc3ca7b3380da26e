//! Lines of bounded length, from programs that may send anything.

use futures_util::StreamExt as _;
use tokio::io::AsyncRead;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

/// Lines as they come. A longer one is left out as a whole: no part of it is taken for a line.
pub(crate) struct Lines<R>(FramedRead<R, LinesCodec>);

/// A line, or what is in its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// One that was too long.
    LeftOut,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most so many bytes.
    pub(crate) fn new(from: R, longest: usize) -> Self {
        Self(FramedRead::new(from, LinesCodec::new_with_max_length(longest)))
    }

    /// The next one; none once nothing more comes, or what comes is no text. Whoever stops waiting loses none.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        match self.0.next().await? {
            Ok(line) => Some(Line::Text(line)),
            Err(LinesCodecError::MaxLineLengthExceeded) => {
                // The stream says once that it failed, and goes on after that.
                let _ = self.0.next().await;
                Some(Line::LeftOut)
            }
            Err(LinesCodecError::Io(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_is_left_out_with_all_its_parts() {
        const LONGEST: usize = 1 << 20;
        let (mut from, to) = duplex(64 << 10);
        let mut lines = Lines::new(to, LONGEST);
        let whole = "x".repeat(LONGEST);
        let said = format!("first\n{whole}\n{whole}{{\"event\": \"download\"}}\nlast\n");
        tokio::spawn(async move { from.write_all(said.as_bytes()).await });
        let text = |text: &str| Some(Line::Text(text.to_owned()));
        assert_eq!(lines.next().await, text("first"));
        assert_eq!(lines.next().await, text(&whole));
        assert_eq!(lines.next().await, Some(Line::LeftOut));
        assert_eq!(lines.next().await, text("last"));
        assert_eq!(lines.next().await, None);
    }

    #[tokio::test]
    async fn a_line_without_an_end_takes_bounded_memory() {
        let (mut from, to) = duplex(64 << 10);
        let mut lines = Lines::new(to, 1 << 10);
        let sends = tokio::spawn(async move { from.write_all(&vec![b'x'; 2 << 20]).await });
        assert_eq!(lines.next().await, Some(Line::LeftOut));
        assert_eq!(lines.next().await, None);
        sends.await.unwrap().unwrap();
        assert!(lines.0.read_buffer().capacity() < 1 << 20);
    }
}
