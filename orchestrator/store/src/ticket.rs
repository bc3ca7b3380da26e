//! Whether a commit that is queued can still be withdrawn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The caller of a commit and the storage thread share it. The first of the two to change it decides: either the commit
/// is carried out, or it never will be.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// The storage thread begins with the commit; false when it was withdrawn.
    pub(super) fn take(&self) -> bool {
        self.0.compare_exchange(QUEUED, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes the commit back; false when the storage thread has begun with it.
    pub(super) fn withdraw(&self) -> bool {
        self.0.compare_exchange(QUEUED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
