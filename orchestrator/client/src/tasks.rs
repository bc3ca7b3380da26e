//! `warmpool tasks`: the history on the command line.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::http::{HeaderMap, Method};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

use super::arguments::Service;
use super::error::ClientError;
use super::http::{Caller, read_text, save};
use super::list::ListArguments;
use super::output::{print, write};
use super::show;
use super::submit::follow;
use crate::exit::Exit;

/// A command about tasks.
#[derive(Debug, Clone, Subcommand)]
pub enum TasksCommand {
    /// List tasks, newest first.
    List {
        /// Which ones.
        #[command(flatten)]
        filter: TaskFilter,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show one task with all of its output; the exit code says how the task ended.
    Show {
        /// The task's id.
        id: String,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// Print the results of a task; those of a fleet with the inputs, status and error of their items.
    Results {
        /// The task's id.
        id: String,
        /// The form: a table with commas, or a JSON object a line.
        #[arg(long, value_enum, default_value_t = ResultFormat::Csv)]
        format: ResultFormat,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// List the items of a fleet: as a table on a terminal, otherwise as a JSON object a line, with all output.
    Items {
        /// The fleet's id.
        id: String,
        /// Only those of this status: queued, running, success, failure or cancelled.
        #[arg(long)]
        status: Option<String>,
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// List the screenshots, documents and downloads of a task, or save them.
    Artifacts {
        /// The task's id.
        id: String,
        /// Save the files into this directory.
        #[arg(long, value_name = "DIRECTORY")]
        save: Option<PathBuf>,
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

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResultFormat {
    Csv,
    Ndjson,
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
    /// timestamp, executionTime, taskId, status or executionType.
    #[arg(long, value_name = "KEY", default_value = "timestamp")]
    pub sort_by: String,
    /// Smallest first.
    #[arg(long)]
    pub ascend: bool,
}

impl TaskFilter {
    fn query(&self) -> Serializer<'static, String> {
        let mut query = Serializer::new(String::new());
        query
            .extend_pairs(self.kinds.iter().map(|kind| ("executionType[]", kind)))
            .extend_pairs(self.service_passcode.iter().map(|passcode| ("service_passcode", passcode)))
            .extend_pairs(self.task_id.iter().map(|id| ("task_id", id)));
        let now = warmpool_core::clock::unix_ms();
        for (name, age) in [("start_time", self.since), ("end_time", self.until)] {
            if let Some(age) = age {
                let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                query.append_pair(name, &now.saturating_sub(age).to_string());
            }
        }
        query
            .append_pair("sort_by", &self.sort_by)
            .append_pair("sort_order", if self.ascend { "ascend" } else { "descend" });
        query
    }
}

pub(super) async fn carry_out(command: TasksCommand) -> Result<Exit, ClientError> {
    match command {
        TasksCommand::List { filter, list } => list.print("/lam/tasks", filter.query(), show::tasks).await?,
        TasksCommand::Show { id, service } => {
            let task = Caller::new(&service)?.get(&path(&id, "")).await?;
            print(&task);
            return Ok(exit_of(&task));
        }
        TasksCommand::Results { id, format, service } => {
            let format = if format == ResultFormat::Csv { "csv" } else { "ndjson" };
            let path = path(&id, &format!("?format={format}"));
            let reply = Caller::new(&service)?.send(Method::GET, &path, HeaderMap::new(), None).await?;
            save(reply, &mut std::io::stdout().lock()).await?;
        }
        TasksCommand::Items { id, status, json, service } => {
            let status = status.map_or_else(String::new, |status| {
                Serializer::new("&".to_owned()).append_pair("status", &status).finish()
            });
            let path = path(&id, &format!("/items?format=ndjson{status}"));
            let reply = Caller::new(&service)?.send(Method::GET, &path, HeaderMap::new(), None).await?;
            if std::io::stdout().is_terminal() && !json {
                let items: Vec<Value> =
                    read_text(reply).await?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
                write(&show::items(&items));
            } else {
                save(reply, &mut std::io::stdout().lock()).await?;
            }
        }
        TasksCommand::Artifacts { id, save, service } => artifacts(&id, save.as_deref(), &service).await?,
        TasksCommand::Cancel { id, service } => {
            let task = Caller::new(&service)?.json(Method::DELETE, &path(&id, ""), None).await?;
            if task["alreadyEnded"] == true {
                eprintln!("the task had ended already: {}", task["status"].as_str().unwrap_or_default());
            }
            print(&task);
        }
        TasksCommand::Retry { id, detach, service } => {
            let caller = Caller::new(&service)?;
            return follow(&caller, &path(&id, "/retry"), &json!({}), detach, HeaderMap::new()).await;
        }
    }
    Ok(Exit::Success)
}

async fn artifacts(id: &str, folder: Option<&Path>, service: &Service) -> Result<(), ClientError> {
    let caller = Caller::new(service)?;
    let task = caller.get(&path(id, "")).await?;
    let mut names: Vec<String> = Vec::new();
    let mut note = |list: &Value| {
        let name = |one: &Value| one.as_str().or_else(|| one["name"].as_str()).map(str::to_owned);
        names.extend(list.as_array().into_iter().flatten().filter_map(name));
    };
    note(&task["artifacts"]);
    if task["items"].is_object() {
        let reply = caller.send(Method::GET, &path(id, "/items?format=ndjson"), HeaderMap::new(), None).await?;
        for line in read_text(reply).await?.lines() {
            note(&serde_json::from_str::<Value>(line).unwrap_or_default()["artifacts"]);
        }
    }
    for name in names {
        if let Some(folder) = folder {
            // A name in a record never leads elsewhere, but a daemon may be anybody's.
            let plain = Path::new(&name).file_name().filter(|plain| *plain == name.as_str());
            let plain = plain.ok_or_else(|| ClientError::Unreachable(format!("`{name}` is no file name")))?;
            let path = path(id, &format!("/artifacts/{}", warmpool_core::address::path_segment(&name)));
            let reply = caller.send(Method::GET, &path, HeaderMap::new(), None).await?;
            let target = folder.join(plain);
            let unwritten = |error| ClientError::Usage(format!("cannot write {}: {error}", target.display()));
            std::fs::create_dir_all(folder).map_err(unwritten)?;
            let mut file = std::fs::File::create(&target).map_err(unwritten)?;
            save(reply, &mut file).await?;
            write(&target.display().to_string());
        } else {
            write(&name);
        }
    }
    Ok(())
}

pub(super) fn path(id: &str, rest: &str) -> String {
    format!("/lam/tasks/{}{rest}", warmpool_core::address::path_segment(id))
}

pub(super) fn exit_of(task: &Value) -> Exit {
    match task["status"].as_str() {
        Some("failure") => Exit::Failure,
        Some("cancelled") => Exit::Cancelled,
        _ => Exit::Success,
    }
}
