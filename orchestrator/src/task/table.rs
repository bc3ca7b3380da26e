//! The one table of tasks: finds and lists them, ends them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::files::Files;
use super::history::History;
use super::id::{Ids, TaskId};
use super::keep::{Keep, put_record};
use super::live::{Event, Live, Stop};
use super::order::Order;
use super::query::TaskQuery;
use super::record::{ArtifactNote, Fault, Item, Output, Record, Status};
use crate::clock::unix_ms;
use crate::config::Config;
use crate::drain::Drain;
use crate::error::Error;
use crate::instance::Instance;
use crate::keys::{KeyId, Keys};
use crate::pool::Pool;
use crate::session::Sessions;
use crate::store::{Batch, Durability, Store};

/// So many requests with idempotency keys are looked at side by side.
pub(super) const GATES: usize = 16;

/// Every task there is and was. Clones share it.
#[derive(Clone)]
pub(crate) struct Tasks {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) config: Arc<Config>,
    pub(super) instance: Arc<Instance>,
    pub(super) keys: Keys,
    pub(super) sessions: Sessions,
    pub(super) pool: Pool,
    pub(super) drain: Drain,
    pub(super) keep: Keep,
    pub(super) files: Files,
    pub(super) ids: Ids,
    pub(super) history: Mutex<History>,
    pub(super) live: Mutex<HashMap<TaskId, Arc<Live>>>,
    /// One permit a worker that tasks may use.
    pub(super) slots: Arc<Semaphore>,
    /// How many workers tasks wait for their turn to have.
    pub(super) queueing: AtomicUsize,
    /// How many tasks wait for a worker at this moment.
    pub(super) leasing: AtomicUsize,
    /// When this process began, in Unix milliseconds.
    pub(super) started_ms: u64,
    pub(super) gates: [tokio::sync::Mutex<()>; GATES],
}

/// An accepted task, or the one that the same request made before.
#[derive(Debug, Clone)]
pub(crate) enum Accepted {
    /// It has not ended.
    Live(Arc<Live>),
    /// It has ended.
    Past(Box<Record>),
}

impl Tasks {
    /// An empty table. [`Tasks::load`] fills it from the store.
    #[must_use]
    pub(crate) fn new(
        config: Arc<Config>,
        instance: Arc<Instance>,
        keys: Keys,
        sessions: Sessions,
        pool: Pool,
        store: Store,
        drain: Drain,
    ) -> Self {
        let inner = Inner {
            files: Files::new(&config.store.data_dir),
            slots: Arc::new(Semaphore::new(config.tasks.workers)),
            config,
            instance,
            keys,
            sessions,
            pool,
            drain,
            keep: Keep { store },
            ids: Ids::default(),
            history: Mutex::default(),
            live: Mutex::default(),
            queueing: AtomicUsize::new(0),
            leasing: AtomicUsize::new(0),
            started_ms: unix_ms(),
            gates: std::array::from_fn(|_| tokio::sync::Mutex::new(())),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Finds a task of `owner`.
    ///
    /// # Errors
    /// `UnknownTask`, also when it is another key's; `OutcomeUnknown` while it is on its way into the store.
    pub(crate) async fn find(&self, id: TaskId, owner: &KeyId) -> Result<Accepted, Error> {
        let unknown = || Error::UnknownTask { id: id.to_string() };
        let live = self.live_table().get(&id).cloned();
        if let Some(live) = live {
            return match live.owner == *owner {
                true if live.is_kept() => Ok(Accepted::Live(live)),
                true => Err(live.unknown()),
                false => Err(unknown()),
            };
        }
        let record = self.inner.keep.record(id).await?.filter(|record| record.owner == *owner);
        record.map(|record| Accepted::Past(Box::new(record))).ok_or_else(unknown)
    }

    /// One page of the tasks of `owner`, and how many match in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn list(&self, query: &TaskQuery, owner: &KeyId) -> Result<(Vec<Record>, u64), Error> {
        let (ids, total) = self.history().page(owner, query);
        let (mut found, past) = {
            let live = self.live_table();
            let mut found: HashMap<TaskId, Record> = HashMap::new();
            let mut past: Vec<TaskId> = Vec::new();
            for id in &ids {
                match live.get(id) {
                    Some(live) if live.is_kept() => drop(found.insert(*id, live.record())),
                    // Nobody knows yet whether there is such a task.
                    Some(_) => {}
                    None => past.push(*id),
                }
            }
            (found, past)
        };
        for record in self.inner.keep.records(&past).await? {
            found.insert(record.task_id, record);
        }
        Ok((ids.iter().filter_map(|id| found.remove(id)).collect(), total))
    }

    /// Stops a task of `owner`, and waits until its end is written. Stopping one that has ended changes nothing.
    ///
    /// # Errors
    /// `UnknownTask`.
    pub(crate) async fn cancel(&self, id: TaskId, owner: &KeyId) -> Result<Record, Error> {
        if let Accepted::Live(live) = self.find(id, owner).await? {
            live.stop(Stop::Cancelled);
            live.ended().await;
            return Ok(live.record());
        }
        match self.find(id, owner).await? {
            Accepted::Live(live) => Ok(live.record()),
            Accepted::Past(record) => Ok(*record),
        }
    }

    /// Stops every task whose key was revoked.
    pub(crate) fn end_revoked(&self) {
        for live in self.live_table().values() {
            self.ask_key(live);
        }
    }

    /// Stops a task if its key was revoked: to be asked before anything of it is begun or taken up again.
    pub(super) fn ask_key(&self, live: &Live) {
        if !self.inner.keys.is_active(&live.owner) {
            live.stop(Stop::KeyRevoked);
        }
    }

    /// The whole output of a record.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub(crate) async fn output(&self, task: TaskId, output: &Output) -> Result<Vec<Value>, Error> {
        match output {
            Output::Inline(rows) => Ok(rows.clone()),
            Output::File { hash, .. } => {
                let bytes = self.inner.files.get(task, hash).await?;
                serde_json::from_slice(&bytes).map_err(Error::internal)
            }
        }
    }

    /// Items of a fleet from the one after `after` on, at most a hundred, in their order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn items(&self, task: TaskId, after: Option<u32>) -> Result<Vec<Item>, Error> {
        self.inner.keep.items(task, after, super::keep::ITEM_PAGE).await
    }

    /// What a task was asked to do.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn order(&self, record: &Record) -> Result<Order, Error> {
        self.inner.keep.order(record.task_id, record.body_parts).await
    }

    /// The file of an artifact.
    #[must_use]
    pub(crate) fn artifact(&self, task: TaskId, note: &ArtifactNote) -> Option<std::path::PathBuf> {
        self.inner.files.path(task, &note.hash)
    }

    /// How many tasks wait, run, and are in the history.
    #[must_use]
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let (queued, running) = {
            let live = self.live_table();
            let queued = live.values().filter(|live| live.record().status == Status::Queued).count();
            (queued, live.len() - queued)
        };
        (queued, running, self.history().len())
    }

    /// Writes an end, then tells everybody, and lets go of the task. Where the store is gone before it has taken the end,
    /// the task is left for the next process, which ends or repeats it by what was written before.
    pub(super) async fn finish(&self, live: &Live, end: End) {
        let mut record = live.record();
        record.status = end.status;
        record.error = end.error;
        record.output = end.output;
        record.artifacts = end.artifacts;
        record.waiting = None;
        record.ended_ms = Some(unix_ms().max(record.started_ms.unwrap_or(0)));
        let mut batch = Batch::new();
        let written = match put_record(&mut batch, &record) {
            Ok(()) => self.insist(live, batch, Durability::Process).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(task = %live.id, %error, "the end of a task was not written");
            self.suspend(live);
            return;
        }
        live.change(|now| now.clone_from(&record));
        self.history().change(&live.owner, &record.entry());
        self.live_table().remove(&live.id);
        let reason = record.error.as_ref().map_or("", |fault| fault.code.as_str());
        tracing::info!(task = %live.id, status = %record.status, reason, ms = record.execution_time(), "task ended");
        let labels = [("type", record.kind.as_str()), ("status", record.status.as_str())];
        metrics::counter!("warmpool_tasks_ended_total", &labels).increment(1);
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        metrics::histogram!("warmpool_task_seconds", "type" => record.kind.as_str())
            .record(record.execution_time() as f64 / 1000.0);
        live.tell(Event::Status(record));
        live.set_ended();
    }

    /// Writes down that a task runs now. Only once this is on the disk may it do anything.
    ///
    /// # Errors
    /// It is not on the disk, and nothing of the task has changed.
    pub(super) async fn mark_running(&self, live: &Live) -> Result<(), Error> {
        let began = unix_ms();
        let change = |record: &mut Record| {
            record.status = Status::Running;
            record.started_ms = Some(began);
        };
        let mut record = live.record();
        change(&mut record);
        let mut batch = Batch::new();
        put_record(&mut batch, &record)?;
        self.inner.keep.commit(batch, Durability::Power).await?;
        self.publish(live, change);
        Ok(())
    }

    /// Writes down that a task waits for its turn again.
    ///
    /// # Errors
    /// The store is gone; there the task still runs, and the next process takes it for that.
    pub(super) async fn mark_queued(&self, live: &Live) -> Result<(), Error> {
        let change = |record: &mut Record| {
            record.status = Status::Queued;
            record.started_ms = None;
        };
        let mut record = live.record();
        change(&mut record);
        let mut batch = Batch::new();
        put_record(&mut batch, &record)?;
        self.insist(live, batch, Durability::Process).await?;
        self.publish(live, change);
        Ok(())
    }

    /// Shows what has been written.
    pub(super) fn publish(&self, live: &Live, change: impl FnOnce(&mut Record)) {
        let record = live.change(change);
        self.history().change(&live.owner, &record.entry());
        live.tell(Event::Status(record));
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.inner.history.lock()
    }

    pub(super) fn live_table(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<Live>>> {
        self.inner.live.lock()
    }

    /// How many others than tasks wait for a worker.
    pub(super) fn clients_waiting(&self) -> usize {
        self.inner.pool.waiting().saturating_sub(self.inner.leasing.load(Ordering::Relaxed))
    }

    /// Whether other tasks wait for their turn.
    pub(super) fn others_queue(&self, live: &Live) -> bool {
        self.inner.queueing.load(Ordering::Relaxed) > live.queueing.load(Ordering::Relaxed)
    }
}

/// How a task ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: Status,
    pub(super) error: Option<Fault>,
    pub(super) output: Output,
    pub(super) artifacts: Vec<ArtifactNote>,
}

impl End {
    /// An end without results.
    pub(super) fn empty(status: Status, fault: Fault) -> Self {
        Self { status, error: Some(fault), output: Output::default(), artifacts: Vec::new() }
    }
}
