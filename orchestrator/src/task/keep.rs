//! Tasks in the store: records, the small rows of the index, orders in parts, items, secrets.

use serde_json::{Map, Value};

use super::history::{EndUser, Entry};
use super::id::TaskId;
use super::order::Order;
use super::record::{Item, Kind, Record, Status};
use super::seal;
use crate::error::Error;
use crate::instance::Instance;
use crate::keys::KeyId;
use crate::store::{Batch, Direction, Durability, KeyRange, MAX_BATCH_OPS, Store, Table};

/// Bytes of an order in one value of the store.
const PART: usize = 60 << 10;
/// Rows read from the store at a time.
const PAGE: usize = 4096;
/// Items of a fleet read at a time: each may be as large as a value can be.
pub(super) const ITEM_PAGE: usize = 100;

/// Tasks as the store has them.
#[derive(Clone)]
pub(super) struct Keep {
    pub(super) store: Store,
}

/// An idempotency key's place in the store.
pub(super) fn idempotency_key(instance: &Instance, owner: &KeyId, sent: &str) -> Vec<u8> {
    let mut key = owner.as_str().as_bytes().to_vec();
    key.extend_from_slice(&instance.fingerprint(&["idempotency key", owner.as_str(), sent]));
    key
}

fn part_key(task: TaskId, part: u16) -> Vec<u8> {
    [&task.store_key()[..], &part.to_be_bytes()].concat()
}

fn item_key(task: TaskId, index: u32) -> Vec<u8> {
    [&task.store_key()[..], &index.to_be_bytes()].concat()
}

/// A record and its small row.
pub(super) fn put_record(batch: &mut Batch, record: &Record) -> Result<(), Error> {
    batch.put_json(Table::Tasks, record.task_id.store_key(), record)?;
    batch.put(Table::TaskIndex, record.task_id.store_key(), index_row(&record.owner, &record.entry()));
    if record.status.is_end() {
        batch.delete(Table::TaskSecrets, record.task_id.store_key());
        // A nearly full disk stops new tasks; the ends of old ones are still recorded.
        batch.essential();
    }
    Ok(())
}

pub(super) fn put_item(batch: &mut Batch, task: TaskId, item: &Item) -> Result<(), Error> {
    batch.put_json(Table::TaskItems, item_key(task, item.index), item)?;
    Ok(())
}

/// Owner, type, status, duration, and the end user where there is one.
fn index_row(owner: &KeyId, entry: &Entry) -> Vec<u8> {
    let mut row = owner.as_str().as_bytes().to_vec();
    row.extend_from_slice(&[entry.kind as u8, entry.status as u8]);
    row.extend_from_slice(&entry.length.to_be_bytes());
    row.extend(entry.user.iter().flat_map(|user| user.0));
    row
}

fn read_index_row(key: &[u8], row: &[u8]) -> Option<(KeyId, Entry)> {
    let (owner, rest) = row.split_at_checked(12)?;
    let (head, user) = rest.split_at_checked(6)?;
    let entry = Entry {
        id: TaskId::from_store_key(key)?,
        kind: *Kind::ALL.get(usize::from(head[0]))?,
        status: *Status::ALL.get(usize::from(head[1]))?,
        length: u32::from_be_bytes(head[2..].try_into().ok()?),
        user: if user.is_empty() { None } else { Some(EndUser(user.try_into().ok()?)) },
    };
    Some((std::str::from_utf8(owner).ok()?.parse().ok()?, entry))
}

impl Keep {
    pub(super) async fn commit(&self, batch: Batch, durability: Durability) -> Result<(), Error> {
        Ok(self.store.commit(batch, durability).await?)
    }

    pub(super) async fn record(&self, task: TaskId) -> Result<Option<Record>, Error> {
        let value = self.store.get(Table::Tasks, &task.store_key()).await?;
        value.map(|value| serde_json::from_slice(&value).map_err(Error::internal)).transpose()
    }

    /// The records of some tasks, in their order; those that are gone are left out.
    pub(super) async fn records(&self, tasks: &[TaskId]) -> Result<Vec<Record>, Error> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let keys = tasks.iter().map(|task| task.store_key().to_vec()).collect();
        let values = self.store.get_many(Table::Tasks, keys).await?;
        values.into_iter().flatten().map(|value| serde_json::from_slice(&value).map_err(Error::internal)).collect()
    }

    /// Every row of the index, oldest first, in pages.
    pub(super) async fn index(&self, mut each: impl FnMut(KeyId, Entry)) -> Result<(), Error> {
        let mut range = KeyRange::all();
        loop {
            let rows = self.store.scan(Table::TaskIndex, range, PAGE, Direction::Ascending).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            range = KeyRange::all().after(&last.key);
            for row in &rows {
                match read_index_row(&row.key, &row.value) {
                    Some((owner, entry)) => each(owner, entry),
                    None => tracing::error!("a row of the tasks' index cannot be read; it is left out"),
                }
            }
        }
    }

    /// The oldest rows of the index.
    pub(super) async fn oldest(&self, limit: usize) -> Result<Vec<(KeyId, Entry)>, Error> {
        let rows = self.store.scan(Table::TaskIndex, KeyRange::all(), limit, Direction::Ascending).await?;
        Ok(rows.iter().filter_map(|row| read_index_row(&row.key, &row.value)).collect())
    }

    /// Adds an order to a batch; answers its number of parts.
    pub(super) fn put_order(batch: &mut Batch, task: TaskId, order: &Order) -> Result<u16, Error> {
        let bytes = serde_json::to_vec(order).map_err(Error::internal)?;
        let mut parts = 0;
        for part in bytes.chunks(PART) {
            batch.put(Table::TaskBodies, part_key(task, parts), part);
            parts += 1;
        }
        Ok(parts)
    }

    pub(super) async fn order(&self, task: TaskId, parts: u16) -> Result<Order, Error> {
        let keys = (0..parts).map(|part| part_key(task, part)).collect();
        let values = self.store.get_many(Table::TaskBodies, keys).await?;
        let bytes = values.into_iter().flatten().collect::<Vec<_>>().concat();
        serde_json::from_slice(&bytes).map_err(Error::internal)
    }

    pub(super) async fn secrets(&self, instance: &Instance, task: TaskId) -> Result<Map<String, Value>, Error> {
        match self.store.get(Table::TaskSecrets, &task.store_key()).await? {
            Some(sealed) => seal::open(instance, task, &sealed),
            None => Ok(Map::new()),
        }
    }

    /// Items of a fleet from the one after `after` on.
    pub(super) async fn items(&self, task: TaskId, after: Option<u32>, limit: usize) -> Result<Vec<Item>, Error> {
        let range = KeyRange::prefix(&task.store_key());
        let range = match after {
            Some(after) => range.after(&item_key(task, after)),
            None => range,
        };
        let rows = self.store.scan(Table::TaskItems, range, limit, Direction::Ascending).await?;
        Ok(rows.iter().map(|row| row.json(Table::TaskItems)).collect::<Result<_, _>>()?)
    }

    /// Removes everything that the store has of a task.
    pub(super) async fn forget(&self, record: &Record) -> Result<(), Error> {
        let task = record.task_id;
        let mut after: Option<Vec<u8>> = None;
        if record.items.is_some() {
            loop {
                let range = KeyRange::prefix(&task.store_key());
                let range = after.take().map_or(range.clone(), |after| range.after(&after));
                let rows = self.store.scan(Table::TaskItems, range, ITEM_PAGE, Direction::Ascending).await?;
                let Some(last) = rows.last() else { break };
                after = Some(last.key.clone());
                let mut batch = Batch::new();
                for row in rows {
                    batch.delete(Table::TaskItems, row.key);
                }
                self.commit(batch, Durability::Process).await?;
            }
        }
        let mut batch = Batch::new();
        Self::delete(&mut batch, record);
        self.commit(batch, Durability::Process).await
    }

    /// The changes that remove a task without items.
    pub(super) fn delete(batch: &mut Batch, record: &Record) {
        let key = record.task_id.store_key();
        batch.delete(Table::Tasks, key).delete(Table::TaskIndex, key).delete(Table::TaskSecrets, key);
        for part in 0..record.body_parts {
            batch.delete(Table::TaskBodies, part_key(record.task_id, part));
        }
        if let Some(key) = record.idempotency.as_deref().and_then(|key| hex::decode(key).ok()) {
            batch.delete(Table::TaskKeys, key);
        }
        // What frees space may use the reserve.
        batch.essential();
    }

    /// Whether so many more changes fit into a batch.
    pub(super) fn fits(batch: &Batch, more: usize) -> bool {
        batch.len() + more <= MAX_BATCH_OPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::id::Ids;

    #[test]
    fn an_index_row_is_read_as_it_was_written() {
        let owner: KeyId = "0123456789ab".parse().unwrap();
        for user in [None, Some(EndUser::of("ann"))] {
            let id = Ids::default().next(9);
            let entry = Entry { id, kind: Kind::Fleet, status: Status::Failure, length: 77, user };
            let row = index_row(&owner, &entry);
            assert_eq!(read_index_row(&id.store_key(), &row), Some((owner.clone(), entry)));
            assert_eq!(read_index_row(&id.store_key(), &row[..row.len() - 1]), None);
        }
    }
}
