//! What a test's thread logs.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;

/// The log of this thread from now on.
#[derive(Clone, Default)]
pub(crate) struct TestLog(Arc<Mutex<Vec<u8>>>);

impl TestLog {
    /// Listens until the guard is dropped. Other threads' words are not heard, so the test's runtime must have one thread.
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines so far that have these words.
    pub(crate) fn lines_with(&self, words: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock()).into_owned();
        text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}

impl Write for TestLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
