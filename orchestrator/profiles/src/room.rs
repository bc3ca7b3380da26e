//! How much the profiles of one key hold together.

use crate::record::Record;
use crate::writer::QualifiedName;
use crate::{Error, Profiles};
use warmpool_core::tally::{Share, Tally};
use warmpool_keys::KeyId;

/// The bytes that saves under way add to what each key holds.
pub(crate) type Reservations = Tally<KeyId>;

/// The room that a save needs until its record counts; given back when dropped.
pub(crate) type ReservedSpace = Share<KeyId>;

impl Profiles {
    /// Takes the room for a record that has a new version. Its older versions give way as far as they must; the names of their files
    /// are added to `left`. Nobody may drop such room under the locks of the entries or of a record, which this takes.
    /// Errors: `SizeLimit` where the new version alone is too much.
    pub(crate) fn make_room(&self, record: &mut Record, left: &mut Vec<String>) -> Result<ReservedSpace, Error> {
        let limit = self.0.limits.max_total.bytes();
        self.0.promised.take(record.owner.clone(), |promised| {
            let (mut others, mut before) = (promised.own, 0);
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
            Ok(record.size().saturating_sub(before))
        })
    }
}
