//! Finding the sessions of an earlier process again.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::journal::written;
use super::record::Ended;
use super::table::{Entry, now_ms};
use super::{Ending, Record, Sessions};
use crate::error::Error;
use crate::runtime::RuntimeError;
use crate::store::{Direction, Durability, KeyRange, Table};
use crate::worker::Phase;

/// How many records are read from the store at a time.
const PAGE: usize = 1000;

impl Sessions {
    /// Reads every record from the store into the table. Those without an end count as unknown until
    /// [`Sessions::reclaim`] has looked for their workers.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn load(&self) -> Result<(), Error> {
        let mut range = KeyRange::all();
        loop {
            let rows = self.inner.store.scan(Table::Sessions, range, PAGE, Direction::Ascending).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            range = KeyRange { from: Bound::Excluded(last.key.clone()), to: Bound::Unbounded };
            let mut table = self.lock();
            for row in &rows {
                match serde_json::from_slice::<Record>(&row.value) {
                    Ok(record) => {
                        table.insert(record.session_id.clone(), Entry::Past(Arc::new(record)));
                    }
                    Err(error) => tracing::error!(%error, "a session record cannot be read; it is left out"),
                }
            }
        }
    }

    /// Looks for the workers of the sessions that have no end: those found run on under the same URLs, the others end.
    ///
    /// # Errors
    /// When the runtime cannot be asked; to be tried again then.
    pub async fn reclaim(&self) -> Result<(), RuntimeError> {
        let open: Vec<Arc<Record>> = {
            let table = self.lock();
            let open = |entry: &Entry| match entry {
                Entry::Past(record) if record.ended.is_none() => Some(Arc::clone(record)),
                _ => None,
            };
            table.values().filter_map(open).collect()
        };
        let owners: HashMap<_, _> = open.iter().map(|record| (record.worker.clone(), record.owner.clone())).collect();
        let mut leases = self.inner.pool.adopt(owners).await?;
        let now = now_ms();
        for record in open {
            let Some((mut lease, phase)) = leases.remove(&record.worker) else {
                self.interrupt(&record, now);
                continue;
            };
            // The daemon died between writing the record and waking the worker.
            if phase == Phase::Warm
                && let Err(error) = lease.use_worker().agent.launch(&record.options.launch).await
            {
                tracing::warn!(session = %record.session_id, %error, "a session's worker could not be woken");
                self.interrupt(&record, now);
                continue;
            }
            let age = Duration::from_millis(now.saturating_sub(record.created_ms));
            let time_left = Duration::from_secs(record.options.session_timeout).saturating_sub(age);
            let session = self.build(Record::clone(&record), time_left, &mut lease, Vec::new());
            self.admit(session, lease);
        }
        Ok(())
    }

    fn interrupt(&self, record: &Record, now: u64) {
        let ended = Record { ended: Some(Ended::new(&Ending::Interrupted, now)), ..record.clone() };
        self.lock().insert(ended.session_id.clone(), Entry::Past(Arc::new(ended.clone())));
        let store = self.inner.store.clone();
        self.inner.drain.spawn(async move {
            let outcome = async { Ok::<_, Error>(store.insist(written(&ended)?, Durability::Process, |_| {}).await?) };
            if let Err(error) = outcome.await {
                tracing::error!(session = %ended.session_id, %error, "the end of a session was not written");
            }
        });
    }
}
