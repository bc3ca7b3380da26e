//! Finding the sessions of an earlier process again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;
use warmpool_protocol::WorkerState;

use super::grid_ids::grid_ids;
use super::journal::written_with;
use super::profile::Saved;
use super::record::Ended;
use super::table::SessionEntry;
use super::{Ending, Record, Session, SessionKind, Sessions};
use crate::Error;
use warmpool_core::clock::{Now, unix_ms};
use warmpool_core::drain::Phase;
use warmpool_core::ids::SessionId;
use warmpool_profiles::ProfileChoice;
use warmpool_runtime::RuntimeError;
use warmpool_store::{Batch, Durability, Table};

/// How long a start waits for the first word of the workers that were found again.
const FIRST_WORD: Duration = Duration::from_secs(3);

/// What became of the sessions of an earlier process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaimed {
    /// Those that live were found, and the others have ended.
    Found,
    /// The daemon drains: nobody knows.
    LeftToTheNext,
}

impl Sessions {
    /// Reads every record from the store into the table. Those without an end count as unknown until
    /// [`Sessions::reclaim`] has looked for their workers.
    /// Fails when the store cannot be read.
    pub async fn load(&self) -> Result<(), Error> {
        let mut pages = self.shared.store.pages(Table::Sessions);
        while let Some(rows) = pages.next().await? {
            let mut table = self.lock();
            for row in &rows {
                match serde_json::from_slice::<Record>(&row.value) {
                    Ok(record) => {
                        self.hold_profile(&record);
                        if record.ended.is_none() {
                            let id = &record.session_id;
                            self.shared.grid_ids.add(grid_ids(&self.shared.instance, id), id);
                        }
                        table.put(SessionEntry::Past(Arc::new(record)));
                    }
                    Err(error) => tracing::error!(%error, "a session record cannot be read; it is left out"),
                }
            }
        }
        Ok(())
    }

    /// Takes the right to write a profile for a session that may live on, before anybody else can.
    fn hold_profile(&self, record: &Record) {
        let choice = record.options.profile.as_ref().filter(|_| record.ended.is_none());
        let writer = choice.and_then(|choice| self.shared.profiles.hold(&record.owner, choice, &record.session_id));
        if let Some(writer) = writer {
            self.shared.held_profiles.lock().insert(record.session_id.clone(), writer);
        }
    }

    /// Looks for the workers of the sessions that have no end: those whose container runs live on under the same URLs, the
    /// others end, and so do those of tasks and those whose key was revoked meanwhile. One whose agent does not answer is `unknown` until it
    /// does, or until its watch gives it up as it would any other.
    ///
    /// A daemon that drains looks for none any more, because nothing would end those that it found: they are left to the next
    /// start.
    /// Fails when the runtime cannot be used; nothing has changed then.
    pub async fn reclaim(&self) -> Result<Reclaimed, RuntimeError> {
        let open: Vec<Arc<Record>> = self.lock().unfound().cloned().collect();
        let owners = open.iter().map(|record| (record.worker.clone(), record.owner.clone())).collect();
        let (mut leases, unclaimed) = tokio::select! {
            biased;
            () = self.shared.drain.reached(Phase::Draining) => return Ok(Reclaimed::LeftToTheNext),
            adopted = self.shared.pool.adopt(owners) => adopted?,
        };
        let now = Now::read();
        let mut heard = Vec::new();
        for record in open {
            let Some(mut lease) = leases.remove(&record.worker) else {
                self.end_past(&record.session_id, &Ending::Interrupted);
                continue;
            };
            if !self.shared.keys.is_active(&record.owner) {
                tracing::info!(session = %record.session_id, "the key of a session was revoked meanwhile");
                self.end_past(&record.session_id, &Ending::KeyRevoked);
                continue;
            }
            if record.options.kind == SessionKind::Task {
                // The process that carried the task out is gone.
                self.end_past(&record.session_id, &Ending::TaskFailed);
                continue;
            }
            let mut record = Record::clone(&record);
            let deadline = record.deadline();
            let anchored = deadline.anchored(&now);
            let changed = anchored.is_some();
            record.deadline = anchored.or(Some(deadline));
            let time_left = record.deadline().left(&now);
            let writer = self.shared.held_profiles.lock().remove(&record.session_id);
            let session = self.build(record, time_left, &mut lease, Vec::new(), writer);
            let Some(session) = self.admit_found(session, lease) else { continue };
            if changed {
                heard.push(self.keep(&session));
            }
            // It may have been revoked since it was asked.
            if !self.shared.keys.is_active(&session.owner) {
                session.end(Ending::KeyRevoked);
            }
            self.end_if_drained(&session);
            heard.push(self.shared.drain.spawn(wake(self.clone(), session)));
        }
        // What a session had is for nobody else, although its removal was not through when the earlier process ended.
        let used = self.lock().ended_workers();
        // Most agents answer at once, as the store does, and a start that says it is done should have heard them. No other session
        // waits for one that is silent.
        let kept = self.shared.pool.keep_unclaimed(unclaimed, used);
        let ((), _) = tokio::join!(kept, timeout(FIRST_WORD, join_all(heard)));
        Ok(Reclaimed::Found)
    }

    /// Ends a session that was found when the daemon drains already, unless `drain.keep_sessions` leaves it to the next start.
    pub(super) fn end_if_drained(&self, session: &Session) {
        // A drain begins with the phase and then looks into the table: one of the two sees the other.
        if self.shared.drain.phase() >= Phase::Draining && !self.shared.config.drain.keep_sessions {
            session.end(Ending::Drained);
        }
    }

    /// Waits for the worker of a session that writes a profile, if it has not been found again yet: for `profiles.save_timeout`
    /// at most.
    pub(super) async fn wait_for_writer(&self, id: &str) {
        let writes = |choice: &Option<ProfileChoice>| choice.as_ref().is_some_and(ProfileChoice::is_written);
        match self.lock().get(&SessionId::from(id)) {
            Some(SessionEntry::Past(record)) if record.ended.is_none() && writes(&record.options.profile) => {}
            _ => return,
        }
        let found = async {
            self.until_found(id).await;
            let entry = self.lock().get(&SessionId::from(id)).cloned();
            if let Some(SessionEntry::Live(session)) = entry {
                // What it has to save comes from its agent.
                drop(session.worker.ready().await);
            }
        };
        if timeout(self.shared.config.profiles.save_timeout, found).await.is_err() {
            tracing::warn!(session = %id, "a session that writes a profile ends before its worker was found again");
        }
    }

    /// Ends a session whose worker has not been found again, and writes that. Nothing changes where it is found, or had ended.
    pub(super) fn end_past(&self, id: &SessionId, ending: &Ending) {
        let (ended, unwritten) = {
            let mut table = self.lock();
            let Some(SessionEntry::Past(record)) = table.get(id).filter(|entry| entry.is_open_past()) else { return };
            let writer = self.shared.held_profiles.lock().remove(id);
            let saved = writer.as_ref().map(|writer| Saved::lost(writer.saved_ms())).unwrap_or_default();
            let ended = Record {
                ended: Some(Ended::new(ending, unix_ms())),
                deadline: None,
                client_proxy: None,
                profile_saved_ms: saved.at_ms,
                profile_error: saved.error,
                ..Record::clone(record)
            };
            let unwritten = self.shared.ends.begin(id);
            table.put(SessionEntry::Past(Arc::new(ended.clone())));
            (ended, unwritten)
        };
        self.shared.grid_ids.end(&grid_ids(&self.shared.instance, id), &ended.owner);
        self.changed(&ended.owner);
        tracing::info!(session = %id, reason = ending.code(), "session ended before its worker was found again");
        let (store, sessions) = (self.shared.store.clone(), self.clone());
        self.spawn_write(async move {
            let mut batch = Batch::new();
            let enclosed = sessions.enclose_end(&mut batch, &ended);
            let outcome = async {
                let batch = written_with(&ended, batch)?;
                Ok::<_, Error>(store.commit_with_retry(batch, Durability::Process, |_| {}).await?)
            };
            match outcome.await {
                Ok(()) => {
                    unwritten.written();
                    sessions.shared.webhooks.send(enclosed);
                }
                Err(error) => {
                    tracing::error!(session = %ended.session_id, %error, "the end of a session was not written");
                }
            }
        });
    }
}

/// Waits for the first word of a session's worker. Wakes a worker that never was: the daemon died between writing the
/// record and waking it.
async fn wake(sessions: Sessions, session: Arc<Session>) {
    let ready = tokio::select! {
        ready = session.worker.ready() => ready,
        _ = session.ended() => return,
    };
    let asleep = ready.is_ok() && session.worker.snapshot.borrow().state == WorkerState::Warm;
    if !asleep {
        return;
    }
    let launched = async {
        let launch = &session.options.launch;
        if launch.storage || launch.folder || launch.extensions {
            // What it begins with was in memory alone, and its client never had an answer.
            return Err(Error::Conflict { message: "its state is gone".to_owned() });
        }
        let ad_rules = sessions.ad_rules(&session.options, &session.worker).await?;
        let launched = session.worker.agent.launch(&session.options.launch, ad_rules, None, None).await;
        launched.map_err(|error| Error::worker("the browser could not be woken", error))
    };
    if let Err(error) = launched.await {
        tracing::warn!(session = %session.id, %error, "a session's worker could not be woken");
        session.end(Ending::Interrupted);
    }
}
