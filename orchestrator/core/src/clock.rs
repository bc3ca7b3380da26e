//! Time: the wall clock for what people read, and ends that a jump of the wall clock neither brings near nor puts off.
//!
//! Within the process `tokio::time::Instant` is enough. What has to outlive the process is a [`Deadline`]: it is counted by
//! the clock that runs from the machine's boot, and the wall clock decides only after another boot, within bounds.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Where the kernel names this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Until then, in milliseconds from the boot, a machine may have a wall clock that nobody has set yet.
const CLOCK_SET_BY_MS: u64 = 10 * 60 * 1000;

/// The name of this boot; none where the kernel gives none.
static BOOT: LazyLock<Option<String>> = LazyLock::new(|| {
    let id = std::fs::read_to_string(BOOT_ID).ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
});

/// Unix time, in milliseconds, by the wall clock. It may jump: to be shown, and not to be counted with.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The name of this boot of the machine; none where the kernel gives none.
pub fn boot() -> Option<&'static str> {
    BOOT.as_deref()
}

/// What the clocks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The wall clock, Unix milliseconds.
    unix_ms: u64,
    /// Which boot it was, and the milliseconds since then, with those in which the machine slept. None where the kernel
    /// does not tell its boots apart.
    since_boot: Option<(&'static str, u64)>,
}

impl Now {
    /// Looks at the clocks.
    pub fn read() -> Self {
        let since_boot = BOOT.as_deref().zip(clock_gettime(ClockId::CLOCK_BOOTTIME).ok());
        Self { unix_ms: unix_ms(), since_boot: since_boot.map(|(boot, time)| (boot, millis(Duration::from(time)))) }
    }

    /// The wall clock, Unix milliseconds.
    pub const fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    /// The wall clock by which ages are told, Unix milliseconds. In the first ten minutes from the boot it is 0, at which nothing is old: a
    /// clock that is ahead until the network sets it must not have anything deleted for its age.
    pub const fn unix_ms_for_ages(&self) -> u64 {
        match self.since_boot {
            Some((_, ms)) if ms < CLOCK_SET_BY_MS => 0,
            _ => self.unix_ms,
        }
    }
}

/// A moment by the clock that counts from the machine's boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SinceBoot {
    boot: String,
    /// Milliseconds since then.
    ms: u64,
}

/// The end of a span of time that may outlive the process. Never is more left of it than the span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    /// When it is, by the wall clock, in Unix milliseconds. Decides where the machine was booted since.
    unix_ms: u64,
    /// The whole span, in milliseconds.
    span_ms: u64,
    /// When it is, by the clock that counts from the boot. Decides within that boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since_boot: Option<SinceBoot>,
}

impl Deadline {
    /// The end of a `span` that begins now.
    pub fn after(span: Duration, now: &Now) -> Self {
        Self::counted(millis(span), millis(span), now)
    }

    /// One of which an earlier release noted the wall clock alone: it was to end at `unix_ms` after `span`.
    pub fn by_wall(unix_ms: u64, span: Duration) -> Self {
        Self { unix_ms, span_ms: millis(span), since_boot: None }
    }

    /// What is left of it.
    pub fn left(&self, now: &Now) -> Duration {
        Duration::from_millis(self.left_ms(now))
    }

    /// Whether it is over.
    pub fn is_over(&self, now: &Now) -> bool {
        self.left_ms(now) == 0
    }

    /// The same end, counted by this boot's clock from now on; `None` where it is already. To be kept in its place, else
    /// the wall clock could move it once at each start.
    pub fn anchored(&self, now: &Now) -> Option<Self> {
        (!self.counts_by(now)).then(|| Self::counted(self.left_ms(now), self.span_ms, now))
    }

    fn counted(left_ms: u64, span_ms: u64, now: &Now) -> Self {
        let end = |(boot, ms): (&str, u64)| SinceBoot { boot: boot.to_owned(), ms: ms.saturating_add(left_ms) };
        Self { unix_ms: now.unix_ms.saturating_add(left_ms), span_ms, since_boot: now.since_boot.map(end) }
    }

    fn counts_by(&self, now: &Now) -> bool {
        self.since_boot.as_ref().map(|end| end.boot.as_str()) == now.since_boot.map(|(boot, _)| boot)
    }

    fn left_ms(&self, now: &Now) -> u64 {
        let left = match (&self.since_boot, now.since_boot) {
            (Some(end), Some((boot, ms))) if end.boot == boot => end.ms.saturating_sub(ms),
            _ => self.unix_ms.saturating_sub(now.unix_ms),
        };
        left.min(self.span_ms)
    }
}

/// Clocks that a test sets.
#[cfg(any(test, feature = "testing"))]
impl Now {
    /// `unix_ms` by the wall clock, and `ms` since the boot that is called `boot`.
    pub fn at(unix_ms: u64, boot: &'static str, ms: u64) -> Self {
        Self { unix_ms, since_boot: Some((boot, ms)) }
    }

    /// These clocks `span` later, both by as much.
    pub fn later(&self, span: Duration) -> Self {
        let ms = millis(span);
        let since_boot = self.since_boot.map(|(boot, since)| (boot, since + ms));
        Self { unix_ms: self.unix_ms + ms, since_boot }
    }

    /// These clocks with a wall clock that somebody set, `by_ms` ahead or back.
    pub fn jumped(&self, by_ms: i64) -> Self {
        Self { unix_ms: self.unix_ms.saturating_add_signed(by_ms), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const YEAR_MS: i64 = 365 * 86_400_000;
    /// Some moment in 2026.
    const UNIX_MS: u64 = 1_790_000_000_000;

    #[test]
    fn a_jump_of_the_wall_clock_changes_nothing() {
        let begun = Now::at(UNIX_MS, "a", 5000);
        let deadline = Deadline::after(5 * MINUTE, &begun);
        for jump in [-50 * YEAR_MS, -YEAR_MS, -1, 0, 1, YEAR_MS] {
            let now = begun.later(2 * MINUTE).jumped(jump);
            assert_eq!(deadline.left(&now), 3 * MINUTE, "{jump}");
            assert!(!deadline.is_over(&now));
            assert!(deadline.is_over(&begun.later(5 * MINUTE).jumped(jump)), "{jump}");
        }
    }

    #[test]
    fn after_another_boot_the_wall_clock_decides_within_the_span() {
        let deadline = Deadline::after(5 * MINUTE, &Now::at(UNIX_MS, "a", 5000));
        let booted = |unix_ms| Now::at(unix_ms, "b", 10);
        assert_eq!(deadline.left(&booted(UNIX_MS + 60_000)), 4 * MINUTE);
        assert!(deadline.is_over(&booted(UNIX_MS + 300_000)));
        assert_eq!(deadline.left(&booted(0)), 5 * MINUTE, "a machine that takes it for 1970");
        let unknown = Now { since_boot: None, ..booted(UNIX_MS + 60_000) };
        assert_eq!(deadline.left(&unknown), 4 * MINUTE, "a kernel that does not name its boots");
    }

    #[test]
    fn once_read_again_it_is_counted_by_the_new_boots_clock() {
        let old = Deadline::after(5 * MINUTE, &Now::at(UNIX_MS, "a", 5000));
        let booted = Now::at(0, "b", 10);
        let anchored = old.anchored(&booted).unwrap();
        assert_eq!(anchored.left(&booted), 5 * MINUTE);
        assert_eq!(
            anchored.left(&booted.later(MINUTE).jumped(60 * YEAR_MS)),
            4 * MINUTE,
            "the clock was set meanwhile"
        );
        assert_eq!(anchored.anchored(&booted.later(MINUTE)), None, "once is enough");
    }

    #[test]
    fn an_earlier_releases_end_is_bounded_too() {
        let deadline = Deadline::by_wall(UNIX_MS, MINUTE);
        assert_eq!(deadline.left(&Now::at(UNIX_MS - 1000, "a", 1)), Duration::from_secs(1));
        assert_eq!(deadline.left(&Now::at(0, "a", 1)), MINUTE);
        assert!(deadline.is_over(&Now::at(UNIX_MS, "a", 1)));
    }

    #[test]
    fn nothing_is_old_before_the_clock_is_set() {
        let booted = Now::at(UNIX_MS, "a", 5000).jumped(YEAR_MS);
        assert_eq!(booted.unix_ms_for_ages(), 0);
        assert_eq!(booted.later(9 * MINUTE).unix_ms_for_ages(), 0);
        let set = booted.later(10 * MINUTE).jumped(-YEAR_MS);
        assert_eq!(set.unix_ms_for_ages(), UNIX_MS + 600_000);
        let unknown = Now { since_boot: None, ..booted };
        assert_eq!(unknown.unix_ms_for_ages(), unknown.unix_ms(), "a kernel that does not name its boots");
    }

    #[test]
    fn it_is_kept_as_it_is() {
        let deadline = Deadline::after(MINUTE, &Now::read());
        let kept: Deadline = serde_json::from_str(&serde_json::to_string(&deadline).unwrap()).unwrap();
        assert_eq!(kept, deadline);
    }

    #[test]
    fn the_clocks_of_this_machine_go_on() {
        let first = Now::read();
        assert!(first.since_boot.is_some(), "Linux names its boots");
        let second = Now::read();
        assert_eq!(first.since_boot.map(|(boot, _)| boot), second.since_boot.map(|(boot, _)| boot));
        let deadline = Deadline::after(MINUTE, &first);
        assert!(deadline.left(&second) <= MINUTE && !deadline.is_over(&second));
    }

    proptest! {
        #[test]
        fn never_is_more_left_than_the_span(
            span in 0..10_000_000_u64, begun in 0..u64::MAX, up in 0..u64::MAX, wall in 0..u64::MAX,
            now_up in 0..u64::MAX, same_boot in any::<bool>(),
        ) {
            let deadline = Deadline::after(Duration::from_millis(span), &Now::at(begun, "a", up));
            let now = Now::at(wall, if same_boot { "a" } else { "b" }, now_up);
            prop_assert!(deadline.left(&now) <= Duration::from_millis(span));
            let anchored = deadline.anchored(&now).unwrap_or(deadline);
            prop_assert!(anchored.left(&now) <= Duration::from_millis(span));
        }
    }
}
