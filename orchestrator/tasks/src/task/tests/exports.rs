//! Exports, and the memory that they hold while they are read.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::super::storage::put_item;
use super::*;
use warmpool_api::task::ItemCounts;

/// Memory of so many bytes.
#[derive(Debug, Clone)]
struct Room {
    most: u64,
    taken: Arc<AtomicU64>,
}

/// A part of it.
#[derive(Debug)]
struct Taken(Room, u64);

impl Room {
    fn new(most: u64) -> Self {
        Self { most, taken: Arc::default() }
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Memory for Room {
    type Part = Taken;
    type Error = Error;

    fn take(&self, bytes: u64) -> Result<Taken, Error> {
        if self.taken() + bytes > self.most {
            return Err(Error::Conflict { message: "there is no memory" });
        }
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        Ok(Taken(self.clone(), bytes))
    }

    fn most(&self) -> u64 {
        self.most
    }
}

/// Results that go into a file.
fn many(count: usize) -> Vec<Value> {
    (0..count).map(|number| json!({"n": number})).collect()
}

/// How long they are.
fn length(rows: &[Value]) -> u64 {
    json!(rows).to_string().len() as u64
}

fn item(index: u32, output: Output) -> Item {
    Item {
        index,
        status: if index == 1 { Status::Failure } else { Status::Success },
        attempts: 1,
        execution_time: 5,
        inputs: Map::from_iter([("q".to_owned(), json!("tea"))]),
        session_id: None,
        error: (index == 1).then(|| TaskError::new("no_match", "no such element")),
        output,
        artifacts: Vec::new(),
    }
}

impl Bench {
    /// A task with these results.
    async fn with_output(&self, rows: Vec<Value>) -> Record {
        let live = self.accepted("output").await;
        let output = self.tasks.save_output(&live, rows, live.record().room()).await.unwrap();
        Record { output, ..live.record() }
    }

    /// A fleet whose items have these results.
    async fn with_items(&self, outputs: Vec<Vec<Value>>) -> Record {
        let live = self.accepted("items").await;
        let mut batch = Batch::new();
        for (rows, index) in outputs.into_iter().zip(0..) {
            let output = self.tasks.save_output(&live, rows, live.record().room()).await.unwrap();
            put_item(&mut batch, live.id, &item(index, output)).unwrap();
        }
        self.store.commit(batch, Durability::Process).await.unwrap();
        Record { items: Some(ItemCounts::none_done(9)), ..live.record() }
    }

    /// All lines of an export.
    async fn exported(&self, record: &Record, format: ExportFormat) -> String {
        let room = Room::new(64 << 20);
        let lines: Vec<Bytes> =
            self.tasks.export(record, format, room.clone()).await.unwrap().try_collect().await.unwrap();
        let text = String::from_utf8(lines.concat()).unwrap();
        drop(lines);
        assert_eq!(room.taken(), 0, "all of it is given back");
        text
    }

    async fn rows(&self, record: &Record) -> Vec<Value> {
        let text = self.exported(record, ExportFormat::Ndjson).await;
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn results_are_exported_as_they_are() {
    let bench = Bench::new().await;
    for rows in [many(9_000), vec![json!({"a": "x,\n", "b": null}), json!("bare")], Vec::new()] {
        let record = bench.with_output(rows.clone()).await;
        assert_eq!(bench.rows(&record).await, rows);
    }
    let numbers = bench.with_output(many(9_000)).await;
    assert!(matches!(numbers.output, Output::File { .. }));
    let table: String = (0..9_000).map(|number| format!("{number}\r\n")).collect();
    assert_eq!(bench.exported(&numbers, ExportFormat::Csv).await, format!("n\r\n{table}"));
}

#[tokio::test]
async fn a_reader_holds_the_text_of_one_output_and_gives_it_back() {
    let bench = Bench::new().await;
    let rows = many(20_000);
    let record = bench.with_output(rows.clone()).await;
    for format in [ExportFormat::Ndjson, ExportFormat::Csv] {
        let room = Room::new(64 << 20);
        let mut lines = bench.tasks.export(&record, format, room.clone()).await.unwrap().skip(1);
        assert_eq!(room.taken(), 4 * length(&rows), "from the beginning");
        let some = lines.next().await.unwrap().unwrap();
        drop(lines);
        assert_eq!(room.taken(), 4 * length(&rows), "what is on its way counts");
        drop(some);
        assert_eq!(room.taken(), 0, "the reader left");
        let refused = bench.tasks.export(&record, format, Room::new(length(&rows) - 1)).await.map(drop);
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn an_export_waits_for_the_memory_of_its_next_item() {
    let bench = Bench::new().await;
    let rows = many(20_000);
    let fleet = bench.with_items(vec![rows.clone(), rows.clone()]).await;
    let room = Room::new(4 * length(&rows));
    let mut lines = bench.tasks.export(&fleet, ExportFormat::Ndjson, room.clone()).await.unwrap();
    let first =
        |text: &Bytes| serde_json::from_slice::<Value>(text.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let mut of_first: Vec<Bytes> = Vec::new();
    let of_next = loop {
        // All that its reader has not taken yet is of the first one.
        match timeout(Duration::from_millis(300), pin!(lines.next())).await {
            Ok(some) => of_first.push(some.unwrap().unwrap()),
            Err(_) => {
                assert!(of_first.iter().all(|text| first(text)["item"] == 0));
                of_first.clear();
                break lines.next().await.unwrap().unwrap();
            }
        }
    };
    assert_eq!(first(&of_next)["item"], 1);
    drop((lines, of_next));
    assert_eq!(room.taken(), 0);
    // One that is larger than all the memory ends the export, and no reader waits for it for ever.
    let little = Room::new(length(&rows) - 1);
    let fleet = bench.with_items(vec![vec![json!(1)], rows]).await;
    let lines = bench.tasks.export(&fleet, ExportFormat::Ndjson, little).await.unwrap();
    let ended: Result<Vec<Bytes>, Error> = lines.try_collect().await;
    assert!(matches!(ended, Err(Error::Conflict { .. })), "{ended:?}");
}

#[tokio::test]
async fn every_item_has_a_row_that_says_how_it_went() {
    let bench = Bench::new().await;
    let fields = json!({"item": 9, "item.error": "mine", "title": "x", "input.q": 1});
    let fleet = bench.with_items(vec![vec![fields, json!("bare")], Vec::new(), many(1)]).await;
    let about = |index: u32, status: &str| -> Value {
        json!({"item": index, "item.status": status, "item.error": null, "item.message": null, "input.q": "tea"})
    };
    let with = |mut row: Value, members: Value| {
        row.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        row
    };
    let own = json!({"value.item": 9, "value.item.error": "mine", "title": "x", "value.input.q": 1});
    let failed = json!({"item.error": "no_match", "item.message": "no such element"});
    let rows = [
        with(about(0, "success"), own),
        with(about(0, "success"), json!({"value": "bare"})),
        with(about(1, "failure"), failed),
        with(about(2, "success"), json!({"n": 0})),
    ];
    assert_eq!(bench.rows(&fleet).await, rows);
    let table = bench.exported(&fleet, ExportFormat::Csv).await;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "item,item.status,item.error,item.message,input.q,value.input.q,value.item,value.item.error,title,value,n",
            "0,success,,,tea,1,9,mine,x,,"
        ]
    );
    assert_eq!(lines[3], "1,failure,no_match,no such element,tea,,,,,,");
}

#[tokio::test]
async fn items_are_exported_with_all_of_their_output() {
    let bench = Bench::new().await;
    let outputs = [many(9_000), vec![json!({"output": 1})], Vec::new()];
    let fleet = bench.with_items(outputs.to_vec()).await;
    let room = Room::new(64 << 20);
    let lines = |status| {
        let lines = bench.tasks.export_items(fleet.task_id, status, room.clone());
        async move {
            let lines: Vec<Bytes> = lines.try_collect().await.unwrap();
            lines.iter().map(|line| serde_json::from_slice::<Value>(line).unwrap()).collect::<Vec<_>>()
        }
    };
    let all = lines(None).await;
    for ((line, output), index) in all.iter().zip(outputs).zip(0..) {
        assert_eq!(
            (&line["output"], &line["index"], &line["inputs"]["q"]),
            (&json!(output), &json!(index), &json!("tea"))
        );
    }
    assert_eq!((all.len(), lines(Some(Status::Failure)).await), (3, vec![all[1].clone()]));
    assert_eq!(room.taken(), 0);
}

#[tokio::test]
async fn an_item_whose_results_are_not_in_its_row_says_where_they_are() {
    let mut bench = Bench::new().await;
    let turns = bench.hold_turns().await;
    let mut spec = TaskSpec { kind: TaskKind::Fleet, ..spec() };
    let rules = json!({"items": [{"q": "tea"}], "concurrency": 1, "retries": 0, "backoff_ms": 0});
    spec.fleet = serde_json::from_value(rules).unwrap();
    let Task::Active(live) = bench.tasks.accept(bench.owner.clone(), spec, SubmitOptions::default()).await.unwrap()
    else {
        panic!("it has ended")
    };
    let output = bench.tasks.save_output(&live, many(9_000), live.record().room()).await.unwrap();
    let item = item(0, output);
    let url = format!("/lam/tasks/{}/items?format=ndjson", live.id);
    let check = |row: &Value| {
        assert_eq!((&row["output"], &row["outputUrl"]), (&json!([]), &json!(url)));
        assert_eq!(row["outputBytes"], json!(length(&many(9_000))));
    };
    let mut batch = Batch::new();
    put_item(&mut batch, live.id, &item).unwrap();
    bench.store.commit(batch, Durability::Process).await.unwrap();
    check(&TaskEvent::Item(live.id, Box::new(item)).data());
    // The next process has only the fleet's own end left to do.
    bench.restart().await;
    drop(turns);
    bench.tasks.resume();
    until("it has ended", || bench.tasks.inner.table.active(live.id).is_none()).await;
    let view = record_view(&bench.on_disk(live.id).await, None);
    assert_eq!((view.status, view.output.output.len()), (Status::Success, 1));
    check(&view.output.output[0]);
}
