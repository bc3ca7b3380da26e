//! The one table of sessions: live ones, and the records of those that ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::create_times::{CreateTimes, Histogram};
use super::ends::{EndLost, Ends, UnwrittenEnd};
use super::grid_ids::GridIds;
use super::names::Names;
use super::record::Ended;
use super::rows::Rows;
use super::services::SessionServices;
use super::{DriverOpening, Ending, Record, Session, SessionView};
use crate::Error;
use crate::logs::KeptLogs;
use warmpool_config::Config;
use warmpool_core::changes::KeyChanges;
use warmpool_core::clock::unix_ms;
use warmpool_core::drain::{Drain, DrainTask};
use warmpool_core::ids::SessionId;
use warmpool_core::instance::Instance;
use warmpool_core::secret;
use warmpool_extensions::Extensions;
use warmpool_keys::{KeyId, Keys};
use warmpool_profiles::{Profiles, Writer};
use warmpool_store::{Batch, Store};
use warmpool_webhooks::Webhooks;
use warmpool_workers::ads::AdLists;
use warmpool_workers::captcha::Captchas;
use warmpool_workers::egress::EgressContext;
use warmpool_workers::pool::Pool;

/// Every session there is and was. Clones share it.
#[derive(Clone)]
pub struct Sessions {
    pub(super) shared: Arc<Shared>,
}

/// What all clones share: what sessions are made with, and the table.
pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    pub(super) instance: Arc<Instance>,
    pub(super) keys: Keys,
    pub(super) pool: Pool,
    pub(super) store: Store,
    pub(super) drain: Drain,
    pub(super) ads: AdLists,
    pub(super) egress_context: EgressContext,
    pub(super) captchas: Captchas,
    pub(super) profiles: Profiles,
    pub(super) extensions: Extensions,
    pub(super) webhooks: Webhooks,
    pub(super) logs: KeptLogs,
    /// Rights to write profiles, of sessions whose workers have not been found again yet.
    pub(super) held_profiles: Mutex<HashMap<SessionId, Writer>>,
    pub(super) table: Mutex<Rows>,
    pub(super) grid_ids: GridIds,
    pub(super) names: Names,
    pub(super) create_times: CreateTimes,
    pub(super) changes: KeyChanges,
    pub(super) ends: Ends,
    /// What tries until the store has a record: an end, or a change of a live session.
    pub(super) writes: TaskTracker,
}

/// A row of the table.
#[derive(Clone)]
pub(super) enum SessionEntry {
    Live(Arc<Session>),
    /// It ended, or its worker has not been found again yet.
    Past(Arc<Record>),
}

impl SessionEntry {
    /// Whether its worker has not been found again yet.
    pub(super) fn is_open_past(&self) -> bool {
        matches!(self, Self::Past(record) if record.ended.is_none())
    }

    pub(super) fn id(&self) -> &SessionId {
        match self {
            Self::Live(session) => &session.id,
            Self::Past(record) => &record.session_id,
        }
    }

    pub(super) fn owner(&self) -> &KeyId {
        match self {
            Self::Live(session) => &session.owner,
            Self::Past(record) => &record.owner,
        }
    }

    /// When it was made, in Unix milliseconds.
    pub(super) fn created_ms(&self) -> u64 {
        match self {
            Self::Live(session) => session.created_ms,
            Self::Past(record) => record.created_ms,
        }
    }
}

impl Sessions {
    /// An empty table. [`Sessions::load`] fills it from the store.
    pub fn new(
        config: Arc<Config>,
        instance: Arc<Instance>,
        keys: Keys,
        pool: Pool,
        store: Store,
        drain: Drain,
        services: SessionServices,
    ) -> Self {
        let ads = AdLists::new(config.ads.lists.clone());
        let SessionServices { egress_context, captchas, profiles, extensions, webhooks } = services;
        let shared = Shared {
            config,
            instance,
            keys,
            pool,
            store,
            drain,
            ads,
            egress_context,
            captchas,
            profiles,
            extensions,
            webhooks,
            logs: KeptLogs::default(),
            held_profiles: Mutex::default(),
            table: Mutex::default(),
            grid_ids: GridIds::default(),
            names: Names::default(),
            create_times: CreateTimes::default(),
            changes: KeyChanges::default(),
            ends: Ends::default(),
            writes: TaskTracker::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Writes the end of a session and moves it to the past. A slow store holds up neither the worker nor those who wait for the end.
    /// Errors: [`EndLost`].
    pub(super) async fn close(&self, session: &Arc<Session>, ending: &Ending) -> Result<(), EndLost> {
        let now = unix_ms();
        let mut record = session.record();
        self.shared.grid_ids.end(&session.grid_ids, &session.owner);
        record.ended = Some(Ended::new(ending, now));
        record.deadline = None;
        record.client_proxy = None;
        metrics::counter!(
            "warmpool_sessions_ended_total",
            "engine" => record.options.engine.as_str(),
            "status" => ending.status().as_str(),
            "reason" => ending.code()
        )
        .increment(1);
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        metrics::histogram!("warmpool_session_seconds", "engine" => record.options.engine.as_str())
            .record(now.saturating_sub(record.created_ms) as f64 / 1000.0);
        let unwritten = self.shared.ends.begin(&session.id);
        self.lock().put(SessionEntry::Past(Arc::new(record.clone())));
        self.changed(&record.owner);
        self.record_end(Arc::clone(session), record, unwritten);
        let written = self.shared.ends.written(&session.id).await;
        session.release_profile();
        session.end_persisted.send_replace(Some(written));
        written
    }

    /// Whether a token was made for this purpose of this session, live or not.
    pub(super) fn is_token(&self, id: &str, purpose: &str, token: &str) -> bool {
        secret::equal(self.shared.instance.session_token(id, purpose), token)
    }

    /// Finds a live session without asking who calls. It is open for as long as the key works that made it.
    /// Errors: `UnknownSession`, `SessionEnded`.
    pub fn live(&self, id: &str) -> Result<Arc<Session>, Error> {
        let session = match self.lock().get(&SessionId::from(id)) {
            Some(SessionEntry::Live(session)) => Arc::clone(session),
            Some(SessionEntry::Past(record)) => return Err(self.past_error(record)),
            None => return Err(Error::UnknownSession { id: id.to_owned() }),
        };
        if !self.shared.keys.is_active(&session.owner) {
            session.end(Ending::KeyRevoked);
        }
        session.check_open().map(|()| session)
    }

    /// The error for requests to a session that is not live.
    fn past_error(&self, record: &Record) -> Error {
        // One without an end is not found again yet: the daemon has just started, or the runtime does not answer.
        record.past_error().unwrap_or_else(|| self.shared.pool.unavailable().into())
    }

    /// Finds a session of `owner`, live or not.
    /// Errors: `UnknownSession`, also when it is another key's.
    pub fn find(&self, id: &str, owner: &KeyId) -> Result<(SessionView, Option<Arc<Session>>), Error> {
        let entry = self.lock().get(&SessionId::from(id)).filter(|entry| entry.owner() == owner).cloned();
        let entry = entry.ok_or_else(|| Error::UnknownSession { id: id.to_owned() })?;
        let listing = entry.listing(unix_ms());
        match entry {
            SessionEntry::Live(session) => Ok((listing, Some(session))),
            SessionEntry::Past(_) => Ok((listing, None)),
        }
    }

    /// Finds a live session of `owner`.
    /// Errors: `UnknownSession`, also when it is another key's, and `SessionEnded`.
    pub fn find_live(&self, id: &str, owner: &KeyId) -> Result<Arc<Session>, Error> {
        self.find(id, owner)?;
        self.live(id)
    }

    /// The key that made a session, live or not.
    pub fn owner(&self, id: &str) -> Option<KeyId> {
        self.lock().get(&SessionId::from(id)).map(|entry| entry.owner().clone())
    }

    /// How many sessions of each key live.
    pub fn live_by_owner(&self) -> HashMap<KeyId, usize> {
        let mut counts = HashMap::new();
        for session in self.lock().live() {
            *counts.entry(session.owner.clone()).or_default() += 1;
        }
        counts
    }

    /// Changes each time a session comes, ends or has something new to show.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.of_all()
    }

    /// Changes each time a session of this key does.
    pub fn changes_of(&self, owner: &KeyId) -> watch::Receiver<u64> {
        self.shared.changes.of_key(owner)
    }

    /// Runs work that goes on whoever waits for it; the daemon's end waits for it too.
    pub(crate) fn spawn<F>(&self, work: F) -> DrainTask<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.shared.drain.spawn(work)
    }

    /// Announces that a session of this key has something new to show.
    pub(super) fn changed(&self, owner: &KeyId) {
        self.shared.changes.tell(owner);
    }

    /// How long the sessions took to create that were made since the last call.
    pub fn take_create_times(&self) -> Histogram {
        self.shared.create_times.take()
    }

    /// An ended session, for its live view.
    pub fn past(&self, id: &str) -> Option<SessionView> {
        let entry = self.lock().get(&SessionId::from(id)).cloned()?;
        Some(entry.listing(unix_ms())).filter(|listing| listing.reason.is_some())
    }

    /// Finds a session, live or not, by the token of its own live view. The links of others do not open it.
    /// Errors: `UnknownSession`, also for a wrong token where the session is not live, and `InvalidToken`.
    pub fn find_by_view_token(&self, id: &str, token: &str) -> Result<SessionView, Error> {
        let entry = self.lock().get(&SessionId::from(id)).cloned();
        let entry = entry.ok_or_else(|| Error::UnknownSession { id: id.to_owned() })?;
        let opens = self.is_token(id, "view", token);
        if !opens && matches!(entry, SessionEntry::Past(_)) {
            return Err(Error::UnknownSession { id: id.to_owned() });
        }
        if !opens || !self.shared.keys.is_active(entry.owner()) {
            return Err(Error::InvalidToken);
        }
        Ok(entry.listing(unix_ms()))
    }

    /// Ends a session of `owner` and waits until that is written. Ending one that has ended changes nothing. One whose worker
    /// has not been found again yet ends at once, and its worker is removed when it is found; one that writes a profile is waited
    /// for, since its end saves that.
    /// Errors: `UnknownSession`, and `Draining` where the store was closed before it had the end.
    pub async fn end(&self, id: &str, owner: &KeyId) -> Result<SessionView, Error> {
        self.find(id, owner)?;
        self.wait_for_writer(id).await;
        if let (_, None) = self.find(id, owner)? {
            self.end_past(&SessionId::from(id), &Ending::Deleted);
        }
        match self.find(id, owner)? {
            // Also where its worker was found at this very moment.
            (_, Some(session)) => {
                session.end(Ending::Deleted);
                session.end_persisted().await?;
            }
            // Whoever ends it again meanwhile waits for the store, too.
            (_, None) => self.shared.ends.written(&SessionId::from(id)).await?,
        }
        self.find(id, owner).map(|(listing, _)| listing)
    }

    /// The live sessions.
    pub fn all_live(&self) -> Vec<Arc<Session>> {
        self.lock().live().cloned().collect()
    }

    /// Ends every live session whose key was revoked.
    pub fn end_revoked(&self) {
        for session in self.all_live().iter().filter(|session| !self.shared.keys.is_active(&session.owner)) {
            session.end(Ending::KeyRevoked);
        }
    }

    /// Lets the running sessions end until `deadline`, then ends them.
    pub async fn drain(&self, deadline: Duration) {
        let left = async {
            while let Some(session) = self.all_live().first() {
                let _ = session.end_persisted().await;
            }
        };
        if timeout(deadline, left).await.is_err() {
            let sessions = self.all_live();
            sessions.iter().for_each(|session| session.end(Ending::Drained));
            for session in sessions {
                let _ = session.end_persisted().await;
            }
        }
    }

    /// Waits until the store has all that it is to have of sessions: the ends that are under way, and what has changed. For a daemon
    /// that closes its store while sessions live on.
    pub async fn settle(&self) {
        for session in self.all_live().iter().filter(|session| session.ending().is_some()) {
            let _ = session.end_persisted().await;
        }
        self.shared.writes.close();
        self.shared.writes.wait().await;
    }

    /// The driver made the session `driver` for this one: remembers that here and in the store.
    pub(crate) async fn driver_opened(&self, session: &Arc<Session>, opening: DriverOpening, driver: String) {
        opening.opened(driver);
        self.persist(session).await;
    }

    /// Writes the end, and tries until the store has it.
    fn record_end(&self, session: Arc<Session>, record: Record, unwritten: UnwrittenEnd) {
        let sessions = self.clone();
        self.spawn_write(async move {
            let mut batch = Batch::new();
            let enclosed = sessions.enclose_end(&mut batch, &record);
            match session.journal.close(&record, batch).await {
                Ok(()) => {
                    unwritten.written();
                    sessions.shared.webhooks.send(enclosed);
                }
                Err(error) => tracing::error!(session = %session.id, %error, "the end of a session was not written"),
            }
        });
    }

    /// Runs what writes a record, whoever waits for it.
    pub(super) fn spawn_write(&self, write: impl Future<Output = ()> + Send + 'static) -> DrainTask<()> {
        self.spawn(self.shared.writes.track_future(write))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Rows> {
        self.shared.table.lock()
    }
}
