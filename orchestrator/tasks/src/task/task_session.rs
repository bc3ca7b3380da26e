//! The session that a task has of its own.

use std::sync::Arc;

use warmpool_sessions::session::{Ending, Session};

/// A session that ends when this is dropped, whatever stopped the task's work in it.
pub(super) struct TaskSession {
    session: Arc<Session>,
    /// Whether all the work that was done in it succeeded; `None` while none was done.
    succeeded: Option<bool>,
}

impl TaskSession {
    pub(super) const fn new(session: Arc<Session>) -> Self {
        Self { session, succeeded: None }
    }

    pub(super) const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Notes how a piece of work in it went.
    pub(super) fn note(&mut self, succeeded: bool) {
        self.succeeded = Some(succeeded && self.succeeded != Some(false));
    }
}

impl Drop for TaskSession {
    fn drop(&mut self) {
        self.session.end(if self.succeeded == Some(true) { Ending::TaskSucceeded } else { Ending::TaskFailed });
    }
}
