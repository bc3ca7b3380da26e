//! The logs of live sessions, and of some that ended.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::buffer::LogBuffer;
use warmpool_core::giving_way::GivingWay;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;

/// The logs of all sessions that keep one, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct KeptLogs(Mutex<VecDeque<KeptLog>>);

/// The log of one session.
#[derive(Debug)]
struct KeptLog {
    session: SessionId,
    owner: KeyId,
    buffer: Arc<LogBuffer>,
}

impl KeptLogs {
    /// Adds the buffer of a session that begins, and forgets those of sessions that ended beyond `keep_ended`: each time the oldest of
    /// the key that has most.
    pub(crate) fn add(&self, session: SessionId, owner: KeyId, buffer: Arc<LogBuffer>, keep_ended: usize) {
        let mut logs = self.0.lock();
        let ended = logs.iter().filter(|log| log.buffer.is_closed());
        let ended: Vec<_> = ended.map(|log| (log.owner.clone(), 1, log.session.clone())).collect();
        let surplus = ended.len().saturating_sub(keep_ended);
        let forgotten: HashSet<_> = GivingWay::new(ended).take(surplus).map(|(_, session)| session).collect();
        logs.retain(|log| !forgotten.contains(&log.session));
        logs.push_back(KeptLog { session, owner, buffer });
    }

    /// The buffer of a session.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<LogBuffer>> {
        self.0.lock().iter().find(|log| log.session.as_str() == id).map(|log| Arc::clone(&log.buffer))
    }
}

#[cfg(test)]
mod tests {
    use warmpool_config::{ByteSize, LogSettings};

    use super::*;

    #[test]
    fn no_key_pushes_out_the_logs_of_another() {
        let limits = LogSettings { max_entries: 9, max_size: ByteSize(1 << 20), keep_ended: 3 };
        let logs = KeptLogs::default();
        let add = |session: &str, owner: &str, ends: bool| {
            let buffer = Arc::new(LogBuffer::new(&limits, &[]));
            logs.add(SessionId::from(session), owner.parse().unwrap(), Arc::clone(&buffer), limits.keep_ended);
            if ends {
                buffer.close();
            }
        };
        add("ses_live", "00000000000a", false);
        add("ses_small", "00000000000b", true);
        let many: Vec<String> = (0..20).map(|number| format!("ses_{number}")).collect();
        many.iter().for_each(|session| add(session.as_str(), "00000000000a", true));
        add("ses_last", "00000000000a", false);
        let kept = |session: &&str| logs.find(session).is_some();
        assert!(["ses_live", "ses_small", "ses_last"].iter().all(kept));
        let left: Vec<&str> = many.iter().map(String::as_str).filter(kept).collect();
        assert_eq!(left, ["ses_18", "ses_19"]);
    }
}
