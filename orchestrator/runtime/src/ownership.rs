//! Which daemon owns the workers of an instance.

use std::sync::Arc;

use super::cluster::lease::Lease;

/// This process's right to the workers of its instance.
#[derive(Clone)]
pub struct Ownership {
    lease: Option<Arc<Lease>>,
}

impl Ownership {
    /// Ownership that nobody can take away: on one host, the lock on the store keeps a second daemon out.
    pub(super) const fn of_this_host() -> Self {
        Self { lease: None }
    }

    /// Ownership that holds for as long as the lease does.
    pub(super) fn leased(lease: Lease) -> Self {
        Self { lease: Some(Arc::new(lease)) }
    }

    /// Waits until it is lost, and returns how. It may never be.
    pub async fn lost(&self) -> String {
        match &self.lease {
            Some(lease) => lease.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Releases it, so that the next daemon need not wait.
    pub async fn give_up(&self) {
        if let Some(lease) = &self.lease {
            lease.give_up().await;
        }
    }
}
