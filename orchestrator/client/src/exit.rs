//! The exit codes of the command line, one set for all commands.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command or the task succeeded.
    Success = 0,
    /// The task failed, the doctor found something wrong, or the command met an error that has no code of its own.
    Failure = 1,
    /// The task was cancelled.
    Cancelled = 2,
    /// The command line, the configuration or a file that they name is wrong.
    Usage = 64,
    /// The request was refused.
    Refused = 65,
    /// The daemon or its store cannot be reached, or cannot serve now.
    Unavailable = 69,
    /// The daemon ended and left containers, which its next start removes.
    Left = 74,
    /// Another daemon has the workers of this one.
    Superseded = 75,
    /// The key is missing or not valid.
    NoPermission = 77,
}

impl Exit {
    /// The table of codes, for help.
    pub const HELP: &str = "\
Exit codes:
   0  success
   1  the task failed, the doctor found something wrong, or another error
   2  the task was cancelled
  64  the command line, the configuration or a file that it names is wrong
  65  the request was refused
  69  the daemon or its store cannot be reached, or cannot serve now
  74  the daemon ended and left containers, which its next start finds
  75  another daemon has the workers of this one, or may have
  77  the key is missing or not valid, or the daemon refused the call with 403";
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
