//! The log's way to standard error. Whoever logs hands a line over and goes on: a reader that takes nothing, such as a busy Docker at
//! the other end of the pipe, stops the log's own thread and no relay.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The most bytes of lines that wait to be written. What does not fit is dropped, and counted.
const MAX_WAITING: usize = 1 << 20;
/// The longest line, in bytes. A worker, a page or a client may have chosen a text in it.
const MAX_LINE: usize = 64 << 10;
/// What stands in the place of the rest of a longer one.
const CUT: &str = "…\n";
/// How long the last lines may take. A reader that takes nothing for so long counts as gone.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The log of this process, once it has one.
static LOG: OnceLock<Arc<LogWriter>> = OnceLock::new();

/// Takes lines from every thread, and writes them on one of its own.
#[derive(Debug, Default)]
pub(super) struct LogWriter {
    queue: Mutex<Queue>,
    /// Tells the thread of lines.
    filled: Condvar,
    /// Tells that nothing is left to write.
    drained: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    /// How many lines did not fit since the thread took the last ones.
    dropped: u64,
    /// Whether the thread is at what it took.
    is_writing: bool,
}

/// Starts the writer of this process's log.
/// Errors: when there is no thread for it.
pub(super) fn start() -> io::Result<Arc<LogWriter>> {
    let tell = |lines: u64| tracing::warn!(lines, "lines of the log were dropped, as nobody read it for a while");
    let writer = LogWriter::start(io::stderr(), tell)?;
    // A second log is refused when it is to take this one's place.
    let _ = LOG.set(Arc::clone(&writer));
    Ok(writer)
}

/// Waits until the lines of the log are written, unless nobody reads them. Whoever ends this process, or makes it another program,
/// calls it before. Does nothing where there is no log.
pub(crate) fn flush_log() {
    if let Some(writer) = LOG.get() {
        writer.flush_within(FLUSH_TIMEOUT);
    }
}

impl LogWriter {
    /// Starts a thread that writes to `sink`, and that calls `tell` with the number of lines that were dropped, once it writes others
    /// again: what `tell` logs comes behind them.
    /// Errors: when the system has no thread left.
    fn start(sink: impl Write + Send + 'static, tell: impl Fn(u64) + Send + 'static) -> io::Result<Arc<Self>> {
        let writer = Arc::new(Self::default());
        let writing = Arc::clone(&writer);
        thread::Builder::new().name("log".to_owned()).spawn(move || writing.run(sink, tell))?;
        Ok(writer)
    }

    /// Writes for as long as there is a process.
    fn run(&self, mut sink: impl Write, tell: impl Fn(u64)) {
        loop {
            let (lines, dropped) = self.take();
            // There is room for it now, and it comes behind the lines that were taken.
            if dropped > 0 {
                tell(dropped);
            }
            // A log whose reader has left it goes on without one.
            let _ = sink.write_all(&lines);
        }
    }

    /// Waits for lines. Those that were taken before are written by now.
    fn take(&self) -> (Vec<u8>, u64) {
        let mut queue = self.queue.lock();
        queue.is_writing = false;
        if queue.lines.is_empty() {
            self.drained.notify_all();
        }
        self.filled.wait_while(&mut queue, |queue| queue.lines.is_empty());
        queue.is_writing = true;
        (mem::take(&mut queue.lines), mem::take(&mut queue.dropped))
    }

    /// Waits until nothing is left to write, for so long at most.
    fn flush_within(&self, timeout: Duration) {
        let mut queue = self.queue.lock();
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.lines.is_empty();
        self.drained.wait_while_for(&mut queue, is_busy, timeout);
    }
}

impl Write for &LogWriter {
    /// Takes a line, or drops it: nobody waits for the log.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let (kept, end) = if line.len() > MAX_LINE { (whole_characters(&line[..MAX_LINE]), CUT) } else { (line, "") };
        let mut queue = self.queue.lock();
        if queue.lines.len() + kept.len() + end.len() > MAX_WAITING {
            queue.dropped += 1;
        } else {
            queue.lines.extend_from_slice(kept);
            queue.lines.extend_from_slice(end.as_bytes());
            self.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A cut text without the beginning of a character whose end is missing.
fn whole_characters(cut: &[u8]) -> &[u8] {
    std::str::from_utf8(cut).map_or_else(|broken| &cut[..broken.valid_up_to()], str::as_bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::{self, Receiver};

    use super::*;

    /// Longer than any machine takes.
    const PATIENCE: Duration = Duration::from_secs(60);
    const LINE: [u8; 1 << 10] = [b'x'; 1 << 10];

    /// Takes nothing before its gate is gone.
    struct Sink {
        gate: Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.gate.recv();
            self.taken.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_takes_nothing_holds_nobody_up() {
        let (opener, gate) = mpsc::channel();
        let (taken, told) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        let (sink, telling) = (Sink { gate, taken: Arc::clone(&taken) }, Arc::clone(&told));
        let tell = move |lines| {
            telling.fetch_add(lines, Ordering::SeqCst);
        };
        let writer = LogWriter::start(sink, tell).unwrap();
        let lines = 3 * MAX_WAITING / LINE.len();
        for _ in 0..lines {
            (&*writer).write_all(&LINE).unwrap();
        }
        writer.flush_within(Duration::ZERO);
        assert!(taken.lock().is_empty(), "the end of the process waits for no such reader");
        drop(opener);
        writer.flush_within(PATIENCE);
        let (kept, dropped) = (taken.lock().len() / LINE.len(), told.load(Ordering::SeqCst));
        assert!((1..=2 * MAX_WAITING / LINE.len()).contains(&kept), "{kept}");
        assert_eq!(kept as u64 + dropped, lines as u64);
        (&*writer).write_all(b"last\n").unwrap();
        writer.flush_within(PATIENCE);
        assert!(taken.lock().ends_with(b"last\n"));
        assert_eq!(told.load(Ordering::SeqCst), dropped, "it is told once");
    }

    #[test]
    fn a_line_as_long_as_somebody_likes_is_cut() {
        let (opener, gate) = mpsc::channel();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let writer = LogWriter::start(Sink { gate, taken: Arc::clone(&taken) }, |_| {}).unwrap();
        drop(opener);
        for long in ["x".repeat(2 * MAX_WAITING), "€".repeat(MAX_WAITING)] {
            (&*writer).write_all(long.as_bytes()).unwrap();
            (&*writer).write_all(b"next\n").unwrap();
            writer.flush_within(PATIENCE);
            let written = String::from_utf8(std::mem::take(&mut *taken.lock())).unwrap();
            let (line, next) = written.split_once('\n').unwrap();
            assert!(line.len() > MAX_LINE - 4 && line.len() < MAX_LINE + 4 && line.ends_with('…'), "{}", line.len());
            assert_eq!(next, "next\n");
        }
    }
}
