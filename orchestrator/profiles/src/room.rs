//! How much the profiles of one key hold together.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::record::Record;
use crate::writer::QualifiedName;
use crate::{Error, Profiles};
use warmpool_keys::KeyId;

/// The bytes that saves under way add to what each key holds.
pub(crate) type Reservations = Mutex<HashMap<KeyId, u64>>;

/// The room that a save needs until its record counts; given back when dropped.
pub(crate) struct ReservedSpace<'a> {
    promised: &'a Reservations,
    owner: KeyId,
    bytes: u64,
}

impl Drop for ReservedSpace<'_> {
    fn drop(&mut self) {
        let mut all = self.promised.lock();
        if let Some(bytes) = all.get_mut(&self.owner) {
            *bytes = bytes.saturating_sub(self.bytes);
            if *bytes == 0 {
                all.remove(&self.owner);
            }
        }
    }
}

impl Profiles {
    /// Takes the room for a record that has a new version. Its older versions give way as far as they must; the names of their files
    /// are added to `left`.
    /// Errors: `SizeLimit` where the new version alone is too much.
    pub(crate) fn make_room(&self, record: &mut Record, left: &mut Vec<String>) -> Result<ReservedSpace<'_>, Error> {
        let limit = self.0.limits.max_total.bytes();
        let mut promised = self.0.promised.lock();
        let (mut others, mut before) = (promised.get(&record.owner).copied().unwrap_or_default(), 0);
        for (QualifiedName { owner, name }, entry) in &*self.0.entries.lock() {
            if *owner == record.owner {
                let size = entry.record.lock().size();
                if *name == record.name { before = size } else { others = others.saturating_add(size) }
            }
        }
        while record.versions.len() > 1 && others.saturating_add(record.size()) > limit {
            left.push(record.versions.remove(0).file);
        }
        let size = others.saturating_add(record.size());
        if size > limit {
            return Err(Error::SizeLimit { size, limit });
        }
        let bytes = record.size().saturating_sub(before);
        *promised.entry(record.owner.clone()).or_default() += bytes;
        Ok(ReservedSpace { promised: &self.0.promised, owner: record.owner.clone(), bytes })
    }
}
