//! A task that has not ended: its current record, those who follow it, and how it is stopped.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::record::{Item, Record};
use super::view;
use crate::Error;
use warmpool_api::task::{ProgressEvent, Status, TaskError};
use warmpool_core::ids::TaskId;
use warmpool_core::trace::TraceContext;
use warmpool_keys::{KeyId, Keys};

/// How many events a slow follower may be behind before it misses the oldest.
const EVENTS: usize = 256;

/// Steps whose times a record keeps.
const MAX_STEP_TIMES: usize = 1000;

/// Why a task is stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    /// Somebody asked for it.
    Cancelled,
    KeyRevoked,
    /// The daemon goes down.
    Interrupted,
}

/// An event of a task, for its followers.
#[derive(Debug, Clone)]
pub enum TaskEvent {
    /// Its status changed.
    Status(Box<Record>),
    /// Its work, or that of one of its items, goes on.
    Progress(ProgressEvent),
    /// The status of one of this fleet's items changed.
    Item(TaskId, Box<Item>),
}

impl TaskEvent {
    /// The event that tells a task's status.
    pub fn status(record: Record) -> Self {
        Self::Status(Box::new(record))
    }

    /// The event's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Status(record) if record.status.is_end() => "end",
            Self::Status(_) => "task",
            Self::Progress(_) => "progress",
            Self::Item(..) => "item",
        }
    }

    /// The event's data, as JSON.
    pub fn data(&self) -> Value {
        match self {
            Self::Status(record) => json!(view::record(record, None)),
            Self::Progress(event) => json!(event),
            Self::Item(task, item) => json!(view::item(*task, item, None)),
        }
    }
}

/// A task that has not ended.
#[derive(Debug)]
pub struct ActiveTask {
    /// Its id.
    pub id: TaskId,
    /// The key that sent it.
    pub(super) owner: KeyId,
    record: Mutex<Record>,
    /// Whether the store is known to have it. Until then the task does not exist for clients.
    stored: AtomicBool,
    /// Whether an earlier process left it and nobody has gone on with it yet.
    left: AtomicBool,
    events: broadcast::Sender<TaskEvent>,
    /// Cancelled once its end is in the store.
    ended: CancellationToken,
    stop: CancellationToken,
    why: Mutex<Option<StopReason>>,
    /// Where in its sender's trace it belongs.
    pub(super) place: TraceContext,
}

impl ActiveTask {
    /// A task that an earlier process left in the store.
    pub(super) fn restored(record: Record) -> Self {
        Self { stored: AtomicBool::new(true), left: AtomicBool::new(true), ..Self::unstored(record) }
    }

    /// A task that is on its way into the store.
    pub(super) fn unstored(record: Record) -> Self {
        Self {
            id: record.task_id,
            owner: record.owner.clone(),
            record: Mutex::new(record),
            stored: AtomicBool::new(false),
            left: AtomicBool::new(false),
            events: broadcast::Sender::new(EVENTS),
            ended: CancellationToken::new(),
            stop: CancellationToken::new(),
            why: Mutex::new(None),
            place: TraceContext::current(),
        }
    }

    /// Whether the store is known to have it.
    pub(super) fn is_stored(&self) -> bool {
        self.stored.load(Ordering::Acquire)
    }

    pub(super) fn set_stored(&self) {
        self.stored.store(true, Ordering::Release);
    }

    /// Whether an earlier process left it and nobody has gone on with it yet.
    pub(super) fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// The right to go on with a task that an earlier process left: only the first caller has it.
    pub(super) fn take_up(&self) -> bool {
        self.left.swap(false, Ordering::AcqRel)
    }

    /// What clients hear of it until the store has answered.
    pub(super) fn outcome_unknown(&self) -> Error {
        Error::OutcomeUnknown { task: self.id.to_string() }
    }

    /// The record as it is now.
    pub fn record(&self) -> Record {
        self.lock().clone()
    }

    pub(super) fn status(&self) -> Status {
        self.lock().status
    }

    /// Changes the record and returns the changed one.
    pub(super) fn change(&self, change: impl FnOnce(&mut Record)) -> Record {
        let mut record = self.lock();
        change(&mut record);
        record.clone()
    }

    /// Records how long a step took. The first step of another attempt begins anew.
    pub(super) fn add_step_time(&self, step: usize, ms: u64) {
        let mut record = self.lock();
        record.step_times.truncate(step);
        if step < MAX_STEP_TIMES {
            record.step_times.push(u32::try_from(ms).unwrap_or(u32::MAX));
        }
    }

    /// Events from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<TaskEvent> {
        self.events.subscribe()
    }

    pub(super) fn notify(&self, event: TaskEvent) {
        // Perhaps nobody follows it.
        let _ = self.events.send(event);
    }

    /// Shows in the record why it waits, until it waits no longer. Returns whether that is news.
    pub(super) fn show_waiting(&self, why: TaskError) -> bool {
        if self.lock().waiting.as_deref() == Some(&why) {
            return false;
        }
        self.notify(TaskEvent::status(self.change(|record| record.waiting = Some(Box::new(why)))));
        true
    }

    /// Waits until its end is in the store.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(super) fn set_ended(&self) {
        self.ended.cancel();
    }

    /// Stops it. The first reason holds.
    pub(super) fn stop(&self, why: StopReason) {
        self.why.lock().get_or_insert(why);
        self.stop.cancel();
    }

    /// Why it was stopped, if it was.
    pub(super) fn stopped(&self) -> Option<StopReason> {
        *self.why.lock()
    }

    /// Stops it if its key was revoked. Callers check this before its work begins or continues.
    pub(super) fn stop_if_revoked(&self, keys: &Keys) {
        if !keys.is_active(&self.owner) {
            self.stop(StopReason::KeyRevoked);
        }
    }

    pub(super) const fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }
}
