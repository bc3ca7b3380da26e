//! The player of scripts: it carries out in a browser what `crate::script` says.
//!
//! `execute` sets a `stage` on which `steps` and `extract` act, by the hand that is `page`; `retry` tries again what
//! pages may not be ready for. `browser` is the way to the session's driver; `driver_error` makes a fault of what that
//! says. A fault becomes a failure in `execute`, and `outcome` is what comes of it all. Who made the session ends it, not
//! the player.

mod browser;
mod driver_error;
mod execute;
mod extract;
mod outcome;
mod page;
mod retry;
mod stage;
mod steps;

pub(crate) use browser::Browser;
pub(crate) use execute::execute;
pub(crate) use outcome::{Artifact, Failure, Limits, Outcome, Progress, Watch};
