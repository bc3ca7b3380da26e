//! Which head a connection waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many heads have come on a connection, and how many answers have been sent. While as many have, it waits for the next head.
#[derive(Clone, Debug, Default)]
pub struct HeadCount(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    heads: AtomicUsize,
    answers: AtomicUsize,
}

impl HeadCount {
    /// A head has come: what follows belongs to the request, or to the protocol that it switches to.
    pub fn came(&self) {
        self.0.heads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self) {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of the head that the connection waits for, if it does.
    pub(crate) fn awaited(&self) -> Option<usize> {
        let heads = self.0.heads.load(Ordering::Relaxed);
        (heads == self.0.answers.load(Ordering::Relaxed)).then_some(heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_awaited_once_every_answer_has_been_sent() {
        let count = HeadCount::default();
        assert_eq!(count.awaited(), Some(0));
        count.came();
        assert_eq!(count.awaited(), None);
        // The next one comes before its predecessor's answer is dropped.
        count.came();
        count.answered();
        assert_eq!(count.awaited(), None);
        count.answered();
        assert_eq!(count.awaited(), Some(2));
    }
}
