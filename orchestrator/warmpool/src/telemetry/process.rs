//! Metrics of this process from the kernel, under the names that Prometheus' client libraries use.

use std::fmt::Write as _;
use std::fs;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};
use warmpool_core::blocking::in_place;

/// The descriptors of this process.
const DESCRIPTORS: &str = "/proc/self/fd";

/// The metrics of this process as Prometheus' text; without those that cannot be read.
pub(super) fn render() -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n");
        }
    };
    let stat = Stat::read();
    let stat = stat.as_ref();
    let limit = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| float(soft));
    metric("process_cpu_seconds_total", "counter", "Processor time in seconds", stat.map(|stat| stat.cpu_seconds));
    metric("process_max_fds", "gauge", "The most file descriptors that may be open", limit);
    metric("process_open_fds", "gauge", "Open file descriptors", open_descriptors().map(float));
    metric("process_resident_memory_bytes", "gauge", "Resident memory in bytes", stat.map(|stat| stat.resident));
    metric("process_start_time_seconds", "gauge", "Start in seconds since 1970", stat.and_then(|stat| stat.started));
    metric("process_threads", "gauge", "Threads", stat.map(|stat| stat.threads));
    metric("process_virtual_memory_bytes", "gauge", "Virtual memory in bytes", stat.map(|stat| stat.virtual_memory));
    text
}

/// How many descriptors are open: the size of their folder since Linux 6.2. Before it they have to be counted, for which the kernel makes
/// an entry for each.
fn open_descriptors() -> Option<u64> {
    match fs::metadata(DESCRIPTORS).ok()?.len() {
        0 => in_place(|| Some(fs::read_dir(DESCRIPTORS).ok()?.count() as u64)),
        open => Some(open),
    }
}

/// `/proc/self/stat`, see proc(5).
struct Stat {
    cpu_seconds: f64,
    threads: f64,
    started: Option<f64>,
    virtual_memory: f64,
    resident: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        let boot = fs::read_to_string("/proc/stat").ok();
        let boot = boot.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("btime ")));
        let size = |name| sysconf(name).ok().flatten().and_then(|value| u64::try_from(value).ok());
        let (ticks, page) = (float(size(SysconfVar::CLK_TCK)?), float(size(SysconfVar::PAGE_SIZE)?));
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?, boot?.trim().parse().ok(), ticks, page)
    }

    fn parse(text: &str, boot: Option<f64>, ticks: f64, page: f64) -> Option<Self> {
        // The program's name may hold anything, so counting begins behind it: at the third field.
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok().map(float);
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            threads: field(20)?,
            started: boot.and_then(|boot| Some(boot + field(22)? / ticks)),
            virtual_memory: field(23)?,
            resident: field(24)? * page,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric")]
const fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_counted_behind_the_name() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1000 8192 3 18446744073709551615";
        let stat = Stat::parse(text, Some(1_000_000.0), 100.0, 4096.0).unwrap();
        assert_eq!((stat.cpu_seconds, stat.threads, stat.started), (3.0, 9.0, Some(1_000_010.0)));
        assert_eq!((stat.virtual_memory, stat.resident), (8192.0, 12288.0));
    }

    #[test]
    fn descriptors_are_counted() {
        let held = [(); 200].map(|()| fs::File::open("/dev/null").unwrap());
        let (told, counted) = (open_descriptors().unwrap(), fs::read_dir(DESCRIPTORS).unwrap().count() as u64);
        // Other tests of this process open and close theirs meanwhile.
        assert!(told >= 200 && told.abs_diff(counted) < 100, "{told}, {counted}");
        drop(held);
    }

    #[test]
    fn this_process_is_measured() {
        let text = render();
        for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"] {
            assert!(text.contains(&format!("\n{name} ")), "{text}");
        }
    }
}
