//! What a page wrote and asked for, of what the session's log has.
//!
//! The log has no tabs and no pages. Which entries are a page's is told from what was seen when an agent looked: what came after
//! the last look at another document belongs to the new one, whatever the clock says.

use std::collections::HashMap;
use std::sync::Arc;

use warmpool_api::log::LogEntry;
use warmpool_sessions::logs::LogBuffer;

/// The log of a session, by the pages that its tabs show.
#[derive(Debug)]
pub(crate) struct PageLog {
    buffer: Arc<LogBuffer>,
    /// The most entries that are listed.
    most: usize,
    pages: Pages,
}

/// Where in the log the pages begin that tabs show.
#[derive(Debug, Default)]
struct Pages {
    tabs: HashMap<String, Page>,
    /// The last entry at the last look, and at the one before.
    looked: u64,
    looked_before: u64,
}

#[derive(Debug, Clone, Copy)]
struct Page {
    /// When its document began: no two in one tab began at the same moment.
    origin: f64,
    /// The last entry from before it.
    after: u64,
}

impl PageLog {
    pub(crate) fn new(buffer: Arc<LogBuffer>, most: usize) -> Self {
        Self { buffer, most, pages: Pages::default() }
    }

    /// Somebody looks at a tab, and sees the document that began at this moment.
    pub(crate) fn look(&mut self, tab: &str, origin: f64) {
        self.pages.look(tab, origin, self.buffer.last());
    }

    /// The entries of the page that a tab shows, or all.
    pub(crate) fn entries(&self, tab: &str, all: bool) -> Vec<LogEntry> {
        let after = if all { 0 } else { self.pages.after(tab) };
        self.buffer.entries(after).0
    }

    /// The latest ones of these lines, where they are too many.
    pub(crate) fn latest(&self, mut lines: Vec<String>) -> Vec<String> {
        lines.drain(..lines.len().saturating_sub(self.most));
        lines
    }
}

impl Pages {
    /// Somebody looks at a tab when the log has `last` entries.
    fn look(&mut self, tab: &str, origin: f64, last: u64) {
        let after = match self.tabs.get(tab) {
            Some(page) if page.origin.to_bits() == origin.to_bits() => page.after,
            Some(_) => self.looked,
            // It opened while another one was acted on.
            None => self.looked_before,
        };
        self.tabs.insert(tab.to_owned(), Page { origin, after });
        self.looked_before = std::mem::replace(&mut self.looked, last);
    }

    fn after(&self, tab: &str) -> u64 {
        self.tabs.get(tab).map_or(0, |page| page.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_what_came_since_it_did() {
        let mut pages = Pages::default();
        assert_eq!(pages.after("a"), 0);
        pages.look("a", 1.0, 5);
        assert_eq!(pages.after("a"), 0, "the first page has all");
        pages.look("a", 1.0, 7);
        assert_eq!(pages.after("a"), 0, "it is still there");
        pages.look("a", 2.0, 9);
        assert_eq!(pages.after("a"), 7, "another one came after the last look");
        // A tab that the page opened before it was looked at again.
        pages.look("b", 3.0, 12);
        assert_eq!((pages.after("b"), pages.after("a")), (7, 7));
        pages.look("a", 2.0, 14);
        assert_eq!(pages.after("a"), 7);
    }
}
