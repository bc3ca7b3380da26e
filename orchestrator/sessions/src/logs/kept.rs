//! The logs of live sessions, and of some that ended.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::buffer::LogBuffer;
use warmpool_core::ids::SessionId;

/// The logs of all sessions that keep one, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct KeptLogs(Mutex<VecDeque<(SessionId, Arc<LogBuffer>)>>);

impl KeptLogs {
    /// Adds the buffer of a session that begins, and forgets the oldest of those that ended beyond `keep_ended`.
    pub(crate) fn add(&self, id: SessionId, buffer: Arc<LogBuffer>, keep_ended: usize) {
        let mut logs = self.0.lock();
        let ended = logs.iter().filter(|(_, buffer)| buffer.is_closed()).count();
        let mut surplus = ended.saturating_sub(keep_ended);
        logs.retain(|(_, buffer)| {
            let goes = surplus > 0 && buffer.is_closed();
            surplus -= usize::from(goes);
            !goes
        });
        logs.push_back((id, buffer));
    }

    /// The buffer of a session.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<LogBuffer>> {
        self.0.lock().iter().find(|(of, _)| of.as_str() == id).map(|(_, buffer)| Arc::clone(buffer))
    }
}
