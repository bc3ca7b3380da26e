//! The entries of one session, within limits, for those who read and follow them.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::exchange::{Exchange, whole};
use warmpool_api::log::{LogEntry, LogEvent};
use warmpool_config::LogSettings;

/// What an entry takes beside its texts, in bytes.
const OVERHEAD: usize = 200;

/// The log of one session.
#[derive(Debug)]
pub struct LogBuffer {
    rows: Mutex<Rows>,
    /// The number of the last entry, and whether the session has ended.
    state: watch::Sender<(u64, bool)>,
    max_entries: usize,
    max_bytes: usize,
    left_out: &'static [&'static str],
}

#[derive(Debug, Default)]
struct Rows {
    kept: VecDeque<Row>,
    bytes: usize,
    dropped: u64,
    last: u64,
}

#[derive(Debug)]
struct Row {
    entry: LogEntry,
    exchange: Option<Arc<Exchange>>,
    bytes: usize,
}

/// Something to write down.
#[derive(Debug)]
pub(super) struct NewEntry {
    pub(super) time: u64,
    pub(super) event: LogEvent,
    pub(super) exchange: Option<Exchange>,
}

impl From<Exchange> for NewEntry {
    fn from(exchange: Exchange) -> Self {
        let event = LogEvent::Request {
            method: exchange.method.clone(),
            url: exchange.url.clone(),
            resource: exchange.resource.clone(),
            status: exchange.answer.as_ref().map(|answer| answer.status),
            failure: exchange.failure.clone(),
            duration: whole(exchange.took_ms),
            bytes: exchange.bytes,
        };
        Self { time: whole(exchange.began_ms + exchange.took_ms), event, exchange: Some(exchange) }
    }
}

/// Reads a buffer from some entry on, and waits for further ones.
#[derive(Debug)]
pub struct Follower {
    buffer: Arc<LogBuffer>,
    state: watch::Receiver<(u64, bool)>,
    after: u64,
}

impl LogBuffer {
    /// An empty one, which will not have what `left_out` names.
    pub(crate) fn new(limits: &LogSettings, left_out: &'static [&'static str]) -> Self {
        Self {
            rows: Mutex::default(),
            state: watch::Sender::new((0, false)),
            max_entries: limits.max_entries,
            max_bytes: usize::try_from(limits.max_size.bytes()).unwrap_or(usize::MAX),
            left_out,
        }
    }

    /// The types of entries that are not in it, or not all.
    pub(crate) const fn left_out(&self) -> &'static [&'static str] {
        self.left_out
    }

    pub(super) fn write(&self, new: NewEntry) {
        let bytes = OVERHEAD + weight(&new.event) + new.exchange.as_ref().map_or(0, Exchange::weight);
        let last = {
            let mut rows = self.rows.lock();
            rows.last += 1;
            let entry = LogEntry { seq: rows.last, time: new.time, event: new.event };
            rows.bytes += bytes;
            rows.kept.push_back(Row { entry, exchange: new.exchange.map(Arc::new), bytes });
            while rows.kept.len() > self.max_entries || rows.bytes > self.max_bytes {
                let Some(oldest) = rows.kept.pop_front() else { break };
                rows.bytes -= oldest.bytes;
                rows.dropped = rows.dropped.saturating_add(1);
            }
            rows.last
        };
        self.state.send_modify(|state| state.0 = last);
    }

    /// Counts entries that could not be read. An agent may name any number.
    pub(super) fn miss(&self, count: u64) {
        let mut rows = self.rows.lock();
        rows.dropped = rows.dropped.saturating_add(count);
    }

    /// The most bytes of its entries.
    pub(super) const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Nothing more comes.
    pub(crate) fn close(&self) {
        self.state.send_modify(|state| state.1 = true);
    }

    /// Whether nothing more comes.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.borrow().1
    }

    /// The number of the last entry; 0 before there is any.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.state.borrow().0
    }

    /// The entries after this one, and how many were dropped of all.
    #[must_use]
    pub fn entries(&self, after: u64) -> (Vec<LogEntry>, u64) {
        let rows = self.rows.lock();
        let entries = rows.kept.iter().map(|row| &row.entry).filter(|entry| entry.seq > after).cloned().collect();
        (entries, rows.dropped)
    }

    /// The requests that are kept, and how many entries were dropped of all.
    pub(super) fn exchanges(&self) -> (Vec<Arc<Exchange>>, u64) {
        let rows = self.rows.lock();
        (rows.kept.iter().filter_map(|row| row.exchange.clone()).collect(), rows.dropped)
    }

    /// Follows the buffer from the entry after this one on.
    #[must_use]
    pub fn follow(self: &Arc<Self>, after: u64) -> Follower {
        Follower { buffer: Arc::clone(self), state: self.state.subscribe(), after }
    }
}

impl Follower {
    /// Further entries, as soon as there are any; none once the session has ended and all were read.
    pub async fn next(&mut self) -> Option<Vec<LogEntry>> {
        loop {
            let ended = self.state.borrow_and_update().1;
            let (entries, _) = self.buffer.entries(self.after);
            if let Some(last) = entries.last() {
                self.after = last.seq;
                return Some(entries);
            }
            if ended || self.state.changed().await.is_err() {
                return None;
            }
        }
    }
}

/// The bytes of an event's texts.
fn weight(event: &LogEvent) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match event {
        LogEvent::Console { text, url, .. } | LogEvent::PageError { text, url, .. } => text.len() + length(url),
        LogEvent::Request { method, url, resource, failure, .. } => {
            method.len() + url.len() + resource.len() + length(failure)
        }
        LogEvent::Download { name, url } => name.len() + length(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::ByteSize;

    fn buffer(max_entries: usize, max_size: u64) -> Arc<LogBuffer> {
        let limits = LogSettings { max_entries, max_size: ByteSize(max_size), keep_ended: 1 };
        Arc::new(LogBuffer::new(&limits, &[]))
    }

    fn entry(text: &str) -> NewEntry {
        let event = LogEvent::Download { name: text.to_owned(), url: None };
        NewEntry { time: 1, event, exchange: None }
    }

    #[test]
    fn the_oldest_goes_first_by_count_and_by_bytes() {
        for (buffer, kept) in [(buffer(2, 1 << 20), 2), (buffer(100, 3 * (OVERHEAD as u64 + 100)), 3)] {
            for _ in 0..5 {
                buffer.write(entry(&"x".repeat(100)));
            }
            buffer.miss(1);
            let (entries, dropped) = buffer.entries(0);
            assert_eq!((entries.len(), dropped), (kept, 5 - kept as u64 + 1));
            assert_eq!(entries.last().unwrap().seq, 5);
            assert_eq!(buffer.entries(4).0.len(), 1);
        }
        let small = buffer(9, 10);
        small.write(entry("longer than the whole buffer may be"));
        assert_eq!(small.entries(0), (Vec::new(), 1));
        small.miss(u64::MAX);
        small.write(entry("one more of those"));
        assert_eq!(small.entries(0), (Vec::new(), u64::MAX));
    }

    #[tokio::test]
    async fn a_follower_reads_on_until_the_end() {
        let buffer = buffer(9, 1 << 20);
        buffer.write(entry("a"));
        let mut follower = buffer.follow(0);
        assert_eq!(follower.next().await.unwrap().len(), 1);
        let (next, ()) = tokio::join!(follower.next(), async { buffer.write(entry("b")) });
        assert_eq!(next.unwrap()[0].seq, 2);
        buffer.close();
        assert!(follower.next().await.is_none());
    }
}
