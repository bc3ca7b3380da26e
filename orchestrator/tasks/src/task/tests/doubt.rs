//! Tasks of data that went back to an older state.

use super::super::storage::put_item;
use super::*;

/// Three items, of which the older state knows that the first one succeeded and the second one waits for its next attempt.
async fn fleet(bench: &Bench) -> TaskId {
    let mut spec = spec();
    spec.kind = TaskKind::Fleet;
    spec.fleet = serde_json::from_value(json!({
        "items": [{}, {}, {}], "concurrency": 1, "retries": 1, "backoff_ms": 0, "stop_after_failures": 0,
    }))
    .unwrap();
    let id = accepted(bench, spec).await;
    let mut batch = Batch::new();
    for (index, status) in ["success", "queued"].into_iter().enumerate() {
        let item = json!({"index": index, "status": status, "attempts": 1});
        put_item(&mut batch, id, &serde_json::from_value(item).unwrap()).unwrap();
    }
    bench.store.commit(batch, Durability::Process).await.unwrap();
    id
}

async fn accepted(bench: &Bench, spec: TaskSpec) -> TaskId {
    match bench.tasks.accept(bench.owner.clone(), spec, SubmitOptions::default()).await.unwrap() {
        Task::Active(task) => task.id,
        Task::Ended(record) => panic!("it has ended: {record:?}"),
    }
}

#[tokio::test]
async fn what_may_have_run_since_an_older_state_does_not_run_again() {
    let mut bench = Bench::new().await;
    let _turns = bench.hold_turns().await;
    let (unsafe_, fleet) = (accepted(&bench, spec()).await, fleet(&bench).await);
    let safe = accepted(&bench, TaskSpec { safe_to_repeat: true, ..spec() }).await;
    bench.store.suppose_it_went_back().await;
    bench.restart().await;
    assert!(!bench.store.went_back().await.unwrap(), "it is dealt with");
    // The daemon is killed before anything came of it.
    let (keys, store) = (bench.keys.clone(), bench.store.clone());
    (bench.tasks, bench.drain, bench.profiles) = Bench::process(bench.data.path(), bench.settings, keys, store);
    bench.tasks.load().await.unwrap();
    let new = accepted(&bench, spec()).await;

    bench.tasks.resume();
    for id in [unsafe_, fleet] {
        until("it has ended", || bench.tasks.inner.table.active(id).is_none()).await;
    }
    let record = bench.on_disk(unsafe_).await;
    let error = record.error.unwrap();
    assert_eq!((record.status, record.started_ms, error.code.as_str()), (Status::Failure, None, "interrupted"));
    assert!(error.message.contains("older state"), "{}", error.message);
    let record = bench.on_disk(fleet).await;
    let counts = record.items.unwrap();
    assert_eq!((record.status, counts.success, counts.failure, counts.queued), (Status::Failure, 1, 2, 0));
    let items = bench.tasks.inner.storage.items(fleet, None).await.unwrap();
    for item in &items[1..] {
        let error = item.error.as_ref().unwrap();
        assert!(error.code == "interrupted" && error.message.contains("older state"), "{error:?}");
    }
    for id in [safe, new] {
        until("it runs", || bench.active(id).status() == Status::Running).await;
    }
}
