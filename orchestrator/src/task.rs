//! Tasks: recorded runs and extractions, carried out in sessions like any client's, and their history.
//!
//! `crate::script` is what a task is to do, `crate::player` does it, and here is what is around it: `order` is what a
//! client asks for; `accept` takes it, `table` finds, lists and ends tasks; `live` is one that has not ended; `perform`
//! carries one piece of work out in a session, `fleet` many in `lane`s that hold one each; `keep` and `files` put tasks on
//! the disk, `persist` waits for it, `seal` their secrets; `record` and `view` are their form there and for clients;
//! `query` asks `history`, the index; `recover` goes on after a restart; `retention` forgets the oldest.

mod accept;
mod files;
mod fleet;
mod history;
mod id;
mod keep;
mod lane;
mod live;
mod order;
mod perform;
mod persist;
mod query;
mod record;
mod recover;
mod retention;
mod seal;
mod table;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use accept::Extras;
pub(crate) use files::FOLDER;
pub(crate) use id::TaskId;
pub(crate) use live::{Event, Live};
pub(crate) use order::{FleetRules, Isolation, Order};
pub(crate) use query::{SortKey, TaskQuery};
pub(crate) use record::{ArtifactNote, Item, Kind, Record, Status};
pub(crate) use seal::MAX_SECRETS;
pub(crate) use table::{Accepted, Tasks};
pub(crate) use view::{artifacts as artifacts_view, item as item_view, record as record_view};
