//! Sessions: one client's use of one worker, from its creation to its one end.
//!
//! `active` is a session that lives; `create` makes them; `table` finds and lists them; `supervise` ends them; `record` is their form in the store and in
//! lists; `journal` writes it, the end last; `drivers` finds them by the driver's id; `ending` says why they end; `activity`
//! counts who uses them; `recover` finds them again after a restart; `retention` forgets the oldest. `share` holds the links
//! of the live view, `gate` a client's commands while a person drives.

mod active;
mod activity;
mod address;
mod create;
mod drivers;
mod ending;
mod gate;
mod journal;
mod record;
mod recover;
mod retention;
mod share;
mod supervise;
mod table;

pub(crate) use active::{Driver, DriverOpening, Session};
pub(crate) use activity::{Attachment, Busy};
pub(crate) use address::page_address;
pub(crate) use create::Created;
pub(crate) use ending::{Ending, Status};
pub(crate) use gate::{Gate, Shut};
pub(crate) use record::{Kind, Listing, Options, Record, SessionQuery, SortKey};
pub(crate) use share::Share;
pub(crate) use table::Sessions;
