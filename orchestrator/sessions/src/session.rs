//! Sessions: one client's use of one worker, from its creation to its end.
//!
//! `request` checks what a create call asks for; `active` is a session that lives; `create` makes it, `build` assembles it, and `create_times` counts how long that takes;
//! `services` are what sessions are made with; `table` holds sessions, in `rows`; `lookup` finds them by what clients have, `listing` lists and `counts` counts them; `supervise` ends them; `ending` says why they end, and `ends` whose end the store does not have yet; `record` is their form in the store
//! and in lists; `journal` writes it, the end last; `grid_ids` finds them by a grid's id, `names` by their name; `activity`
//! tracks their use; `route` is the way of their connections; `recover` finds them again after a restart; `retention` forgets the oldest.
//! `share` holds the links of the live view, `gate` a client's commands while a person drives.
//! `profile` saves a session's profile. `state` is what a session's browser keeps for sites: given at the start, and read from it.
//! `page_error` says why the first page did not load. `address` checks which addresses clients and viewers may open. `log` finds the logs of
//! sessions, `recorded` those that asked for a recording, and `webhook` tells webhooks of ends and challenges.

mod active;
mod activity;
mod address;
mod build;
mod counts;
mod create;
mod create_times;
mod ending;
mod ends;
mod gate;
mod grid_ids;
mod journal;
mod listing;
mod log;
mod lookup;
mod names;
mod page_error;
mod profile;
mod record;
mod recorded;
mod recover;
mod request;
mod retention;
mod route;
mod rows;
mod services;
mod share;
mod state;
mod supervise;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod webhook;

pub(crate) use active::DriverOpening;
/// The parsers of this module, for the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::request::fuzzing as request;
}

pub use active::{DriverSession, Session};
pub use activity::CommandGuard;
pub(crate) use activity::{Attachment, Watching};
pub use address::page_address;
pub use create::UnconfirmedSession;
pub use create_times::Histogram;
pub use ending::Ending;
pub(crate) use gate::{Gate, HeldGate};
pub use grid_ids::is_grid_id;
pub use log::FoundLog;
pub use names::{NameTurn, OpenedSession};
pub(crate) use record::Record;
pub use record::{Options, SessionQuery, SortKey};
pub use recover::Reclaimed;
pub use request::{
    APP_NAME, Advanced, AdvancedOptions, CreateRequest, CreateSession, CreateWebDriverSession, Settings, advanced,
    check_text, check_webhook, launch,
};
pub use services::SessionServices;
pub use share::Share;
pub use state::GivenState;
pub(crate) use state::Origins;
use state::READ_TIME;
pub use table::Sessions;
pub use warmpool_api::session::{SessionKind, SessionView, Status};
