//! Forgetting old records, in the table and in the store.

use std::sync::Arc;
use std::time::Duration;

use super::table::SessionEntry;
use super::{Record, Sessions};
use crate::Error;
use warmpool_core::clock::Now;
use warmpool_core::drain::Phase;
use warmpool_core::giving_way::GivingWay;
use warmpool_store::{Batch, Durability, MAX_BATCH_OPS, Table};

/// Time between two checks for records that are older than they may be.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

impl Sessions {
    /// Forgets the records beyond `session.keep_records_for` and `session.keep_records`, until the daemon stops.
    pub async fn sweep(&self) {
        loop {
            if let Err(error) = self.forget_old(Now::read().unix_ms_for_ages()).await {
                tracing::error!(%error, "old session records could not be removed");
            }
            tokio::select! {
                () = self.shared.drain.reached(Phase::Draining) => return,
                () = tokio::time::sleep(SWEEP_EVERY) => {}
            }
        }
    }

    /// Forgets the records that are too old, and of those that are too many each time the oldest of the key that has most.
    pub(super) async fn forget_old(&self, now: u64) -> Result<(), Error> {
        let limits = &self.shared.config.session;
        let age = u64::try_from(limits.keep_records_for.as_millis()).unwrap_or(u64::MAX);
        let ended = |entry: &SessionEntry| match entry {
            SessionEntry::Past(record) if record.ended.is_some() => Some(Arc::clone(record)),
            _ => None,
        };
        let is_old = |record: &Arc<Record>| record.created_ms.saturating_add(age) < now;
        let past: Vec<Arc<Record>> = self.lock().by_time(None).filter_map(ended).collect();
        let (mut old, kept): (Vec<_>, Vec<_>) = past.into_iter().partition(is_old);
        let surplus = kept.len().saturating_sub(limits.keep_records);
        let kept = kept.into_iter().map(|record| (record.owner.clone(), 1, record));
        old.extend(GivingWay::new(kept).take(surplus).map(|(_, record)| record));
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
