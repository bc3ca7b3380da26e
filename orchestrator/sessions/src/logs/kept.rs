//! The books of live sessions, and of some that ended.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::book::Book;
use warmpool_core::ids::SessionId;

/// The books of all sessions that keep one, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct KeptBooks(Mutex<VecDeque<(SessionId, Arc<Book>)>>);

impl KeptBooks {
    /// Adds the book of a session that begins, and forgets the oldest of those that ended beyond `keep_ended`.
    pub(crate) fn add(&self, id: SessionId, book: Arc<Book>, keep_ended: usize) {
        let mut books = self.0.lock();
        let ended = books.iter().filter(|(_, book)| book.is_closed()).count();
        let mut surplus = ended.saturating_sub(keep_ended);
        books.retain(|(_, book)| {
            let goes = surplus > 0 && book.is_closed();
            surplus -= usize::from(goes);
            !goes
        });
        books.push_back((id, book));
    }

    /// The book of a session.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Book>> {
        self.0.lock().iter().find(|(of, _)| of.as_str() == id).map(|(_, book)| Arc::clone(book))
    }
}
