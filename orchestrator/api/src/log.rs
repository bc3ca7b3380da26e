//! What happened in a session: the entries of its log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_protocol::LogLevel;

/// How bad a message is, from the worst on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LogLevel")]
pub enum Level {
    /// Something went wrong.
    Error,
    /// Something may go wrong.
    Warning,
    /// Anything else.
    Info,
    /// For whoever looks for a fault.
    Debug,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::Error,
            LogLevel::Warning => Self::Warning,
            LogLevel::Info => Self::Info,
            LogLevel::Debug => Self::Debug,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "SessionEvent")]
pub enum LogEvent {
    /// A page, or the browser about a page, wrote to the console.
    Console {
        /// How bad it is.
        level: Level,
        /// The words.
        text: String,
        /// The address of the script or resource, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The line in it, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u64>,
    },
    /// A page's script threw an error that nobody caught.
    PageError {
        /// The error, with its stack where it has one.
        text: String,
        /// The address of the script, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The line in it, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u64>,
    },
    /// A request of a page is done.
    Request {
        /// Its method.
        method: String,
        /// Its address.
        url: String,
        /// What it was for, as DevTools names it, such as `Document` or `Image`.
        resource: String,
        /// The status of the answer, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Why there is no answer, or no whole one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
        /// How long it took, in milliseconds.
        duration: u64,
        /// Bytes of the answer on the wire, as far as they are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// The browser saves a file.
    Download {
        /// The name that the site suggests, or that the file has.
        name: String,
        /// Where it comes from, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionLogEntry")]
pub struct LogEntry {
    /// Its number, from 1. Numbers of what was dropped are missing.
    pub seq: u64,
    /// When it happened, in Unix milliseconds.
    pub time: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: LogEvent,
}

/// The log of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionLog {
    /// The entries that are kept, the oldest first.
    pub entries: Vec<LogEntry>,
    /// How many there were that are not kept: the oldest, and those that came too fast.
    pub dropped: u64,
    /// What may be missing: `console`, `page_error`, `request`. Empty where it has everything.
    pub left_out: Vec<String>,
}
