//! All tasks, as the rest of the daemon sees them: finding, listing and stopping them, and what they left.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use super::active::{ActiveTask, StopReason};
use super::idempotency::Idempotency;
use super::query::TaskQuery;
use super::record::{ArtifactRecord, Output, Record};
use super::sizes::Sizes;
use super::spec::TaskSpec;
use super::storage::TaskStorage;
use super::table::TaskTable;
use super::workers::Workers;
use crate::Error;
use warmpool_config::Config;
use warmpool_core::drain::Drain;
use warmpool_core::error::ServiceError;
use warmpool_core::ids::TaskId;
use warmpool_core::instance::Instance;
use warmpool_keys::{KeyId, Keys};
use warmpool_sessions::session::Sessions;
use warmpool_store::Store;
use warmpool_webhooks::Webhooks;
use warmpool_workers::pool::Pool;

/// Every task there is and was. Clones share it.
#[derive(Clone)]
pub struct Tasks {
    pub(super) inner: Arc<Components>,
}

pub(super) struct Components {
    pub(super) config: Arc<Config>,
    pub(super) keys: Keys,
    pub(super) drain: Drain,
    pub(super) table: TaskTable,
    pub(super) storage: TaskStorage,
    pub(super) sizes: Sizes,
    /// Held while a task is forgotten, or measured that might be.
    pub(super) forgetting: tokio::sync::Mutex<()>,
    pub(super) workers: Workers,
    pub(super) idempotency: Idempotency,
    pub(super) webhooks: Webhooks,
}

/// A task that was found.
#[derive(Debug, Clone)]
pub enum Task {
    /// It has not ended.
    Active(Arc<ActiveTask>),
    /// It has ended, and its record is as it will stay, or the drain has left it to the next process.
    Ended(Box<Record>),
}

impl Task {
    /// The record as it is now.
    #[must_use]
    pub fn into_record(self) -> Record {
        match self {
            Self::Active(task) => task.record(),
            Self::Ended(record) => *record,
        }
    }
}

impl Tasks {
    /// An empty table. [`Tasks::load`] fills it from the store.
    pub fn new(
        config: Arc<Config>,
        instance: Arc<Instance>,
        keys: Keys,
        sessions: Sessions,
        pool: Pool,
        store: Store,
        drain: Drain,
    ) -> Self {
        let webhooks = sessions.webhooks().clone();
        let inner = Components {
            table: TaskTable::default(),
            storage: TaskStorage::new(&config, Arc::clone(&instance), store, drain.clone()),
            sizes: Sizes::new(config.tasks.keep_size.bytes(), config.tasks.keep_size_per_key.bytes()),
            forgetting: tokio::sync::Mutex::default(),
            workers: Workers::new(Arc::clone(&config), keys.clone(), sessions, pool, drain.clone()),
            idempotency: Idempotency::new(instance),
            config,
            keys,
            drain,
            webhooks,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Finds a task of `owner`.
    /// Errors: `UnknownTask`, also when it is another key's; `OutcomeUnknown` while it is on its way into the store.
    pub async fn find(&self, id: TaskId, owner: &KeyId) -> Result<Task, Error> {
        let unknown = || Error::UnknownTask { id: id.to_string() };
        if let Some(task) = self.inner.table.active(id) {
            return match task.owner == *owner {
                true if task.is_stored() => Ok(Task::Active(task)),
                true => Err(task.outcome_unknown()),
                false => Err(unknown()),
            };
        }
        let record = self.inner.storage.record(id).await?.filter(|record| record.owner == *owner);
        record.map(|record| Task::Ended(Box::new(record))).ok_or_else(unknown)
    }

    /// The key that sent a task.
    /// Fails when the store cannot be read.
    pub async fn owner(&self, id: TaskId) -> Result<Option<KeyId>, Error> {
        if let Some(task) = self.inner.table.active(id) {
            return Ok(Some(task.owner.clone()));
        }
        Ok(self.inner.storage.record(id).await?.map(|record| record.owner))
    }

    /// Changes each time a task comes, changes its status, or is forgotten.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.table.changes()
    }

    /// Changes each time a task of this key does.
    pub fn changes_of(&self, owner: &KeyId) -> watch::Receiver<u64> {
        self.inner.table.changes_of(owner)
    }

    /// One page of the tasks of `owner`, or of all keys, and how many match in all.
    /// Fails when the store cannot be read.
    pub async fn list(&self, query: &TaskQuery, owner: Option<&KeyId>) -> Result<(Vec<Record>, u64), Error> {
        let page = self.inner.table.page(owner, query);
        let mut found = page.active;
        for record in self.inner.storage.records(&page.ended).await? {
            found.insert(record.task_id, record);
        }
        Ok((page.ids.iter().filter_map(|id| found.remove(id)).collect(), page.total))
    }

    /// Stops a task of `owner`, and waits until its end is written. Stopping one that has ended changes nothing; the answer
    /// says whether it had.
    /// Errors: `UnknownTask`; `TaskStopping` when the end takes longer than `tasks.cancel_timeout`; `Draining` when the task is left to
    /// the next process instead.
    pub async fn cancel(&self, id: TaskId, owner: &KeyId) -> Result<(Record, bool), Error> {
        match self.find(id, owner).await? {
            Task::Active(task) => {
                task.stop(StopReason::Cancelled);
                self.go_on(Arc::clone(&task));
                let limit = self.inner.config.tasks.cancel_timeout;
                match timeout(limit, task.ended()).await {
                    Ok(()) if task.status().is_end() => Ok((task.record(), false)),
                    Ok(()) => Err(ServiceError::Draining.into()),
                    Err(_) => Err(Error::TaskStopping { task: id.to_string(), waited: limit }),
                }
            }
            Task::Ended(record) if record.status.is_end() => Ok((*record, true)),
            Task::Ended(_) => Err(ServiceError::Draining.into()),
        }
    }

    /// Removes a task of `owner` that has ended, with its items and files. Returns its record as it was.
    /// Errors: `UnknownTask`; `Conflict` while it has not ended; `StoreBusy`, and then all of it may be there but its files.
    pub async fn forget(&self, id: TaskId, owner: &KeyId) -> Result<Record, Error> {
        let record = match self.find(id, owner).await? {
            Task::Ended(record) if record.status.is_end() => record,
            _ => return Err(Error::Conflict { message: "the task has not ended, so it stays: cancel it first" }),
        };
        let forgotten = self.forget_ended(record.owner, id).await?;
        forgotten.ok_or_else(|| Error::UnknownTask { id: id.to_string() })
    }

    /// Stops every task whose key was revoked.
    pub fn end_revoked(&self) {
        for task in self.inner.table.all_active() {
            task.stop_if_revoked(&self.inner.keys);
            if task.stopped().is_some() {
                self.go_on(task);
            }
        }
    }

    /// The whole output of a task or of one of its items.
    /// Fails when its file cannot be read.
    pub async fn output(&self, task: TaskId, output: &Output) -> Result<Vec<Value>, Error> {
        self.inner.storage.output(task, output).await
    }

    /// What a task was asked to do.
    /// Fails when the store cannot be read.
    pub async fn spec(&self, record: &Record) -> Result<TaskSpec, Error> {
        self.inner.storage.spec(record).await
    }

    /// A file that a task made, and where it lies. The names of those that a fleet's items made begin with the item's
    /// number.
    /// Errors: `UnknownArtifact`. Fails when the store cannot be read.
    pub async fn artifact(&self, record: &Record, name: &str) -> Result<(ArtifactRecord, PathBuf), Error> {
        let mut found = record.artifacts.iter().find(|artifact| artifact.name == name).cloned();
        let index = name.split_once('-').and_then(|(index, _)| index.parse::<u32>().ok());
        if let (None, Some(_), Some(index)) = (&found, &record.items, index) {
            let page = self.inner.storage.items(record.task_id, index.checked_sub(1)).await?;
            let item = page.into_iter().find(|item| item.index == index);
            found = item.and_then(|item| item.artifacts.into_iter().find(|artifact| artifact.name == name));
        }
        let place = |artifact: ArtifactRecord| {
            let path = self.inner.storage.artifact(record.task_id, &artifact)?;
            Some((artifact, path))
        };
        found.and_then(place).ok_or_else(|| Error::unknown_artifact(name))
    }

    /// How many tasks are queued, are running, and are in the history.
    pub fn counts(&self) -> (usize, usize, usize) {
        self.inner.table.counts()
    }
}
