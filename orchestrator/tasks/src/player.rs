//! Plays scripts: carries out in a session's browser what `crate::script` describes.
//!
//! `execute` makes a `playback`, which holds a task's browser, page, limits, and results so far. `steps` and `extract` act
//! on its `page`, `navigation` opens pages and checks where steps led, `absent` tells why a page did not come, `retry` repeats what a page was not ready for,
//! and `search` keeps expressions from taking too long.
//! `browser` connects to the session's driver, and `driver_error` classifies that driver's errors. `outcome` is what a
//! task leaves: results, files, and the failure if there was one. `control` acts on a page by the same parts, one action after the
//! other, for somebody who looks at it in between. The player never ends the session; its caller does.

mod absent;
mod browser;
pub(crate) mod control;
mod driver_error;
mod execute;
pub(crate) mod extract;
mod navigation;
mod outcome;
mod page;
mod playback;
mod retry;
mod search;
mod steps;

pub(crate) use browser::Browser;
pub(crate) use execute::execute;
pub(crate) use outcome::{Artifact, Outcome, ProgressListener};
pub(crate) use outcome::{Failure, Limits};
