//! Profiles: what a browser keeps for sites, kept under a name from one session to the next.
//!
//! | module   | what it holds |
//! |----------|---------------|
//! | `table`  | all profiles: made, listed, read, rolled back, deleted |
//! | `saving` | saves states as versions |
//! | `record` | a profile as the store keeps it, and the check of its name |
//! | `files`  | the versions of profiles, each an encrypted file |
//! | `folders` | versions that are a browser's folder |
//! | `imports` | how many folders clients send at once |
//! | `room`   | how much the profiles of one key hold together |
//! | `loading` | what an earlier process has left: its records, and its files in order |
//! | `opening` | what a session begins with |
//! | `left_out` | profiles that are in the store and cannot be read |
//! | `writer` | the right to write one profile, which one session at a time has |
//! | `contents` | what a version holds, without its values |
//! | `error`  | what can go wrong with a profile |
//!
//! The crate stands on `store`, `keys`, `config`, `api`, `core` and `protocol`. It knows neither sessions nor workers: a session asks for a
//! profile by its name, and saves by the right to write it.
//!
//! - *A version is a whole state* in the shape of Playwright's `storageState`, so that every engine takes what another gave. A
//!   save that changes nothing makes no version, and the saves of one session replace each other: a version stands for a session.
//! - *A profile is a state or a folder*, and stays that. A folder is one engine's own, packed, and is not in memory as a whole: it is
//!   checked, hashed and encrypted piece by piece while it arrives, whoever sends it. Which files it may have is in
//!   `warmpool_protocol::folder`. A profile without a version has no engine yet.
//! - *A save is whole or did not happen.* The file comes first, durable against the loss of power, then the record that names it.
//!   A file that no record names is removed at the start, but none of a profile whose record or key cannot be read: the right ones may
//!   come back. Where the data went back to an older state, the folder of a profile without a record is set aside.
//! - *One writer, any number of readers.* The right to write is a value ([`Writer`]) that gives itself back. It lives in memory,
//!   because a session that outlives the daemon takes it again before anybody else can.
//! - *Deleted is deleted.* Each profile has a key of its own, in a table that no backup holds with the rows. The deletion of that key
//!   is irrevocable, so no backup brings the logins back.
//! - *All records are in memory*: there are at most `profiles.max_per_key` for a key. Versions are read from the disk when a session
//!   begins with one.

mod contents;
mod error;
mod files;
mod folders;
mod imports;
mod left_out;
mod loading;
mod opening;
mod record;
mod room;
mod saving;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use error::Error;
pub use files::FOLDER;
pub use folders::OpenedFolder;
pub use opening::OpenedProfile;
pub use record::{ProfileChoice, ProfileMode, check_name};
pub use table::Profiles;
pub use warmpool_api::profile::ProfileKind;
pub use writer::Writer;
