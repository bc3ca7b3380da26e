//! Browser extensions that clients keep here, for sessions that are to have them.
//!
//! | module | what it holds |
//! |---|---|
//! | `table` | all extensions: uploaded, listed, opened for a session, deleted |
//! | `upload` | what an upload is: a zip, a `.crx` or an `.xpi`, and the check of it |
//! | `signature` | the signatures of a `.crx` |
//! | `record` | an extension as the store keeps it |
//! | `files` | the archives, each an encrypted file |
//! | `error` | what can go wrong with an extension |
//!
//! The crate stands on `store`, `keys`, `config`, `api`, `core` and `protocol`. It knows neither sessions nor workers: a session names
//! extensions by their ids, and gets their archives as streams.
//!
//! - *An upload is read to its end before it is kept*: every file of it, with its checksum, within limits. What may be in an archive
//!   is in `warmpool_protocol::extension`, and the agent looks once more. Whether a browser takes the extension is the browser's
//!   word alone, when a session begins with it.
//! - *Kept is the zip*, also of a `.crx`, whose header no browser needs for an unpacked extension. The header's signatures are
//!   checked first; a key that is too short for the library leaves it unverified, which its record says.
//! - *Deleted is deleted.* Each extension has a key of its own, in a table that no backup holds with the rows, as profiles have.
//! - *An id is the extension's own.* The same file twice is two extensions, and another key's is unknown.

mod error;
mod files;
mod record;
mod signature;
mod table;
#[cfg(test)]
mod tests;
mod upload;

pub use error::Error;
pub use files::FOLDER;
pub use table::{Extensions, OpenedExtension};
