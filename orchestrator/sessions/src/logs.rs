//! What happened in a session: its console, the errors of its pages, its requests and downloads, for sessions that ask for it.
//!
//! | module      | what it holds |
//! |-------------|---------------|
//! | `buffer`    | the entries of one session, within limits, for those who read and follow them |
//! | `collector` | what fills it: the daemon's own DevTools connection, or what the agent tells |
//! | `reader`    | makes entries of DevTools events; no I/O |
//! | `told`      | makes entries of what an agent tells; no I/O |
//! | `exchange`  | a request and its answer |
//! | `har`       | the requests as HAR 1.2 |
//! | `kept`      | the logs of live sessions, and of some that ended |
//!
//! - *No engine's one session is taken.* Chromium takes any number of DevTools connections. Firefox has one BiDi session at a
//!   time, which is the client's, so its own process tells the agent. WebKit has one inspector for each page, which no driver needs:
//!   the agent has it until a client inspects the page, and the log of such a session names what it leaves out.
//! - *Bodies are never kept, and of headers the values that are on a list*: cookies and credentials have names that nobody can list.
//! - *Logs are in memory alone*, bounded by `logs.max_entries` and `logs.max_size`, and gone with the daemon.

mod buffer;
mod collector;
mod exchange;
mod har;
mod kept;
mod reader;
mod told;

pub use buffer::{Follower, LogBuffer};
pub(crate) use collector::collect;
pub use har::har;
pub(crate) use kept::KeptLogs;
