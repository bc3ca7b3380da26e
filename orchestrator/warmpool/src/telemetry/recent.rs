//! Ring buffers in memory for the console: the last lines of the log, and others.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use warmpool_core::clock::unix_ms;

/// How many news a follower may be behind before it misses the oldest.
const NEWS: usize = 256;
/// The longest text of a line, in characters.
const MAX_TEXT: usize = 400;
/// Before the daemon says how many it wants.
const FIRST_SIZE: usize = 100;

/// The last lines of the log of this process: there is one log in a process.
static LINES: LazyLock<Recent<LogLine>> = LazyLock::new(|| Recent::new(FIRST_SIZE));

/// The last of something, oldest first.
pub(crate) struct Recent<T> {
    kept: Mutex<Buffer<T>>,
    news: broadcast::Sender<Arc<T>>,
}

struct Buffer<T> {
    size: usize,
    entries: VecDeque<Arc<T>>,
}

impl<T> Recent<T> {
    /// Keeps `size` at most.
    pub(crate) fn new(size: usize) -> Self {
        Self { kept: Mutex::new(Buffer { size, entries: VecDeque::new() }), news: broadcast::Sender::new(NEWS) }
    }

    /// Keeps `size` at most from now on.
    pub(crate) fn resize(&self, size: usize) {
        let mut kept = self.kept.lock();
        kept.size = size;
        let over = kept.entries.len().saturating_sub(size);
        kept.entries.drain(..over);
    }

    /// Adds an entry, and drops the oldest when full.
    pub(crate) fn add(&self, entry: T) {
        let entry = Arc::new(entry);
        {
            let mut kept = self.kept.lock();
            while kept.entries.len() >= kept.size.max(1) {
                kept.entries.pop_front();
            }
            kept.entries.push_back(Arc::clone(&entry));
        }
        // Perhaps nobody looks.
        let _ = self.news.send(entry);
    }

    /// Those that are kept.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.kept.lock().entries.iter().cloned().collect()
    }

    /// Those that come from now on.
    pub(crate) fn follow(&self) -> broadcast::Receiver<Arc<T>> {
        self.news.subscribe()
    }
}

/// A line of the log.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LogLine {
    /// When, in Unix milliseconds.
    pub(crate) at: u64,
    /// `error`, `warn` or `info`.
    pub(crate) level: &'static str,
    pub(crate) message: String,
    /// What stands beside the message.
    pub(crate) fields: Map<String, Value>,
}

/// The last lines of the log.
pub(crate) fn lines() -> &'static Recent<LogLine> {
    &LINES
}

/// Keeps the daemon's own lines from `info` on, whatever `log.filter` writes.
pub(super) struct RecentFilter;

/// Whether a line is one of those.
pub(super) fn is_kept(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO && metadata.is_event() && metadata.target().starts_with("warmpool")
}

impl<S: Subscriber> Layer<S> for RecentFilter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            _ => "info",
        };
        let mut line = LogLine { at: unix_ms(), level, message: String::new(), fields: Map::new() };
        event.record(&mut line);
        LINES.add(line);
    }
}

impl LogLine {
    fn put(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text: String = format!("{value:?}").chars().take(MAX_TEXT).collect();
        if field.name() == "message" {
            self.message = text;
        } else if !text.is_empty() {
            self.put(field, Value::from(text));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::filter_fn;
    use tracing_subscriber::prelude::*;

    use super::*;

    #[test]
    fn the_oldest_give_way() {
        let recent = Recent::new(3);
        let mut news = recent.follow();
        (0..5).for_each(|number| recent.add(number));
        let kept = || recent.all().iter().map(|number| **number).collect::<Vec<i32>>();
        assert_eq!(kept(), [2, 3, 4]);
        assert_eq!(*news.try_recv().unwrap(), 0);
        recent.resize(1);
        assert_eq!(kept(), [4]);
        recent.add(5);
        assert_eq!(kept(), [5]);
    }

    #[test]
    fn lines_from_info_on_are_kept_with_their_fields() {
        let subscriber = tracing_subscriber::registry().with(RecentFilter.with_filter(filter_fn(is_kept)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "warmpool::test", session = %"ses_kept", count = 3, "kept");
            tracing::debug!(target: "warmpool::test", session = %"ses_kept", "not kept");
            tracing::error!(target: "hyper", session = %"ses_kept", "not ours");
        });
        let kept: Vec<_> =
            lines().all().into_iter().filter(|line| line.fields.get("session") == Some(&"ses_kept".into())).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!((kept[0].message.as_str(), kept[0].level, &kept[0].fields["count"]), ("kept", "info", &3.into()));
    }
}
