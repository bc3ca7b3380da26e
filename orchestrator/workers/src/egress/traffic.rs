//! Counts what one session sent and received, and what was refused.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::hiding::Hiding;
use warmpool_api::session::{EgressSummary, RefusedCount};

/// How many different refusals a session lists.
const MAX_LISTED: usize = 32;
/// The longest host to list, in bytes.
const MAX_HOST: usize = 255;

/// Counters of one session.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub received: AtomicU64,
    pub sent: AtomicU64,
    refused: Mutex<Refusals>,
    /// What a host may not tell.
    pub hiding: Hiding,
}

#[derive(Debug, Default)]
struct Refusals {
    listed: Vec<RefusedCount>,
    count: u64,
}

impl Traffic {
    /// Counters that go on from those of an earlier process.
    pub(super) fn new(before: Option<EgressSummary>) -> Self {
        let before = before.unwrap_or_default();
        Self {
            received: before.bytes_in.into(),
            sent: before.bytes_out.into(),
            refused: Mutex::new(Refusals { listed: before.refused, count: before.refused_count }),
            hiding: Hiding::default(),
        }
    }

    /// Counts a refusal; `true` when it is the first of its kind.
    pub(super) fn refuse(&self, host: &str, port: u16, reason: &'static str) -> bool {
        metrics::counter!("warmpool_egress_refused_total", "reason" => reason).increment(1);
        let host = self.hiding.text(host);
        let mut refused = self.refused.lock();
        refused.count += 1;
        let known = |row: &&mut RefusedCount| row.host == host && row.port == port && row.reason == reason;
        if let Some(row) = refused.listed.iter_mut().find(known) {
            row.count += 1;
            return false;
        }
        let room = refused.listed.len() < MAX_LISTED && host.len() <= MAX_HOST;
        if room {
            refused.listed.push(RefusedCount { host, port, reason: reason.to_owned(), count: 1 });
        }
        room
    }

    pub(super) fn summary(&self) -> EgressSummary {
        let refused = self.refused.lock();
        EgressSummary {
            bytes_in: self.received.load(Ordering::Relaxed),
            bytes_out: self.sent.load(Ordering::Relaxed),
            refused_count: refused.count,
            refused: refused.listed.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn refusals_are_counted_by_kind_and_the_list_is_bounded() {
        let traffic = Traffic::default();
        assert!(traffic.refuse("a", 80, "denied"));
        assert!(!traffic.refuse("a", 80, "denied"));
        for port in 1..100 {
            traffic.refuse("b", port, "not_public");
        }
        let summary = traffic.summary();
        assert_eq!(summary.refused.len(), MAX_LISTED);
        assert_eq!((summary.refused[0].count, summary.refused_count), (2, 101));
        assert_eq!(Traffic::new(Some(summary.clone())).summary(), summary);
    }

    #[test]
    fn hosts_are_listed_without_what_may_not_be_told() {
        let traffic = Traffic::default();
        traffic.hiding.begin(Arc::new(|host: &str| host.replace("word", "[secret]")));
        assert!(traffic.refuse("word.test", 80, "denied") && !traffic.refuse("word.test", 80, "denied"));
        let summary = traffic.summary();
        assert_eq!((summary.refused[0].host.as_str(), summary.refused[0].count), ("[secret].test", 2));
    }
}
