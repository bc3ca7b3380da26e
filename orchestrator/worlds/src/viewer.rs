//! The URLs of viewers: what they end with, and how they are renewed and closed.

use tokio::sync::watch;

use super::record::WorldRecord;
use super::{WorldCaller, Worlds};
use crate::Error;
use warmpool_core::ids::WorldId;
use warmpool_core::secret;
use warmpool_store::{Batch, Durability, Table, carry_out};

impl Worlds {
    /// The world whose viewer this token opens.
    /// Errors: `UnknownViewer`; when the store does not answer.
    pub async fn find_by_token(&self, token: &str) -> Result<WorldRecord, Error> {
        let (id, _) = token.split_once('.').ok_or(Error::UnknownViewer)?;
        let record = self.record(&WorldId::from(id)).await?.ok_or(Error::UnknownViewer)?;
        let genuine = self.token(&record).ok_or(Error::UnknownViewer)?;
        if secret::equal(&genuine, token) { Ok(record) } else { Err(Error::UnknownViewer) }
    }

    /// What the URL of a world's viewer ends with.
    pub(super) fn token(&self, record: &WorldRecord) -> Option<String> {
        let proof = self.shared.instance.world_token(record.world_id.as_str(), record.viewer?);
        Some(format!("{}.{proof}", record.world_id))
    }

    /// Gives a world's viewer a new URL, or closes it. The old URL stops working.
    /// Errors: `UnknownWorld`; when the store refuses.
    pub async fn renew_viewer(&self, id: &str, caller: &WorldCaller, open: bool) -> Result<WorldRecord, Error> {
        let (worlds, id, caller) = (self.clone(), id.to_owned(), caller.clone());
        carry_out(async move { worlds.change_viewer(&id, &caller, open).await }).await
    }

    async fn change_viewer(&self, id: &str, caller: &WorldCaller, open: bool) -> Result<WorldRecord, Error> {
        let record = self.find(id, caller).await?;
        let renew = |record: &mut WorldRecord| {
            record.viewer = open.then_some(record.viewers);
            record.viewers += u32::from(open);
        };
        let live = self.live(&record.world_id);
        // In this order: whoever holds `accepting` may wait for the end of who holds the other.
        let _alone = match &live {
            Some(live) => Some(live.writing.lock().await),
            None => None,
        };
        let _none = self.shared.accepting.lock().await;
        // It may have ended, or have been deleted, meanwhile.
        let mut record = self.find(id, caller).await?;
        match self.live(&record.world_id) {
            Some(live) => record = live.change(renew),
            None => renew(&mut record),
        }
        let mut batch = Batch::new();
        // An older backup must not make the old URL work again.
        batch.put_json(Table::Worlds, record.world_id.as_str(), &record)?.essential().irrevocable();
        let written = self.shared.store.commit(batch, Durability::Power).await;
        self.announce_viewers();
        written?;
        Ok(record)
    }

    /// Changes each time a viewer's URL stops working.
    pub fn viewer_changes(&self) -> watch::Receiver<u64> {
        self.shared.viewers.subscribe()
    }

    pub(super) fn announce_viewers(&self) {
        self.shared.viewers.send_modify(|count| *count += 1);
    }
}
