//! The index of the history: which tasks match a query, in which order, and how many.
//!
//! It is in memory, and built at the start from one small row for each task. A list (`list`) has the tasks of one key, or of all keys, in
//! blocks of rows, in the order in which they were accepted; since ids have that order too, a time range is a range of
//! rows. Each block counts its tasks by type and status (`categories`), so a query by time, id, type or status adds up
//! counts and looks only at the rows of blocks that the page begins, ends or lies in. Each full block, and each group of full blocks, also has its rows
//! sorted by duration (`sorted`), so a query by duration is a page out of a few dozen sorted lists. The tasks of each end
//! user are lists of their own. A query by labels looks at each row of its time range.

mod categories;
mod list;
mod sorted;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::index_row::{EndUser, IndexRow};
use super::query::TaskQuery;
use categories::Category;
use list::TaskList;
use warmpool_core::ids::TaskId;
use warmpool_keys::KeyId;

/// The index over the tasks of all keys.
#[derive(Debug, Default)]
pub(super) struct History {
    everyone: Lists,
    keys: HashMap<KeyId, Lists>,
}

/// The tasks of one key, or of all keys.
#[derive(Debug, Default)]
struct Lists {
    all: TaskList,
    users: HashMap<EndUser, TaskList>,
}

impl Lists {
    fn add(&mut self, task: &IndexRow) {
        self.all.push(task);
        if let Some(user) = task.user {
            self.users.entry(user).or_default().push(task);
        }
    }

    /// Changes a task wherever it is listed.
    fn set(&mut self, task: &IndexRow, category: Category, duration: u32) {
        if let Some(list) = task.user.and_then(|user| self.users.get_mut(&user)) {
            list.set(task.id, category, duration);
        }
        self.all.set(task.id, category, duration);
    }

    /// Takes a task out wherever it is listed.
    fn withdraw(&mut self, task: &IndexRow) {
        if let Some(user) = task.user
            && let Some(list) = self.users.get_mut(&user)
        {
            list.withdraw(task.id);
            if list.is_empty() {
                self.users.remove(&user);
            }
        }
        self.all.withdraw(task.id);
    }

    /// One page of those that match, and how many match in all.
    fn page(&self, query: &TaskQuery) -> (Vec<TaskId>, u64) {
        let list = match &query.service_passcode {
            None => Some(&self.all),
            Some(passcode) => self.users.get(&EndUser::from_passcode(passcode)),
        };
        list.map_or((Vec::new(), 0), |list| list.page(query))
    }
}

impl History {
    /// Adds a task. Its id is larger than those of all tasks before it.
    pub(super) fn add(&mut self, owner: &KeyId, task: &IndexRow) {
        self.everyone.add(task);
        self.keys.entry(owner.clone()).or_default().add(task);
    }

    /// Enters a task's new status and duration.
    pub(super) fn change(&mut self, owner: &KeyId, task: &IndexRow) {
        let category = Category::new(task.kind, task.status);
        self.everyone.set(task, category, task.duration);
        if let Some(key) = self.keys.get_mut(owner) {
            key.set(task, category, task.duration);
        }
    }

    /// Takes one task out, if it is there.
    pub(super) fn withdraw(&mut self, owner: &KeyId, task: &IndexRow) {
        self.everyone.withdraw(task);
        let Some(key) = self.keys.get_mut(owner) else { return };
        key.withdraw(task);
        if key.all.is_empty() {
            self.keys.remove(owner);
        }
    }

    /// How many tasks there are, of all keys.
    pub(super) const fn len(&self) -> usize {
        self.everyone.all.len()
    }

    /// One page of the tasks of `owner`, or of all keys, that match, and how many match in all.
    pub(super) fn page(&self, owner: Option<&KeyId>, query: &TaskQuery) -> (Vec<TaskId>, u64) {
        let lists = match owner {
            Some(owner) => self.keys.get(owner),
            None => Some(&self.everyone),
        };
        lists.map_or((Vec::new(), 0), |lists| lists.page(query))
    }
}
