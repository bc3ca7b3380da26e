//! Waiting for the store and for room on the disk. A world that was accepted waits with what it has: it does not fail because a disk is
//! full or slow.

use std::time::Duration;

use tokio::time::sleep;

use crate::{Error, Worlds};
use warmpool_core::error::Fault as _;
use warmpool_core::ids::WorldId;

/// Time between two looks whether there is room again, and between two tries to read or write.
const RETRY: Duration = Duration::from_millis(500);

impl Worlds {
    /// Waits until the store takes new work, as far as is known.
    pub(super) async fn wait_for_room(&self) {
        let mut told = false;
        while let Some(shortage) = self.shared.store.shortage() {
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(%shortage, "no world is begun before the store takes new work");
            }
            sleep(RETRY).await;
        }
    }

    /// Does what the store or the disk may refuse for now, until it is done.
    /// Errors: those of `work` that do not pass.
    pub(super) async fn patiently<T, F>(&self, world: &WorldId, mut work: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut told = false;
        loop {
            match work().await {
                Err(error) if error.is_shortage() => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%world, %error, "a world waits with what it has");
                    }
                }
                outcome => return outcome,
            }
            sleep(RETRY).await;
        }
    }
}
