//! How often each client's address failed to sign in. Only failures are counted and limited: many people may share one
//! address, and what one of them gets wrong must lock out none of the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::addresses::one_client;

/// Failures count for this long after the first of them.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered; with more, the one whose window began first is forgotten.
const MOST: usize = 10_000;

/// Counts failed sign-ins by address. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempts(Arc<Mutex<HashMap<IpAddr, Window>>>);

#[derive(Debug, Clone, Copy)]
struct Window {
    since: Instant,
    failed: usize,
}

impl Attempts {
    /// Counts a failure. 0 sets no limit.
    /// Errors: with `limit` failures before it, the time until the next one counts as a first.
    pub(super) fn fail(&self, address: IpAddr, limit: usize, now: Instant) -> Result<(), Duration> {
        let mut windows = self.0.lock();
        let address = one_client(address);
        windows.retain(|_, window| now.duration_since(window.since) < WINDOW);
        if windows.len() >= MOST
            && !windows.contains_key(&address)
            && let Some(oldest) = windows.iter().min_by_key(|(_, window)| window.since).map(|(address, _)| *address)
        {
            windows.remove(&oldest);
        }
        let window = windows.entry(address).or_insert(Window { since: now, failed: 0 });
        if limit > 0 && window.failed >= limit {
            return Err(WINDOW.saturating_sub(now.duration_since(window.since)));
        }
        window.failed += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_for_one_address_and_one_window() {
        let attempts = Attempts::default();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let start = Instant::now();
        for _ in 0..2 {
            attempts.fail(one, 2, start).unwrap();
        }
        let wait = attempts.fail(one, 2, start + WINDOW / 2).unwrap_err();
        assert_eq!(wait, WINDOW / 2);
        attempts.fail(other, 2, start).unwrap();
        attempts.fail(one, 2, start + WINDOW).unwrap();
        for _ in 0..10 {
            attempts.fail(one, 0, start).unwrap();
        }
    }

    #[test]
    fn many_addresses_take_bounded_memory() {
        let attempts = Attempts::default();
        let start = Instant::now();
        for number in 0..u32::try_from(MOST).unwrap() + 10 {
            attempts.fail(IpAddr::from(number.to_be_bytes()), 1, start).unwrap();
        }
        assert_eq!(attempts.0.lock().len(), MOST);
    }
}
