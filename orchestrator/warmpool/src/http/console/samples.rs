//! The last hour, a sample every ten seconds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use super::host::HostMeter;
use warmpool_sessions::session::Histogram;

/// An hour of them.
const KEPT: usize = 360;
/// A minute of them.
const MINUTE: usize = 6;

/// The state at one moment, and what happened since the last sample.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    /// When, in Unix milliseconds.
    pub(super) at: u64,
    pub(super) sessions: usize,
    /// Callers that wait for a worker.
    pub(super) waiting: usize,
    /// Workers that are warm.
    pub(super) ready: usize,
    /// Tasks that run.
    pub(super) tasks: usize,
    /// Sessions made since the last sample.
    pub(super) created: u32,
    /// Requests that got an error since then.
    pub(super) refused: u32,
    /// The median and the 99th percentile of these sessions' creation times, in milliseconds.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) cpu: Option<f64>,
    pub(super) memory: Option<f64>,
    #[serde(skip)]
    pub(super) create_times: Histogram,
}

/// The samples of the last hour, and the counts for the next one.
#[derive(Debug, Default)]
pub(super) struct Samples {
    kept: Mutex<VecDeque<Sample>>,
    refused: AtomicU32,
    pub(super) host: HostMeter,
}

impl Samples {
    pub(super) fn count_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The requests refused since the last call.
    pub(super) fn take_refused(&self) -> u32 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    pub(super) fn add(&self, sample: Sample) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(sample);
    }

    /// Every sample, oldest first.
    pub(super) fn all(&self) -> Vec<Sample> {
        self.kept.lock().iter().cloned().collect()
    }

    /// The newest sample, if it is later than `after`.
    pub(super) fn newest(&self, after: u64) -> Option<(u64, Sample)> {
        self.kept.lock().back().filter(|sample| sample.at > after).map(|sample| (sample.at, sample.clone()))
    }

    /// A summary of the last hour.
    pub(super) fn last_hour(&self) -> Value {
        let kept = self.kept.lock();
        let mut times = Histogram::default();
        kept.iter().for_each(|sample| times.merge(&sample.create_times));
        let sum = |of: fn(&Sample) -> u32, samples: usize| kept.iter().rev().take(samples).map(of).sum::<u32>();
        json!({
            "created": sum(|sample| sample.created, KEPT),
            "created_last_minute": sum(|sample| sample.created, MINUTE),
            "refused": sum(|sample| sample.refused, KEPT),
            "refused_last_minute": sum(|sample| sample.refused, MINUTE),
            "create_p50": times.quantile_ms(0.5),
            "create_p99": times.quantile_ms(0.99),
        })
    }
}
