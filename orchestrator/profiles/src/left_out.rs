//! Profiles that are in the store and cannot be read: their own keys are gone, or another release wrote their records. None is
//! made in the place of one, for the right keys or the right release may come back; only its owner can delete it.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::writer::{QualifiedName, Writer};
use crate::{Error, Profiles};
use warmpool_core::ids::ProfileId;
use warmpool_store::{Batch, Durability, Table, carry_out};

/// The profiles that were left out, with their ids where these are known.
pub(crate) type LeftOut = Mutex<HashMap<QualifiedName, Option<ProfileId>>>;

impl Profiles {
    /// Notes a profile that cannot be read.
    pub(crate) fn leave_out(&self, qualified_name: QualifiedName, id: Option<ProfileId>) {
        self.0.left_out.lock().insert(qualified_name, id);
    }

    /// The ids of those that were left out, as far as they are known.
    pub(crate) fn left_out_ids(&self) -> impl Iterator<Item = ProfileId> + use<> {
        self.0.left_out.lock().values().flatten().cloned().collect::<Vec<_>>().into_iter()
    }

    /// Errors: `Unreadable`.
    pub(crate) fn check_readable(&self, qualified_name: &QualifiedName) -> Result<(), Error> {
        match self.0.left_out.lock().contains_key(qualified_name) {
            true => Err(Error::Unreadable { name: qualified_name.name.clone() }),
            false => Ok(()),
        }
    }

    /// Deletes one that was left out for good: no backup brings it back.
    /// Errors: `ProfileInUse`, and those of the store.
    pub(crate) async fn delete_left_out(&self, qualified_name: QualifiedName) -> Result<(), Error> {
        let (profiles, writer) = (self.clone(), Writer::take(self, qualified_name)?);
        carry_out(async move {
            let qualified_name = &writer.qualified_name;
            let Some(id) = profiles.0.left_out.lock().get(qualified_name).cloned() else {
                return Err(Error::UnknownProfile { name: qualified_name.name.clone() });
            };
            let mut batch = Batch::new();
            batch.delete(Table::Profiles, qualified_name.store_key());
            if let Some(id) = &id {
                batch.delete(Table::ProfileKeys, id.as_str());
            }
            batch.essential().irrevocable();
            profiles.0.store.commit(batch, Durability::Power).await?;
            profiles.0.left_out.lock().remove(qualified_name);
            // Where its id is not known, a later start removes the folder, as nothing names that.
            if let Some(id) = id
                && let Err(error) = profiles.0.files.remove_all(&id).await
            {
                tracing::warn!(%error, profile = qualified_name.name, "the files of a deleted profile were not removed");
            }
            Ok(())
        })
        .await
    }
}
