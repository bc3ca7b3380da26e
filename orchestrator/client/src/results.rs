//! All results of a task: what events and records leave out because it is large is asked for.

use serde_json::Value;
use warmpool_api::task::TaskView;

use super::error::ClientError;
use super::http::{Caller, read_lines};
use super::tasks::path;

/// Returns a task with all of its results; `answer` is the task as an event or a record has it.
/// Errors: those of a request.
pub(super) async fn whole(caller: &Caller, task: &TaskView, answer: &Value) -> Result<Value, ClientError> {
    let (id, results) = (task.task_id.to_string(), &task.output);
    let is_large = results.output_bytes.is_some();
    if task.items.is_none() {
        return if is_large { caller.get(&path(&id, "")).await } else { Ok(answer.clone()) };
    }
    if !is_large && !results.output.iter().any(is_incomplete) {
        return Ok(answer.clone());
    }
    // Its record has no more of its items than fits, and of each no more than a row takes.
    let items: Vec<Value> = read_lines(caller.open(&path(&id, "/items?format=ndjson")).await?).await?;
    let mut whole = answer.clone();
    if let Some(members) = whole.as_object_mut() {
        members.remove("outputBytes");
        members.remove("outputUrl");
        members.insert("output".to_owned(), Value::Array(items));
    }
    Ok(whole)
}

/// Whether the row of a fleet is without its item's results, or stands for the items that have none.
fn is_incomplete(row: &Value) -> bool {
    row.get("outputBytes").is_some() || row.get("truncated").is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::super::arguments::Service;
    use super::*;

    const ID: &str = "tsk_01KAJ6H2TT0000000000000000";

    /// The result of a task that has ended so, and what was asked for on the way. The daemon has the answer `rest`.
    async fn results(of_task: Value, rest: &'static str) -> (Value, Option<String>) {
        let mut task = json!({
            "taskId": ID, "executionType": "fleet", "executionTime": 7, "inputs": {}, "timestamp": 0, "status": "success",
            "browserType": "chromium", "headless": true, "keyId": "0123456789ab", "output": [],
        });
        if let (Some(task), Value::Object(of_task)) = (task.as_object_mut(), of_task) {
            task.extend(of_task);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{rest}", rest.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(head).unwrap()
        });
        let caller = Caller::of_anybody(&Service { url, key_file: None }).unwrap();
        let view = serde_json::from_value(task.clone()).unwrap();
        let whole = whole(&caller, &view, &task).await.unwrap();
        if whole == task {
            serving.abort();
            return (whole["output"].clone(), None);
        }
        let head = serving.await.unwrap();
        assert!(whole.get("outputBytes").is_none() && whole.get("outputUrl").is_none(), "{whole}");
        (whole["output"].clone(), head.split_whitespace().nth(1).map(str::to_owned))
    }

    fn counts() -> Value {
        json!({"total": 2, "queued": 0, "running": 0, "success": 2, "failure": 0, "cancelled": 0})
    }

    #[tokio::test]
    async fn a_fleet_has_all_results_of_its_items() {
        let items = "{\"index\":0,\"output\":[{\"a\":1}]}\n{\"index\":1,\"output\":[]}\n";
        let all = json!([{"index": 0, "output": [{"a": 1}]}, {"index": 1, "output": []}]);
        let large_row = json!({"index": 0, "output": [], "outputBytes": 20_480});
        let last_row = json!({"truncated": true, "items": format!("/lam/tasks/{ID}/items")});
        let asked = Some(format!("/lam/tasks/{ID}/items?format=ndjson"));
        for of_task in [
            json!({"items": counts(), "output": [{"index": 1, "output": []}, large_row]}),
            json!({"items": counts(), "output": [last_row]}),
            json!({"items": counts(), "outputBytes": 20_480, "outputUrl": format!("/lam/tasks/{ID}")}),
        ] {
            assert_eq!(results(of_task.clone(), items).await, (all.clone(), asked.clone()), "{of_task}");
        }
    }

    #[tokio::test]
    async fn a_large_result_is_fetched_and_a_small_one_is_there() {
        let asked = Some(format!("/lam/tasks/{ID}"));
        let large = json!({"executionType": "extract", "outputBytes": 20_480, "outputUrl": format!("/lam/tasks/{ID}")});
        assert_eq!(results(large, "{\"output\":[{\"a\":1}]}").await, (json!([{"a": 1}]), asked));
        // A field of an extract may have any name.
        let field = json!([{"truncated": true, "outputBytes": 1}]);
        let small = json!({"executionType": "extract", "output": field});
        assert_eq!(results(small, "").await, (field, None));
        let rows = json!([{"index": 0, "output": [{"outputBytes": 1}]}]);
        assert_eq!(results(json!({"items": counts(), "output": rows}), "").await, (rows, None));
    }
}
