//! The one table of sessions: live ones, and the records of those that ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::create_times::{CreateTimes, Histogram};
use super::grid_ids::{GridIds, shown_grid_id};
use super::names::Names;
use super::record::Ended;
use super::services::SessionServices;
use super::{DriverOpening, Ending, Record, Session, SessionView};
use crate::Error;
use crate::logs::KeptLogs;
use warmpool_config::Config;
use warmpool_core::clock::unix_ms;
use warmpool_core::drain::Drain;
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

/// How long a session that has ended waits for its end to be on the disk.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

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
    pub(super) table: Mutex<HashMap<SessionId, SessionEntry>>,
    pub(super) grid_ids: GridIds,
    pub(super) names: Names,
    pub(super) create_times: CreateTimes,
    pub(super) changes: watch::Sender<u64>,
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

    pub(super) fn owner(&self) -> &KeyId {
        match self {
            Self::Live(session) => &session.owner,
            Self::Past(record) => &record.owner,
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
        let table = Mutex::new(HashMap::new());
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
            table,
            grid_ids: GridIds::default(),
            names: Names::default(),
            create_times: CreateTimes::default(),
            changes: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Writes the end of a session and moves it to the past.
    pub(super) async fn close(&self, session: &Arc<Session>, ending: &Ending) {
        let now = unix_ms();
        let mut record = session.record();
        self.shared.grid_ids.remove(session);
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
        self.lock().insert(record.session_id.clone(), SessionEntry::Past(Arc::new(record.clone())));
        self.changed();
        self.record_end(Arc::clone(session), record).await;
        session.release_profile();
        session.end_persisted.cancel();
    }

    /// Finds a live session by the token in its client URLs.
    /// Errors: `InvalidToken`, and those of [`Sessions::live`]. Whoever has another token than that of a session that is not
    /// live does not learn that there was one.
    pub fn live_by_token(&self, id: &str, token: &str) -> Result<Arc<Session>, Error> {
        match self.live(id) {
            Ok(session) => session.check_token(token).map(|()| session),
            Err(error) => Err(self.error_for_caller(id, self.is_token(id, "client", token), error)),
        }
    }

    /// The error for requests to a session that is not live: to those who do not know the session, as if there had been none.
    pub fn error_for_caller(&self, id: &str, knows_it: bool, error: Error) -> Error {
        if knows_it { error } else { Error::UnknownSession { id: id.to_owned() } }
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
        for session in self.all_live() {
            *counts.entry(session.owner.clone()).or_default() += 1;
        }
        counts
    }

    /// Changes each time a session comes, ends or has something new to show.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Runs work that goes on whoever waits for it; the daemon's end waits for it too.
    pub(crate) fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.shared.drain.spawn(work)
    }

    pub(super) fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
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
    /// Errors: `UnknownSession`.
    pub async fn end(&self, id: &str, owner: &KeyId) -> Result<SessionView, Error> {
        self.find(id, owner)?;
        self.wait_for_writer(&SessionId::from(id)).await;
        if let (_, None) = self.find(id, owner)?
            && let Some(writing) = self.end_past(&SessionId::from(id), &Ending::Deleted)
            && timeout(RECORD_TIMEOUT, writing).await.is_err()
        {
            tracing::warn!(session = id, "the end of a session is not on the disk yet");
        }
        // Also where its worker was found at this very moment.
        if let (_, Some(session)) = self.find(id, owner)? {
            session.end(Ending::Deleted);
            session.end_persisted().await;
        }
        self.find(id, owner).map(|(listing, _)| listing)
    }

    /// The live sessions.
    pub fn all_live(&self) -> Vec<Arc<Session>> {
        let live = |entry: &SessionEntry| match entry {
            SessionEntry::Live(session) => Some(Arc::clone(session)),
            SessionEntry::Past(_) => None,
        };
        self.lock().values().filter_map(live).collect()
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
                session.end_persisted().await;
            }
        };
        if timeout(deadline, left).await.is_err() {
            let sessions = self.all_live();
            sessions.iter().for_each(|session| session.end(Ending::Drained));
            for session in sessions {
                session.end_persisted().await;
            }
        }
    }

    /// The driver made the session `driver` for this one: remembers that here and in the store.
    pub(crate) async fn driver_opened(&self, session: &Arc<Session>, opening: DriverOpening, driver: String) {
        opening.opened(driver);
        self.persist(session).await;
    }

    /// Finds the live session that a grid's clients know by this id. Anyone holding it needs no key; a key that is given must
    /// be the one that made the session.
    /// Errors: `UnknownSession`, also when it has ended or is another key's.
    pub fn of_grid(&self, grid_id: &str, owner: Option<&KeyId>) -> Result<Arc<Session>, Error> {
        let unknown = || Error::UnknownSession { id: shown_grid_id(grid_id) };
        let id = self.shared.grid_ids.find(grid_id).ok_or_else(unknown)?;
        let session = self.live(id.as_str()).map_err(|_| unknown())?;
        if owner.is_none_or(|owner| session.owner == *owner) { Ok(session) } else { Err(unknown()) }
    }

    /// The live session whose client URLs carry this token.
    pub fn opened_by(&self, token: &str) -> Option<Arc<Session>> {
        let session = self.all_live().into_iter().find(|session| session.check_token(token).is_ok())?;
        self.live(session.id.as_str()).ok()
    }

    /// Writes the end. A slow store holds up neither the worker nor those who wait for the end.
    async fn record_end(&self, session: Arc<Session>, record: Record) {
        let (id, sessions) = (session.id.clone(), self.clone());
        let writing = self.shared.drain.spawn(async move {
            let mut batch = Batch::new();
            let enclosed = sessions.enclose_end(&mut batch, &record);
            match session.journal.close(&record, batch).await {
                Ok(()) => sessions.shared.webhooks.send(enclosed),
                Err(error) => tracing::error!(session = %session.id, %error, "the end of a session was not written"),
            }
        });
        if timeout(RECORD_TIMEOUT, writing).await.is_err() {
            tracing::warn!(session = %id, "the end of a session is not on the disk yet");
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, SessionEntry>> {
        self.shared.table.lock()
    }
}
