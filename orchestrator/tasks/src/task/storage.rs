//! Tasks on the disk: their records and index rows, what they are to do, their items, their secrets and their files.

mod files;
mod secrets;
mod wait;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::idempotency::{IdempotencyKey, KnownKey};
use super::index_row::IndexRow;
use super::record::{ArtifactRecord, Item, Output, Record};
use super::secrets::{MAX_STORED, TaskSecrets};
use super::sizes::SizeRow;
use super::spec::TaskSpec;
use crate::Error;
pub use files::FOLDER;
use files::Files;
pub(super) use files::NewFile;
use warmpool_config::Config;
use warmpool_core::blocking;
use warmpool_core::drain::Drain;
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::TaskId;
use warmpool_core::instance::Instance;
use warmpool_keys::KeyId;
use warmpool_store::{Batch, Commit, Durability, KeyRange, MAX_BATCH_OPS, MAX_VALUE_BYTES, Store, Table};

/// Bytes of a specification, or of encrypted secrets, in one value of the store.
const PART: usize = 60 << 10;
/// In how many parts secrets are at most.
const SECRET_PARTS: usize = MAX_STORED.div_ceil(PART);
/// Items of a fleet read at a time: each may be as large as a value can be.
const ITEM_PAGE: usize = 100;
/// The same for readers who hold what is read.
const FEW_ITEMS: usize = 8;

pub(super) struct TaskStorage {
    instance: Arc<Instance>,
    store: Store,
    files: Files,
    drain: Drain,
    /// No file is written that would leave less space than this, in bytes.
    min_free: u64,
}

/// What the store is to take of a task when it is accepted.
pub(super) struct NewTask {
    pub(super) record: Record,
    /// The specification as JSON.
    pub(super) body: Vec<u8>,
    pub(super) secrets: TaskSecrets,
    pub(super) idempotency: Option<IdempotencyKey>,
}

fn part_key(task: TaskId, part: u16) -> Vec<u8> {
    [&task.store_key()[..], &part.to_be_bytes()].concat()
}

/// Under which keys a task's secrets are, part after part. The first one is that of earlier releases, which had no parts.
fn secret_keys(task: TaskId) -> impl Iterator<Item = Vec<u8>> {
    let others = (1..).take(SECRET_PARTS - 1).map(move |part| part_key(task, part));
    std::iter::once(task.store_key().to_vec()).chain(others)
}

fn delete_secrets(batch: &mut Batch, task: TaskId) {
    for key in secret_keys(task) {
        batch.delete(Table::TaskSecrets, key);
    }
}

fn item_key(task: TaskId, index: u32) -> Vec<u8> {
    [&task.store_key()[..], &index.to_be_bytes()].concat()
}

/// Adds a record and its index row to a batch.
pub(super) fn put_record(batch: &mut Batch, record: &Record) -> Result<(), Error> {
    batch.put(Table::Tasks, record.task_id.store_key(), fitted(record)?);
    batch.put(Table::TaskIndex, record.task_id.store_key(), record.index_row().encode(&record.owner));
    if record.kept_bytes > 0 {
        put_size(batch, &record.owner, record.task_id, record.kept_bytes);
    }
    if record.status.is_end() {
        delete_secrets(batch, record.task_id);
        // A nearly full disk stops new tasks; the ends of old ones are still recorded.
        batch.essential();
    }
    Ok(())
}

/// A record as text, shortened where it would be larger than the store takes.
fn fitted(record: &Record) -> Result<Vec<u8>, Error> {
    let mut text = serde_json::to_vec(record).map_err(Error::internal)?;
    if text.len() > MAX_VALUE_BYTES {
        let mut shorter = record.clone();
        shorter.shorten();
        text = serde_json::to_vec(&shorter).map_err(Error::internal)?;
    }
    Ok(text)
}

/// Where the items are that come after one.
fn item_range(task: TaskId, after: Option<u32>) -> KeyRange {
    let range = KeyRange::prefix(&task.store_key());
    match after {
        Some(after) => range.after(&item_key(task, after)),
        None => range,
    }
}

fn put_size(batch: &mut Batch, owner: &KeyId, task: TaskId, bytes: u64) {
    batch.put(Table::TaskSizes, task.store_key(), SizeRow::encode(owner, bytes));
}

/// Adds an item to a batch. Returns its size, in bytes.
pub(super) fn put_item(batch: &mut Batch, task: TaskId, item: &Item) -> Result<u64, Error> {
    let text = serde_json::to_vec(item).map_err(Error::internal)?;
    let bytes = text.len() as u64;
    batch.put(Table::TaskItems, item_key(task, item.index), text);
    Ok(bytes)
}

/// The changes that remove a task without items.
fn delete(batch: &mut Batch, record: &Record) {
    let key = record.task_id.store_key();
    batch.delete(Table::Tasks, key).delete(Table::TaskIndex, key).delete(Table::TaskSizes, key);
    delete_secrets(batch, record.task_id);
    for part in 0..record.body_parts {
        batch.delete(Table::TaskBodies, part_key(record.task_id, part));
    }
    if let Some(key) = record.idempotency.as_deref().and_then(|text| hex::decode(text).ok()) {
        batch.delete(Table::TaskKeys, key);
    }
    // What frees space may use the reserve.
    batch.essential();
}

impl TaskStorage {
    pub(super) fn new(config: &Config, instance: Arc<Instance>, store: Store, drain: Drain) -> Self {
        let files = Files::new(&config.store.data_dir);
        Self { instance, store, files, drain, min_free: config.store.min_free.bytes() }
    }

    pub(super) async fn commit(&self, batch: Batch, durability: Durability) -> Result<(), Error> {
        Ok(self.store.commit(batch, durability).await?)
    }

    /// Whether the data went back to an older state, so that tasks may have run of which it does not know.
    pub(super) async fn went_back(&self) -> Result<bool, Error> {
        Ok(self.store.went_back().await?)
    }

    /// Begins to write a new task: its specification in parts, its record, its encrypted secrets, all at once.
    pub(super) async fn insert(&self, task: NewTask) -> Result<Commit, Error> {
        let NewTask { record, body, secrets, idempotency } = task;
        let id = record.task_id;
        let mut batch = Batch::new();
        for (bytes, part) in body.chunks(PART).zip(0..) {
            batch.put(Table::TaskBodies, part_key(id, part), bytes);
        }
        put_record(&mut batch, &record)?;
        if !secrets.is_empty() {
            let encrypted = secrets::encrypt(&self.instance, id, &secrets)?;
            if encrypted.len() > MAX_STORED {
                return Err(Error::internal("secrets are larger than they were when they were checked"));
            }
            for (part, key) in encrypted.chunks(PART).zip(secret_keys(id)) {
                batch.put(Table::TaskSecrets, key, part);
            }
        }
        if let Some(IdempotencyKey { row, fingerprint }) = idempotency {
            batch.put_json(Table::TaskKeys, row, &KnownKey { task: id, fingerprint })?;
        }
        Ok(self.store.begin(batch, Durability::Power).await?)
    }

    /// What an idempotency key led to.
    pub(super) async fn earlier(&self, key: &IdempotencyKey) -> Result<Option<KnownKey>, Error> {
        let value = self.store.get(Table::TaskKeys, &key.row).await?;
        value.map(|value| serde_json::from_slice(&value).map_err(Error::internal)).transpose()
    }

    pub(super) async fn record(&self, task: TaskId) -> Result<Option<Record>, Error> {
        Ok(self.records(&[task]).await?.pop())
    }

    /// The records of some tasks, in their order. Those that were forgotten are left out.
    pub(super) async fn records(&self, tasks: &[TaskId]) -> Result<Vec<Record>, Error> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let keys = tasks.iter().map(|task| task.store_key().to_vec()).collect();
        let values = self.store.get_many(Table::Tasks, keys).await?;
        values.into_iter().flatten().map(|value| serde_json::from_slice(&value).map_err(Error::internal)).collect()
    }

    /// Every row of the index, oldest first.
    pub(super) async fn index(&self) -> Result<Vec<(KeyId, IndexRow)>, Error> {
        let (mut found, mut pages) = (Vec::new(), self.store.pages(Table::TaskIndex));
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                match IndexRow::decode(&row.key, &row.value) {
                    Some(row) => found.push(row),
                    None => tracing::error!("a row of the tasks' index cannot be read; it is left out"),
                }
            }
        }
        Ok(found)
    }

    /// The sizes of all tasks that keep more than a small record.
    pub(super) async fn sizes(&self) -> Result<Vec<SizeRow>, Error> {
        let (mut found, mut pages) = (Vec::new(), self.store.pages(Table::TaskSizes));
        while let Some(rows) = pages.next().await? {
            found.extend(rows.iter().filter_map(|row| SizeRow::decode(&row.key, &row.value)));
        }
        Ok(found)
    }

    /// Writes the size of a task that an earlier release has ended.
    pub(super) async fn put_size(&self, row: &SizeRow) -> Result<(), Error> {
        let mut batch = Batch::new();
        put_size(&mut batch, &row.owner, row.id, row.bytes);
        self.commit(batch, Durability::Process).await
    }

    /// How much of the disk the files of a task take, in bytes.
    pub(super) async fn measure_files(&self, task: TaskId) -> Result<u64, Error> {
        self.files.on_disk(task).await
    }

    /// The tasks that have files, also those that are gone.
    pub(super) async fn with_files(&self) -> Result<Vec<TaskId>, Error> {
        self.files.tasks().await
    }

    /// Removes the files of a task that is gone, as a crash in the middle of forgetting leaves them.
    pub(super) async fn remove_files(&self, task: TaskId) -> Result<(), Error> {
        self.files.remove(task).await
    }

    /// Whether a task has this file.
    pub(super) async fn has_file(&self, task: TaskId, file: &NewFile) -> Result<bool, Error> {
        self.files.has(task, file).await
    }

    /// The oldest tasks, or those after one, at most `limit`.
    pub(super) async fn oldest(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<(KeyId, IndexRow)>, Error> {
        let range = match after {
            Some(task) => KeyRange::all().after(&task.store_key()),
            None => KeyRange::all(),
        };
        let rows = self.store.scan(Table::TaskIndex, range, limit).await?;
        Ok(rows.iter().filter_map(|row| IndexRow::decode(&row.key, &row.value)).collect())
    }

    /// What a task is to do.
    pub(super) async fn spec(&self, record: &Record) -> Result<TaskSpec, Error> {
        let keys = (0..record.body_parts).map(|part| part_key(record.task_id, part)).collect();
        let values = self.store.get_many(Table::TaskBodies, keys).await?;
        // The order of a fleet may be megabytes.
        blocking::in_place(|| {
            let bytes = values.into_iter().flatten().collect::<Vec<_>>().concat();
            serde_json::from_slice(&bytes).map_err(Error::internal)
        })
    }

    pub(super) async fn secrets(&self, task: TaskId) -> Result<TaskSecrets, Error> {
        let parts = self.store.get_many(Table::TaskSecrets, secret_keys(task).collect()).await?;
        let encrypted = parts.into_iter().flatten().collect::<Vec<_>>().concat();
        if encrypted.is_empty() {
            return Ok(TaskSecrets::default());
        }
        secrets::decrypt(&self.instance, task, &encrypted)
    }

    /// Items of a fleet from the one after `after` on, at most a hundred.
    pub(super) async fn items(&self, task: TaskId, after: Option<u32>) -> Result<Vec<Item>, Error> {
        let rows = self.store.scan(Table::TaskItems, item_range(task, after), ITEM_PAGE).await?;
        Ok(rows.iter().map(|row| row.json(Table::TaskItems)).collect::<Result<_, _>>()?)
    }

    /// A few of the same as JSON text: as many as have `most` bytes together, and one at least if there is one.
    pub(super) async fn item_texts(
        &self,
        task: TaskId,
        after: Option<u32>,
        most: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let rows = self.store.scan(Table::TaskItems, item_range(task, after), FEW_ITEMS).await?;
        let mut texts: Vec<Vec<u8>> = rows.into_iter().map(|row| row.value).collect();
        let mut bytes = 0;
        let fitting = texts.iter().take_while(|text| {
            bytes += text.len();
            bytes <= most
        });
        let count = fitting.count().max(1);
        texts.truncate(count);
        Ok(texts)
    }

    /// The whole output of a task or of an item.
    pub(super) async fn output(&self, task: TaskId, output: &Output) -> Result<Vec<Value>, Error> {
        match output {
            Output::Inline(rows) => Ok(rows.clone()),
            Output::File { hash, .. } => {
                let bytes = self.files.get(task, hash).await?;
                serde_json::from_slice(&bytes).map_err(Error::internal)
            }
        }
    }

    /// The same as JSON text.
    pub(super) async fn output_text(&self, task: TaskId, output: &Output) -> Result<Vec<u8>, Error> {
        match output {
            Output::Inline(rows) => serde_json::to_vec(rows).map_err(Error::internal),
            Output::File { hash, .. } => self.files.get(task, hash).await,
        }
    }

    pub(super) fn artifact(&self, task: TaskId, artifact: &ArtifactRecord) -> Option<PathBuf> {
        self.files.path(task, &artifact.hash)
    }

    /// Removes everything there is of some tasks.
    pub(super) async fn forget(&self, tasks: &[TaskId]) -> Result<(), Error> {
        let mut batch = Batch::new();
        for record in self.records(tasks).await? {
            let has_files = !record.artifacts.is_empty() || matches!(record.output, Output::File { .. });
            if has_files || record.kept_bytes > 0 || record.items.is_some() {
                // Files first: a record without its files says so, but files without a record would stay for ever.
                self.files.remove(record.task_id).await?;
            }
            if record.items.is_some() {
                self.forget_items(record.task_id).await?;
            }
            if batch.len() + usize::from(record.body_parts) + SECRET_PARTS + 4 > MAX_BATCH_OPS {
                self.commit(std::mem::take(&mut batch), Durability::Process).await?;
            }
            delete(&mut batch, &record);
        }
        self.commit(batch, Durability::Process).await
    }

    async fn forget_items(&self, task: TaskId) -> Result<(), Error> {
        loop {
            let range = KeyRange::prefix(&task.store_key());
            let rows = self.store.scan(Table::TaskItems, range, ITEM_PAGE).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::new();
            for row in rows {
                batch.delete(Table::TaskItems, row.key);
            }
            batch.essential();
            self.commit(batch, Durability::Process).await?;
        }
    }
}

/// In how many parts the store has a body of `length` bytes.
pub(super) const fn body_parts(length: usize) -> usize {
    length.div_ceil(PART)
}

/// How much a body of `length` bytes is beyond what every task may have, in bytes.
pub(super) const fn large_body(length: usize) -> u64 {
    if body_parts(length) > 1 { length as u64 } else { 0 }
}
