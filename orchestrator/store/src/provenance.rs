//! Where the data comes from: of which instance it is, and whether it went back to an older state.
//!
//! Both are rows of the store's own. Backups hold them, and a recovery brings them back. A backup that is restored by hand is no
//! instance's until one claims it, since it may have been brought to another machine. Nor does it hold anybody to the key of patients'
//! names that was used before.

use super::batch::Op;
use super::folder::Folder;
use super::owner_folders::Unowned;
use super::record::sealed;
use super::{Batch, Durability, Store, StoreError, Table, journal};

/// The key in [`Table::Meta`] under which the instance's id stands.
const INSTANCE: &[u8] = b"instance";
/// The key in [`Table::Meta`] of the row that holds each start to the key of patients' names that was used before.
pub const NAMES_KEY_CHECK: &str = "world_names_key";
/// The key in [`Table::Meta`] of the note that the data went back. It names the folders that went back with the rows, if any did.
const WENT_BACK: &[u8] = b"went_back";
/// Stands between the names of folders.
const SEPARATOR: &str = "/";

impl Store {
    /// Makes the data this instance's own, where it is nobody's yet. What the instance encrypted can be read by nobody else, so call this
    /// before anything is tidied.
    /// Errors: [`StoreError::OtherInstance`]; those of reading and writing.
    pub async fn claim(&self, instance: &str) -> Result<(), StoreError> {
        if let Some(of) = self.get(Table::Meta, INSTANCE).await? {
            if of == instance.as_bytes() {
                return Ok(());
            }
            let (dir, of) = (self.directory().to_owned(), String::from_utf8_lossy(&of).into_owned());
            return Err(StoreError::OtherInstance { dir, of, found: instance.to_owned() });
        }
        let mut batch = Batch::new();
        batch.put(Table::Meta, INSTANCE, instance).essential();
        match self.commit(batch, Durability::Power).await {
            Err(error) if error.is_shortage() => {
                tracing::warn!(%error, "the data was not marked as this instance's; the next start does it");
                Ok(())
            }
            claimed => claimed,
        }
    }

    /// Whether the data went back to an older state, and nobody has drawn the consequences: what was done after that state may be
    /// done again. [`Batch::settle_going_back`] ends it.
    /// Errors: those of reading.
    pub async fn went_back(&self) -> Result<bool, StoreError> {
        Ok(self.get(Table::Meta, WENT_BACK).await?.is_some())
    }

    /// What becomes of the folders of owners whom no row names. Whoever deletes an owner for good deletes a row of `table` that has the
    /// owner's id for its key.
    /// Errors: those of reading; [`StoreError::Io`].
    pub async fn unowned(&self, folder: &Folder, table: Table) -> Result<Unowned, StoreError> {
        let Some(note) = self.get(Table::Meta, WENT_BACK).await? else { return Ok(Unowned::Removed) };
        // What came later than a backup lies beside the folder that it brought.
        if String::from_utf8_lossy(&note).split(SEPARATOR).any(|name| name == folder.name) {
            return Ok(Unowned::Removed);
        }
        let dir = self.directory().to_owned();
        let read = tokio::task::spawn_blocking(move || journal::deleted(&dir, table));
        let deleted = read.await.map_err(StoreError::during("read what was deleted for good"))??;
        Ok(Unowned::SetAside { deleted })
    }
}

#[cfg(any(test, feature = "testing"))]
impl Store {
    /// Notes that the data went back, as a recovery does that lost something.
    ///
    /// # Panics
    /// When the store refuses.
    #[expect(clippy::unwrap_used, reason = "for tests alone")]
    pub async fn suppose_it_went_back(&self) {
        let mut batch = Batch::new();
        batch.put(Table::Meta, WENT_BACK, *b"yes");
        self.commit(batch, Durability::Process).await.unwrap();
    }
}

impl Batch {
    /// Says that the consequences are drawn of the data having gone back to an older state.
    pub fn settle_going_back(&mut self) -> &mut Self {
        self.delete(Table::Meta, WENT_BACK)
    }
}

/// The sealed changes that say that the data went back to an older state.
pub(super) fn went_back() -> Vec<Op> {
    let mut batch = Batch::new();
    batch.put(Table::Meta, WENT_BACK, *b"yes");
    sealed(&batch.ops)
}

/// The sealed changes that make data nobody's which a backup brought with these folders, perhaps from another machine.
pub(super) fn restored(folders: &[&str]) -> Vec<Op> {
    let mut batch = Batch::new();
    batch.delete(Table::Meta, INSTANCE).delete(Table::Meta, NAMES_KEY_CHECK);
    batch.put(Table::Meta, WENT_BACK, folders.join(SEPARATOR));
    sealed(&batch.ops)
}
