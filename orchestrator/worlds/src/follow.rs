//! Following a world until its end.

use std::time::Duration;

use futures_util::stream::{Stream, unfold};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::{Error, WorldRecord, WorldView, Worlds};
use warmpool_core::ids::WorldId;

impl Worlds {
    /// A world as clients see it now, and again whenever it changes, until its end or an error.
    pub fn follow(&self, record: WorldRecord) -> impl Stream<Item = Result<WorldView, Error>> + Send + use<> {
        let changes = self.changes(&record.world_id);
        unfold((self.clone(), Some(record), changes), |(worlds, first, mut changes)| async move {
            let record = match first {
                Some(first) => first,
                None => {
                    let changes = changes.as_mut()?;
                    // An error means that nobody makes it any more.
                    changes.changed().await.ok()?;
                    changes.borrow_and_update().0.clone()
                }
            };
            let view = worlds.view(record, false).await;
            let goes_on = view.as_ref().is_ok_and(|view| !view.record.status.is_end());
            Some((view, (worlds, None, changes.filter(|_| goes_on))))
        })
    }

    /// Waits until a world has ended, or for so long.
    pub async fn wait_for_end(&self, id: &WorldId, longest: Duration) {
        if let Some(mut changes) = self.changes(id) {
            // An error means that nobody makes it any more, or that it took too long.
            let _ = timeout(longest, changes.wait_for(|(record, _)| record.status.is_end())).await;
        }
    }

    /// Changes of a world that is not ready yet, and how far it is.
    pub(crate) fn changes(&self, id: &WorldId) -> Option<watch::Receiver<(WorldRecord, f64)>> {
        self.live(id).map(|live| live.state.subscribe())
    }
}
