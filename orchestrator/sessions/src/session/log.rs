//! The logs of sessions: who keeps one, and what is read of it.

use std::sync::Arc;

use super::{Session, SessionKind, Sessions};
use crate::Error;
use crate::logs::{LogBuffer, collect};
use warmpool_api::log::SessionLog;
use warmpool_core::browser::Engine;
use warmpool_keys::KeyId;

/// What WebKit does not tell of a page that a client inspects.
const LEFT_OUT: [&str; 3] = ["console", "page_error", "request"];

/// The log of a session, and the session if it lives.
#[derive(Debug)]
pub struct FoundLog {
    /// Its entries.
    pub buffer: Arc<LogBuffer>,
    live: Option<Arc<Session>>,
}

impl Sessions {
    /// Begins to write down what happens in a session, if it asks for that.
    pub(super) fn write_down(&self, session: &Arc<Session>) {
        if !session.options.logs {
            return;
        }
        let limits = &self.shared.config.logs;
        let is_inspected = session.options.engine == Engine::Webkit && session.options.kind == SessionKind::DevTools;
        let left_out: &[&str] = if is_inspected { &LEFT_OUT } else { &[] };
        let buffer = Arc::new(LogBuffer::new(limits, left_out));
        let (id, owner) = (session.id.clone(), session.owner.clone());
        self.shared.logs.add(id, owner, Arc::clone(&buffer), limits.keep_ended);
        tokio::spawn(collect(Arc::clone(session), buffer));
    }

    /// The log of a session of `owner`, live or not.
    /// Errors: `UnknownSession`, and `Conflict` where there is none.
    pub fn find_log(&self, id: &str, owner: &KeyId) -> Result<FoundLog, Error> {
        let (listing, live) = self.find(id, owner)?;
        let missing = || {
            Error::Conflict {
            message: if listing.logs {
                "the log of this session is not kept any more: see `logs.keep_ended`; a restart of the daemon forgets it, too"
            } else {
                "this session has no log: create one with `\"logs\": true`"
            }
            .to_owned(),
        }
        };
        let buffer = self.shared.logs.find(id).ok_or_else(missing)?;
        Ok(FoundLog { buffer, live })
    }
}

impl FoundLog {
    /// What it leaves out.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        self.buffer.left_out().iter().map(|name| (*name).to_owned()).collect()
    }

    /// What its browser calls itself, while it lives.
    #[must_use]
    pub fn browser(&self) -> Option<String> {
        self.live.as_ref()?.worker.snapshot.borrow().identity.browser.clone()
    }

    /// The entries after this one.
    #[must_use]
    pub fn read(&self, after: u64) -> SessionLog {
        let (entries, dropped) = self.buffer.entries(after);
        SessionLog { entries, dropped, left_out: self.left_out() }
    }
}
