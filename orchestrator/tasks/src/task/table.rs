//! The table of tasks: those that have not ended, and the index of all that there are.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::active::ActiveTask;
use super::history::History;
use super::index_row::IndexRow;
use super::query::TaskQuery;
use super::record::Record;
use crate::Error;
use warmpool_api::task::Status;
use warmpool_core::clock::unix_ms;
use warmpool_core::ids::{TaskId, TaskIds};
use warmpool_keys::KeyId;

/// A task is in `active` until its end is in the store, and in `history` from the beginning.
#[derive(Debug, Default)]
pub(super) struct TaskTable {
    tables: Mutex<Tables>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Tables {
    ids: TaskIds,
    active: HashMap<TaskId, Arc<ActiveTask>>,
    history: History,
}

/// One page of a list: the ids in their order, and the records of those that have not ended.
pub(super) struct Page {
    pub(super) ids: Vec<TaskId>,
    pub(super) total: u64,
    pub(super) active: HashMap<TaskId, Record>,
    /// Those whose records are in the store.
    pub(super) ended: Vec<TaskId>,
}

/// A task that the store has no more.
pub(super) struct Forgotten<'a> {
    pub(super) owner: &'a KeyId,
    pub(super) row: &'a IndexRow,
    /// Whether no older one of its key is left.
    pub(super) is_oldest: bool,
}

impl TaskTable {
    /// Enters a new task, which nobody sees before the store has it.
    /// Errors: `TaskQueueFull` when `queue_length` tasks are queued.
    pub(super) fn insert(
        &self,
        queue_length: usize,
        record: impl FnOnce(TaskId) -> Record,
    ) -> Result<Arc<ActiveTask>, Error> {
        let mut tables = self.lock();
        if tables.queued() >= queue_length {
            return Err(Error::TaskQueueFull { length: queue_length });
        }
        // TaskIds are made under the same lock, so that they enter the history in their order.
        let record = record(tables.ids.next(unix_ms()));
        tables.history.add(&record.owner, &record.index_row());
        let task = Arc::new(ActiveTask::unstored(record));
        tables.active.insert(task.id, Arc::clone(&task));
        drop(tables);
        self.changed();
        Ok(task)
    }

    /// Takes back a task that the store has not taken.
    pub(super) fn withdraw(&self, task: &ActiveTask) {
        let mut tables = self.lock();
        tables.history.withdraw(&task.owner, &task.record().index_row());
        tables.active.remove(&task.id);
    }

    /// Builds the index at the start, from rows in the order of their ids.
    pub(super) fn load(&self, rows: &[(KeyId, IndexRow)]) {
        let mut tables = self.lock();
        rows.iter().for_each(|(owner, row)| tables.history.add(owner, row));
        rows.last().into_iter().for_each(|(_, last)| tables.ids.past(last.id));
    }

    /// Enters a task of an earlier process that has not ended.
    pub(super) fn restore(&self, record: Record) {
        self.lock().active.insert(record.task_id, Arc::new(ActiveTask::restored(record)));
    }

    pub(super) fn active(&self, id: TaskId) -> Option<Arc<ActiveTask>> {
        self.lock().active.get(&id).cloned()
    }

    /// Every task that has not ended, oldest first.
    pub(super) fn all_active(&self) -> Vec<Arc<ActiveTask>> {
        let mut tasks: Vec<Arc<ActiveTask>> = self.lock().active.values().cloned().collect();
        tasks.sort_unstable_by_key(|task| task.id);
        tasks
    }

    /// Enters a task's new status into the index.
    pub(super) fn update(&self, record: &Record) {
        self.lock().history.change(&record.owner, &record.index_row());
        self.changed();
    }

    /// Ends a task, once its end is in the store.
    pub(super) fn end(&self, record: &Record) {
        let mut tables = self.lock();
        tables.history.change(&record.owner, &record.index_row());
        tables.active.remove(&record.task_id);
        drop(tables);
        self.changed();
    }

    /// Removes a task that the next process continues.
    pub(super) fn release(&self, id: TaskId) {
        self.lock().active.remove(&id);
    }

    pub(super) fn page(&self, owner: Option<&KeyId>, query: &TaskQuery) -> Page {
        let tables = self.lock();
        let (ids, total) = match owner {
            Some(owner) => tables.history.page(owner, query),
            None => tables.history.page_of_all(query),
        };
        let (mut active, mut ended) = (HashMap::new(), Vec::new());
        for id in &ids {
            match tables.active.get(id) {
                Some(task) if task.is_stored() => drop(active.insert(*id, task.record())),
                // Nobody knows yet whether this task exists.
                Some(_) => {}
                None => ended.push(*id),
            }
        }
        Page { ids, total, active, ended }
    }

    /// How many tasks are queued, are running, and are in the history.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let tables = self.lock();
        let queued = tables.queued();
        (queued, tables.active.len() - queued, tables.history.len())
    }

    /// Forgets tasks, given in the order of their ids.
    pub(super) fn forget(&self, tasks: &[Forgotten<'_>]) {
        let mut tables = self.lock();
        let mut oldest = HashMap::new();
        for task in tasks {
            tables.history.withdraw(task.owner, task.row);
            if task.is_oldest {
                oldest.insert(task.owner, task.row.id);
            }
        }
        oldest.into_iter().for_each(|(owner, id)| tables.history.forget_through(owner, id));
    }

    /// Changes each time the table does.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Announces a change to the followers of lists.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }
}

impl Tables {
    fn queued(&self) -> usize {
        self.active.values().filter(|task| task.status() == Status::Queued).count()
    }
}
