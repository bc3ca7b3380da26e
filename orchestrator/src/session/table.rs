//! The one table of sessions: live ones, and the records of those that ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::drivers::DriverIndex;
use super::gate::Gate;
use super::journal::Journal;
use super::record::Ads;
use super::record::Ended;
use super::share::Shares;
use super::{DriverOpening, DriverSession, Ending, Listing, Record, Session, SessionQuery, Share, Status};
use crate::ads::AdRules;
use crate::clock::{Now, unix_ms};
use crate::config::Config;
use crate::drain::Drain;
use crate::egress::{Egress, Outside, Policy, Rules};
use crate::engine::SessionId;
use crate::error::Error;
use crate::instance::Instance;
use crate::keys::{KeyId, Keys};
use crate::pool::{Lease, Pool};
use crate::store::Store;

/// How long a session that has ended waits for its end to be on the disk.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

/// Every session there is and was. Clones share it.
#[derive(Clone)]
pub(crate) struct Sessions {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) config: Arc<Config>,
    pub(super) instance: Arc<Instance>,
    pub(super) keys: Keys,
    pub(super) pool: Pool,
    pub(super) store: Store,
    pub(super) drain: Drain,
    pub(super) ads: AdRules,
    pub(super) outside: Outside,
    pub(super) table: Mutex<HashMap<SessionId, SessionEntry>>,
    pub(super) drivers: DriverIndex,
}

/// A row of the table.
#[derive(Clone)]
pub(super) enum SessionEntry {
    Live(Arc<Session>),
    /// It ended, or its worker has not been found again yet.
    Past(Arc<Record>),
}

impl SessionEntry {
    fn owner(&self) -> &KeyId {
        match self {
            Self::Live(session) => &session.owner,
            Self::Past(record) => &record.owner,
        }
    }

    fn listing(&self, now_ms: u64) -> Listing {
        match self {
            Self::Live(session) => {
                let mut record = session.record();
                // Its end may be known and not yet written: what is said of it is whole all the same.
                record.ended = session.ending().map(|ending| Ended::new(&ending, now_ms));
                let ads = session.worker.snapshot.borrow().ads_blocked.map(|blocked| Ads { blocked });
                Listing { ads, ..Listing::new(&record, session.status(), now_ms) }
            }
            Self::Past(record) => {
                let status = record.ended.as_ref().map_or(Status::Unknown, |ended| ended.status);
                Listing::new(record, status, now_ms)
            }
        }
    }
}

impl Sessions {
    /// An empty table. [`Sessions::load`] fills it from the store.
    pub(crate) fn new(
        config: Arc<Config>,
        instance: Arc<Instance>,
        keys: Keys,
        pool: Pool,
        store: Store,
        drain: Drain,
        outside: Outside,
    ) -> Self {
        let table = Mutex::new(HashMap::new());
        let ads = AdRules::new(config.ads.lists.clone());
        let drivers = DriverIndex::default();
        let inner = Inner { config, instance, keys, pool, store, drain, ads, outside, table, drivers };
        Self { inner: Arc::new(inner) }
    }

    /// Puts a session together, with its way out open.
    pub(super) fn build(
        &self,
        record: Record,
        time_left: Duration,
        lease: &mut Lease,
        warnings: Vec<String>,
    ) -> Session {
        let instance = &self.inner.instance;
        let worker = Arc::clone(lease.use_worker());
        let rules = &self.inner.config.egress;
        let policy = Policy::new(vec![Rules { allow: rules.allow.clone(), deny: rules.deny.clone() }]);
        let id = record.session_id;
        let outside = &self.inner.outside;
        let egress = Egress::open(Arc::clone(&worker), policy, &self.inner.config, outside, record.egress);
        if let Some(wanted) = &record.options.proxy {
            egress.go_through(outside, wanted, id.as_str());
        }
        Session {
            token: instance.session_token(id.as_str(), "client"),
            view_token: instance.session_token(id.as_str(), "view"),
            gate: Gate::new(),
            shares: Shares::new(record.shares, &Now::read()),
            journal: Journal::new(self.inner.store.clone()),
            id,
            owner: record.owner,
            options: record.options,
            created_ms: record.created_ms,
            egress,
            worker,
            warnings,
            deadline: Instant::now() + time_left,
            kept_deadline: record.deadline,
            activity: Activity::new(record.attached),
            ending: tokio::sync::watch::Sender::new(None),
            recorded: CancellationToken::new(),
            driver: Mutex::new(record.driver_session.map_or(DriverSession::Idle, DriverSession::Open)),
        }
    }

    /// Writes the end of a session and moves it to the past.
    pub(super) async fn close(&self, session: &Arc<Session>, ending: &Ending) {
        let now = unix_ms();
        let mut record = session.record();
        self.inner.drivers.remove(&record);
        record.ended = Some(Ended::new(ending, now));
        record.deadline = None;
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
        self.record_end(Arc::clone(session), record).await;
        session.recorded.cancel();
    }

    /// Finds a live session without asking who calls: for routes that a token in the URL opens. It is open for as long as
    /// the key works that made it.
    /// Errors: `UnknownSession`, `SessionEnded`.
    pub(crate) fn live(&self, id: &str) -> Result<Arc<Session>, Error> {
        let session = match self.lock().get(&SessionId::from(id)) {
            Some(SessionEntry::Live(session)) => Arc::clone(session),
            Some(SessionEntry::Past(record)) => return Err(record.past_error()),
            None => return Err(Error::UnknownSession { id: id.to_owned() }),
        };
        if !self.inner.keys.is_active(&session.owner) {
            session.end(Ending::KeyRevoked);
        }
        session.check_open().map(|()| session)
    }

    /// Finds a session of `owner`, live or not.
    /// Errors: `UnknownSession`, also when it is another key's.
    pub(crate) fn find(&self, id: &str, owner: &KeyId) -> Result<(Listing, Option<Arc<Session>>), Error> {
        let entry = self.lock().get(&SessionId::from(id)).filter(|entry| entry.owner() == owner).cloned();
        let entry = entry.ok_or_else(|| Error::UnknownSession { id: id.to_owned() })?;
        let listing = entry.listing(unix_ms());
        match entry {
            SessionEntry::Live(session) => Ok((listing, Some(session))),
            SessionEntry::Past(_) => Ok((listing, None)),
        }
    }

    /// A session that has ended, for its live view to say how.
    pub(crate) fn past(&self, id: &str) -> Option<Listing> {
        let entry = self.lock().get(&SessionId::from(id)).cloned()?;
        Some(entry.listing(unix_ms())).filter(|listing| listing.reason.is_some())
    }

    /// Finds a session, live or not, by the token of its own live view. The links of others do not open it.
    /// Errors: `UnknownSession`, `InvalidToken`.
    pub(crate) fn find_by_view_token(&self, id: &str, token: &str) -> Result<Listing, Error> {
        use subtle::ConstantTimeEq as _;
        let entry = self.lock().get(&SessionId::from(id)).cloned();
        let entry = entry.ok_or_else(|| Error::UnknownSession { id: id.to_owned() })?;
        let expected = self.inner.instance.session_token(id, "view");
        let opens = bool::from(expected.as_bytes().ct_eq(token.as_bytes()));
        if !opens || !self.inner.keys.is_active(entry.owner()) {
            return Err(Error::InvalidToken);
        }
        Ok(entry.listing(unix_ms()))
    }

    /// One page of the sessions of `owner`, and how many match in all.
    pub(crate) fn list(&self, query: &SessionQuery, owner: &KeyId) -> (Vec<Listing>, u64) {
        let now = unix_ms();
        let rows: Vec<SessionEntry> = self.lock().values().filter(|entry| entry.owner() == owner).cloned().collect();
        let mut found: Vec<Listing> =
            rows.iter().map(|entry| entry.listing(now)).filter(|listing| query.matches(listing)).collect();
        let total = found.len() as u64;
        found.sort_unstable_by(|a, b| query.compare(a, b));
        let skip = usize::try_from((query.page - 1).saturating_mul(query.limit)).unwrap_or(usize::MAX);
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        (found.into_iter().skip(skip).take(limit).collect(), total)
    }

    /// Ends a session of `owner` and waits until that is written. Ending one that has ended changes nothing.
    /// Errors: `UnknownSession`.
    pub(crate) async fn end(&self, id: &str, owner: &KeyId) -> Result<Listing, Error> {
        if let (_, Some(session)) = self.find(id, owner)? {
            session.end(Ending::Deleted);
            session.recorded().await;
        }
        self.find(id, owner).map(|(listing, _)| listing)
    }

    /// The live sessions.
    pub(crate) fn all_live(&self) -> Vec<Arc<Session>> {
        let live = |entry: &SessionEntry| match entry {
            SessionEntry::Live(session) => Some(Arc::clone(session)),
            SessionEntry::Past(_) => None,
        };
        self.lock().values().filter_map(live).collect()
    }

    /// How many sessions live.
    pub(crate) fn live_count(&self) -> usize {
        self.lock().values().filter(|entry| matches!(entry, SessionEntry::Live(_))).count()
    }

    /// Ends every live session whose key was revoked.
    pub(crate) fn end_revoked(&self) {
        for session in self.all_live().iter().filter(|session| !self.inner.keys.is_active(&session.owner)) {
            session.end(Ending::KeyRevoked);
        }
    }

    /// Lets the running sessions end until `deadline`, then ends them.
    pub(crate) async fn drain(&self, deadline: Duration) {
        let left = async {
            while let Some(session) = self.all_live().first() {
                session.recorded().await;
            }
        };
        if timeout(deadline, left).await.is_err() {
            let sessions = self.all_live();
            sessions.iter().for_each(|session| session.end(Ending::Drained));
            for session in sessions {
                session.recorded().await;
            }
        }
    }

    /// The driver made the session `driver` for this one; noted here and in the store.
    pub(crate) async fn driver_opened(&self, session: &Arc<Session>, opening: DriverOpening, driver: String) {
        opening.opened(driver);
        self.inner.drivers.add(session);
        if session.check_open().is_err() {
            self.inner.drivers.remove(&session.record());
        }
        self.note(session).await;
    }

    /// Finds the live session of `owner` whose driver session is `driver`.
    /// Errors: `UnknownSession`, also when it has ended or is another key's.
    pub(crate) fn driven_by(&self, driver: &str, owner: &KeyId) -> Result<Arc<Session>, Error> {
        let unknown = || Error::UnknownSession { id: driver.chars().take(64).collect() };
        let id = self.inner.drivers.find(driver).ok_or_else(unknown)?;
        let session = self.live(id.as_str()).map_err(|_| unknown())?;
        if session.owner == *owner { Ok(session) } else { Err(unknown()) }
    }

    /// The token that a link's URL carries: the link's id, and the proof that this instance made it.
    pub(crate) fn share_token(&self, session: &Session, share: &Share) -> String {
        format!("{}.{}", share.share_id, self.share_proof(session, share.share_id.as_str()))
    }

    /// The link whose token this is.
    /// Errors: `InvalidToken`, also for a link that has ended.
    pub(crate) fn shared_by(&self, session: &Session, token: &str) -> Result<Share, Error> {
        use subtle::ConstantTimeEq as _;
        let (id, proof) = token.split_once('.').ok_or(Error::InvalidToken)?;
        let genuine = self.share_proof(session, id);
        if !bool::from(genuine.as_bytes().ct_eq(proof.as_bytes())) {
            return Err(Error::InvalidToken);
        }
        session.shares.current().into_iter().find(|share| share.share_id.as_str() == id).ok_or(Error::InvalidToken)
    }

    fn share_proof(&self, session: &Session, id: &str) -> String {
        self.inner.instance.session_token(session.id.as_str(), &format!("share {id}"))
    }

    /// Has the end written. A store that takes it later holds up neither the worker nor who waits for the end.
    async fn record_end(&self, session: Arc<Session>, record: Record) {
        let id = session.id.clone();
        let writing = self.inner.drain.spawn(async move {
            if let Err(error) = session.journal.close(&record).await {
                tracing::error!(session = %session.id, %error, "the end of a session was not written");
            }
        });
        if timeout(RECORD_TIMEOUT, writing).await.is_err() {
            tracing::warn!(session = %id, "the end of a session is not on the disk yet");
        }
    }

    /// Notes a change of a live session that should survive the daemon. A failure is logged: the session goes on.
    pub(crate) async fn note(&self, session: &Session) {
        if session.check_open().is_ok()
            && let Err(error) = session.journal.note(|| session.record()).await
        {
            tracing::error!(session = %session.id, %error, "a change of a session was not written");
        }
    }

    pub(super) fn reconnect_window(&self) -> Duration {
        self.inner.config.session.reconnect_window
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, SessionEntry>> {
        self.inner.table.lock()
    }
}
