//! `warmpool run`, `extract` and `fleet`: sends a task and follows it.

use std::path::Path;

use ::http::header::ACCEPT;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use warmpool_api::task::TaskView;
use warmpool_core::address::path_segment;

use super::arguments::{ExtractArguments, FleetArguments, ResultArguments, RunArguments, TaskArguments, put};
use super::error::ClientError;
use super::events::{EVENT_STREAM, Event, Events, RESUME_EVERY};
use super::http::{self, Caller};
use super::inputs;
use super::naming::{SentFile, SetBy};
use super::output::{for_people, note, print, write};
use super::results::whole;
use super::show::{self, Progress};
use super::summary::summary;
use super::tasks::{exit_of, path};
use crate::exit::Exit;

/// A request on its way: its body, and where its members come from.
struct Order {
    body: Map<String, Value>,
    file: SentFile,
    options: Vec<SetBy>,
}

impl Order {
    /// Reads the file of a command.
    fn read(path: &Path) -> Result<Self, ClientError> {
        Ok(Self { body: read(path)?, file: SentFile::new(path), options: Vec::new() })
    }

    /// Makes the file's content a member of the request.
    fn wrap(&mut self, member: &str) {
        self.file.put_into(member);
        let content = std::mem::take(&mut self.body);
        self.body.insert(member.to_owned(), Value::Object(content));
    }

    /// Wraps an exported recording; leaves a whole request as it is.
    fn wrap_recording(&mut self) {
        let exported = ["title", "steps", "timeout", "selectorAttribute"];
        if self.body.keys().all(|name| exported.contains(&name.as_str())) {
            self.wrap("recording");
        }
    }

    /// Wraps a schema; leaves a whole request as it is. A schema may have fields of any name, such as `url`.
    fn wrap_schema(&mut self) {
        let body = &self.body;
        let request =
            body.get("schema").is_some_and(Value::is_object) || body.get("builtins").is_some_and(Value::is_array);
        if !request {
            self.wrap("schema");
        }
    }

    /// Adds what an option says, if it was given.
    fn set(&mut self, field: &'static str, option: &'static str, value: impl Into<Value>) {
        let value = value.into();
        if !value.is_null() {
            self.options.push((field, option));
            put(&mut self.body, json!({field: value}));
        }
    }

    /// Sends it with the options of all tasks, and follows the task.
    async fn submit(mut self, to: &str, task: &TaskArguments) -> Result<Exit, ClientError> {
        let caller = Caller::new(&task.service)?;
        task.add_to(&mut self.body)?;
        self.options.extend(task.given());
        let mut headers = HeaderMap::new();
        if let Some(key) = &task.idempotency_key {
            let wrong = |_| ClientError::Usage("--idempotency-key takes printable ASCII characters".to_owned());
            headers.insert(HeaderName::from_static("idempotency-key"), HeaderValue::from_str(key).map_err(wrong)?);
        }
        let ended = follow(&caller, to, &Value::Object(self.body), task.detach, headers, &task.result).await;
        ended.map_err(|error| error.named(&self.options, Some(&self.file)))
    }
}

pub(super) async fn run(arguments: RunArguments) -> Result<Exit, ClientError> {
    let mut order = Order::read(&arguments.file)?;
    order.wrap_recording();
    order.submit("/lam/run", &arguments.task).await
}

pub(super) async fn extract(arguments: ExtractArguments) -> Result<Exit, ClientError> {
    let mut order = Order::read(&arguments.file)?;
    order.wrap_schema();
    order.set("url", "--page", arguments.page);
    order.submit("/lam/extract", &arguments.task).await
}

pub(super) async fn fleet(arguments: FleetArguments) -> Result<Exit, ClientError> {
    let mut order = Order::read(&arguments.file)?;
    order.wrap_recording();
    if order.body.contains_key("recording") {
        order.wrap("run");
    }
    order.set("inputs", "--inputs", arguments.table.as_deref().map(inputs::read).transpose()?);
    order.set("concurrency", "--concurrency", arguments.concurrency);
    if let Some(retries) = arguments.retries
        && let Value::Object(retry) = order.body.entry("retry").or_insert_with(|| json!({}))
    {
        retry.insert("max".to_owned(), Value::from(retries));
        order.options.push(("retry.max", "--retries"));
    }
    order.submit("/lam/fleet", &arguments.task).await
}

/// Reads a file that holds a JSON object.
pub(super) fn read(path: &Path) -> Result<Map<String, Value>, ClientError> {
    let shown = path.display();
    let text =
        if path == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|error| ClientError::Usage(format!("cannot read {shown}: {error}")))?;
    serde_json::from_str(&text)
        .map_err(|error| ClientError::Usage(format!("{shown} does not hold a JSON object: {error}")))
}

/// Sends a task and follows it to its end; also over a restart of the daemon.
pub(super) async fn follow(
    caller: &Caller,
    to: &str,
    body: &Value,
    detach: bool,
    mut headers: HeaderMap,
    result: &ResultArguments,
) -> Result<Exit, ClientError> {
    if detach {
        let reply = caller.send(Method::POST, to, headers, Some(body)).await?;
        print(&http::read_json::<Value>(reply).await?);
        return Ok(Exit::Success);
    }
    headers.insert(ACCEPT, EVENT_STREAM);
    let events = Events::new(caller.send(Method::POST, to, headers, Some(body)).await?);
    let mut id = None;
    let ended = follow_events(caller, events, result, &mut id).await;
    ended.map_err(|error| match id {
        Some(id) => error.with_hint(&format!("`warmpool tasks show {id}` shows what becomes of the task")),
        None => error,
    })
}

/// Follows a task to its end. `id` is the task's once that is known, also after an error.
async fn follow_events(
    caller: &Caller,
    mut events: Events,
    result: &ResultArguments,
    id: &mut Option<String>,
) -> Result<Exit, ClientError> {
    let mut shown = Progress::new();
    let mut broken = None;
    loop {
        while let Some(event) = events.next().await? {
            broken = None;
            match &event {
                Event::End(task, answer) => {
                    id.get_or_insert_with(|| task.task_id.to_string());
                    shown.end();
                    report(caller, task, answer, result).await?;
                    return Ok(exit_of(task.status));
                }
                Event::Task(task) if id.is_none() => shown.name("task", id.insert(task.task_id.to_string())),
                Event::Task(_) | Event::Item(_) | Event::Progress(_) => {}
            }
            shown.event(&event);
        }
        let Some(id) = &*id else { return Err(ClientError::Unreachable("the stream broke off".to_owned())) };
        events = Events::resume(caller, &path(id, ""), *broken.get_or_insert_with(Instant::now)).await?;
        sleep(RESUME_EVERY).await;
    }
}

/// Tells what a task came to: on a terminal in short, otherwise in full.
async fn report(caller: &Caller, task: &TaskView, answer: &Value, result: &ResultArguments) -> Result<(), ClientError> {
    if let Some(file) = &result.output {
        let unwritten = |error| ClientError::Usage(format!("cannot write {}: {error}", file.display()));
        std::fs::write(file, format!("{:#}\n", whole(caller, task, answer).await?)).map_err(unwritten)?;
    }
    if for_people(result.json) {
        let console = caller.address(&format!("/console/#/tasks/{}", path_segment(&task.task_id.to_string())));
        write(&summary(task, result.output.as_deref(), &console));
        return Ok(());
    }
    if let Some(counts) = &task.items {
        note(show::outcome(counts));
    }
    if result.output.is_none() {
        print(&whole(caller, task, answer).await?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_daemon::{TestDaemon, refusal, stream};

    const ID: &str = "tsk_01KAJ6H2TT0000000000000000";

    /// What a daemon writes that has taken a task on, and then restarts.
    fn begun() -> String {
        let task = json!({
            "taskId": ID, "executionType": "run", "executionTime": 0, "inputs": {},
            "timestamp": 0, "status": "running", "browserType": "chromium", "headless": true,
            "keyId": "0123456789ab", "output": [],
        });
        stream("task", &task)
    }

    /// Follows a task on a daemon that answers its requests so, the last answer for good. Returns what came of it, and
    /// the number of requests.
    async fn followed(answers: Vec<String>) -> (Result<Exit, ClientError>, usize) {
        let daemon = TestDaemon::with_answers(answers).await;
        let result = ResultArguments { output: None, json: true };
        let came = follow(&daemon.caller(), "/lam/run", &json!({}), false, HeaderMap::new(), &result).await;
        (came, daemon.asked().len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_for_good_is_not_asked_for_again() {
        for status in ["401 Unauthorized", "403 Forbidden", "404 Not Found", "410 Gone"] {
            let (came, asked) = followed(vec![begun(), refusal(status)]).await;
            let refused =
                matches!(&came, Err(ClientError::Refused { status: told, .. }) if status.starts_with(told.as_str()));
            assert!(refused, "{status}: {came:?}");
            assert_eq!(asked, 2, "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_for_now_is_waited_out() {
        let waits = ["503 Service Unavailable", "429 Too Many Requests", "408 Request Timeout", "425 Too Early"];
        let answers = [begun()].into_iter().chain(waits.map(refusal)).chain([refusal("404 Not Found")]);
        let (came, asked) = followed(answers.collect()).await;
        assert!(matches!(&came, Err(ClientError::Refused { status, .. }) if status.as_u16() == 404), "{came:?}");
        assert_eq!(asked, 2 + waits.len());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_is_told_which_task_goes_on() {
        let (came, _) = followed(vec![begun(), refusal("503 Service Unavailable")]).await;
        let told = came.unwrap_err().to_string();
        assert!(told.contains("503") && told.contains(&format!("; `warmpool tasks show {ID}` shows")), "{told}");
        let (came, _) = followed(vec![refusal("503 Service Unavailable")]).await;
        assert_eq!(came.unwrap_err().to_string(), "the daemon answered 503 Service Unavailable");
    }
}
