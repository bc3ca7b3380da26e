//! When keys were last used, written down now and then.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{KeyError, Keys, PAGE};
use crate::KeyRecord;
use warmpool_store::{Batch, Durability, Table};

const EVERY: Duration = Duration::from_secs(60);

impl Keys {
    /// Writes the times of last use to the store once a minute, and a last time when told to stop.
    pub async fn run_last_used(self, stop: CancellationToken) {
        loop {
            let stopping = tokio::select! {
                () = stop.cancelled() => true,
                () = tokio::time::sleep(EVERY) => false,
            };
            if let Err(error) = self.save_last_used().await {
                tracing::warn!(%error, "cannot record when keys were last used");
            }
            if stopping {
                return;
            }
        }
    }

    /// Writes the times of last use that changed since the last time.
    pub(super) async fn save_last_used(&self) -> Result<(), KeyError> {
        let _changing = self.inner.changing.lock().await;
        let changed: Vec<KeyRecord> = self.read(|entries| {
            entries
                .values()
                .filter_map(|entry| {
                    let record = entry.record();
                    (record.last_used_ms != entry.record.last_used_ms).then_some(record)
                })
                .collect()
        });
        for records in changed.chunks(PAGE) {
            let mut batch = Batch::new();
            for record in records {
                batch.put_json(Table::Keys, record.id.as_str(), record)?;
            }
            self.inner.store.commit(batch, Durability::Process).await?;
            self.write(|entries| {
                for record in records {
                    if let Some(entry) = entries.get_mut(&record.id) {
                        entry.record.last_used_ms = record.last_used_ms;
                    }
                }
            });
        }
        Ok(())
    }
}
