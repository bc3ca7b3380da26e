//! What a client may ask of Firefox: preferences, arguments, and a profile of its own.
//!
//! Two places ask these tables: the daemon, which takes out what has no effect and says so, and the agent, which looks
//! again before it starts a browser. The image's `warmpool.cfg` and `fence.sys.mjs` hold the browser to them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`prefs`] | preferences, by what a client may do with them |
//! | [`pref_file`] | the files that hold preferences, read as Firefox reads them |
//! | [`arguments`] | command-line arguments, by what a client may do with them |
//! | [`profile`] | a client's zipped profile: the files of it that a browser gets |

pub mod arguments;
pub mod pref_file;
pub mod prefs;
pub mod profile;

use serde::{Deserialize, Serialize};

/// What the operator allows clients to set in Firefox beyond the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Names of arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Names of preferences, each for all that is below it.
    #[serde(default)]
    pub prefs: Vec<String>,
}

impl Allowed {
    /// Whether the tables alone decide.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.args.is_empty() && self.prefs.is_empty()
    }
}
