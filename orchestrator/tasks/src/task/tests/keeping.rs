//! What tasks keep, and how much that may be.

use std::collections::HashSet;

use serde_json::Map;

use super::super::attempt::WorkItem;
use super::*;
use crate::player::{Artifact, Outcome};
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyRole;
use warmpool_store::{KeyRange, Table};

/// A key may keep four of [`FILE`].
const SMALL: Settings = &[("WARMPOOL_TASKS_KEEP_SIZE", "1MiB"), ("WARMPOOL_TASKS_KEEP_SIZE_PER_KEY", "64KiB")];
/// Bytes of a file.
const FILE: usize = 16 << 10;

fn file(content: u8) -> Vec<u8> {
    vec![content; FILE]
}

/// An order that takes some 70 KiB, which is more than one value of the store.
fn large() -> TaskSpec {
    TaskSpec {
        work: json!({"steps": [{"type": "navigate", "url": format!("http://a.test/#{}", "x".repeat(70 << 10))}]}),
        ..spec()
    }
}

impl Bench {
    async fn new_key(&self, name: &str) -> KeyId {
        self.keys.create(name, KeyRole::Client).await.unwrap().record.id
    }

    async fn sent(&self, owner: &KeyId, spec: TaskSpec) -> Result<Arc<ActiveTask>, Error> {
        match self.tasks.accept(owner.clone(), spec, SubmitOptions::default()).await? {
            Task::Active(live) => Ok(live),
            Task::Ended(record) => panic!("it has ended: {record:?}"),
        }
    }

    /// A task of this key that waits for its turn and has so many files.
    async fn open(&self, owner: &KeyId, files: u8) -> Arc<ActiveTask> {
        let live = self.sent(owner, spec()).await.unwrap();
        for content in 0..files {
            self.tasks.put_file(&live, file(content)).await.unwrap();
        }
        live
    }

    /// The same, after its end.
    async fn ended(&self, owner: &KeyId, files: u8) -> TaskId {
        let live = self.open(owner, files).await;
        self.tasks.cancel(live.id, owner).await.unwrap();
        live.id
    }

    /// Whether there is anything of a task. Where it is gone, so are its files.
    async fn has(&self, owner: &KeyId, id: TaskId) -> bool {
        match self.tasks.find(id, owner).await {
            Ok(_) => true,
            Err(Error::UnknownTask { .. }) => {
                assert!(!self.folder(id).exists(), "the files of a forgotten task go with it");
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn folder(&self, id: TaskId) -> std::path::PathBuf {
        self.data.path().join("tasks").join(id.to_string())
    }

    fn sized(&self) -> HashSet<TaskId> {
        self.tasks.inner.sizes.known()
    }
}

#[tokio::test]
async fn a_key_beyond_its_share_loses_its_own_oldest() {
    let bench = Bench::with(SMALL).await;
    let (_turns, owner, other) = (bench.hold_turns().await, &bench.owner, bench.new_key("other").await);
    let theirs = bench.ended(&other, 4).await;
    let without_files = bench.ended(owner, 0).await;
    let (first, second) = (bench.ended(owner, 2).await, bench.ended(owner, 1).await);
    let live = bench.open(owner, 1).await;
    assert!(bench.has(owner, first).await, "four files are as much as a key may keep");
    bench.tasks.put_file(&live, file(0)).await.unwrap();
    assert!(bench.has(owner, first).await, "a file that the task has takes no room");
    bench.tasks.put_file(&live, file(7)).await.unwrap();
    assert!(!bench.has(owner, first).await);
    for (owner, id) in [(owner, without_files), (owner, second), (owner, live.id), (&other, theirs)] {
        assert!(bench.has(owner, id).await);
    }
    assert_eq!(bench.listed().await.len(), 3);
    assert_eq!(bench.sized(), HashSet::from([theirs, second, live.id]));
}

#[tokio::test]
async fn a_task_fails_where_nothing_can_give_way() {
    let bench = Bench::with(SMALL).await;
    let (_turns, owner) = (bench.hold_turns().await, &bench.owner);
    let ended = bench.ended(owner, 1).await;
    let live = bench.open(owner, 2).await;
    let artifact = |name: &str, bytes| Artifact { name: name.to_owned(), media_type: "image/png".to_owned(), bytes };
    let outcome = Outcome {
        output: vec![json!("y".repeat(3 * FILE))],
        failure: None,
        artifacts: vec![artifact("large", vec![8; 3 * FILE]), artifact("small", file(9))],
    };
    let (spec, work) = (spec(), spec().parse_work().unwrap());
    let values = spec.values(None, &Map::new());
    let item = WorkItem { spec: &spec, work: &work, values, state: None, index: None, room: live.record().room() };
    let results = bench.tasks.save_results(&live, &item, SessionId::random(), outcome).await.unwrap();
    let error = results.error.unwrap();
    assert_eq!(error.code, "task_limit");
    assert!(error.message.contains("`tasks.keep_size_per_key`"), "{}", error.message);
    assert_eq!(results.artifacts.iter().map(|kept| kept.name.as_str()).collect::<Vec<_>>(), ["small"]);
    assert_eq!(results.output, Output::default());
    assert!(bench.has(owner, ended).await, "nothing is forgotten in vain");
}

#[tokio::test]
async fn large_orders_and_items_count() {
    let settings = &[("WARMPOOL_TASKS_KEEP_SIZE", "1MiB"), ("WARMPOOL_TASKS_KEEP_SIZE_PER_KEY", "128KiB")];
    let bench = Bench::with(settings).await;
    let (_turns, owner) = (bench.hold_turns().await, &bench.owner);
    let first = bench.sent(owner, large()).await.unwrap();
    let refused = bench.sent(owner, large()).await;
    assert!(matches!(refused, Err(Error::TaskLimit { share: Share::Key, limit: 131_072 })), "{refused:?}");
    assert_eq!(bench.tasks.counts().2, 1, "nothing is left of what is refused");
    bench.tasks.cancel(first.id, owner).await.unwrap();
    let second = bench.sent(owner, large()).await.unwrap();
    assert!(!bench.has(owner, first.id).await, "one that has ended gives way");
    bench.tasks.cancel(second.id, owner).await.unwrap();
    let items = json!({"items": [{}, {}], "concurrency": 1, "retries": 0, "backoff_ms": 0, "stop_after_failures": 0});
    let fleet = TaskSpec { kind: TaskKind::Fleet, fleet: serde_json::from_value(items).unwrap(), ..spec() };
    let fleet = bench.sent(owner, fleet).await.unwrap();
    let (record, _) = bench.tasks.cancel(fleet.id, owner).await.unwrap();
    let kept = bench.tasks.inner.storage.items(fleet.id, None).await.unwrap();
    assert_eq!(record.kept_bytes, kept.iter().map(|item| serde_json::to_vec(item).unwrap().len() as u64).sum::<u64>());
    assert_eq!(bench.sized(), HashSet::from([second.id, fleet.id]));
}

#[tokio::test]
async fn sizes_outlive_a_restart() {
    let mut bench = Bench::with(&[]).await;
    let (_turns, owner) = (bench.hold_turns().await, bench.owner.clone());
    let earlier = bench.ended(&owner, 1).await;
    let (first, second) = (bench.ended(&owner, 2).await, bench.ended(&owner, 2).await);
    let open = bench.open(&owner, 1).await.id;
    // An earlier release counted nothing, and a crash leaves files without a task.
    let mut batch = Batch::new();
    batch.delete(Table::TaskSizes, earlier.store_key());
    bench.store.commit(batch, Durability::Process).await.unwrap();
    let gone = bench.folder(TaskId::from_number(1));
    std::fs::create_dir(&gone).unwrap();
    bench.settings = SMALL;
    bench.restart().await;
    assert_eq!(bench.sized(), HashSet::from([first, second]));
    bench.tasks.look_at_files().await.unwrap();
    assert_eq!(bench.sized(), HashSet::from([earlier, first, second, open]));
    let rows = bench.tasks.inner.storage.sizes().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [earlier, first, second], "it is measured once");
    assert!(!gone.exists());
    bench.tasks.forget_surplus().await.unwrap();
    assert!(!bench.has(&owner, earlier).await && !bench.has(&owner, first).await);
    assert!(bench.has(&owner, second).await && bench.has(&owner, open).await, "three files may stay");
}

#[tokio::test]
async fn a_task_that_has_ended_can_be_removed() {
    let bench = Bench::new().await;
    let (_turns, owner, other) = (bench.hold_turns().await, &bench.owner, bench.new_key("other").await);
    let live = bench.open(owner, 1).await;
    let early = bench.tasks.forget(live.id, owner).await;
    assert!(matches!(early, Err(Error::Conflict { message }) if message.contains("cancel it first")));
    bench.tasks.cancel(live.id, owner).await.unwrap();
    assert!(bench.folder(live.id).exists());
    let foreign = bench.tasks.forget(live.id, &other).await;
    assert!(matches!(foreign, Err(Error::UnknownTask { .. })));
    let changes = bench.tasks.changes();
    let record = bench.tasks.forget(live.id, owner).await.unwrap();
    assert_eq!((record.task_id, record.status), (live.id, Status::Cancelled));
    assert!(changes.has_changed().unwrap(), "lists hear of it");
    assert!(!bench.has(owner, live.id).await);
    assert!(matches!(bench.tasks.forget(live.id, owner).await, Err(Error::UnknownTask { .. })));
    assert_eq!((bench.tasks.counts(), bench.sized()), ((0, 0, 0), HashSet::new()));
    for table in [Table::Tasks, Table::TaskIndex, Table::TaskBodies, Table::TaskSizes] {
        assert!(bench.store.scan(table, KeyRange::all(), 9).await.unwrap().is_empty(), "{table}");
    }
}
