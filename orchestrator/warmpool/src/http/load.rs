//! The load of the daemon's host.

use std::time::Duration;

/// Time between two checks at the processors' clocks.
const SPAN: Duration = Duration::from_millis(100);

/// Processors and memory in use, in percent; `None` for what cannot be read.
pub(super) async fn percent() -> (Option<u64>, Option<u64>) {
    let before = read("/proc/stat").await;
    tokio::time::sleep(SPAN).await;
    let after = read("/proc/stat").await;
    (cpu(&before, &after), memory(&read("/proc/meminfo").await))
}

async fn read(path: &str) -> String {
    tokio::fs::read_to_string(path).await.unwrap_or_default()
}

/// Idle and total ticks of all processors.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|tick| tick.parse().ok()).take(8).collect();
    Some((ticks.get(3)? + ticks.get(4)?, ticks.iter().sum()))
}

fn cpu(before: &str, after: &str) -> Option<u64> {
    let ((idle_then, total_then), (idle_now, total_now)) = (ticks(before)?, ticks(after)?);
    let total = total_now.checked_sub(total_then).filter(|total| *total > 0)?;
    Some(100 - (idle_now.saturating_sub(idle_then) * 100 / total).min(100))
}

fn memory(meminfo: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    let total = field("MemTotal:").filter(|total| *total > 0)?;
    Some(100 - (field("MemAvailable:")? * 100 / total).min(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_read_from_the_kernels_tables() {
        let (before, after) = ("cpu  10 0 10 80 0 0 0 0 0 0\n", "cpu  30 0 20 120 30 0 0 0 0 0\n");
        assert_eq!(cpu(before, after), Some(30));
        assert_eq!(memory("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"), Some(75));
        assert_eq!((cpu("", ""), memory("")), (None, None));
    }
}
