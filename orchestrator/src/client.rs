//! The command line's tasks: sends them to a daemon over HTTP, like any client, and shows how they go.
//!
//! `arguments` is what the command line says; `http` speaks to the daemon; `events` reads its stream of events;
//! `show` draws a bar, and tables, on a terminal. What comes of a task is printed as JSON on standard output.

mod arguments;
mod events;
mod http;
mod show;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Map, Value, json};

pub use arguments::{ClientCommand, Service, SubmitArguments, TaskFilter, TasksCommand};
use events::Events;
use http::Caller;
use show::Shown;

/// How the command line ends, as its exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The task succeeded, or the question was answered.
    Success = 0,
    /// The task failed.
    TaskFailed = 1,
    /// The task was cancelled.
    TaskCancelled = 2,
    /// The command line is wrong, or a file of it cannot be read.
    Usage = 64,
    /// The daemon refused the request.
    Refused = 65,
    /// The daemon cannot be reached, or cannot serve now.
    Unavailable = 69,
    /// The daemon refused the key.
    NoPermission = 77,
}

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Something on the command line, or in a file that it names.
    #[error("{0}")]
    Usage(String),
    /// The daemon did not answer as it should.
    #[error("{0}")]
    Unreachable(String),
    /// The daemon answered with an error.
    #[error("{message}{}", field.as_ref().map(|field| format!(" (field {field})")).unwrap_or_default())]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// What it said.
        message: String,
        /// The field it named.
        field: Option<String>,
    },
}

impl ClientError {
    /// Its exit code.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Unreachable(_) => Exit::Unavailable,
            Self::Refused { status, .. } => match status.as_u16() {
                401 | 403 => Exit::NoPermission,
                429 | 500.. => Exit::Unavailable,
                _ => Exit::Refused,
            },
        }
    }
}

/// A stream that broke is taken up again for so long.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(500);

/// Carries a command out.
///
/// # Errors
/// Every [`ClientError`].
pub async fn carry_out(ask: ClientCommand) -> Result<Exit, ClientError> {
    match ask {
        ClientCommand::Run(order) => submit("/lam/run", order, wrap_recording).await,
        ClientCommand::Extract(order) => submit("/lam/extract", order, wrap_schema).await,
        ClientCommand::Fleet(order) => submit("/lam/fleet", order, |file| file).await,
        ClientCommand::Tasks(TasksCommand::List { query, service }) => {
            let caller = Caller::new(&service)?;
            let list = caller.json(Method::GET, &format!("/lam/tasks?{}", query.text()?), None).await?;
            if std::io::stdout().is_terminal() && !query.json {
                write(&show::table(&list))
            } else {
                print(&list)
            }
            Ok(Exit::Success)
        }
        ClientCommand::Tasks(TasksCommand::Show { id, service }) => {
            let task = Caller::new(&service)?.json(Method::GET, &path(&id, ""), None).await?;
            print(&task);
            Ok(exit_of(&task))
        }
        ClientCommand::Tasks(TasksCommand::Cancel { id, service }) => {
            print(&Caller::new(&service)?.json(Method::DELETE, &path(&id, ""), None).await?);
            Ok(Exit::Success)
        }
        ClientCommand::Tasks(TasksCommand::Retry { id, detach, service }) => {
            let caller = Caller::new(&service)?;
            follow(&caller, &path(&id, "/retry"), &json!({}), detach, HeaderMap::new()).await
        }
    }
}

fn path(id: &str, rest: &str) -> String {
    format!("/lam/tasks/{}{rest}", crate::engine::path_segment(id))
}

/// A request as it is, or one around an exported recording.
fn wrap_recording(file: Map<String, Value>) -> Map<String, Value> {
    let exported = ["title", "steps", "timeout", "selectorAttribute"];
    if file.keys().all(|name| exported.contains(&name.as_str())) { wrap("recording", file) } else { file }
}

/// A request as it is, or one around a schema. A schema may have fields of any name, such as `url`.
fn wrap_schema(file: Map<String, Value>) -> Map<String, Value> {
    let request = file.get("schema").is_some_and(Value::is_object) || file.get("builtins").is_some_and(Value::is_array);
    if request { file } else { wrap("schema", file) }
}

fn wrap(member: &str, file: Map<String, Value>) -> Map<String, Value> {
    Map::from_iter([(member.to_owned(), Value::Object(file))])
}

/// Sends what a file says, with what the command line adds.
async fn submit(
    to: &str,
    order: SubmitArguments,
    wrap: fn(Map<String, Value>) -> Map<String, Value>,
) -> Result<Exit, ClientError> {
    let caller = Caller::new(&order.service)?;
    let mut body = wrap(read(&order.file)?);
    order.add_to(&mut body)?;
    let mut headers = HeaderMap::new();
    if let Some(key) = &order.idempotency_key {
        let wrong = |_| ClientError::Usage("--idempotency-key takes printable ASCII characters".to_owned());
        headers.insert(HeaderName::from_static("idempotency-key"), HeaderValue::from_str(key).map_err(wrong)?);
    }
    follow(&caller, to, &Value::Object(body), order.detach, headers).await
}

fn read(path: &Path) -> Result<Map<String, Value>, ClientError> {
    let shown = path.display();
    let text =
        if path == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|error| ClientError::Usage(format!("cannot read {shown}: {error}")))?;
    serde_json::from_str(&text).map_err(|error| ClientError::Usage(format!("{shown} holds no JSON object: {error}")))
}

/// Sends a task and follows it to its end; also over a restart of the daemon.
async fn follow(
    caller: &Caller,
    to: &str,
    body: &Value,
    detach: bool,
    mut headers: HeaderMap,
) -> Result<Exit, ClientError> {
    if detach {
        let reply = caller.send(Method::POST, to, headers, Some(body)).await?;
        print(&http::read_json(reply).await?);
        return Ok(Exit::Success);
    }
    let stream = HeaderValue::from_static("text/event-stream");
    headers.insert(::http::header::ACCEPT, stream.clone());
    let mut events = Events::new(caller.send(Method::POST, to, headers, Some(body)).await?);
    let mut shown = Shown::new();
    let mut id = None;
    let mut broken: Option<Instant> = None;
    loop {
        while let Some((name, data)) = events.next().await {
            broken = None;
            if let Some(task) = data["taskId"].as_str() {
                id = Some(task.to_owned());
            }
            if name == "end" {
                shown.end();
                let task = match &data["outputBytes"] {
                    Value::Null => data,
                    _ => caller.json(Method::GET, &path(data["taskId"].as_str().unwrap_or_default(), ""), None).await?,
                };
                print(&task);
                return Ok(exit_of(&task));
            }
            shown.event(&name, &data);
        }
        let Some(task) = &id else { return Err(ClientError::Unreachable("the stream broke off".to_owned())) };
        let since = *broken.get_or_insert_with(Instant::now);
        events = loop {
            let accept = HeaderMap::from_iter([(::http::header::ACCEPT, stream.clone())]);
            match caller.send(Method::GET, &path(task, ""), accept, None).await {
                Ok(reply) => break Events::new(reply),
                Err(error) if since.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        tokio::time::sleep(AGAIN).await;
    }
}

fn exit_of(task: &Value) -> Exit {
    match task["status"].as_str() {
        Some("failure") => Exit::TaskFailed,
        Some("cancelled") => Exit::TaskCancelled,
        _ => Exit::Success,
    }
}

fn print(value: &Value) {
    write(&if std::io::stdout().is_terminal() { format!("{value:#}") } else { value.to_string() });
}

fn write(text: &str) {
    // Whoever closed the pipe does not want to read.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
