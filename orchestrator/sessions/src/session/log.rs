//! The logs of sessions: who keeps one, and what is read of it.

use std::sync::Arc;

use super::{Session, Sessions};
use crate::Error;
use crate::logs::{Book, collect};
use warmpool_api::log::{LogEntry, LogEvent, SessionLog};
use warmpool_core::browser::Engine;
use warmpool_keys::KeyId;
use warmpool_protocol::FileSource;

/// What the engines beside Chromium do not tell.
const LEFT_OUT: [&str; 3] = ["console", "page_error", "request"];

/// The log of a session, and the session if it lives.
#[derive(Debug)]
pub struct FoundLog {
    /// Its entries.
    pub book: Arc<Book>,
    /// The engine, which decides what is in it.
    pub engine: Engine,
    live: Option<Arc<Session>>,
}

impl Sessions {
    /// Begins to write down what happens in a session, if it asks for that.
    pub(super) fn write_down(&self, session: &Arc<Session>) {
        if !session.options.logs {
            return;
        }
        let limits = &self.shared.config.logs;
        let book = Arc::new(Book::new(limits));
        self.shared.books.add(session.id.clone(), Arc::clone(&book), limits.keep_ended);
        if session.options.engine == Engine::Chromium {
            tokio::spawn(collect(Arc::clone(session), book));
        } else {
            let session = Arc::clone(session);
            tokio::spawn(async move {
                session.ended().await;
                book.close();
            });
        }
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
        let book = self.shared.books.find(id).ok_or_else(missing)?;
        Ok(FoundLog { book, engine: listing.browser_type, live })
    }
}

impl FoundLog {
    /// What the log of its engine leaves out.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let names: &[&str] = if self.engine == Engine::Chromium { &[] } else { &LEFT_OUT };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// What its browser calls itself, while it lives.
    #[must_use]
    pub fn browser(&self) -> Option<String> {
        self.live.as_ref()?.worker.snapshot.borrow().identity.browser.clone()
    }

    /// The entries after this one.
    pub async fn read(&self, after: u64) -> SessionLog {
        let (mut entries, dropped) = self.book.entries(after);
        if self.engine != Engine::Chromium && after == 0 {
            entries.extend(self.downloads().await);
        }
        SessionLog { entries, dropped, left_out: self.left_out() }
    }

    /// The downloads that the agent knows, for engines that do not tell of them by themselves.
    async fn downloads(&self) -> Vec<LogEntry> {
        let Some(session) = &self.live else { return Vec::new() };
        let files = session.worker.agent.files().await.unwrap_or_default();
        let downloads = files.into_iter().filter(|file| file.source == FileSource::Download);
        let entry = |(seq, file): (u64, warmpool_protocol::File)| LogEntry {
            seq,
            time: file.modified_ms,
            event: LogEvent::Download { name: file.name, url: None },
        };
        (1..).zip(downloads).map(entry).collect()
    }
}
