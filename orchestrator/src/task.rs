//! Tasks: recorded runs and extractions, carried out in sessions like any client's, and their history.
//!
//! What a task does: `work` is what it is to do and what comes of it; `recording`, `step`, `selector`, `template` and
//! `schema` read it; `execute` carries it out on a `browser`; `steps` and `extract` are what it does there; `page` is its
//! hand in the page.
//!
//! What is around it: `order` is what a client asks for; `table` accepts, finds, lists and ends tasks; `live` is one that
//! has not ended; `perform` carries one piece of work out in a session, `fleet` many; `keep` and `files` put tasks on the
//! disk, `seal` their secrets; `record` and `view` are their form there and for clients; `query` asks `history`, the index;
//! `recover` goes on after a restart; `retention` forgets the oldest.

pub mod browser;
pub mod execute;
mod files;
mod fleet;
mod history;
mod id;
mod keep;
mod live;
mod order;
mod perform;
mod query;
mod record;
mod recover;
mod retention;
mod seal;
mod table;
mod view;
pub mod work;

pub use id::{NoTaskId, TaskId};
pub use live::{Event, Live};
pub use order::{FleetRules, Order};
pub use query::{SortKey, TaskQuery};
pub use record::{ArtifactNote, Fault, Item, ItemCounts, Kind, Output, Record, Status};
pub use seal::MAX_SECRETS;
pub use table::{Accepted, Extras, Tasks};
pub use view::{artifacts as artifacts_view, item as item_view, record as record_view};
