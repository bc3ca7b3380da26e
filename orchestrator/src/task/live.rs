//! A task that has not ended: its record as it is now, who listens, and how it is stopped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::id::TaskId;
use super::record::{Item, Record};
use super::view;
use crate::error::Error;
use crate::keys::KeyId;
use crate::player::Progress;

/// Events that a slow listener may be behind; beyond that it misses the oldest.
const EVENTS: usize = 256;

/// Why a task is stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// Its key was revoked.
    KeyRevoked,
    /// The daemon goes down.
    Interrupted,
}

/// What happens to a task, for those who listen.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Its status is another.
    Status(Record),
    /// Its work, or that of one of its items, goes on.
    Progress {
        /// The item, of a fleet.
        item: Option<u32>,
        /// What happened.
        progress: Progress,
    },
    /// An item of it is in another state.
    Item(Item),
}

impl Event {
    /// The event's name.
    #[must_use]
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Status(record) if record.status.is_end() => "end",
            Self::Status(_) => "task",
            Self::Progress { .. } => "progress",
            Self::Item(_) => "item",
        }
    }

    /// What it says, as JSON.
    #[must_use]
    pub(crate) fn data(&self) -> Value {
        match self {
            Self::Status(record) => view::record(record, None),
            Self::Progress { item, progress } => {
                let mut data = json!(progress);
                if let Some(item) = item {
                    data["item"] = json!(item);
                }
                data
            }
            Self::Item(item) => view::item(item, None),
        }
    }
}

/// A task that has not ended.
#[derive(Debug)]
pub(crate) struct Live {
    pub id: TaskId,
    /// The key that sent it.
    pub owner: KeyId,
    record: Mutex<Record>,
    /// Whether the store is known to have it. Until then it is nobody's task.
    kept: AtomicBool,
    events: broadcast::Sender<Event>,
    /// Cancelled once its end is in the store.
    ended: CancellationToken,
    stop: CancellationToken,
    why: Mutex<Option<Stop>>,
    /// How many workers it waits for its turn to have.
    pub(super) queueing: AtomicUsize,
}

impl Live {
    /// A task that is in the store.
    pub(super) fn new(record: Record) -> Self {
        Self { kept: AtomicBool::new(true), ..Self::unwritten(record) }
    }

    /// A task that is on its way into the store.
    pub(super) fn unwritten(record: Record) -> Self {
        Self {
            id: record.task_id,
            owner: record.owner.clone(),
            record: Mutex::new(record),
            kept: AtomicBool::new(false),
            events: broadcast::Sender::new(EVENTS),
            ended: CancellationToken::new(),
            stop: CancellationToken::new(),
            why: Mutex::new(None),
            queueing: AtomicUsize::new(0),
        }
    }

    /// Whether the store is known to have it.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    pub(super) fn set_kept(&self) {
        self.kept.store(true, Ordering::Release);
    }

    /// What is said of it until the store has answered.
    pub(super) fn unknown(&self) -> Error {
        Error::OutcomeUnknown { task: self.id.to_string() }
    }

    /// The record as it is now.
    #[must_use]
    pub(crate) fn record(&self) -> Record {
        self.lock().clone()
    }

    /// Changes the record; answers it as it is then.
    pub(super) fn change(&self, change: impl FnOnce(&mut Record)) -> Record {
        let mut record = self.lock();
        change(&mut record);
        record.clone()
    }

    /// What happens from here on.
    #[must_use]
    pub(crate) fn listen(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    pub(super) fn tell(&self, event: Event) {
        // Nobody may be listening.
        let _ = self.events.send(event);
    }

    /// Waits until its end is in the store.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(super) fn set_ended(&self) {
        self.ended.cancel();
    }

    /// Stops it; what was said first holds.
    pub(super) fn stop(&self, why: Stop) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.stop.cancel();
    }

    /// Why it is being stopped, if it is.
    pub(super) fn stopped(&self) -> Option<Stop> {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) const fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
