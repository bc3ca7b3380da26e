//! Sessions: one client's use of one worker, from its creation to its end.
//!
//! `active` is a session that lives; `create` makes it, `build` assembles it, and `create_times` counts how long that takes;
//! `table` finds and lists sessions; `supervise` ends them; `ending` says why they end; `record` is their form in the store
//! and in lists; `journal` writes it, the end last; `grid_ids` finds them by a grid's id, `names` by their name; `activity`
//! tracks their use; `recover` finds them again after a restart; `retention` forgets the oldest.
//! `share` holds the links of the live view, `gate` a client's commands while a person drives.

mod active;
mod activity;
mod address;
mod build;
mod create;
mod create_times;
mod ending;
mod gate;
mod grid_ids;
mod journal;
mod names;
mod record;
mod recover;
mod retention;
mod share;
mod supervise;
mod table;

pub(crate) use active::{DriverOpening, DriverSession, Session};
pub(crate) use activity::{Attachment, CommandGuard};
pub(crate) use address::page_address;
pub(crate) use create::Created;
pub(crate) use create_times::Histogram;
pub(crate) use ending::{Ending, Status};
pub(crate) use gate::{Gate, HeldGate};
pub(crate) use grid_ids::is_grid_id;
pub(crate) use record::{Kind, Listing, Options, Record, SessionQuery, SortKey};
pub(crate) use share::Share;
pub(crate) use table::{ExternalServices, Sessions};
