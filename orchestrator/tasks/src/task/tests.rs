//! Tasks on a store that answers late or has no room. No worker ever comes, so no task gets beyond its start.

mod doubt;
mod ends;
mod exports;
mod keeping;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::accept::new_record;
use super::lifecycle::TaskEnd;
use super::storage::put_record;
use super::turns::Place;
use super::*;
use crate::Error;
use warmpool_api::task::TaskError;
use warmpool_config::{Config, Flags, Host};
use warmpool_core::drain::{Drain, Phase};
use warmpool_core::error::ServiceError;
use warmpool_core::instance::Instance;
use warmpool_extensions::Extensions;
use warmpool_keys::{KeyId, Keys};
use warmpool_profiles::Profiles;
use warmpool_runtime::Runtime;
use warmpool_sessions::session::{SessionServices, Sessions};
use warmpool_store::fault::{FaultGate, FaultPoint, Faults, StoreFault, until};
use warmpool_store::{Batch, Durability, Store, StoreOptions};
use warmpool_webhooks::Webhooks;
use warmpool_workers::pool::Pool;

struct Bench {
    tasks: Tasks,
    drain: Drain,
    faults: Faults,
    store: Store,
    keys: Keys,
    owner: KeyId,
    profiles: Profiles,
    settings: Settings,
    data: tempfile::TempDir,
}

/// Settings beside those that all tests need, as environment variables.
type Settings = &'static [(&'static str, &'static str)];

/// Free bytes that are enough.
const PLENTY: u64 = 1 << 40;

impl Bench {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(settings: Settings) -> Self {
        let data = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        faults.set_free_bytes(PLENTY);
        let options = StoreOptions { call_timeout: Duration::from_millis(100), ..StoreOptions::default() };
        let store = Store::faulty(&faults, options);
        // In a store of their own, which does not fail.
        let keys = Keys::load(Store::memory()).await.unwrap();
        let owner = keys.create("owner", warmpool_keys::KeyRole::Client).await.unwrap().record.id;
        let (tasks, drain, profiles) = Self::process(data.path(), settings, keys.clone(), store.clone());
        Self { tasks, drain, faults, store, keys, owner, profiles, settings, data }
    }

    /// What a daemon of these files has of tasks.
    fn process(data: &std::path::Path, settings: Settings, keys: Keys, store: Store) -> (Tasks, Drain, Profiles) {
        let env = [
            ("WARMPOOL_STORE_DATA_DIR", data.display().to_string()),
            ("WARMPOOL_DOCKER_HOST", format!("unix://{}/no-engine.sock", data.display())),
            ("WARMPOOL_TASKS_CANCEL_TIMEOUT", "1s".to_owned()),
        ];
        let settings = settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let env = env.into_iter().chain(settings).map(|(name, value)| (name.to_owned(), value));
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Arc::new(Config::resolve(None, env, &Flags::default(), &host).unwrap());
        let instance = Arc::new(Instance::load_or_create(data).unwrap());
        let drain = Drain::default();
        let runtime = Runtime::new(Arc::clone(&config), instance.id().to_owned());
        let extensions = Extensions::none(config.extensions.clone(), data, store.clone());
        let pool = Pool::new(Arc::clone(&config), Arc::clone(&instance), runtime, drain.clone(), extensions.clone());
        let (config_too, instance_too) = (Arc::clone(&config), Arc::clone(&instance));
        let profiles = Profiles::none(config.profiles.clone(), data, store.clone());
        let webhooks = Webhooks::nowhere(&config, &instance, &keys, &store);
        let sessions = Sessions::new(
            config_too,
            instance_too,
            keys.clone(),
            pool.clone(),
            store.clone(),
            drain.clone(),
            SessionServices::nowhere(&config, profiles.clone(), extensions, webhooks),
        );
        (Tasks::new(config, instance, keys, sessions, pool, store, drain.clone()), drain, profiles)
    }

    /// The daemon ends while none of its tasks has its turn, and starts again. Nothing has gone on yet.
    async fn restart(&mut self) {
        self.drain.advance(Phase::Draining);
        until("no task is left", || self.tasks.inner.table.all_active().is_empty()).await;
        (self.tasks, self.drain, self.profiles) =
            Self::process(self.data.path(), self.settings, self.keys.clone(), self.store.clone());
        self.tasks.load().await.unwrap();
    }

    /// Takes all turns, so that no task begins.
    async fn hold_turns(&self) -> Vec<Place> {
        let other = ActiveTask::unstored(new_record(TaskId::from_number(1), self.owner.clone(), &spec()));
        let mut turns = Vec::new();
        for _ in 0..self.tasks.inner.config.tasks.workers {
            let mut place = Place::of_task();
            self.tasks.inner.workers.turn(&other, &mut place).await;
            assert!(place.has_turn());
            turns.push(place);
        }
        turns
    }

    fn active(&self, id: TaskId) -> Arc<ActiveTask> {
        self.tasks.inner.table.active(id).unwrap()
    }

    /// Hands in a run under this idempotency key.
    async fn accept(&self, key: &str) -> Result<Task, Error> {
        let options = SubmitOptions {
            secrets: TaskSecrets::default(),
            idempotency: Some(key.to_owned()),
            ..SubmitOptions::default()
        };
        self.tasks.accept(self.owner.clone(), spec(), options).await
    }

    async fn accepted(&self, key: &str) -> Arc<ActiveTask> {
        match self.accept(key).await.unwrap() {
            Task::Active(live) => live,
            Task::Ended(record) => panic!("it has ended: {record:?}"),
        }
    }

    fn listed(&self) -> impl Future<Output = Vec<Record>> {
        let (tasks, owner) = (self.tasks.clone(), self.owner.clone());
        async move {
            let query: TaskQuery = TaskQuery::default();
            tasks.list(&query, Some(&owner)).await.unwrap().0
        }
    }

    async fn on_disk(&self, id: TaskId) -> Record {
        self.tasks.inner.storage.record(id).await.unwrap().unwrap()
    }
}

fn spec() -> TaskSpec {
    serde_json::from_value(json!({
        "kind": "run", "work_kind": "run", "work": {"steps": [{"type": "navigate", "url": "http://a.test/"}]},
        "engine": "chromium", "mode": "headless", "launch": {"url": null}, "timeout_ms": 1000,
    }))
    .unwrap()
}

fn unknown(outcome: Result<Task, Error>) -> String {
    match outcome {
        Err(Error::OutcomeUnknown { task }) => task,
        outcome => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn an_unconfirmed_task_has_an_unknown_outcome() {
    let bench = Bench::new().await;
    let gate = FaultGate::default();
    // It is written, and not yet safe from loss of power.
    bench.faults.next(FaultPoint::Barrier, StoreFault::Hang(gate.clone()));
    let id = unknown(bench.accept("a").await);
    assert_eq!(unknown(bench.accept("a").await), id, "the key leads to the same task");
    let task: TaskId = id.parse().unwrap();
    assert_eq!(unknown(bench.tasks.find(task, &bench.owner).await), id);
    assert!(bench.listed().await.is_empty());
    gate.open();
    let live = loop {
        match bench.accept("a").await {
            Ok(Task::Active(live)) => break live,
            outcome => drop(unknown(outcome)),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(live.id, task);
    until("it has its turn", || live.record().status == Status::Running).await;
    assert_eq!(bench.listed().await.len(), 1);
}

#[tokio::test]
async fn a_write_that_never_began_leaves_no_task() {
    let bench = Bench::new().await;
    let gate = FaultGate::default();
    bench.faults.next(FaultPoint::Read, StoreFault::Hang(gate.clone()));
    let reading = tokio::spawn({
        let store = bench.store.clone();
        async move { drop(store.get(warmpool_store::Table::Meta, b"x").await) }
    });
    until("the store is at something else", || bench.faults.calls(FaultPoint::Read) == 1).await;
    let without_key = bench.tasks.accept(bench.owner.clone(), spec(), SubmitOptions::default()).await;
    assert!(matches!(without_key, Err(Error::Service(ServiceError::StoreBusy))), "{without_key:?}");
    assert!(matches!(bench.accept("a").await, Err(Error::Service(ServiceError::StoreBusy))));
    gate.open();
    reading.await.unwrap();
    assert!(bench.listed().await.is_empty());
    assert_eq!(bench.tasks.counts(), (0, 0, 0));
    assert!(bench.tasks.inner.storage.oldest(None, 9).await.unwrap().is_empty(), "nor does it come later");
    bench.accepted("a").await;
}

#[tokio::test]
async fn a_task_runs_although_its_client_left() {
    let bench = Arc::new(Bench::new().await);
    let gate = FaultGate::default();
    bench.faults.next(FaultPoint::Apply, StoreFault::Hang(gate.clone()));
    let client = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { drop(bench.accept("a").await) }
    });
    until("it is being written", || bench.faults.calls(FaultPoint::Apply) == 1).await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    gate.open();
    until("it is on the disk", || bench.tasks.counts() == (0, 1, 1)).await;
    let live = bench.accepted("a").await;
    until("it has its turn", || live.record().status == Status::Running).await;
}

#[tokio::test]
async fn nothing_runs_before_it_is_on_the_disk() {
    let bench = Bench::new().await;
    let turn = bench.hold_turns().await;
    let live = bench.accepted("a").await;
    bench.faults.set_free_bytes(0);
    let marked = bench.tasks.mark_running(&live).await;
    assert!(matches!(marked, Err(Error::Service(ServiceError::DiskNearlyFull))), "{marked:?}");
    assert_eq!(live.record().status, Status::Queued);
    drop(turn);
    until("it waits", || live.record().waiting.is_some()).await;
    let record = live.record();
    assert_eq!(record.waiting.unwrap().code, "disk_nearly_full");
    assert_eq!((record.status, bench.on_disk(live.id).await.status), (Status::Queued, Status::Queued));
    drop(bench.hold_turns().await);
    bench.faults.set_free_bytes(PLENTY);
    until("it runs", || live.record().status == Status::Running).await;
    assert_eq!(live.record().waiting, None);
    assert_eq!(bench.on_disk(live.id).await.status, Status::Running);
}

#[tokio::test]
async fn a_task_whose_session_has_no_room_on_the_disk_waits() {
    let bench = Bench::new().await;
    let live = bench.accepted("a").await;
    until("it asks for a session", || live.record().status == Status::Running).await;
    bench.faults.set_free_bytes(StoreOptions::default().min_free_bytes / 2);
    let waits = |record: Record| record.status == Status::Queued && record.waiting.is_some();
    until("it waits", || waits(live.record())).await;
    assert_eq!(live.record().waiting.unwrap().code, "disk_nearly_full");
    assert_eq!(bench.on_disk(live.id).await.status, Status::Queued);
    bench.faults.set_free_bytes(PLENTY);
    until("it asks again", || live.record().status == Status::Running).await;
}

#[tokio::test]
async fn an_end_is_published_once_it_is_on_the_disk() {
    let bench = Arc::new(Bench::new().await);
    let _turns = bench.hold_turns().await;
    let live = bench.accepted("a").await;
    bench.tasks.mark_running(&live).await.unwrap();
    bench.faults.set_free_bytes(0);
    let mut events = live.subscribe();
    let finishing = tokio::spawn({
        let (bench, live) = (Arc::clone(&bench), Arc::clone(&live));
        let end = TaskEnd::without_results(Status::Failure, TaskError::new("x", "y"));
        async move { bench.tasks.finish(&live, end).await }
    });
    until("it waits", || live.record().waiting.is_some()).await;
    assert_eq!(live.record().status, Status::Running);
    assert_eq!(events.recv().await.unwrap().data()["waiting"]["code"], "disk_nearly_full");
    bench.faults.set_free_bytes(PLENTY);
    finishing.await.unwrap();
    assert_eq!(bench.on_disk(live.id).await.status, Status::Failure);
    let Task::Ended(record) = bench.tasks.find(live.id, &bench.owner).await.unwrap() else { panic!("it lives") };
    assert_eq!((record.status, record.waiting.clone()), (Status::Failure, None));
    let told = std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.name()).last();
    assert_eq!(told, Some("end"));
}

#[tokio::test]
async fn tasks_go_on_whatever_the_clock_says() {
    let mut bench = Bench::new().await;
    // The task of a clock that was a day ahead, and was set right since.
    let tomorrow = u128::from(warmpool_core::clock::unix_ms() + 86_400_000) << 80;
    let record =
        Record { status: Status::Success, ..new_record(TaskId::from_number(tomorrow), bench.owner.clone(), &spec()) };
    let mut batch = Batch::new();
    put_record(&mut batch, &record).unwrap();
    bench.store.commit(batch, Durability::Process).await.unwrap();
    bench.restart().await;
    let _turns = bench.hold_turns().await;
    let id = bench.accepted("a").await.id;
    assert!(id.number() > tomorrow);
    bench.restart().await;
    let new = bench.accepted("b").await;
    assert!(!new.is_left(), "it is no earlier process's");
    assert!(bench.active(id).is_left());
    bench.tasks.resume();
    until("it runs", || bench.active(id).status() == Status::Running).await;
}

#[tokio::test]
async fn a_task_that_waits_for_the_engine_can_be_cancelled() {
    let mut bench = Bench::new().await;
    let turns = bench.hold_turns().await;
    let queued = bench.accepted("a").await.id;
    let revoked = bench.accepted("b").await.id;
    bench.restart().await;
    drop(turns);
    // The engine does not answer, so nobody resumes the tasks.
    let (record, had_ended) = bench.tasks.cancel(queued, &bench.owner).await.unwrap();
    assert_eq!((record.status, had_ended), (Status::Cancelled, false));
    assert_eq!(bench.on_disk(queued).await.status, Status::Cancelled);
    bench.keys.revoke(&bench.owner).await.unwrap();
    bench.tasks.end_revoked();
    until("it has ended", || bench.tasks.inner.table.active(revoked).is_none()).await;
    let record = bench.on_disk(revoked).await;
    assert_eq!((record.status, record.error.unwrap().code.as_str()), (Status::Cancelled, "key_revoked"));
    bench.tasks.resume();
    assert_eq!(bench.tasks.counts(), (0, 0, 2), "nothing is left to go on with");
}

#[tokio::test]
async fn a_task_that_goes_on_keeps_no_other_one() {
    let mut bench = Bench::new().await;
    let _turns = bench.hold_turns().await;
    let first = bench.accepted("a").await.id;
    let open = bench.accepted("b").await.id;
    let last = bench.accepted("c").await.id;
    for ended in [first, last] {
        bench.tasks.cancel(ended, &bench.owner).await.unwrap();
    }
    bench.tasks.forget_old(0).await.unwrap();
    assert_eq!(bench.listed().await.len(), 3, "the clock is not set yet");
    let much_later = warmpool_core::clock::unix_ms() * 2;
    bench.tasks.forget_old(much_later).await.unwrap();
    let ids = |listed: Vec<Record>| listed.iter().map(|record| record.task_id).collect::<Vec<_>>();
    assert_eq!(ids(bench.listed().await), [open]);
    assert_eq!(bench.tasks.counts(), (1, 0, 1));
    bench.restart().await;
    assert_eq!(ids(bench.listed().await), [open]);
    let _turns = bench.hold_turns().await;
    bench.tasks.cancel(open, &bench.owner).await.unwrap();
    bench.tasks.forget_old(much_later).await.unwrap();
    assert_eq!(bench.tasks.counts(), (0, 0, 0));
}

#[tokio::test]
async fn cancelling_waits_for_a_limited_time() {
    let bench = Bench::new().await;
    let _turns = bench.hold_turns().await;
    let task = bench.accepted("a").await;
    let gate = FaultGate::default();
    bench.faults.next(FaultPoint::Apply, StoreFault::Hang(gate.clone()));
    let refused = bench.tasks.cancel(task.id, &bench.owner).await;
    assert!(matches!(refused, Err(Error::TaskStopping { .. })), "{refused:?}");
    gate.open();
    task.ended().await;
    assert_eq!(bench.on_disk(task.id).await.status, Status::Cancelled);
    let (_, had_ended) = bench.tasks.cancel(task.id, &bench.owner).await.unwrap();
    assert!(had_ended);
}

/// Secrets that are nearly as large as they may be.
fn large_secrets() -> TaskSecrets {
    let items = json!([{"name": "login", "value": "x".repeat(65_200)}]);
    let state = json!({"origins": [{"origin": "https://shop.example", "localStorage": items}]});
    let body = json!({"steps": [], "state": state, "secrets": {"pin": "y".repeat(32_700)}});
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
    let members = warmpool_core::error::read_json(body).unwrap();
    SubmitRequest::read(TaskKind::Run, members).unwrap().check(&config).unwrap().1
}

#[tokio::test]
async fn secrets_of_every_allowed_size_are_kept_until_the_end() {
    let bench = Bench::new().await;
    let _turns = bench.hold_turns().await;
    let secrets = large_secrets();
    let mut spec = spec();
    spec.launch.storage = true;
    let options = SubmitOptions { secrets: secrets.clone(), ..SubmitOptions::default() };
    let Task::Active(live) = bench.tasks.accept(bench.owner.clone(), spec, options).await.unwrap() else {
        panic!("it has ended")
    };
    let kept = bench.tasks.inner.storage.secrets(live.id).await.unwrap();
    assert!(kept.to_json().unwrap() == secrets.to_json().unwrap(), "they come back as they were");
    bench.tasks.cancel(live.id, &bench.owner).await.unwrap();
    let left = bench.store.scan(warmpool_store::Table::TaskSecrets, warmpool_store::KeyRange::all(), 9).await.unwrap();
    assert!(left.is_empty(), "no part outlives its task");
}

#[tokio::test]
async fn a_fleet_that_has_failed_often_enough_begins_nothing_after_a_restart() {
    let mut bench = Bench::new().await;
    let turns = bench.hold_turns().await;
    let mut spec = spec();
    spec.kind = TaskKind::Fleet;
    spec.fleet = serde_json::from_value(json!({
        "items": [{}, {}, {}], "concurrency": 1, "retries": 0, "backoff_ms": 0, "stop_after_failures": 1,
    }))
    .unwrap();
    let Task::Active(live) = bench.tasks.accept(bench.owner.clone(), spec, SubmitOptions::default()).await.unwrap()
    else {
        panic!("it has ended")
    };
    // The first item was running when the process ended.
    let running = json!({"index": 0, "status": "running"});
    let mut batch = Batch::new();
    super::storage::put_item(&mut batch, live.id, &serde_json::from_value(running).unwrap()).unwrap();
    bench.store.commit(batch, Durability::Process).await.unwrap();
    bench.restart().await;
    drop(turns);
    bench.tasks.resume();
    until("it has ended", || bench.tasks.inner.table.active(live.id).is_none()).await;
    let record = bench.on_disk(live.id).await;
    assert_eq!((record.status, record.error.unwrap().code.as_str()), (Status::Failure, "stopped"));
    let counts = record.items.unwrap();
    assert_eq!((counts.failure, counts.cancelled), (1, 2));
}
