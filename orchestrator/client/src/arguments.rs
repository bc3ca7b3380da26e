//! The command line's options of a task.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use warmpool_core::browser::Engine;
use warmpool_core::clock::millis;
use warmpool_core::metadata::Label;

use super::error::ClientError;
use super::naming::{SetBy, given};
use super::values;

/// Where the daemon is, and who asks.
#[derive(Debug, Clone, Args)]
pub struct Service {
    /// The daemon's address.
    #[arg(long = "service", value_name = "URL", env = "WARMPOOL_URL", default_value = "http://127.0.0.1:4444")]
    pub url: String,
    /// File that holds the service key; WARMPOOL_SECRET_KEY holds it otherwise.
    #[arg(long, value_name = "PATH")]
    pub key_file: Option<PathBuf>,
}

/// A recording to play.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    /// File with a recording of Chrome DevTools' Recorder, or with a whole request to POST /lam/run; - reads standard input.
    pub file: PathBuf,
    /// What all three kinds of tasks take.
    #[command(flatten)]
    pub task: TaskArguments,
}

/// A page to read.
#[derive(Debug, Clone, Args)]
pub struct ExtractArguments {
    /// File with a schema, or with a whole request to POST /lam/extract; - reads standard input.
    pub file: PathBuf,
    /// The page to read.
    #[arg(long = "page", value_name = "URL")]
    pub page: Option<String>,
    /// What all three kinds of tasks take.
    #[command(flatten)]
    pub task: TaskArguments,
}

/// A run or an extract for many inputs.
#[derive(Debug, Clone, Args)]
pub struct FleetArguments {
    /// File with a whole request to POST /lam/fleet, with its work (`run` or `extract`), or with a recording; - reads standard
    /// input.
    pub file: PathBuf,
    /// File with the inputs of the items: .csv (the first line has their names), or .ndjson or .jsonl (an object a line).
    #[arg(long = "inputs", value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// How many items run at once.
    #[arg(long, value_name = "NUMBER")]
    pub concurrency: Option<usize>,
    /// How often an item is tried again after a failure that may pass.
    #[arg(long, value_name = "NUMBER")]
    pub retries: Option<u32>,
    /// What all three kinds of tasks take.
    #[command(flatten)]
    pub task: TaskArguments,
}

/// What to do with the result of a task.
#[derive(Debug, Clone, Args)]
pub struct ResultArguments {
    /// Write the full result into this file, as JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub output: Option<PathBuf>,
    /// Print the full result as JSON on a terminal, too.
    #[arg(long)]
    pub json: bool,
}

/// What all three kinds of tasks take.
#[derive(Debug, Clone, Args)]
pub struct TaskArguments {
    /// Value for {{input.NAME}}, in a fleet for every item; numbers, true and false are taken as such.
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
    /// Value for {{secret.NAME}}: env:VARIABLE or file:PATH, since anybody may read a command line.
    #[arg(long = "secret", value_name = "NAME=SOURCE")]
    pub secrets: Vec<String>,
    /// What to call the task in the history.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// The engine.
    #[arg(long, value_name = "ENGINE", value_parser = values::engine())]
    pub browser_type: Option<Engine>,
    /// Give the browser a display.
    #[arg(long)]
    pub headed: bool,
    /// Time for the task, or for each item of a fleet, such as 90s.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
    /// The end user it is for: an id or a name, and never a secret.
    #[arg(long, value_name = "TEXT", env = "WARMPOOL_SERVICE_PASSCODE", hide_env_values = true)]
    pub service_passcode: Option<String>,
    /// A label of the task; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::label)]
    pub metadata: Vec<Label>,
    /// Run it again if the daemon ends while it runs.
    #[arg(long)]
    pub safe_to_repeat: bool,
    /// Make one task of all requests with this key.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Print the accepted task and leave it.
    #[arg(long)]
    pub detach: bool,
    /// What to do with the result.
    #[command(flatten)]
    pub result: ResultArguments,
    /// Where to send it.
    #[command(flatten)]
    pub service: Service,
}

impl TaskArguments {
    /// The options that were given, by the fields that they set.
    pub(super) fn given(&self) -> Vec<SetBy> {
        given([
            (self.name.is_some(), "name", "--name"),
            (self.browser_type.is_some(), "browser_type", "--browser-type"),
            (self.headed, "headless", "--headed"),
            (self.timeout.is_some(), "timeout", "--timeout"),
            (self.service_passcode.is_some(), "service_passcode", "--service-passcode"),
            (!self.metadata.is_empty(), "metadata", "--metadata"),
            (self.safe_to_repeat, "safe_to_repeat", "--safe-to-repeat"),
            (!self.inputs.is_empty(), "inputs", "--input"),
            (!self.secrets.is_empty(), "secrets", "--secret"),
            (self.idempotency_key.is_some(), "idempotency-key", "--idempotency-key"),
        ])
    }

    /// Adds the options of the command line to a request.
    pub(super) fn add_to(&self, body: &mut Map<String, Value>) -> Result<(), ClientError> {
        put(
            body,
            json!({
                "name": self.name,
                "browser_type": self.browser_type,
                "headless": self.headed.then_some(false),
                "timeout": self.timeout.map(millis),
                "service_passcode": self.service_passcode,
                "metadata": labels(&self.metadata),
                "safe_to_repeat": self.safe_to_repeat.then_some(true),
            }),
        );
        for pair in &self.inputs {
            let (name, text) = pair
                .split_once('=')
                .ok_or_else(|| ClientError::Usage(format!("--input {pair}: write it as name=value")))?;
            match body.get_mut("inputs") {
                Some(Value::Array(items)) => {
                    items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| {
                        item.insert(name.to_owned(), scalar(text));
                    });
                }
                _ => insert(body, "inputs", name, scalar(text))?,
            }
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

/// Adds those of `members` to a request that are not null.
pub(super) fn put(body: &mut Map<String, Value>, members: Value) {
    if let Value::Object(members) = members {
        body.extend(members.into_iter().filter(|(_, value)| !value.is_null()));
    }
}

/// Labels as a request has them; null for none.
pub(super) fn labels(labels: &[Label]) -> Value {
    let members: Map<_, _> = labels.iter().map(|label| (label.key().to_owned(), json!(label.value()))).collect();
    if members.is_empty() { Value::Null } else { Value::Object(members) }
}

fn insert(body: &mut Map<String, Value>, member: &str, name: &str, value: Value) -> Result<(), ClientError> {
    match body.entry(member).or_insert_with(|| Value::Object(Map::new())) {
        Value::Object(values) => {
            values.insert(name.to_owned(), value);
            Ok(())
        }
        _ => Err(ClientError::Usage(format!("`{member}` of the file is not an object, so nothing can be added to it"))),
    }
}

/// Reads numbers, `true` and `false` as such, and everything else as text.
pub(super) fn scalar(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
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
