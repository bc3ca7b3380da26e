//! How busy the host is.

use std::fs;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

/// Time between two measurements; a shorter span says little.
const LOOK: Duration = Duration::from_millis(900);

/// The host's load as the kernel reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct HostLoad {
    /// The share of its processors in use, from 0 to 1; none before the second measurement.
    pub(super) cpu: Option<f64>,
    pub(super) cores: Option<usize>,
    /// In bytes.
    pub(super) memory_total: Option<u64>,
    /// Memory in use by programs, in bytes.
    pub(super) memory_used: Option<u64>,
}

impl HostLoad {
    /// The share of the memory that is used, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub(super) fn memory(&self) -> Option<f64> {
        let total = self.memory_total.filter(|total| *total > 0)?;
        Some(self.memory_used? as f64 / total as f64)
    }
}

/// Measures the host.
#[derive(Debug, Default)]
pub(super) struct HostMeter(Mutex<Option<CpuReading>>);

#[derive(Debug, Clone, Copy)]
struct CpuReading {
    at: Instant,
    times: Option<Times>,
    load: HostLoad,
}

/// Processor time since the boot, in the kernel's ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    all: u64,
    idle: u64,
}

impl HostMeter {
    /// The load since the last measurement, or that measurement's result if it is recent.
    pub(super) fn look(&self) -> HostLoad {
        let mut last = self.0.lock();
        if let Some(look) = last.filter(|look| look.at.elapsed() < LOOK) {
            return look.load;
        }
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let times = processor_times(&text("/proc/stat"));
        let (memory_total, memory_used) = memory(&text("/proc/meminfo"));
        let before = last.and_then(|look| look.times);
        let cpu = before.zip(times).and_then(|(before, now)| busy(before, now));
        let cores = std::thread::available_parallelism().ok().map(usize::from);
        let load = HostLoad { cpu, cores, memory_total, memory_used };
        *last = Some(CpuReading { at: Instant::now(), times, load });
        load
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn processor_times(text: &str) -> Option<Times> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
    Some(Times { all: ticks.iter().sum(), idle: ticks.get(3)? + ticks.get(4)? })
}

#[expect(clippy::cast_precision_loss, reason = "a share")]
fn busy(before: Times, now: Times) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
    let idle = now.idle.saturating_sub(before.idle).min(all);
    Some((all - idle) as f64 / all as f64)
}

fn memory(text: &str) -> (Option<u64>, Option<u64>) {
    let field = |name: &str| -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(rest.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
    };
    let total = field("MemTotal:");
    (total, total.zip(field("MemAvailable:")).map(|(total, free)| total.saturating_sub(free)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let times = processor_times("cpu  10 0 10 70 10 0 0 0 5 5\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(times, Times { all: 100, idle: 80 });
        assert_eq!(busy(times, Times { all: 200, idle: 130 }), Some(0.5));
        assert_eq!(busy(times, times), None);
        assert_eq!(memory("MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable: 2 kB\n"), (Some(8192), Some(6144)));
        assert_eq!((processor_times(""), memory("")), (None, (None, None)));
        let meter = HostMeter::default();
        assert!(meter.look().memory().is_some());
    }
}
