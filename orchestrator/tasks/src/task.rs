//! Tasks: recorded runs, extractions and fleets of them, carried out in sessions like any client's, and their history.
//!
//! `crate::script` is the language in which a task says what to do, and `crate::player` carries that out in a browser.
//! Around them stand five owners, each behind a small interface:
//!
//! | file          | what it owns |
//! |---------------|--------------|
//! | `table`       | the tasks that have not ended (`active`), and the index of all that there are (`history`), behind one lock |
//! | `storage`     | what is on the disk: records, specifications, items, secrets, files; and how a task waits for the disk |
//! | `sizes`       | how much tasks keep on the disk, and how much they may |
//! | `workers`     | whose turn it is to have a worker (`turns`), and sessions |
//! | `idempotency` | requests that come again under the same idempotency key |
//!
//! `Tasks` has them all. `submit` checks what a client asks for and makes a `spec` of it. `accept` takes that, and `run` and `fleet`
//! carry it out: a fleet by `runner`s that keep a session from item to item, while `hosts` says when items may open their hosts,
//! both by `attempt`s. `lifecycle` changes a task's status. `record` and `index_row` are a task's form on the disk, `record_room`
//! says what fits into it, and `view` is its form for clients. `retry` says what of a task is tried again, `export` writes results
//! as lines, `recover` resumes after a restart, with `doubt` about what may have run, `retention` forgets the oldest tasks, and `room`
//! makes room for what tasks keep.

/// The parsers of this module, for the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing {
    pub use super::export::fuzzing as export;
    pub use super::submit::fuzzing as submit;
}
mod accept;
mod active;
mod attempt;
mod doubt;
mod export;
mod fleet;
mod history;
mod hosts;
mod idempotency;
mod index_row;
mod lifecycle;
mod query;
mod record;
mod record_room;
mod recover;
mod retention;
mod retry;
mod room;
mod run;
mod runner;
mod secrets;
mod sizes;
mod spec;
mod storage;
mod submit;
mod table;
mod task_session;
mod tasks;
#[cfg(test)]
mod tests;
mod turns;
mod view;
mod webhook;
mod workers;

pub use accept::SubmitOptions;
pub use active::{ActiveTask, TaskEvent};
pub use export::{ExportFormat, Lines, Memory};
pub use query::{SortKey, TaskQuery};
pub use record::{ArtifactRecord, Item, Output, Record};
pub use secrets::TaskSecrets;
pub use sizes::Share;
pub use spec::TaskSpec;
pub use storage::FOLDER;
pub use submit::{RetryRequest, SubmitExtract, SubmitFleet, SubmitRequest, SubmitRun};
pub use tasks::{Task, Tasks};
pub use view::{artifacts as artifacts_view, item as item_view, record as record_view};
pub use warmpool_api::task::{Status, TaskError, TaskKind};
pub use warmpool_core::ids::TaskId;
