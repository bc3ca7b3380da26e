//! Defaults that depend on the host, the environment or another setting.

use super::layers::Layers;
use super::presets::Presets;

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

/// A default as text, and in words where it comes from.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) from: &'static str,
}

/// Finds a default; it may look at the host, the environment and other settings.
pub(super) type Find = fn(&Layers<'_>) -> Found;

fn number(number: usize, from: &'static str) -> Found {
    Found { text: number.to_string(), from }
}

pub(super) fn docker_host(layers: &Layers<'_>) -> Found {
    match layers.env("DOCKER_HOST") {
        Some(host) => Found { text: host.to_owned(), from: "DOCKER_HOST" },
        None => Found { text: "unix:///var/run/docker.sock".to_owned(), from: "default" },
    }
}

pub(super) fn max_workers(layers: &Layers<'_>) -> Found {
    let fitting = layers.host().memory / 4 * 3 / (1 << 30);
    number(usize::try_from(fitting).unwrap_or(64).clamp(2, 64), "the host's memory")
}

const WARM: usize = 2;

/// The places that presets leave.
fn places(layers: &Layers<'_>) -> usize {
    let most: usize = layers.peek("pool.max_workers").unwrap_or(0);
    most.saturating_sub(layers.peek_named("pool.presets").map_or(0, |presets: Presets| presets.warm()))
}

pub(super) fn chromium_headed(layers: &Layers<'_>) -> Found {
    let most = places(layers);
    let taken = layers.peek_named("pool.chromium_headless").unwrap_or(most / 2);
    number(WARM.min(most.saturating_sub(taken)), "pool.max_workers")
}

pub(super) fn chromium_headless(layers: &Layers<'_>) -> Found {
    let taken = layers.peek("pool.chromium_headed").unwrap_or(0);
    number(WARM.min(places(layers).saturating_sub(taken)), "pool.max_workers")
}

/// What a worker of Firefox takes while it waits is twice what one of Chromium takes, so small hosts keep none.
const ROOMY: u64 = 8_000_000_000;
/// Places that stay free for sessions and on-demand workers, the two that this default may take included.
const FREE: usize = 4;

/// One warm worker of an engine that is not the default one, where it takes no place of much use.
pub(super) fn other_headed(layers: &Layers<'_>) -> Found {
    let chromium = ["pool.chromium_headed", "pool.chromium_headless"].map(|name| layers.peek(name));
    // Not the defaults of the others: the one of Firefox and the one of WebKit would each ask for the other.
    let others = ["pool.firefox_headed", "pool.firefox_headless", "pool.webkit_headed", "pool.webkit_headless"];
    let others = others.map(|name| layers.peek_named(name));
    let taken = chromium.into_iter().chain(others).flatten().fold(0, usize::saturating_add);
    let roomy = layers.host().memory >= ROOMY && places(layers).saturating_sub(taken) >= FREE;
    number(usize::from(roomy), "the host's memory and pool.max_workers")
}

pub(super) fn start_concurrency(layers: &Layers<'_>) -> Found {
    number((layers.host().cores / 2).max(1), "the host's cores")
}

pub(super) fn max_sessions(layers: &Layers<'_>) -> Found {
    number(layers.peek("pool.max_workers").unwrap_or(1), "pool.max_workers")
}

pub(super) fn task_workers(layers: &Layers<'_>) -> Found {
    let most: usize = layers.peek("pool.max_workers").unwrap_or(1);
    number((most / 2).max(1), "pool.max_workers")
}

pub(super) fn data_dir(layers: &Layers<'_>) -> Found {
    let set = |name| layers.env(name).filter(|path: &&str| path.starts_with('/'));
    if layers.host().root {
        return Found { text: "/var/lib/warmpool".to_owned(), from: "running as root" };
    }
    if let Some(data) = set("XDG_DATA_HOME") {
        return Found { text: format!("{data}/warmpool"), from: "XDG_DATA_HOME" };
    }
    match set("HOME") {
        Some(home) => Found { text: format!("{home}/.local/share/warmpool"), from: "HOME" },
        None => Found { text: String::new(), from: "neither XDG_DATA_HOME nor HOME is set" },
    }
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
