//! What goes into the store and comes out of it: tables, batches, ranges, rows.

use std::fmt;
use std::ops::Bound;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use warmpool_core::clock::Deadline;

/// The most bytes one value may have. sled keeps larger ones in files it never deletes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The most bytes one key may have.
pub(crate) const MAX_KEY_BYTES: usize = 512;

/// The most changes one batch may have.
pub const MAX_BATCH_OPS: usize = 4096;

/// Defines the tables, each with its name on disk and in backups.
macro_rules! tables {
    ($( $(#[doc = $doc:literal])+ $Table:ident = $name:literal, )+) => {
        /// A named, ordered map from keys to values. A new table is one line here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Table { $( $(#[doc = $doc])+ $Table, )+ }

        impl Table {
            /// Every table.
            pub const ALL: [Self; [$( $name ),+].len()] = [ $( Self::$Table, )+ ];

            /// The table's name on disk and in backups. It must never change.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$Table => $name, )+ }
            }
        }
    };
}

tables! {
    /// Facts about the store itself, such as its schema version.
    Meta = "meta",
    /// API keys, by key id.
    Keys = "keys",
    /// Session records.
    Sessions = "sessions",
    /// Task records, by task id.
    Tasks = "tasks",
    /// What the index of the history is made of at the start: one small row a task, by task id.
    TaskIndex = "task_index",
    /// What tasks are to do, in parts, by task id and part.
    TaskBodies = "task_bodies",
    /// Secrets of tasks that have not ended, encrypted, by task id.
    TaskSecrets = "task_secrets",
    /// Items of fleets, by task id and number.
    TaskItems = "task_items",
    /// Which task an idempotency key made, by API key and a hash.
    TaskKeys = "task_keys",
    /// How much those tasks keep that keep more than a small record, by task id.
    TaskSizes = "task_sizes",
    /// Integration keys, by their id.
    IntegrationKeys = "integration_keys",
    /// Worlds, by their id.
    Worlds = "worlds",
    /// Which world a scene is kept in, by the scene's hash.
    Scenes = "scenes",
    /// Patients' ids and names, encrypted, by a keyed hash.
    Patients = "patients",
    /// Patients' own keys, encrypted, by the same hash. See [`Table::is_kept_apart`].
    PatientKeys = "patient_keys",
    /// Which worlds a patient has, by the patient's hash and the world's id.
    PatientWorlds = "patient_worlds",
    /// Requests for worlds, by time.
    WorldRequests = "world_requests",
    /// Profiles, by the key that owns them and their name.
    Profiles = "profiles",
    /// Profiles' own keys, encrypted, by the profile's id. See [`Table::is_kept_apart`].
    ProfileKeys = "profile_keys",
    /// Browser extensions, by their ids.
    Extensions = "extensions",
    /// Extensions' own keys, encrypted, by the extension's id. See [`Table::is_kept_apart`].
    ExtensionKeys = "extension_keys",
    /// Who is signed in to the console, by the hash of the cookie's value. See [`Table::is_left_out`].
    SignIns = "sign_ins",
    /// Messages of webhooks that have not arrived yet, by receiver and id.
    Webhooks = "webhooks",
}

impl Table {
    /// Whether its rows are in no backup but in one file of their own, which always holds the present ones alone. What they
    /// encrypted can then be read in no backup once they are deleted.
    #[must_use]
    pub(super) const fn is_kept_apart(self) -> bool {
        matches!(self, Table::PatientKeys | Table::ProfileKeys | Table::ExtensionKeys)
    }

    /// Whether its rows last no longer than the database: no backup has them, and those that one of an earlier release has are passed
    /// over. What was taken away there cannot come back, and what is lost with the rest is easily made anew.
    #[must_use]
    pub(super) const fn is_left_out(self) -> bool {
        matches!(self, Table::SignIns)
    }

    /// Whether backups have its rows.
    #[must_use]
    pub(super) const fn is_backed_up(self) -> bool {
        !self.is_kept_apart() && !self.is_left_out()
    }

    /// Whether a row that is gone from it was deleted for good, or has a key that is not used again.
    #[must_use]
    pub(super) const fn is_deleted_for_good(self) -> bool {
        match self {
            Table::Keys
            | Table::IntegrationKeys
            | Table::Worlds
            | Table::Scenes
            | Table::Patients
            | Table::PatientKeys
            | Table::PatientWorlds
            | Table::Profiles
            | Table::ProfileKeys
            | Table::Extensions
            | Table::ExtensionKeys => true,
            Table::Meta
            | Table::Sessions
            | Table::Tasks
            | Table::TaskIndex
            | Table::TaskBodies
            | Table::TaskSecrets
            | Table::TaskItems
            | Table::TaskKeys
            | Table::TaskSizes
            | Table::WorldRequests
            | Table::SignIns
            | Table::Webhooks => false,
        }
    }

    /// The table of that name, if there is one.
    #[must_use]
    pub(crate) fn from_name(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much a commit must survive before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of this process, `kill -9` included, but not of the machine. Never waits for a disk barrier.
    Process,
    /// Loss of power. Shares one disk barrier with every commit that is waiting for one.
    Power,
}

/// Changes that happen together or not at all, across any tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub(super) ops: Vec<Op>,
    pub(super) essential: bool,
    pub(super) irrevocable: bool,
    pub(super) until: Option<Deadline>,
}

/// One change: a new value, or none to delete the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) table: Table,
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
}

impl Batch {
    /// A batch without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key` to `value`. Of two changes to one key the later wins. Sizes are checked at the commit.
    pub fn put(&mut self, table: Table, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Self {
        self.ops.push(Op { table, key: key.into(), value: Some(value.into()) });
        self
    }

    /// Sets `key` to `value` written as JSON.
    /// Errors: [`StoreError::Json`] if the value cannot be written as JSON.
    pub fn put_json<T: Serialize>(
        &mut self,
        table: Table,
        key: impl Into<Vec<u8>>,
        value: &T,
    ) -> Result<&mut Self, StoreError> {
        let bytes = serde_json::to_vec(value).map_err(|source| StoreError::Json { table, source })?;
        Ok(self.put(table, key, bytes))
    }

    /// Removes `key`; nothing happens if it is not there.
    pub fn delete(&mut self, table: Table, key: impl Into<Vec<u8>>) -> &mut Self {
        self.ops.push(Op { table, key: key.into(), value: None });
        self
    }

    /// Lets the batch use the reserve that is kept when the disk is nearly full: for what must still be
    /// recorded then, such as a revoked key, the end of a session, or what a client of a live one relies on after a restart. Never for
    /// new work, nor for what a client or a page can cause as often as it likes. A batch that only removes may use it anyway:
    /// what makes room must not wait for room.
    pub fn essential(&mut self) -> &mut Self {
        self.essential = true;
        self
    }

    /// Whether it may use the reserve.
    pub(super) fn is_essential(&self) -> bool {
        self.essential || self.ops.iter().all(|op| op.value.is_none())
    }

    /// Makes the batch outlive the database: it survives loss of power, and it is made again after every recovery from damage and
    /// in every older backup that is restored. For what must never come back, such as a revoked key or a deleted patient, and
    /// at the cost of one more sync. Small batches only.
    pub fn irrevocable(&mut self) -> &mut Self {
        self.irrevocable = true;
        self
    }

    /// The same, for as long as an older state may bring back what the batch takes away.
    pub fn irrevocable_until(&mut self, until: Deadline) -> &mut Self {
        self.until = Some(until);
        self.irrevocable()
    }

    /// Whether it removes rows that the file of what is kept apart may still hold.
    pub(super) fn shreds(&self) -> bool {
        self.ops.iter().any(|op| op.table.is_kept_apart() && op.value.is_none())
    }

    /// How many changes the batch has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether the batch has no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Refuses what the backends must never be asked to keep.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.ops.len() > MAX_BATCH_OPS {
            return Err(StoreError::BatchTooLarge { ops: self.ops.len() });
        }
        for op in &self.ops {
            if op.key.is_empty() || op.key.len() > MAX_KEY_BYTES {
                return Err(StoreError::InvalidKey { table: op.table, bytes: op.key.len() });
            }
            let bytes = op.value.as_ref().map_or(0, Vec::len);
            if bytes > MAX_VALUE_BYTES {
                return Err(StoreError::ValueTooLarge { table: op.table, bytes });
            }
        }
        Ok(())
    }
}

/// A stretch of keys, in the order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where the range begins.
    pub from: Bound<Vec<u8>>,
    /// Where the range ends.
    pub to: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        // The first key past the prefix: cut trailing 0xff bytes, then add one to the last byte left.
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let to = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        Self { from: Bound::Included(prefix.to_vec()), to }
    }

    /// Keys from `from` on and before `to`.
    #[must_use]
    pub fn between(from: &[u8], to: &[u8]) -> Self {
        Self { from: Bound::Included(from.to_vec()), to: Bound::Excluded(to.to_vec()) }
    }

    /// The part of this range after `key`: the next page of a scan.
    #[must_use]
    pub fn after(mut self, key: &[u8]) -> Self {
        self.from = Bound::Excluded(key.to_vec());
        self
    }

    /// Whether no key can be in the range. Ordered maps panic on bounds that are the wrong way round.
    pub(super) fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        }
    }

    /// The range as the pair that ordered maps take.
    pub(super) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub key: Vec<u8>,
    /// The value, as it was put.
    pub value: Vec<u8>,
}

impl Row {
    /// Reads the value as JSON.
    /// Errors: [`StoreError::Json`] if the value is not the JSON of a `T`; `table` only names the place.
    pub fn json<T: DeserializeOwned>(&self, table: Table) -> Result<T, StoreError> {
        serde_json::from_slice(&self.value).map_err(|source| StoreError::Json { table, source })
    }
}
