//! What happened in a session: its console, the errors of its pages, its requests and downloads, for sessions that ask for it.
//!
//! | module      | what it holds |
//! |-------------|---------------|
//! | `book`      | the entries of one session, within limits, for those who read and follow them |
//! | `collector` | the daemon's own DevTools connection that fills it |
//! | `reader`    | makes entries of DevTools events; no I/O |
//! | `exchange`  | a request and its answer |
//! | `har`       | the requests as HAR 1.2 |
//! | `kept`      | the books of live sessions, and of some that ended |
//!
//! - *Only Chromium tells.* It takes any number of DevTools connections. Firefox has one BiDi session at a time and WebKit one
//!   inspector for each page, and both are the client's: another one would take them away, or send the client events that it did
//!   not ask for. Of these engines the log has downloads, which the agent knows, and says what it leaves out.
//! - *Bodies are never kept, and of headers the values that are on a list*: cookies and credentials have names that nobody can list.
//! - *Books are in memory alone*, bounded by `logs.max_entries` and `logs.max_size`, and gone with the daemon.

mod book;
mod collector;
mod exchange;
mod har;
mod kept;
mod reader;

pub use book::{Book, Follower};
pub(crate) use collector::collect;
pub use har::har;
pub(crate) use kept::KeptBooks;
