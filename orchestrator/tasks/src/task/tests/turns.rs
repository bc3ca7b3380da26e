//! Whose turn it is, and what keeps no turn from others.

use super::*;
use warmpool_core::ids::SessionId;

/// How many turns there are in the tests of what a key's tasks keep from others.
const WORKERS: usize = 2;

impl Bench {
    /// Another key.
    async fn key(&self, name: &str) -> KeyId {
        self.keys.create(name, warmpool_keys::KeyRole::Client).await.unwrap().record.id
    }

    async fn submit(&self, owner: &KeyId, spec: TaskSpec) -> Arc<ActiveTask> {
        match self.tasks.accept(owner.clone(), spec, SubmitOptions::default()).await.unwrap() {
            Task::Active(live) => live,
            Task::Ended(record) => panic!("it has ended: {record:?}"),
        }
    }

    fn waiting(&self) -> usize {
        self.tasks.inner.workers.waiting()
    }
}

fn writing(profile: &str) -> TaskSpec {
    TaskSpec { profile: serde_json::from_value(json!({"name": profile, "mode": "write"})).unwrap(), ..spec() }
}

fn fleet(items: usize) -> TaskSpec {
    let rules = json!({"items": vec![json!({}); items], "concurrency": items, "retries": 0, "backoff_ms": 0});
    TaskSpec { kind: TaskKind::Fleet, fleet: serde_json::from_value(rules).unwrap(), ..spec() }
}

#[tokio::test]
async fn a_key_with_many_tasks_keeps_no_other_one_waiting() {
    let bench = Bench::with(&[("WARMPOOL_TASKS_QUEUE_LENGTH", "4")]).await;
    let other = bench.key("other").await;
    let mut turns = bench.hold_turns().await;
    for _ in 0..4 {
        bench.submit(&bench.owner, spec()).await;
    }
    let full = bench.tasks.accept(bench.owner.clone(), spec(), SubmitOptions::default()).await.unwrap_err();
    assert!(matches!(full, Error::TaskQueueFull { waiting: 4, own: 4 }), "{full}");
    let live = bench.submit(&other, spec()).await;
    until("all wait", || bench.waiting() == 5).await;
    // All other turns are still the first key's.
    drop(turns.pop());
    until("the other one is next", || live.status() == Status::Running).await;
    assert_eq!(bench.tasks.counts(), (4, 1, 5));
}

#[tokio::test]
async fn tasks_that_wait_for_a_profile_keep_no_turn() {
    let mut bench = Bench::with(&[("WARMPOOL_TASKS_WORKERS", "2")]).await;
    let other = bench.key("other").await;
    let writer = bench.profiles.writer(&bench.owner, "shop").unwrap();
    writer.belongs_to(&SessionId::from("a-session"));
    let mut waiting = Vec::new();
    for _ in 0..=WORKERS {
        waiting.push(bench.submit(&bench.owner, writing("shop")).await);
    }
    until("each says why it waits", || waiting.iter().all(|task| task.record().waiting.is_some())).await;
    let why = waiting[0].record().waiting.unwrap();
    assert!(why.code == "profile_in_use" && why.message.contains("a-session"), "{why:?}");
    let live = bench.submit(&other, spec()).await;
    until("the other one runs", || live.status() == Status::Running).await;
    assert!(waiting.iter().all(|task| task.status() == Status::Queued));
    let id = waiting[0].id;
    bench.tasks.cancel(live.id, &other).await.unwrap();
    drop((writer, live, waiting));
    until("one has the profile", || bench.tasks.counts().1 == 1).await;
    assert_eq!(bench.active(id).status(), Status::Running, "they come in their order");
    assert_eq!(bench.active(id).record().waiting, None);
    bench.drain.advance(Phase::Draining);
    bench.tasks.drain(Duration::ZERO).await;
    bench.restart().await;
    assert_eq!(bench.tasks.counts(), (3, 0, 4), "the next daemon has them all");
}

#[tokio::test]
async fn tasks_of_a_key_that_may_have_no_more_sessions_keep_no_turn() {
    let bench = Bench::with(&[("WARMPOOL_TASKS_WORKERS", "2"), ("WARMPOOL_SESSION_MAX_PER_KEY", "1")]).await;
    let other = bench.key("other").await;
    let session = bench.tasks.inner.workers.pool().lease_nowhere(bench.owner.clone());
    let mut waiting = Vec::new();
    for _ in 0..=WORKERS {
        waiting.push(bench.submit(&bench.owner, spec()).await);
    }
    let fleet = bench.submit(&bench.owner, fleet(3)).await;
    until("all wait", || bench.waiting() == WORKERS + 2).await;
    let live = bench.submit(&other, spec()).await;
    until("the other one runs", || live.status() == Status::Running).await;
    assert!(waiting.iter().chain([&fleet]).all(|task| task.status() == Status::Queued));
    session.session_ended();
    until("one runs", || waiting[0].status() == Status::Running).await;
    assert_eq!(bench.waiting(), WORKERS + 1, "as many as may");
}

#[tokio::test]
async fn a_limit_that_is_reached_meanwhile_costs_the_turn() {
    let bench = Bench::with(&[("WARMPOOL_TASKS_WORKERS", "1"), ("WARMPOOL_SESSION_MAX_PER_KEY", "1")]).await;
    let other = bench.key("other").await;
    // The engine does not answer, so it keeps asking.
    let live = bench.submit(&bench.owner, spec()).await;
    until("it has its turn", || live.status() == Status::Running).await;
    let session = bench.tasks.inner.workers.pool().lease_nowhere(bench.owner.clone());
    until("it is queued again", || live.record().waiting.is_some() && bench.waiting() == 1).await;
    let record = live.record();
    assert_eq!((record.status, record.waiting.unwrap().code.as_str()), (Status::Queued, "key_limit"));
    assert_eq!(bench.on_disk(live.id).await.status, Status::Queued);
    let free = bench.submit(&other, spec()).await;
    until("the other one runs", || free.status() == Status::Running).await;
    session.session_ended();
    bench.tasks.cancel(free.id, &other).await.unwrap();
    until("it runs", || live.status() == Status::Running).await;
    assert_eq!(live.record().waiting, None);
}

#[tokio::test]
async fn a_fleet_loses_no_item_to_its_keys_limit() {
    let bench = Bench::with(&[("WARMPOOL_TASKS_WORKERS", "4"), ("WARMPOOL_SESSION_MAX_PER_KEY", "2")]).await;
    let workers = &bench.tasks.inner.workers;
    let live = bench.submit(&bench.owner, fleet(4)).await;
    until("its runners have their turns", || workers.free_turns() == 2).await;
    assert_eq!(bench.waiting(), 0, "a runner more could have no session");
    let sessions = [(); 2].map(|()| workers.pool().lease_nowhere(bench.owner.clone()));
    until("they wait for their turns again", || bench.waiting() == 2).await;
    let record = live.record();
    assert_eq!((record.status, record.items.unwrap().queued), (Status::Queued, 4), "no item is begun");
    assert!(bench.tasks.inner.storage.items(live.id, None).await.unwrap().is_empty());
    sessions[0].session_ended();
    until("one asks for a session", || bench.waiting() == 1).await;
    assert_eq!(workers.free_turns(), 3);
}

#[tokio::test]
async fn a_shortage_gives_the_turn_to_others() {
    let settings = &[("WARMPOOL_TASKS_WORKERS", "1"), ("WARMPOOL_SESSION_QUEUE_LENGTH", "0")];
    let bench = Bench::with(settings).await;
    let other = bench.key("other").await;
    // Nobody gets a worker, nor waits for one.
    bench.tasks.inner.workers.pool().suppose_up();
    let first = bench.submit(&bench.owner, spec()).await;
    until("it asks for a worker", || first.status() == Status::Running).await;
    let second = bench.submit(&bench.owner, spec()).await;
    let live = bench.submit(&other, spec()).await;
    until("the first one waits again", || first.record().waiting.is_some_and(|why| why.code == "queue_full")).await;
    until("the other one asks", || live.status() == Status::Running).await;
    bench.tasks.cancel(live.id, &other).await.unwrap();
    until("the first one asks again", || first.status() == Status::Running).await;
    assert_eq!(second.status(), Status::Queued, "no task gives its turn to a later one of its own key");
}
