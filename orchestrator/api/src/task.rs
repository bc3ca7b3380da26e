//! Tasks, the items of fleets, and the files that they made, as clients read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use warmpool_core::browser::Engine;
use warmpool_core::ids::{KeyId, SessionId, TaskId};
use warmpool_core::metadata::Metadata;

use crate::AnyObject;
use crate::list::PageMeta;

macro_rules! names {
    ($(#[$doc:meta])* $name:ident in $title:literal { $($(#[$about:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[schemars(rename = $title)]
        pub enum $name { $($(#[$about])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// All of them, by name.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name in JSON and in queries.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                Self::ALL.into_iter().find(|one| one.as_str() == text).ok_or(())
            }
        }
    };
}

// In the order of their names, which is the order of lists that are sorted by them.
names! {
    /// What a task does.
    TaskKind in "TaskType" {
        /// Reads pages.
        Extract = "extract",
        /// Does one of the others for many inputs.
        Fleet = "fleet",
        /// Plays a recording.
        Run = "run",
    }
}

names! {
    /// How a task, or one item of a fleet, is.
    Status in "TaskStatus" {
        /// Ended by request.
        Cancelled = "cancelled",
        /// Ended without its result.
        Failure = "failure",
        /// Accepted; waits for its turn.
        Queued = "queued",
        /// Being carried out.
        Running = "running",
        /// Ended with its result.
        Success = "success",
    }
}

impl Status {
    /// Whether nothing more will happen to it.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Cancelled | Self::Failure | Self::Success)
    }
}

/// Why a task did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskError {
    /// For programs: the code of the failure, or one of `interrupted`, `no_worker`, `items_failed`,
    /// `stopped`, `internal`; or, of a task that waits, `disk_nearly_full`, `store_busy`, or the error for which it got no
    /// session, such as `profile_in_use`.
    pub code: String,
    /// For people.
    pub message: String,
    /// The failed step, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The artifact that shows the page at that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<String>,
}

impl TaskError {
    /// An error that is no step's.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), step: None, screenshot: None }
    }
}

/// How many items of a fleet are in which state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ItemCounts {
    /// All of them.
    pub total: u32,
    /// Not begun, or to be tried again.
    pub queued: u32,
    /// Being carried out.
    pub running: u32,
    /// With their results.
    pub success: u32,
    /// Without.
    pub failure: u32,
    /// Not to be carried out any more.
    pub cancelled: u32,
}

impl ItemCounts {
    /// A fleet of which nothing is done.
    #[must_use]
    pub fn none_done(total: u32) -> Self {
        Self { total, queued: total, ..Self::default() }
    }

    /// Counts that one item went from one state to another.
    pub fn moved(&mut self, from: Status, to: Status) {
        let from = self.of_status(from);
        *from = from.saturating_sub(1);
        *self.of_status(to) += 1;
    }

    /// How many items are in one state.
    pub const fn of_status(&mut self, status: Status) -> &mut u32 {
        match status {
            Status::Queued => &mut self.queued,
            Status::Running => &mut self.running,
            Status::Success => &mut self.success,
            Status::Failure => &mut self.failure,
            Status::Cancelled => &mut self.cancelled,
        }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Task")]
pub struct TaskView {
    /// Its id: `tsk_` and a ULID, so that ids sort as their tasks were accepted.
    pub task_id: TaskId,
    /// What it does.
    pub execution_type: TaskKind,
    /// How long it took, in milliseconds; 0 until it has ended.
    pub execution_time: u64,
    /// What its templates are filled with; a fleet's stand with its items.
    pub inputs: Map<String, Value>,
    /// The end user it was sent for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_passcode: Option<String>,
    /// Its labels. Absent when it has none.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// When it was accepted, in Unix milliseconds.
    pub timestamp: u64,
    /// How far it is.
    pub status: Status,
    /// On which engine.
    pub browser_type: Engine,
    /// Whether its browser has no display.
    pub headless: bool,
    /// The id of the key that sent it.
    pub key_id: KeyId,
    /// Its results.
    #[serde(flatten)]
    pub output: OutputView,
    /// Its files; those of a fleet's items stand with the items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactView>,
    /// What its sender calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The title of its recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The first page of its work, with templates as they were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// The session it was carried out in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// Why it stands still at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<TaskError>,
    /// When it was begun, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    /// When it ended, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// How long each step took, in milliseconds, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_times: Vec<u32>,
    /// How many items of a fleet are in which state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemCounts>,
    /// The task of which it tries again what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<TaskId>,
    /// Whether it had ended before the request to cancel it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_ended: bool,
}

/// An item of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskItem")]
pub struct ItemView {
    /// Its number, from 0.
    pub index: u32,
    /// How far it is.
    pub status: Status,
    /// How often it was begun.
    pub attempts: u32,
    /// How long its last attempt took, in milliseconds.
    pub execution_time: u64,
    /// What its templates are filled with.
    pub inputs: Map<String, Value>,
    /// Its results.
    #[serde(flatten)]
    pub output: OutputView,
    /// The session of its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// The names of its files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
}

/// Result objects, or where they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputView {
    /// The result objects. Empty where they are too large for a list or an event: then `outputBytes` says how large they are, and
    /// `outputUrl` where they are. Those of a fleet are its items; the last is `{"truncated": true, "items": …}`, with the path of
    /// all items, where more of them do not fit.
    #[schemars(with = "Vec<AnyObject>")]
    pub output: Vec<Value>,
    /// Their size as JSON, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// The path that answers all of them; of an item, with those of the fleet's other items, one item a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_url: Option<String>,
}

/// A file that a task made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Artifact")]
pub struct ArtifactView {
    /// Its name; an item's begin with the item's number.
    pub name: String,
    /// Its media type.
    pub media_type: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// The path that answers it.
    pub url: String,
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskOrder")]
pub struct OrderView {
    /// What the task does.
    #[serde(rename = "executionType")]
    pub kind: TaskKind,
    /// What is done for each input; of a run or an extract, its own type.
    #[serde(rename = "workType")]
    pub work_kind: TaskKind,
    /// The work, with its templates unfilled.
    pub work: Value,
    /// Time for it, or for one item, in milliseconds.
    pub timeout: u64,
    /// Whether it runs again if the daemon ended while it ran.
    #[serde(rename = "safe_to_repeat")]
    pub safe_to_repeat: bool,
}

/// One page of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPage {
    /// The tasks, in the order that was asked for.
    pub tasks: Vec<TaskView>,
    /// Where in the history they are.
    pub meta: PageMeta,
}

/// Some of a fleet's items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ItemPage {
    /// The items, by their numbers.
    pub items: Vec<ItemView>,
    /// What `after` says to get those that follow; null where none do.
    pub next: Option<u32>,
    /// How many items are in which state; null for a task that is no fleet.
    pub counts: Option<ItemCounts>,
}

/// The files of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactList {
    /// Screenshots, documents and downloads.
    pub artifacts: Vec<ArtifactView>,
}

/// What happens while a task runs. Holds no values, so no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "TaskProgress")]
pub enum Progress {
    /// A step begins.
    StepStarted {
        /// Its number, counted from 0.
        step: usize,
        /// How many there are.
        steps: usize,
        /// Its type, or the name of a custom step.
        kind: String,
    },
    /// A step is done.
    StepFinished {
        /// Its number, counted from 0.
        step: usize,
        /// How long it took, in milliseconds.
        ms: u64,
    },
    /// Results have come.
    Rows {
        /// How many there are so far.
        rows: usize,
        /// How many pages were read so far.
        pages: usize,
    },
    /// Something could not be done quite as the recording says, and did not matter enough to fail.
    Warning {
        /// What.
        message: String,
    },
}

/// The data of an event `progress`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressEvent {
    /// The number of the item, of a fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub progress: Progress,
}
