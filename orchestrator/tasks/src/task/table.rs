//! The table of tasks: those that have not ended, and the index of all that there are.

use std::collections::{HashMap, HashSet};
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
use warmpool_core::changes::KeyChanges;
use warmpool_core::clock::unix_ms;
use warmpool_core::ids::{TaskId, TaskIds};
use warmpool_keys::KeyId;

/// A task is in `active` until its end is in the store, and in `history` from the beginning.
#[derive(Debug, Default)]
pub(super) struct TaskTable {
    tables: Mutex<Tables>,
    changes: KeyChanges,
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

impl TaskTable {
    /// Enters a new task, which nobody sees before the store has it.
    /// Errors: `TaskQueueFull` when `queue_length` tasks are queued, and of these the key has its share.
    pub(super) fn insert(
        &self,
        queue_length: usize,
        owner: &KeyId,
        record: impl FnOnce(TaskId) -> Record,
    ) -> Result<Arc<ActiveTask>, Error> {
        let mut tables = self.lock();
        tables.check_place(queue_length, owner)?;
        // TaskIds are made under the same lock, so that they enter the history in their order.
        let record = record(tables.ids.next(unix_ms()));
        tables.history.add(&record.owner, &record.index_row());
        let task = Arc::new(ActiveTask::unstored(record));
        tables.active.insert(task.id, Arc::clone(&task));
        drop(tables);
        self.changed(owner);
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
        self.changed(&record.owner);
    }

    /// Ends a task, once its end is in the store.
    pub(super) fn end(&self, record: &Record) {
        let mut tables = self.lock();
        tables.history.change(&record.owner, &record.index_row());
        tables.active.remove(&record.task_id);
        drop(tables);
        self.changed(&record.owner);
    }

    /// Removes a task that the next process continues.
    pub(super) fn release(&self, id: TaskId) {
        self.lock().active.remove(&id);
    }

    pub(super) fn page(&self, owner: Option<&KeyId>, query: &TaskQuery) -> Page {
        let tables = self.lock();
        let (ids, total) = tables.history.page(owner, query);
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

    /// Forgets tasks that the store has no more.
    pub(super) fn forget(&self, tasks: &[(KeyId, IndexRow)]) {
        if tasks.is_empty() {
            return;
        }
        let mut tables = self.lock();
        tasks.iter().for_each(|(owner, row)| tables.history.withdraw(owner, row));
        drop(tables);
        let owners: HashSet<&KeyId> = tasks.iter().map(|(owner, _)| owner).collect();
        owners.into_iter().for_each(|owner| self.changed(owner));
    }

    /// Changes each time the table does.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.of_all()
    }

    /// Changes each time the table does for this key.
    pub(super) fn changes_of(&self, owner: &KeyId) -> watch::Receiver<u64> {
        self.changes.of_key(owner)
    }

    /// Announces a change of a key's tasks to the followers of lists.
    pub(super) fn changed(&self, owner: &KeyId) {
        self.changes.tell(owner);
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }
}

impl Tables {
    fn queued(&self) -> usize {
        self.all_queued().count()
    }

    fn all_queued(&self) -> impl Iterator<Item = &ActiveTask> {
        self.active.values().map(|task| &**task).filter(|task| task.status() == Status::Queued)
    }

    /// Checks that one more task of a key may be queued. A full queue still takes tasks of a key that has less than its share of it,
    /// which is the same for each key that has any: so nobody is kept out by what others have in it, and nothing that was accepted is
    /// thrown out of it. Of all keys, the one with the most has `length` at most, the next one half of that, the third one a third,
    /// and so on.
    fn check_place(&self, length: usize, owner: &KeyId) -> Result<(), Error> {
        let mut queued = HashMap::from([(owner, 0)]);
        self.all_queued().for_each(|task| *queued.entry(&task.owner).or_default() += 1);
        let (waiting, own): (usize, usize) = (queued.values().sum(), queued[owner]);
        if waiting < length || own < length.div_ceil(queued.len()) {
            return Ok(());
        }
        Err(Error::TaskQueueFull { waiting, own })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::accept::new_record;
    use super::*;

    fn key(number: usize) -> KeyId {
        format!("{number:012}").parse().unwrap()
    }

    proptest! {
        /// Who has less than its share always has a place, and the queue has an end for all keys together.
        #[test]
        fn a_full_queue_refuses_nobody_a_share(
            length in 1..12usize,
            moves in proptest::collection::vec((0..4usize, any::<bool>()), 0..120),
        ) {
            let spec = serde_json::from_value(json!({
                "kind": "run", "work_kind": "run", "work": {"steps": []}, "engine": "chromium", "mode": "headless",
                "launch": {"url": null}, "timeout_ms": 1000,
            }))
            .unwrap();
            let table = TaskTable::default();
            let mut queued = [0; 4];
            for (of, comes) in moves {
                let owner = key(of);
                if !comes {
                    let first = table.all_active().into_iter().find(|task| task.owner == owner);
                    first.into_iter().for_each(|task| {
                        table.withdraw(&task);
                        queued[of] -= 1;
                    });
                    continue;
                }
                let keys = (0..4).filter(|other| *other == of || queued[*other] > 0).count();
                match table.insert(length, &owner, |id| new_record(id, owner.clone(), &spec)) {
                    Ok(_) => queued[of] += 1,
                    Err(Error::TaskQueueFull { waiting, own }) => {
                        prop_assert!(waiting >= length && own * keys >= length, "{own} of {keys} keys, {waiting} in all");
                    }
                    Err(error) => panic!("{error}"),
                }
                let mut most = queued;
                most.sort_unstable_by(|one, other| other.cmp(one));
                prop_assert!(most.into_iter().zip(1..).all(|(own, rank)| own <= length.div_ceil(rank)), "{queued:?}");
            }
        }
    }
}
