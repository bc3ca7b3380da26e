//! Counts how long creating sessions takes, for the console's last hour.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

/// Buckets to a doubling: a time is known to a twentieth.
const STEPS: f64 = 8.0;

/// Durations, counted in buckets of a fixed ratio.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram(BTreeMap<u8, u32>);

impl Histogram {
    fn add(&mut self, duration: Duration) {
        let micros = duration.as_secs_f64() * 1e6;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded here")]
        let bucket = (micros.max(1.0).log2() * STEPS).clamp(0.0, 255.0) as u8;
        *self.0.entry(bucket).or_default() += 1;
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.values().sum()
    }

    /// The quantile at `share`, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let wanted = f64::from(self.count()) * share;
        let mut counted = 0;
        let bucket = self.0.iter().find_map(|(bucket, count)| {
            counted += count;
            (f64::from(counted) >= wanted).then_some(*bucket)
        })?;
        Some(((f64::from(bucket) + 0.5) / STEPS).exp2() / 1000.0)
    }
}

/// The times since somebody last asked.
#[derive(Debug, Default)]
pub(super) struct CreateTimes(Mutex<Histogram>);

impl CreateTimes {
    pub(super) fn add(&self, duration: Duration) {
        self.0.lock().add(duration);
    }

    pub(super) fn take(&self) -> Histogram {
        std::mem::take(&mut self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_twentieth() {
        let mut times = Histogram::default();
        assert_eq!(times.quantile_ms(0.5), None);
        (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
        for (share, expected) in [(0.5, 50.0), (0.99, 99.0)] {
            let found = times.quantile_ms(share).unwrap();
            assert!((found / expected - 1.0).abs() < 0.06, "{share}: {found}");
        }
        let mut both = times.clone();
        both.merge(&times);
        assert_eq!((both.count(), both.quantile_ms(0.5)), (200, times.quantile_ms(0.5)));
        times.add(Duration::ZERO);
        times.add(Duration::from_secs(3600));
        assert!(times.quantile_ms(1.0).unwrap() > 1e6);
    }
}
