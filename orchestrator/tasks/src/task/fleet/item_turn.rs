//! When an item of a fleet may begin: once its runner has a session in hand, and its host may be opened.

use std::time::Duration;

use tokio::time::Instant;

use super::Fleet;
use crate::task::attempt::Attempt;
use crate::task::record::Item;
use crate::task::runner::Runner;

impl Fleet<'_> {
    /// Waits until it is the item's turn to have a worker and, with a session in hand, to open its host: how long a session is waited
    /// for is not known. Returns what came of the attempt where none can be had, and nothing where the item is not to begin.
    pub(super) async fn turn(&self, runner: &mut Runner<'_>, item: &Item) -> Option<Result<(), Attempt>> {
        let delay = Duration::from_millis(self.rules.host_delay_ms);
        let host = if delay.is_zero() { None } else { self.spec.first_host(&item.inputs) };
        let storage = &self.tasks.inner.storage;
        let mut until = host.as_ref().map_or_else(Instant::now, |host| self.state().hosts.claim(host, delay));
        loop {
            let may_ask = tokio::select! {
                biased;
                () = self.closed.cancelled(), if item.attempts == 0 => false,
                may_ask = async { runner.pause_until(until).await && runner.turn().await } => may_ask,
            };
            if !may_ask {
                return None;
            }
            let ready = match storage.shortage() {
                // No worker is used in vain.
                Some(shortage) => Err(Attempt::StoreUnavailable(shortage)),
                None => runner.ready(self.secrets.state.as_ref()).await,
            };
            match ready {
                Ok(()) => {}
                // Others have the turn meanwhile.
                Err(Attempt::NoSession(_)) => {
                    runner.release();
                    continue;
                }
                Err(Attempt::StoreUnavailable(error)) => {
                    runner.release();
                    if !storage.wait_for_room(self.task, error).await {
                        return None;
                    }
                    continue;
                }
                Err(attempt) => return Some(Err(attempt)),
            }
            let Some(host) = &host else { return Some(Ok(())) };
            let opened = self.state().hosts.open(host, delay);
            match opened {
                Ok(()) => return Some(Ok(())),
                Err(free) => until = free,
            }
        }
    }
}
