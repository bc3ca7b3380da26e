//! When the items of a fleet may open their hosts.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The hosts that a fleet has opened, or is about to.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    times: HashMap<String, HostTimes>,
}

#[derive(Debug)]
struct HostTimes {
    /// The next moment that nobody has claimed.
    unclaimed: Instant,
    /// From when on it may be opened.
    free: Instant,
}

impl Hosts {
    fn of(&mut self, host: &str) -> &mut HostTimes {
        let now = Instant::now();
        self.times.entry(host.to_owned()).or_insert(HostTimes { unclaimed: now, free: now })
    }

    /// Claims the next moment of a host. Until then nobody needs a worker for it, and afterwards whoever has one first opens it.
    pub(super) fn claim(&mut self, host: &str, delay: Duration) -> Instant {
        let times = self.of(host);
        let from = times.unclaimed.max(Instant::now());
        times.unclaimed = from + delay;
        from
    }

    /// Opens a host now, after which it is left alone for `delay`.
    /// Errors: from when on it may be opened.
    pub(super) fn open(&mut self, host: &str, delay: Duration) -> Result<(), Instant> {
        let now = Instant::now();
        let times = self.of(host);
        if times.free > now {
            return Err(times.free);
        }
        times.free = now + delay;
        times.unclaimed = times.unclaimed.max(times.free);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const DELAY: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_long_for_a_worker_do_not_come_at_once() {
        let mut hosts = Hosts::default();
        let begun = Instant::now();
        let claimed = [(); 3].map(|()| hosts.claim("a.test", DELAY) - begun);
        assert_eq!(claimed, [Duration::ZERO, DELAY, DELAY * 2], "they come in turn");
        assert_eq!(hosts.claim("b.test", DELAY), begun, "another host is another matter");
        // All three moments have passed before any of them has a worker.
        advance(DELAY * 6).await;
        hosts.open("a.test", DELAY).unwrap();
        let free = hosts.open("a.test", DELAY).unwrap_err();
        assert_eq!(free, Instant::now() + DELAY);
        advance(DELAY).await;
        hosts.open("a.test", DELAY).unwrap();
        assert_eq!(hosts.claim("a.test", DELAY), Instant::now() + DELAY, "another try comes after it");
    }
}
