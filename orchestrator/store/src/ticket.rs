//! Whether a commit that is queued can still be withdrawn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The caller of a commit and the storage thread share it. The first of the two to claim it decides: either the commit is
/// carried out, or it never will be.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticket(Arc<AtomicBool>);

impl Ticket {
    /// Claims the commit, for the storage thread to begin with or for its caller to withdraw; false when the other has it.
    pub(super) fn claim(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}
