//! What the command line says about tasks.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::ClientError;

/// A command about tasks.
#[derive(Debug, Clone)]
pub enum ClientCommand {
    /// Play a recording.
    Run(SubmitArguments),
    /// Read a page.
    Extract(SubmitArguments),
    /// Do one of them for many inputs.
    Fleet(SubmitArguments),
    /// Look into the history.
    Tasks(TasksCommand),
}

/// Where the daemon is, and who asks.
#[derive(Debug, Clone, Args)]
pub struct Service {
    /// The daemon's address.
    #[arg(long = "service", value_name = "URL", env = "WARMPOOL_URL", default_value = "http://127.0.0.1:4444")]
    pub url: String,
    /// File that holds the secret key; WARMPOOL_SECRET_KEY holds it otherwise.
    #[arg(long, value_name = "PATH")]
    pub key_file: Option<PathBuf>,
}

/// A task to send.
#[derive(Debug, Clone, Args)]
pub struct SubmitArguments {
    /// File with the recording, the schema, or the whole request; - reads standard input.
    pub file: PathBuf,
    /// Value for {{input.NAME}}; numbers, true and false are taken as such.
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
    /// Value for {{secret.NAME}}: env:VARIABLE or file:PATH, since anybody may read a command line.
    #[arg(long = "secret", value_name = "NAME=SOURCE")]
    pub secrets: Vec<String>,
    /// The page to read, of an extract.
    #[arg(long = "page", value_name = "URL")]
    pub page: Option<String>,
    /// chromium, firefox or webkit.
    #[arg(long, value_name = "ENGINE")]
    pub browser_type: Option<String>,
    /// Give the browser a display.
    #[arg(long)]
    pub headed: bool,
    /// Time for the task, such as 90s.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
    /// The end user it is for.
    #[arg(long, value_name = "TEXT", env = "WARMPOOL_SERVICE_PASSCODE", hide_env_values = true)]
    pub service_passcode: Option<String>,
    /// Run it again if the daemon ends while it runs.
    #[arg(long)]
    pub safe_to_repeat: bool,
    /// Make one task of all requests with this key.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Print the accepted task and leave it.
    #[arg(long)]
    pub detach: bool,
    /// Where to send it.
    #[command(flatten)]
    pub service: Service,
}

/// Questions to the history.
#[derive(Debug, Clone, Subcommand)]
pub enum TasksCommand {
    /// List tasks, newest first.
    List {
        /// Which ones.
        #[command(flatten)]
        query: TaskFilter,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// Show one task with all of its output.
    Show {
        /// The task's id.
        id: String,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// Stop a task.
    Cancel {
        /// The task's id.
        id: String,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// Try again what failed of a task, as a new task.
    Retry {
        /// The task's id.
        id: String,
        /// Print the new task and leave it.
        #[arg(long)]
        detach: bool,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
}

/// Which tasks to list.
#[derive(Debug, Clone, Args)]
pub struct TaskFilter {
    /// run, extract or fleet; may be repeated.
    #[arg(long = "type", value_name = "TYPE")]
    pub kinds: Vec<String>,
    /// Only those of this end user.
    #[arg(long, value_name = "TEXT")]
    pub service_passcode: Option<String>,
    /// Only this one.
    #[arg(long, value_name = "ID")]
    pub task_id: Option<String>,
    /// Only those begun so long ago at most, such as 2h.
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub since: Option<Duration>,
    /// Only those begun so long ago at least.
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub until: Option<Duration>,
    /// Page of the list, from 1.
    #[arg(long, default_value_t = 1)]
    pub page: u64,
    /// Tasks on a page, 1 to 100.
    #[arg(long, default_value_t = 10)]
    pub limit: u64,
    /// timestamp, executionTime, taskId, status or executionType.
    #[arg(long, value_name = "KEY", default_value = "timestamp")]
    pub sort_by: String,
    /// Smallest first.
    #[arg(long)]
    pub ascend: bool,
    /// Print JSON on a terminal, too.
    #[arg(long)]
    pub json: bool,
}

impl TaskFilter {
    /// The query of the list.
    pub(super) fn text(&self) -> Result<String, ClientError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.kinds.iter().map(|kind| ("executionType[]", kind)));
        if let Some(passcode) = &self.service_passcode {
            query.append_pair("service_passcode", passcode);
        }
        if let Some(id) = &self.task_id {
            query.append_pair("task_id", id);
        }
        let now = crate::clock::unix_ms();
        for (name, age) in [("start_time", self.since), ("end_time", self.until)] {
            if let Some(age) = age {
                let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                query.append_pair(name, &now.saturating_sub(age).to_string());
            }
        }
        query
            .append_pair("page", &self.page.to_string())
            .append_pair("limit", &self.limit.to_string())
            .append_pair("sort_by", &self.sort_by)
            .append_pair("sort_order", if self.ascend { "ascend" } else { "descend" });
        Ok(query.finish())
    }
}

impl SubmitArguments {
    /// Adds what the command line says to a request.
    pub(super) fn add_to(&self, body: &mut Map<String, Value>) -> Result<(), ClientError> {
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        put("url", self.page.clone().map(Value::from));
        put("browser_type", self.browser_type.clone().map(Value::from));
        put("headless", self.headed.then_some(Value::Bool(false)));
        put("timeout", self.timeout.map(|time| Value::from(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))));
        put("service_passcode", self.service_passcode.clone().map(Value::from));
        put("safe_to_repeat", self.safe_to_repeat.then_some(Value::Bool(true)));
        for pair in &self.inputs {
            let (name, text) = pair
                .split_once('=')
                .ok_or_else(|| ClientError::Usage(format!("--input {pair}: write it as name=value")))?;
            insert(body, "inputs", name, scalar(text))?;
        }
        for pair in &self.secrets {
            // The text may be a secret by mistake, so it is not repeated.
            let wrong = || ClientError::Usage("--secret: write name=env:VARIABLE or name=file:PATH".to_owned());
            let (name, source) = pair.split_once('=').ok_or_else(wrong)?;
            let value = match source.split_once(':') {
                Some(("env", variable)) => std::env::var(variable)
                    .map_err(|_| ClientError::Usage(format!("--secret {name}: there is no variable {variable}")))?,
                Some(("file", path)) => std::fs::read_to_string(path)
                    .map_err(|error| ClientError::Usage(format!("--secret {name}: cannot read {path}: {error}")))?
                    .trim_end_matches(['\r', '\n'])
                    .to_owned(),
                _ => return Err(wrong()),
            };
            insert(body, "secrets", name, Value::from(value))?;
        }
        Ok(())
    }
}

fn insert(body: &mut Map<String, Value>, member: &str, name: &str, value: Value) -> Result<(), ClientError> {
    match body.entry(member).or_insert_with(|| Value::Object(Map::new())) {
        Value::Object(values) => {
            values.insert(name.to_owned(), value);
            Ok(())
        }
        _ => Err(ClientError::Usage(format!("`{member}` of the file is no object, so nothing can be added to it"))),
    }
}

/// Numbers and switches as such, everything else as text.
fn scalar(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inputs_keep_their_types() {
        assert_eq!(scalar("tea"), json!("tea"));
        assert_eq!(scalar("3"), json!(3));
        assert_eq!(scalar("true"), json!(true));
        assert_eq!(scalar("\"3\""), json!("\"3\""));
        assert_eq!(scalar(""), json!(""));
    }
}
