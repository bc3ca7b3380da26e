//! `warmpool tasks`: the history on the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::http::{HeaderMap, Method};
use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize as _;
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;
use warmpool_api::task::{ItemView, Status, TaskKind, TaskView};
use warmpool_core::address::path_segment;
use warmpool_core::clock::{millis, unix_ms};
use warmpool_core::metadata::Label;

use super::arguments::{ResultArguments, Service};
use super::error::ClientError;
use super::http::{Caller, broken, read_lines, save};
use super::kept::delete;
use super::list::ListArguments;
use super::naming::SetBy;
use super::output::{for_people, note, print, stdout, write};
use super::results::whole;
use super::submit::follow;
use super::{show, values};
use crate::exit::Exit;

/// What the list can be ordered by.
const SORT_KEYS: [&str; 5] = ["timestamp", "executionTime", "taskId", "status", "executionType"];

/// A command about tasks.
#[derive(Debug, Clone, Subcommand)]
pub enum TasksCommand {
    /// List tasks, newest first.
    List {
        /// Which ones.
        #[command(flatten)]
        filter: TaskFilter,
        /// Which page of the list.
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show one task with all of its output; the exit code says how the task ended.
    Show(TaskReference),
    /// Print the results of a task; those of a fleet with the inputs, status and error of their items.
    Results {
        /// The form: a table with commas, or a JSON object a line.
        #[arg(long, value_enum, default_value_t = ResultFormat::Csv)]
        format: ResultFormat,
        /// Which one.
        #[command(flatten)]
        task: TaskReference,
    },
    /// List the items of a fleet: as a table on a terminal, otherwise as a JSON object a line, with all output.
    Items {
        /// The fleet's id.
        id: String,
        /// Only those of this status.
        #[arg(long, value_parser = values::task_status())]
        status: Option<Status>,
        /// Print JSON on a terminal, too.
        #[arg(long)]
        json: bool,
        /// Whom to ask.
        #[command(flatten)]
        service: Service,
    },
    /// List the screenshots, documents and downloads of a task, or save them.
    Artifacts {
        /// Save the files into this directory.
        #[arg(long, value_name = "DIRECTORY")]
        save: Option<PathBuf>,
        /// Which one.
        #[command(flatten)]
        task: TaskReference,
    },
    /// Stop a task.
    Cancel(TaskReference),
    /// Delete a task that has ended, with its results, items and files.
    Delete(TaskReference),
    /// Try again what failed of a task, as a new task.
    Retry {
        /// Print the new task and leave it.
        #[arg(long)]
        detach: bool,
        /// What to do with the result.
        #[command(flatten)]
        result: ResultArguments,
        /// Which one.
        #[command(flatten)]
        task: TaskReference,
    },
}

/// A task, and whom to ask for it.
#[derive(Debug, Clone, Args)]
pub struct TaskReference {
    /// The task's id.
    id: String,
    /// Whom to ask.
    #[command(flatten)]
    service: Service,
}

impl TaskReference {
    /// The path of the task, or of something below it.
    fn path(&self, rest: &str) -> String {
        path(&self.id, rest)
    }
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
    /// Only those of this type; may be repeated.
    #[arg(long = "type", value_name = "TYPE", value_parser = values::task_kind())]
    pub kinds: Vec<TaskKind>,
    /// Only those of this end user.
    #[arg(long, value_name = "TEXT")]
    pub service_passcode: Option<String>,
    /// Only those with this label; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::label)]
    pub metadata: Vec<Label>,
    /// Only this one.
    #[arg(long, value_name = "ID")]
    pub task_id: Option<String>,
    /// Only tasks accepted at most this long ago, such as 2h.
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub since: Option<Duration>,
    /// Only tasks accepted at least this long ago, such as 2h.
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub until: Option<Duration>,
    /// Sort key.
    #[arg(long, value_name = "KEY", default_value = "timestamp", value_parser = SORT_KEYS)]
    pub sort_by: String,
    /// Smallest first.
    #[arg(long)]
    pub ascend: bool,
}

/// The options of [`TaskFilter`].
const OPTIONS: &[SetBy] = &[
    ("executionType", "--type"),
    ("service_passcode", "--service-passcode"),
    ("metadata", "--metadata"),
    ("task_id", "--task-id"),
    ("start_time", "--since"),
    ("end_time", "--until"),
    ("sort_by", "--sort-by"),
    ("sort_order", "--ascend"),
];

impl TaskFilter {
    fn query(&self) -> Serializer<'static, String> {
        let mut query = Serializer::new(String::new());
        query
            .extend_pairs(self.kinds.iter().map(|kind| ("executionType[]", kind.as_str())))
            .extend_pairs(self.service_passcode.iter().map(|passcode| ("service_passcode", passcode)))
            .extend_pairs(self.metadata.iter().map(|label| ("metadata[]", label.to_string())))
            .extend_pairs(self.task_id.iter().map(|id| ("task_id", id)));
        let now = unix_ms();
        for (name, age) in [("start_time", self.since), ("end_time", self.until)] {
            if let Some(age) = age {
                query.append_pair(name, &now.saturating_sub(millis(age)).to_string());
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
        TasksCommand::List { filter, list } => list.print("/lam/tasks", filter.query(), OPTIONS, show::tasks).await?,
        TasksCommand::Show(task) => {
            let caller = Caller::new(&task.service)?;
            let answer: Value = caller.get(&task.path("")).await?;
            let task = view(&answer)?;
            print(&whole(&caller, &task, &answer).await?);
            return Ok(exit_of(task.status));
        }
        TasksCommand::Results { format, task } => {
            let format = if format == ResultFormat::Csv { "csv" } else { "ndjson" };
            let reply = Caller::new(&task.service)?.open(&task.path(&format!("?format={format}"))).await?;
            save(reply, &mut stdout()).await?;
        }
        TasksCommand::Items { id, status, json, service } => {
            let mut query = Serializer::new("/items?format=ndjson".to_owned());
            query.extend_pairs(status.map(|status| ("status", status.as_str())));
            let reply = Caller::new(&service)?.open(&path(&id, &query.finish())).await?;
            if for_people(json) {
                write(&show::items(&read_lines(reply).await?));
            } else {
                save(reply, &mut stdout()).await?;
            }
        }
        TasksCommand::Artifacts { save, task } => artifacts(&task, save.as_deref()).await?,
        TasksCommand::Cancel(task) => {
            let answer: Value = Caller::new(&task.service)?.json(Method::DELETE, &task.path(""), None).await?;
            let task = view(&answer)?;
            if task.already_ended {
                note(format_args!("the task had ended already: {}", task.status));
            }
            print(&answer);
        }
        TasksCommand::Delete(task) => delete(&task.service, &task.path("?forget=true"), "the task").await?,
        TasksCommand::Retry { detach, result, task } => {
            let caller = Caller::new(&task.service)?;
            return follow(&caller, &task.path("/retry"), &json!({}), detach, HeaderMap::new(), &result).await;
        }
    }
    Ok(Exit::Success)
}

/// Lists the files of a task and of its items, or saves them.
async fn artifacts(task: &TaskReference, folder: Option<&Path>) -> Result<(), ClientError> {
    let caller = Caller::new(&task.service)?;
    let found: TaskView = caller.get(&task.path("")).await?;
    let mut names: Vec<String> = found.artifacts.into_iter().map(|artifact| artifact.name).collect();
    if found.items.is_some() {
        let items = read_lines(caller.open(&task.path("/items?format=ndjson")).await?).await?;
        names.extend(items.into_iter().flat_map(|item: ItemView| item.artifacts));
    }
    for name in names {
        let Some(folder) = folder else {
            write(&name);
            continue;
        };
        // A name in a record never leads elsewhere, but a daemon may be anybody's.
        let plain = Path::new(&name).file_name().filter(|plain| *plain == name.as_str());
        let plain = plain.ok_or_else(|| ClientError::Unreachable(format!("`{name}` is not a file name")))?;
        let reply = caller.open(&task.path(&format!("/artifacts/{}", path_segment(&name)))).await?;
        let target = folder.join(plain);
        let unwritten = |error| ClientError::Usage(format!("cannot write {}: {error}", target.display()));
        std::fs::create_dir_all(folder).map_err(unwritten)?;
        let mut file = std::fs::File::create(&target).map_err(unwritten)?;
        save(reply, &mut file).await?;
        write(&target.display().to_string());
    }
    Ok(())
}

/// Reads the task in an answer.
fn view(answer: &Value) -> Result<TaskView, ClientError> {
    TaskView::deserialize(answer).map_err(|error| broken(&error))
}

pub(super) fn path(id: &str, rest: &str) -> String {
    format!("/lam/tasks/{}{rest}", path_segment(id))
}

pub(super) const fn exit_of(status: Status) -> Exit {
    match status {
        Status::Failure => Exit::Failure,
        Status::Cancelled => Exit::Cancelled,
        Status::Queued | Status::Running | Status::Success => Exit::Success,
    }
}
