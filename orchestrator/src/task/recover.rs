//! Tasks of an earlier process: read, and ended or gone on with. And the end of this one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::history::Entry;
use super::id::TaskId;
use super::live::{Live, Stop};
use super::perform::interrupted;
use super::record::{Kind, Status};
use super::table::{End, Tasks};
use crate::drain::Phase;
use crate::error::Error;
use crate::keys::KeyId;
use crate::session::{Ending, Kind as SessionKind};

/// Between two looks whether a running task has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long interrupted tasks may take to say so.
const INTERRUPTION: Duration = Duration::from_secs(10);

impl Tasks {
    /// Makes the index of the history, and finds the tasks that have not ended. They do not run before
    /// [`Tasks::resume`].
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn load(&self) -> Result<(), Error> {
        let mut ledgers: HashMap<KeyId, Vec<Entry>> = HashMap::new();
        let mut open: Vec<TaskId> = Vec::new();
        let mut last = None;
        self.inner
            .keep
            .index(|owner, entry| {
                if !entry.status.is_end() {
                    open.push(entry.id);
                }
                last = Some(entry.id);
                ledgers.entry(owner).or_default().push(entry);
            })
            .await?;
        last.into_iter().for_each(|last| self.inner.ids.past(last));
        // Building an index of a million rows takes a moment that other tasks of the runtime should not wait for.
        let tasks = self.clone();
        let build = move || {
            let mut history = tasks.history();
            for (owner, entries) in ledgers {
                history.load(&owner, &entries);
            }
        };
        tokio::task::spawn_blocking(build).await.map_err(Error::internal)?;
        for task in open {
            if let Some(record) = self.inner.keep.record(task).await? {
                self.live_table().insert(task, Arc::new(Live::new(record)));
            }
        }
        Ok(())
    }

    /// Goes on with the tasks of an earlier process: queued ones run, fleets go on where they were, and those that were
    /// running end as interrupted unless they are safe to repeat. Those whose key was revoked meanwhile end unrun.
    pub(crate) async fn resume(&self) {
        for session in self.inner.sessions.all_live() {
            if session.options.kind == SessionKind::Task && session.created_ms < self.inner.started_ms {
                session.end(Ending::TaskFailed);
            }
        }
        let mut left: Vec<Arc<Live>> =
            self.live_table().values().filter(|live| live.id.timestamp() < self.inner.started_ms).cloned().collect();
        left.sort_unstable_by_key(|live| live.id);
        if !left.is_empty() {
            tracing::info!(tasks = left.len(), "going on with the tasks of an earlier process");
        }
        for live in left {
            self.ask_key(&live);
            if live.record().status == Status::Queued || live.record().kind == Kind::Fleet {
                self.launch(live);
                continue;
            }
            // By themselves: one that waits for the store holds up no other.
            let tasks = self.clone();
            self.inner.drain.spawn(async move { tasks.take_up(live).await });
        }
    }

    /// Goes on with a run or extract that was running.
    async fn take_up(&self, live: Arc<Live>) {
        if !live.record().safe_to_repeat {
            self.finish(&live, End::empty(Status::Failure, interrupted())).await;
            return;
        }
        match self.mark_queued(&live).await {
            Ok(()) => self.launch(live),
            Err(error) => {
                tracing::error!(task = %live.id, %error, "a task was not taken up again");
                self.suspend(&live);
            }
        }
    }

    /// Lets running tasks end until `deadline`, then interrupts them. Queued ones stay for the next process.
    pub(crate) async fn drain(&self, deadline: Duration) {
        let running = || -> Vec<Arc<Live>> {
            self.live_table().values().filter(|live| live.record().status == Status::Running).cloned().collect()
        };
        let all_ended = async {
            while let Some(live) = running().first() {
                tokio::select! {
                    () = live.ended() => {}
                    () = sleep(LOOK) => {}
                }
            }
        };
        if timeout(deadline, all_ended).await.is_err() {
            let left = running();
            left.iter().for_each(|live| live.stop(Stop::Interrupted));
            let all = futures_util::future::join_all(left.iter().map(|live| live.ended()));
            if timeout(INTERRUPTION, all).await.is_err() {
                tracing::error!("not every task could be interrupted; the next start will find them");
            }
        }
        debug_assert!(self.inner.drain.phase() >= Phase::Draining, "new tasks are refused by now");
    }
}
