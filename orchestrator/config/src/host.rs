//! The host that the daemon runs on.

/// What the defaults need to know of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Memory in bytes.
    pub memory: u64,
    /// Cores this process may use.
    pub cores: usize,
    /// Whether this process is root.
    pub root: bool,
}

impl Host {
    /// Asks the running system. What cannot be read counts as one core and no memory, which gives the smallest pool.
    pub fn read() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            memory: meminfo_total(&meminfo).unwrap_or(0),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            root: nix::unistd::geteuid().is_root(),
        }
    }
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn meminfo_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_total_of_meminfo() {
        assert_eq!(meminfo_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(meminfo_total("MemFree: 1 kB\n"), None);
    }
}
