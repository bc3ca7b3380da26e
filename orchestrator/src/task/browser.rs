//! The browser that a task drives: the driver of an ordinary session, spoken to by fantoccini.

use std::sync::Arc;

use crate::config::Config;
use crate::session::{Session, Sessions};

/// One session's browser, to be driven by one task.
#[derive(Clone)]
pub struct Browser {
    pub(super) sessions: Sessions,
    pub(super) session: Arc<Session>,
    pub(super) config: Arc<Config>,
}

impl Browser {
    /// The browser of `session`, which nobody else drives and whose `Launch` names no page.
    #[must_use]
    pub fn new(sessions: Sessions, session: Arc<Session>, config: Arc<Config>) -> Self {
        Self { sessions, session, config }
    }
}
