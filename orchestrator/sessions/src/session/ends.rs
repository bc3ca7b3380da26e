//! The ends of sessions that the store does not have, and why.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::Error;
use warmpool_core::error::ServiceError;
use warmpool_core::ids::SessionId;

/// How long whoever waits for the end of a session waits for the store: a slow one holds nobody up for longer.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

/// The store was closed, or failed, before it had the end of a session: the next process finds the session as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndLost;

impl From<EndLost> for Error {
    fn from(EndLost: EndLost) -> Self {
        // Either way this process is about to end.
        Self::Service(ServiceError::Draining)
    }
}

/// Why the store does not have an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unwritten {
    /// It is on its way.
    Yet,
    /// It will never have it.
    Lost,
}

/// The ends that the store does not have. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends(watch::Sender<HashMap<SessionId, Unwritten>>);

impl Ends {
    /// Notes that an end is on its way into the store. Before anybody can see it.
    pub(super) fn begin(&self, id: &SessionId) -> UnwrittenEnd {
        self.0.send_modify(|ends| {
            ends.insert(id.clone(), Unwritten::Yet);
        });
        UnwrittenEnd { ends: self.clone(), id: id.clone() }
    }

    /// Waits until the store has the end of a session, if that is on its way; for five seconds at most, because it is tried until it
    /// is written.
    /// Errors: [`EndLost`].
    pub(super) async fn written(&self, id: &SessionId) -> Result<(), EndLost> {
        let mut ends = self.0.subscribe();
        let settled = timeout(RECORD_TIMEOUT, ends.wait_for(|ends| ends.get(id) != Some(&Unwritten::Yet))).await;
        match settled {
            // The sender is a field of `self`.
            Ok(ends) => ends.map_or(Ok(()), |ends| if ends.contains_key(id) { Err(EndLost) } else { Ok(()) }),
            Err(_) => {
                tracing::warn!(session = %id, "the end of a session is not on the disk yet");
                Ok(())
            }
        }
    }
}

/// An end on its way into the store, which is lost where this is dropped before it is [written](Self::written).
#[derive(Debug)]
pub(super) struct UnwrittenEnd {
    ends: Ends,
    id: SessionId,
}

impl UnwrittenEnd {
    /// The store has it.
    pub(super) fn written(self) {
        self.ends.0.send_modify(|ends| {
            ends.remove(&self.id);
        });
    }
}

impl Drop for UnwrittenEnd {
    fn drop(&mut self) {
        self.ends.0.send_if_modified(|ends| {
            let end = ends.get_mut(&self.id);
            end.map(|end| *end = Unwritten::Lost).is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_an_end_hears_what_became_of_it() {
        let (ends, id) = (Ends::default(), SessionId::from("ses_a"));
        assert_eq!(ends.written(&id).await, Ok(()), "none is on its way");
        let end = ends.begin(&id);
        assert_eq!(ends.written(&id).await, Ok(()), "it is tried until it is written");
        let waiting = tokio::spawn({
            let (ends, id) = (ends.clone(), id.clone());
            async move { ends.written(&id).await }
        });
        tokio::task::yield_now().await;
        end.written();
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert!(ends.0.borrow().is_empty(), "nothing is kept of those that are written");
        drop(ends.begin(&id));
        assert_eq!(ends.written(&id).await, Err(EndLost));
    }
}
