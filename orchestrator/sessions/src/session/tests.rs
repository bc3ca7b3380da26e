//! Sessions whose workers are nowhere, on a store that is slow, full or closed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::time::timeout;

use super::record::Ended;
use super::rows::Rows;
use super::table::SessionEntry;
use super::*;
use crate::Error;
use crate::webdriver::quit;
use warmpool_config::{Config, Flags, Host};
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::drain::{Drain, Phase};
use warmpool_core::error::ServiceError;
use warmpool_core::ids::{SessionId, WorkerId};
use warmpool_core::instance::Instance;
use warmpool_extensions::Extensions;
use warmpool_keys::{KeyId, KeyRole, Keys};
use warmpool_profiles::Profiles;
use warmpool_runtime::Runtime;
use warmpool_store::fault::{FaultGate, FaultPoint, Faults, StoreFault, until};
use warmpool_store::{Batch, Durability, Store, StoreOptions, Table};
use warmpool_webhooks::{Event, EventKind, Webhooks};
use warmpool_workers::pool::Pool;

/// What the container engine would listen on.
const ENGINE: &str = "no-engine.sock";
/// What must stay free on the disk, in bytes, and what is free where all is well.
const MIN_FREE: u64 = 1000;
/// Only what may use the reserve is taken.
const SCARCE: u64 = 500;
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) struct Bench {
    sessions: Sessions,
    pool: Pool,
    drain: Drain,
    faults: Faults,
    store: Store,
    owner: KeyId,
    data: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    /// With these settings beside those that all tests need, as environment variables.
    async fn with(settings: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let options = StoreOptions { min_free_bytes: MIN_FREE, ..StoreOptions::default() };
        let store = Store::faulty(&faults, options);
        // In a store of their own, which does not fail.
        let keys = Keys::load(Store::memory()).await.unwrap();
        let owner = keys.create("owner", KeyRole::Client).await.unwrap().record.id;
        let config = config(data.path(), settings);
        let instance = Arc::new(Instance::load_or_create(data.path()).unwrap());
        let drain = Drain::default();
        let runtime = Runtime::new(Arc::clone(&config), instance.id().to_owned());
        let extensions = Extensions::none(config.extensions.clone(), data.path(), store.clone());
        let pool = Pool::new(Arc::clone(&config), Arc::clone(&instance), runtime, drain.clone(), extensions.clone());
        let profiles = Profiles::none(config.profiles.clone(), data.path(), store.clone());
        let webhooks = Webhooks::nowhere(&config, &instance, &keys, &store);
        let services = SessionServices::nowhere(&config, profiles, extensions, webhooks);
        let sessions = Sessions::new(config, instance, keys, pool.clone(), store.clone(), drain.clone(), services);
        Self { sessions, pool, drain, faults, store, owner, data }
    }

    fn record(&self, id: &str) -> Record {
        serde_json::from_value(json!({
            "session_id": id, "owner": self.owner, "created_ms": 1, "worker": "w",
            "options": {"kind": "webdriver", "engine": "chromium", "mode": "headless", "launch": {"url": null},
                "session_timeout": 300, "idle_timeout": null},
        }))
        .unwrap()
    }

    /// A session that lives.
    pub(crate) fn live(&self, id: &str) -> Arc<Session> {
        let mut lease = self.pool.lease_nowhere(self.owner.clone());
        let session = self.sessions.build(self.record(id), MINUTE, &mut lease, Vec::new(), None);
        self.sessions.admit(session, lease)
    }

    /// A session of an earlier process that was not found again yet.
    async fn unfound(&self, id: &str) {
        let (record, mut batch) = (self.record(id), Batch::new());
        batch.put_json(Table::Sessions, record.store_key(), &record).unwrap();
        self.store.commit(batch, Durability::Process).await.unwrap();
        self.sessions.load().await.unwrap();
    }

    async fn kept(&self, id: &str) -> Option<Record> {
        let value = self.store.get(Table::Sessions, &self.record(id).store_key()).await.unwrap()?;
        Some(serde_json::from_slice(&value).unwrap())
    }

    async fn end(&self, id: &str) -> Result<SessionView, Error> {
        self.sessions.end(id, &self.owner).await
    }
}

fn config(data: &Path, settings: &[(&str, &str)]) -> Arc<Config> {
    let env = [
        ("WARMPOOL_STORE_DATA_DIR", data.display().to_string()),
        ("WARMPOOL_DOCKER_HOST", format!("unix://{}", data.join(ENGINE).display())),
    ];
    let settings = settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let env = env.into_iter().chain(settings).map(|(name, value)| (name.to_owned(), value));
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    Arc::new(Config::resolve(None, env, &Flags::default(), &host).unwrap())
}

fn is_draining<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Service(ServiceError::Draining)))
}

#[tokio::test]
async fn no_end_is_acknowledged_that_a_closed_store_did_not_take() {
    let bench = Bench::new().await;
    bench.unfound("ses_unfound").await;
    bench.live("ses_live");
    let driven = bench.live("ses_driven");
    bench.sessions.driver_opened(&driven, driven.open_driver().unwrap(), "driver".to_owned()).await;
    bench.drain.advance(Phase::Leaving);
    bench.store.close().await.unwrap();
    for id in ["ses_unfound", "ses_live"] {
        for _ in 0..2 {
            let ended = bench.end(id).await;
            assert!(is_draining(&ended), "{id}: {ended:?}");
        }
    }
    assert!(is_draining(&quit(&driven, "driver").await));
    assert_eq!(bench.pool.left(), 2, "the next process finds them");
}

#[tokio::test]
async fn a_store_is_closed_behind_the_ends_and_changes_that_are_under_way() {
    let bench = Bench::new().await;
    let (ending, changed) = (bench.live("ses_ending"), bench.live("ses_changed"));
    bench.faults.set_free_bytes(0);
    ending.end(Ending::Deleted);
    drop(bench.sessions.keep(&changed));
    let settled = tokio::spawn({
        let sessions = bench.sessions.clone();
        async move { sessions.settle().await }
    });
    let attempts = bench.faults.calls(FaultPoint::Apply);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!settled.is_finished() && bench.faults.calls(FaultPoint::Apply) == attempts);
    bench.faults.set_free_bytes(MIN_FREE);
    settled.await.unwrap();
    assert!(bench.kept("ses_ending").await.unwrap().ended.is_some());
    assert!(bench.kept("ses_changed").await.is_some());
}

#[tokio::test]
async fn whoever_ends_a_session_again_waits_for_the_store_too() {
    let bench = Bench::new().await;
    bench.live("ses_a");
    let gate = FaultGate::default();
    bench.faults.next(FaultPoint::Apply, StoreFault::Hang(gate.clone()));
    let ending = |bench: &Bench| {
        let (sessions, owner) = (bench.sessions.clone(), bench.owner.clone());
        tokio::spawn(async move { sessions.end("ses_a", &owner).await })
    };
    let first = ending(&bench);
    until("it is being written", || bench.faults.calls(FaultPoint::Apply) == 1).await;
    let second = ending(&bench);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!first.is_finished() && !second.is_finished());
    gate.open();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_nearly_full_disk_keeps_what_clients_rely_on_and_no_new_link() {
    let bench = Bench::new().await;
    let session = bench.live("ses_a");
    bench.faults.set_free_bytes(SCARCE);
    let refused = bench.sessions.make_share(&session, false, MINUTE, 2).await;
    assert!(matches!(refused, Err(Error::Service(ServiceError::DiskNearlyFull))), "{refused:?}");
    assert!(session.shares.current().is_empty(), "nobody is told of one that a restart forgets");
    bench.sessions.driver_opened(&session, session.open_driver().unwrap(), "driver".to_owned()).await;
    assert_eq!(bench.kept("ses_a").await.unwrap().driver_session.as_deref(), Some("driver"));

    bench.faults.set_free_bytes(MIN_FREE);
    let share = bench.sessions.make_share(&session, false, MINUTE, 2).await.unwrap();
    assert_eq!(bench.kept("ses_a").await.unwrap().shares, [share]);
}

#[tokio::test]
async fn what_clients_rely_on_is_tried_until_there_is_room() {
    let bench = Bench::new().await;
    let session = bench.live("ses_a");
    bench.faults.set_free_bytes(0);
    let opening = session.open_driver().unwrap();
    let opened = tokio::spawn({
        let (sessions, session) = (bench.sessions.clone(), Arc::clone(&session));
        async move { sessions.driver_opened(&session, opening, "driver".to_owned()).await }
    });
    until("the store is asked", || bench.store.health().free_bytes == Some(0)).await;
    // Whoever waited for it does not any more.
    opened.abort();
    bench.faults.set_free_bytes(MIN_FREE);
    bench.sessions.settle().await;
    assert_eq!(bench.kept("ses_a").await.unwrap().driver_session.as_deref(), Some("driver"));
    // A change that waits holds the end up neither.
    bench.faults.set_free_bytes(0);
    drop(bench.sessions.keep(&session));
    session.end(Ending::Deleted);
    bench.faults.set_free_bytes(MIN_FREE);
    bench.sessions.settle().await;
    assert!(bench.kept("ses_a").await.unwrap().ended.is_some(), "the end is the last that is written");
}

#[tokio::test]
async fn a_daemon_that_drains_leaves_what_it_has_not_found_to_the_next() {
    let bench = Bench::new().await;
    bench.unfound("ses_a").await;
    // It takes connections, and never answers.
    let _engine = UnixListener::bind(bench.data.path().join(ENGINE)).unwrap();
    let reclaiming = tokio::spawn({
        let sessions = bench.sessions.clone();
        async move { sessions.reclaim().await }
    });
    tokio::task::yield_now().await;
    bench.drain.advance(Phase::Draining);
    let reclaimed = timeout(Duration::from_secs(5), reclaiming).await.expect("it waits for the engine").unwrap();
    assert_eq!(reclaimed.unwrap(), Reclaimed::LeftToTheNext);
    assert_eq!((bench.sessions.unfound_count(), bench.sessions.live_count()), (1, 0));
    bench.end("ses_a").await.unwrap();
    assert_eq!(bench.sessions.unfound_count(), 0, "its end is known");
    assert_eq!(bench.sessions.find("ses_a", &bench.owner).unwrap().0.session_id, SessionId::from("ses_a"));
}

#[tokio::test]
async fn a_session_that_is_found_as_a_drain_begins_is_kept_where_sessions_are() {
    for (keep, is_kept) in [("false", false), ("true", true)] {
        let bench = Bench::with(&[("WARMPOOL_DRAIN_KEEP_SESSIONS", keep)]).await;
        let session = bench.live("ses_a");
        bench.drain.advance(Phase::Draining);
        bench.sessions.end_if_drained(&session);
        assert_eq!(session.ending().is_none(), is_kept);
    }
}

impl Bench {
    fn create(&self) -> impl Future<Output = Result<UnconfirmedSession, Error>> + Send + use<> {
        let (sessions, owner, options) = (self.sessions.clone(), self.owner.clone(), self.record("ses_a").options);
        async move { sessions.create(owner, options).await }
    }

    async fn fill_the_disk(&self) {
        self.faults.set_free_bytes(SCARCE);
        until("it is measured", || self.store.shortage().is_some()).await;
    }

    /// Whether a worker waits that nobody has used.
    fn is_warm(&self) -> bool {
        self.pool.warm_snapshot(Engine::Chromium).is_some()
    }
}

fn is_full<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Service(ServiceError::DiskNearlyFull)))
}

#[tokio::test]
async fn nobody_waits_for_a_worker_while_the_disk_is_nearly_full() {
    let bench = Bench::new().await;
    bench.pool.suppose_up();
    bench.fill_the_disk().await;
    let refused = timeout(MINUTE / 3, bench.create()).await.expect("it waits for a worker").map(drop);
    assert!(is_full(&refused), "{refused:?}");
}

#[tokio::test]
async fn whoever_asks_by_a_name_waits_no_longer_than_for_a_worker() {
    let bench = Bench::new().await;
    let _first = bench.sessions.name_turn(&bench.owner, "work").await.unwrap();
    let options = Options { name: Some("work".to_owned()), ..bench.record("ses_a").options };
    tokio::time::pause();
    let second = bench.sessions.join_or_create(bench.owner.clone(), options, |_, _| Ok(()));
    let refused = timeout(2 * MINUTE, second).await.expect("it waits for the first").map(drop);
    assert!(matches!(refused, Err(Error::Pool(warmpool_workers::Error::NoWorker { .. }))), "{refused:?}");
}

#[tokio::test]
async fn a_caller_may_have_a_wait_of_its_own() {
    let bench = Bench::new().await;
    bench.pool.suppose_up();
    let own = Duration::from_millis(1);
    let options = Options { queue_wait: Some(own), ..bench.record("ses_a").options };
    let refused = bench.sessions.create(bench.owner.clone(), options).await.map(drop);
    let has_waited = matches!(refused, Err(Error::Pool(warmpool_workers::Error::NoWorker { waited })) if waited == own);
    assert!(has_waited, "{refused:?}");
}

#[tokio::test]
async fn a_nearly_full_disk_costs_no_worker() {
    let bench = Bench::new().await;
    bench.pool.suppose_up();
    let waiting = tokio::spawn(bench.create());
    until("it waits for a worker", || bench.pool.waiting() == 1).await;
    bench.fill_the_disk().await;
    bench.pool.add_warm(PoolKey::plain(Engine::Chromium, Mode::Headless));
    let refused = waiting.await.unwrap().map(drop);
    assert!(is_full(&refused), "{refused:?}");
    until("the worker is back", || bench.is_warm()).await;
    for _ in 0..3 {
        let refused = bench.create().await.map(drop);
        assert!(is_full(&refused), "{refused:?}");
    }
    assert!(bench.is_warm(), "who is refused has used none");
}

#[tokio::test]
async fn a_person_is_told_who_waits_although_the_disk_is_nearly_full() {
    let bench = Bench::new().await;
    bench.fill_the_disk().await;
    let told = json!({"captcha": "image"});
    let event = Event {
        kind: EventKind::SessionWaiting,
        subject: "ses_a_1",
        owner: &bench.owner,
        address: Some("https://hooks.example/"),
        data: &told,
        brief: &told,
    };
    bench.sessions.webhooks().announce(&event).await.unwrap();
}

#[tokio::test]
async fn workers_of_ended_sessions_are_known_after_a_restart() {
    let bench = Bench::new().await;
    let mut batch = Batch::new();
    for (id, ended) in [("ses_ended", Some(Ended::new(&Ending::Deleted, 9))), ("ses_open", None)] {
        let record = Record { worker: WorkerId::from(id), ended, ..bench.record(id) };
        batch.put_json(Table::Sessions, record.store_key(), &record).unwrap();
    }
    bench.store.commit(batch, Durability::Process).await.unwrap();
    bench.sessions.load().await.unwrap();
    assert_eq!(bench.sessions.lock().ended_workers(), HashSet::from([WorkerId::from("ses_ended")]));
    bench.end("ses_open").await.unwrap();
    let both = HashSet::from(["ses_ended", "ses_open"].map(WorkerId::from));
    assert_eq!(bench.sessions.lock().ended_workers(), both, "its removal is still to come");
}

#[tokio::test]
async fn challenges_that_are_listed_no_more_count_after_a_restart() {
    let bench = Bench::new().await;
    let mut record = bench.record("ses_a");
    record.options.launch.captchas = Some(warmpool_protocol::CaptchaSolver::Person);
    record.captcha_count = 100;
    let record: Record = serde_json::from_value(serde_json::to_value(record).unwrap()).unwrap();
    let mut lease = bench.pool.lease_nowhere(bench.owner.clone());
    let session = bench.sessions.build(record, MINUTE, &mut lease, Vec::new(), None);
    assert_eq!(session.record().captcha_count, 100);
}

#[tokio::test]
async fn no_key_pushes_out_the_records_of_another() {
    let bench = Bench::new().await;
    let keep = bench.sessions.shared.config.session.keep_records;
    let small: KeyId = "00000000000b".parse().unwrap();
    let put = |id: &str, owner: &KeyId, created_ms: u64| {
        let ended = Some(Ended::new(&Ending::Deleted, created_ms));
        let record = Record { owner: owner.clone(), created_ms, ended, ..bench.record(id) };
        bench.sessions.lock().put(SessionEntry::Past(Arc::new(record)));
    };
    put("ses_small", &small, 1);
    for (created_ms, number) in (2..).zip(0..keep) {
        put(&format!("ses_{number}"), &bench.owner, created_ms);
    }
    bench.sessions.forget_old(2).await.unwrap();
    let is_known = |id: &str| bench.sessions.owner(id).is_some();
    assert!(is_known("ses_small") && !is_known("ses_0") && is_known("ses_1"));
    assert_eq!(bench.sessions.lock().count(None), keep);
}

#[tokio::test]
async fn the_orders_of_the_rows_are_what_a_walk_finds() {
    let bench = Bench::new().await;
    let owners: [KeyId; 2] = ["000000000001", "000000000002"].map(|id| id.parse().unwrap());
    // Each session as it lives, as it waits for its worker, and as it has ended. Some are equally old.
    let (mut sessions, mut leases) = (Vec::new(), Vec::new());
    for (number, owner) in (0..6_u64).zip(owners.iter().cycle()) {
        let record = bench.record(&format!("ses_{number}"));
        let unfound = Record { owner: owner.clone(), created_ms: 9 - number / 3, ..record };
        let ended = Record { ended: Some(Ended::new(&Ending::Deleted, 9)), ..unfound.clone() };
        let mut lease = bench.pool.lease_nowhere(owner.clone());
        let live = bench.sessions.build(unfound.clone(), MINUTE, &mut lease, Vec::new(), None);
        leases.push(lease);
        sessions.push([
            SessionEntry::Live(Arc::new(live)),
            SessionEntry::Past(Arc::new(unfound)),
            SessionEntry::Past(Arc::new(ended)),
        ]);
    }
    let changes = prop::collection::vec((0..sessions.len(), 0..4_usize), 0..40);
    proptest!(|(changes in changes)| {
        let (mut rows, mut walked) = (Rows::default(), BTreeMap::new());
        for (number, state) in changes {
            match sessions[number].get(state) {
                Some(entry) => {
                    rows.put(entry.clone());
                    walked.insert(number, entry);
                }
                None => {
                    rows.remove(sessions[number][0].id());
                    walked.remove(&number);
                }
            }
        }
        for owner in [None, Some(&owners[0]), Some(&owners[1])] {
            let mut walk: Vec<&SessionEntry> = walked.values().copied().collect();
            walk.retain(|entry| owner.is_none_or(|owner| entry.owner() == owner));
            walk.sort_by_key(|entry| (entry.created_ms(), entry.id().clone()));
            prop_assert_eq!(rows.count(owner), walk.len());
            prop_assert!(rows.by_time(owner).map(SessionEntry::id).eq(walk.into_iter().map(SessionEntry::id)));
        }
        let walk = |is_wanted: fn(&SessionEntry) -> bool| {
            let wanted = walked.values().copied().filter(|entry| is_wanted(entry));
            wanted.map(SessionEntry::id).collect::<BTreeSet<_>>()
        };
        let live: BTreeSet<&SessionId> = rows.live().map(|session| &session.id).collect();
        prop_assert_eq!(live, walk(|entry| matches!(entry, SessionEntry::Live(_))));
        let unfound: BTreeSet<&SessionId> = rows.unfound().map(|record| &record.session_id).collect();
        prop_assert_eq!(unfound, walk(SessionEntry::is_open_past));
        for [entry, ..] in &sessions {
            let is_known = walked.values().any(|walked| walked.id() == entry.id());
            prop_assert_eq!(rows.get(entry.id()).is_some(), is_known);
        }
    });
}
