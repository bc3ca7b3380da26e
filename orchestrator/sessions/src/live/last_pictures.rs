//! The last small picture of each session, for lists of those that have ended. They are in memory only, so that nothing of a
//! page outlives the daemon that nobody asked to record, and the oldest ones go where they would take too much of it.

use std::collections::{BTreeMap, HashMap};

use super::thumbnail::Thumbnail;
use warmpool_core::ids::SessionId;

/// What all pictures may take together, in bytes.
const MOST_BYTES: usize = 16 << 20;

/// The last pictures.
#[derive(Debug, Default)]
pub(super) struct LastPictures {
    pictures: HashMap<SessionId, (u64, Thumbnail)>,
    /// The sessions in the order in which their pictures came.
    order: BTreeMap<u64, SessionId>,
    next: u64,
    bytes: usize,
}

impl LastPictures {
    /// Keeps the picture in place of the session's earlier one.
    pub(super) fn put(&mut self, session: &SessionId, picture: Thumbnail) {
        self.remove(session);
        self.bytes += picture.jpeg.len();
        self.order.insert(self.next, session.clone());
        self.pictures.insert(session.clone(), (self.next, picture));
        self.next += 1;
        while self.bytes > MOST_BYTES {
            let Some((_, oldest)) = self.order.first_key_value() else { return };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }

    /// The last picture of a session, if it is still kept.
    pub(super) fn get(&self, session: &SessionId) -> Option<Thumbnail> {
        self.pictures.get(session).map(|(_, picture)| picture.clone())
    }

    fn remove(&mut self, session: &SessionId) {
        if let Some((at, picture)) = self.pictures.remove(session) {
            self.order.remove(&at);
            self.bytes -= picture.jpeg.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn the_oldest_pictures_go_first() {
        let mut last = LastPictures::default();
        let picture = |tag: &str| Thumbnail { jpeg: Bytes::from(vec![0; MOST_BYTES / 3]), tag: tag.to_owned() };
        let session = |id: &str| SessionId::from(id);
        for id in ["a", "b", "c"] {
            last.put(&session(id), picture(id));
        }
        last.put(&session("a"), picture("a2"));
        last.put(&session("d"), picture("d"));
        let kept: Vec<_> = ["a", "b", "c", "d"].map(|id| last.get(&session(id)).map(|it| it.tag)).into();
        assert_eq!(kept, [Some("a2".to_owned()), None, Some("c".to_owned()), Some("d".to_owned())]);
        assert_eq!((last.order.len(), last.bytes), (3, 3 * (MOST_BYTES / 3)));
    }
}
