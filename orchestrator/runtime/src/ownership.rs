//! That no second daemon has the same workers.

use std::sync::Arc;

use super::swarm::Lease;

/// This process's right to the workers of its instance.
#[derive(Clone)]
pub struct Ownership {
    lease: Option<Arc<Lease>>,
}

impl Ownership {
    /// One that nobody can take away: on one host, the lock on the store keeps a second daemon out.
    pub(super) const fn of_this_host() -> Self {
        Self { lease: None }
    }

    pub(super) fn leased(lease: Lease) -> Self {
        Self { lease: Some(Arc::new(lease)) }
    }

    /// Waits until it is lost, and says how. It need never be.
    pub async fn lost(&self) -> String {
        match &self.lease {
            Some(lease) => lease.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Lets the next daemon have it at once.
    pub async fn give_up(&self) {
        if let Some(lease) = &self.lease {
            lease.give_up().await;
        }
    }
}
