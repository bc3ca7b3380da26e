//! How long something is as JSON.

use std::io;

use serde::Serialize;

/// How long something is as JSON, in bytes.
pub(super) fn length(part: &impl Serialize) -> u64 {
    /// Counts what is written, and keeps nothing.
    #[derive(Default)]
    struct Counter(u64);

    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter::default();
    // It is made of texts and numbers alone, and nothing here fails to be written.
    serde_json::to_writer(&mut counter, part).map_or(u64::MAX, |()| counter.0)
}
