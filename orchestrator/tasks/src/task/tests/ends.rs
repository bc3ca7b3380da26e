//! Ends that are as large as they may be, and those of fleets whose items wait.

use serde_json::{Map, Value};

use super::super::attempt::WorkItem;
use super::super::record_room::RecordRoom;
use super::*;
use crate::player::{Artifact, Failure, Outcome};
use crate::script::FailureCode;
use warmpool_core::ids::SessionId;
use warmpool_core::metadata::Metadata;

/// Labels that are as long as they may be, of one character.
fn labels(character: &str) -> Metadata {
    let label = |at| (format!("{at:064}"), json!(character.repeat(256)));
    Metadata::check((0..16).map(label).collect()).unwrap()
}

fn inputs(bytes: usize) -> Map<String, Value> {
    Map::from_iter([("a".to_owned(), json!("x".repeat(bytes - 8)))])
}

/// More than a record holds.
fn plenty(failure: Option<Failure>) -> Outcome {
    let artifact = |at: u8| Artifact {
        name: format!("{at}{}.png", "\"".repeat(190)),
        media_type: "image/png".to_owned(),
        bytes: vec![at],
    };
    Outcome { output: vec![json!({"a": "x".repeat(16_000)})], failure, artifacts: (0..200).map(artifact).collect() }
}

fn failure() -> Failure {
    Failure { code: FailureCode::ScriptError, message: "\"".repeat(10_000), step: Some(1), screenshot: Some(199) }
}

impl Bench {
    async fn running(&self, spec: &TaskSpec) -> Arc<ActiveTask> {
        let accepted = self.tasks.accept(self.owner.clone(), spec.clone(), SubmitOptions::default()).await.unwrap();
        let Task::Active(live) = accepted else { panic!("it has ended") };
        until("it runs", || live.record().status == Status::Running).await;
        live
    }

    /// What is kept of an outcome.
    async fn kept(&self, live: &ActiveTask, index: Option<u32>, room: RecordRoom, outcome: Outcome) -> TaskEnd {
        let (spec, work) = (spec(), spec().parse_work().unwrap());
        let values = spec.values(None, &Map::new());
        let item = WorkItem { spec: &spec, work: &work, values, state: None, index, room };
        let results = self.tasks.save_results(live, &item, SessionId::random(), outcome).await.unwrap();
        let status = if results.error.is_some() { Status::Failure } else { Status::Success };
        TaskEnd { status, error: results.error, output: results.output, artifacts: results.artifacts }
    }
}

#[tokio::test]
async fn an_end_is_written_however_much_there_is_of_it() {
    let bench = Bench::new().await;
    let spec = TaskSpec { inputs: inputs(16 << 10), metadata: labels("\""), ..spec() };
    for (failure, code) in [(None, "too_large"), (Some(failure()), "script_error")] {
        let live = bench.running(&spec).await;
        (0..1000).for_each(|step| live.add_step_time(step, 1_000_000_000));
        let outcome = plenty(failure);
        let output = outcome.output.clone();
        let end = bench.kept(&live, None, live.record().room(), outcome).await;
        bench.tasks.finish(&live, end).await;
        let record = bench.on_disk(live.id).await;
        assert_eq!((record.status, record.inputs.clone()), (Status::Failure, spec.inputs.clone()));
        assert_eq!(bench.tasks.inner.storage.output(live.id, &record.output).await.unwrap(), output);
        assert!((1..200).contains(&record.artifacts.len()), "{}", record.artifacts.len());
        assert!(record.artifacts.iter().all(|artifact| artifact.hash.len() == 64));
        let error = record.error.unwrap();
        assert_eq!((error.code.as_str(), error.screenshot), (code, None));
        assert!(error.message.contains("of the artifacts are left out"), "{}", error.message);
    }
}

#[tokio::test]
async fn what_has_room_is_kept_as_it_is() {
    let bench = Bench::new().await;
    let live = bench.running(&spec()).await;
    let mut outcome = plenty(None);
    outcome.artifacts.truncate(50);
    let end = bench.kept(&live, None, live.record().room(), outcome).await;
    bench.tasks.finish(&live, end).await;
    let record = bench.on_disk(live.id).await;
    assert_eq!((record.status, record.error, record.artifacts.len()), (Status::Success, None, 50));
    assert!(matches!(record.output, Output::Inline(_)));
}

#[tokio::test]
async fn an_item_is_written_however_much_there_is_of_it() {
    let bench = Bench::new().await;
    let live = bench.running(&spec()).await;
    let mut item: Item = serde_json::from_value(json!({"index": 7, "status": "running"})).unwrap();
    item.inputs = inputs(16 << 10);
    let end = bench.kept(&live, Some(7), item.room(), plenty(Some(failure()))).await;
    (item.error, item.output, item.artifacts) = (end.error, end.output, end.artifacts);
    let mut batch = Batch::new();
    super::super::storage::put_item(&mut batch, live.id, &item).unwrap();
    bench.store.commit(batch, Durability::Process).await.unwrap();
    assert!(item.artifacts.len() > 50, "{}", item.artifacts.len());
}

#[tokio::test]
async fn the_end_of_a_task_that_is_full_already_is_written() {
    let bench = Bench::new().await;
    // As JSON, each of these characters takes six bytes.
    let text = "\u{1}".repeat(1024);
    let spec = TaskSpec {
        inputs: inputs(16 << 10),
        metadata: labels("\u{1}"),
        name: Some(text.clone()),
        service_passcode: Some(text),
        work: json!({"recording": {"title": "\u{1}".repeat(500), "steps": spec().work["steps"]}}),
        webhook_url: Some(format!("http://a.test/{}", "x".repeat(2000))),
        ..spec()
    };
    let live = bench.running(&spec).await;
    (0..1000).for_each(|step| live.add_step_time(step, 1_000_000_000));
    let end = bench.kept(&live, None, live.record().room(), plenty(Some(failure()))).await;
    bench.tasks.finish(&live, end).await;
    let record = bench.on_disk(live.id).await;
    assert_eq!(record.status, Status::Failure);
    assert!(matches!(record.output, Output::File { .. }));
}

#[tokio::test]
async fn no_end_is_acknowledged_that_a_closed_store_did_not_take() {
    let bench = Bench::new().await;
    let _turns = bench.hold_turns().await;
    let task = bench.accepted("a").await;
    bench.store.close().await.unwrap();
    let cancelled = bench.tasks.cancel(task.id, &bench.owner).await;
    assert!(matches!(cancelled, Err(Error::Service(ServiceError::Draining))), "{cancelled:?}");
}

#[tokio::test]
async fn the_cancellation_of_a_task_that_is_left_to_the_next_process_is_refused() {
    let bench = Bench::new().await;
    let _turns = bench.hold_turns().await;
    let id = bench.accepted("a").await.id;
    bench.drain.advance(Phase::Draining);
    until("it is left", || bench.tasks.inner.table.active(id).is_none()).await;
    let cancelled = bench.tasks.cancel(id, &bench.owner).await;
    assert!(matches!(cancelled, Err(Error::Service(ServiceError::Draining))), "{cancelled:?}");
    assert_eq!(bench.on_disk(id).await.status, Status::Queued);
}

#[tokio::test]
async fn items_that_waited_do_not_begin_once_as_many_have_failed_as_may() {
    let bench = Bench::new().await;
    let mut turns = bench.hold_turns().await;
    assert!(turns.len() > 1, "two items can wait for their turns");
    // No upstream proxy is there, so that each item fails as soon as it begins.
    let mut spec = TaskSpec { kind: TaskKind::Fleet, ..spec() };
    spec.proxy = serde_json::from_value(json!({})).unwrap();
    spec.fleet = serde_json::from_value(json!({
        "items": [{}, {}, {}], "concurrency": 2, "retries": 0, "backoff_ms": 0, "stop_after_failures": 1,
    }))
    .unwrap();
    let Task::Active(live) = bench.tasks.accept(bench.owner.clone(), spec, SubmitOptions::default()).await.unwrap()
    else {
        panic!("it has ended")
    };
    until("two items wait", || bench.tasks.inner.workers.waiting() == 2).await;
    drop(turns.pop());
    live.ended().await;
    let record = bench.on_disk(live.id).await;
    assert_eq!(record.error.unwrap().code, "stopped");
    let counts = record.items.unwrap();
    assert_eq!((counts.failure, counts.cancelled), (1, 2));
}

/// A fleet of so many items, one at a time.
fn fleet(items: usize) -> TaskSpec {
    let rules = json!({"items": vec![json!({"a": 1}); items], "concurrency": 1, "retries": 0, "backoff_ms": 0});
    TaskSpec { kind: TaskKind::Fleet, fleet: serde_json::from_value(rules).unwrap(), ..spec() }
}

impl Bench {
    /// A fleet whose turn does not come.
    async fn waiting_fleet(&self, items: usize) -> Arc<ActiveTask> {
        let accepted = self.tasks.accept(self.owner.clone(), fleet(items), SubmitOptions::default()).await.unwrap();
        let Task::Active(live) = accepted else { panic!("it has ended") };
        until("it waits for its turn", || self.tasks.inner.workers.waiting() == 1).await;
        live
    }

    /// The end of a fleet whose items all have one, and how often the store was read for it.
    async fn end_of(&mut self, items: &[Value]) -> (Record, u64) {
        let turns = self.hold_turns().await;
        let live = self.waiting_fleet(items.len()).await;
        for items in items.chunks(500) {
            let mut batch = Batch::new();
            for item in items {
                super::super::storage::put_item(&mut batch, live.id, &serde_json::from_value(item.clone()).unwrap())
                    .unwrap();
            }
            self.store.commit(batch, Durability::Process).await.unwrap();
        }
        self.restart().await;
        drop(turns);
        let before = self.faults.calls(FaultPoint::Read);
        self.tasks.resume();
        until("it has ended", || self.tasks.inner.table.active(live.id).is_none()).await;
        (self.on_disk(live.id).await, self.faults.calls(FaultPoint::Read) - before)
    }
}

#[tokio::test]
async fn items_that_nobody_begins_end_by_few_changes_of_the_store() {
    let bench = Bench::new().await;
    let _turns = bench.hold_turns().await;
    let live = bench.waiting_fleet(1000).await;
    let before = bench.faults.calls(FaultPoint::Apply);
    let (record, _) = bench.tasks.cancel(live.id, &bench.owner).await.unwrap();
    let changes = bench.faults.calls(FaultPoint::Apply) - before;
    assert!(changes < 20, "{changes}");
    let counts = record.items.unwrap();
    assert_eq!((record.status, counts.cancelled, counts.queued), (Status::Cancelled, 1000, 0));
    let (mut found, mut after) = (0, None);
    loop {
        let page = bench.tasks.inner.storage.items(live.id, after).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.index);
        found += page.len();
        for item in page {
            assert_eq!((item.status, item.error.unwrap().code.as_str()), (Status::Cancelled, "cancelled"));
            assert_eq!(item.inputs["a"], 1, "an item has its inputs also where it never began");
        }
    }
    assert_eq!(found, 1000);
}

#[tokio::test]
async fn items_are_read_for_the_end_as_long_as_anything_of_them_fits() {
    let mut bench = Bench::with(&[("WARMPOOL_TASKS_MAX_OUTPUT", "1KiB")]).await;
    let mut items: Vec<Value> = (0..4000).map(|index| json!({"index": index, "status": "failure"})).collect();
    let (record, reads) = bench.end_of(&items).await;
    assert!(reads < 70, "{reads}: 41 to find those that have not ended, and one for the results");
    let Output::Inline(rows) = &record.output else { panic!("{record:?}") };
    assert_eq!((rows[0]["index"].as_u64(), &rows[rows.len() - 1]["truncated"]), (Some(0), &json!(true)));
    assert_eq!(record.items.unwrap().failure, 4000);

    items[3500]["artifacts"] = json!([{"name": "3500-a.png", "media_type": "image/png", "bytes": 1, "hash": "0"}]);
    let (record, _) = bench.end_of(&items).await;
    assert_eq!(record.artifacts.len(), 1, "the file of a late item is named");
}
