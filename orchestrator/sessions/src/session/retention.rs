//! Forgetting old records, in the table and in the store.

use std::sync::Arc;
use std::time::Duration;

use super::table::SessionEntry;
use super::{Record, Sessions};
use crate::Error;
use warmpool_core::clock::unix_ms;
use warmpool_core::drain::Phase;
use warmpool_store::{Batch, Durability, MAX_BATCH_OPS, Table};

/// Time between two checks for records that are older than they may be.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

impl Sessions {
    /// Forgets the oldest records beyond `session.keep_records` and `session.keep_records_for`, until the daemon stops.
    pub async fn sweep(&self) {
        loop {
            if let Err(error) = self.forget_old(unix_ms()).await {
                tracing::error!(%error, "old session records could not be removed");
            }
            tokio::select! {
                () = self.shared.drain.reached(Phase::Draining) => return,
                () = tokio::time::sleep(SWEEP_EVERY) => {}
            }
        }
    }

    async fn forget_old(&self, now: u64) -> Result<(), Error> {
        let limits = &self.shared.config.session;
        let age = u64::try_from(limits.keep_records_for.as_millis()).unwrap_or(u64::MAX);
        let ended = |entry: &SessionEntry| match entry {
            SessionEntry::Past(record) if record.ended.is_some() => Some(Arc::clone(record)),
            _ => None,
        };
        let is_old = |(rank, record): &(usize, Arc<Record>)| {
            *rank >= limits.keep_records || record.created_ms.saturating_add(age) < now
        };
        let old: Vec<Arc<Record>> = {
            let rows = self.lock();
            let past = rows.by_time(None).rev().filter_map(ended).enumerate();
            past.filter(is_old).map(|(_, record)| record).collect()
        };
        for some in old.chunks(MAX_BATCH_OPS) {
            let mut batch = Batch::new();
            for record in some {
                batch.delete(Table::Sessions, record.store_key());
            }
            self.shared.store.commit(batch, Durability::Process).await?;
            let mut table = self.lock();
            for record in some {
                table.remove(&record.session_id);
            }
        }
        Ok(())
    }
}
