//! What a child process prints: one line it is waited for, and its last words.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::oneshot;

/// Bytes of output kept for an error message.
const TAIL: usize = 8 << 10;

/// The last things a process printed.
#[derive(Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// The last bytes as text.
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(bytes);
        let excess = tail.len().saturating_sub(TAIL);
        tail.drain(..excess);
    }
}

/// Reads a pipe to its end, so that the writer never blocks, and sends the first whole line that
/// contains `marker`.
pub(crate) fn follow(
    mut pipe: impl AsyncRead + Unpin + Send + 'static,
    marker: &'static str,
) -> (oneshot::Receiver<String>, Tail) {
    let (sender, line) = oneshot::channel();
    let tail = Tail::default();
    let kept = tail.clone();
    tokio::spawn(async move {
        let mut sender = Some(sender);
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            tail.push(&buffer[..count]);
            if sender.is_some()
                && let Some(line) = whole_line(&tail.text(), marker)
                && let Some(sender) = sender.take()
            {
                let _ = sender.send(line);
            }
        }
    });
    (line, kept)
}

fn whole_line(text: &str, marker: &str) -> Option<String> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .find(|line| line.contains(marker))
        .map(|line| line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn finds_a_line_that_comes_in_pieces_and_keeps_the_end() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let (line, tail) = follow(reader, "listening on");
        for piece in ["noise\nDevTools list", "ening on ws://x/y", "\nmore"] {
            writer.write_all(piece.as_bytes()).await.unwrap();
        }
        assert_eq!(line.await.unwrap(), "DevTools listening on ws://x/y");
        writer.write_all(&vec![b'z'; 3 * TAIL]).await.unwrap();
        assert!(tail.text().len() <= TAIL);
    }

    #[tokio::test]
    async fn says_so_when_the_line_never_comes() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let (line, tail) = follow(reader, "ready");
        writer.write_all(b"no usable sandbox\n").await.unwrap();
        drop(writer);
        assert!(line.await.is_err());
        assert_eq!(tail.text(), "no usable sandbox\n");
    }
}
