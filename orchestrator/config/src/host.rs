//! The host that the daemon runs on.

use std::path::Path;

use nix::unistd::{AccessFlags, access};

/// What the defaults need to know of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Host {
    /// Memory in bytes.
    pub memory: u64,
    /// Cores this process may use.
    pub cores: usize,
    /// Whether this process is root.
    pub root: bool,
    /// The container engine that is there.
    pub engine: FoundEngine,
}

/// The container engine whose socket was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FoundEngine {
    /// Docker, also where none was found.
    #[default]
    Docker,
    /// Podman for the whole host.
    Podman,
    /// Docker of this user alone.
    RootlessDocker,
    /// Podman of this user alone.
    RootlessPodman,
}

impl FoundEngine {
    /// Docker's socket.
    pub const DOCKER: &str = "/var/run/docker.sock";
    /// The socket of Podman for the whole host.
    pub const PODMAN: &str = "/run/podman/podman.sock";
    /// The socket of a user's own Docker, below their `XDG_RUNTIME_DIR`.
    pub const ROOTLESS_DOCKER: &str = "docker.sock";
    /// The socket of a user's own Podman, below their `XDG_RUNTIME_DIR`.
    pub const ROOTLESS_PODMAN: &str = "podman/podman.sock";

    /// The first engine whose socket this user may use; where there is none, the first that has one at all. `runtime_dir` is the
    /// user's `XDG_RUNTIME_DIR`.
    pub fn look(runtime_dir: Option<&Path>) -> Self {
        let [docker, podman] =
            [Self::ROOTLESS_DOCKER, Self::ROOTLESS_PODMAN].map(|socket| runtime_dir.map(|folder| folder.join(socket)));
        Self::first([
            (Self::Docker, Some(Path::new(Self::DOCKER))),
            (Self::Podman, Some(Path::new(Self::PODMAN))),
            (Self::RootlessDocker, docker.as_deref()),
            (Self::RootlessPodman, podman.as_deref()),
        ])
    }

    fn first(sockets: [(Self, Option<&Path>); 4]) -> Self {
        let first = |flags: AccessFlags| {
            let may = |socket: &Path| access(socket, flags).is_ok();
            sockets.iter().find(|(_, socket)| socket.is_some_and(may)).map(|(engine, _)| *engine)
        };
        first(AccessFlags::R_OK | AccessFlags::W_OK).or_else(|| first(AccessFlags::F_OK)).unwrap_or_default()
    }
}

impl Host {
    /// Asks the running system. What cannot be read counts as one core and no memory, which gives the smallest pool.
    pub fn read() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            memory: meminfo_total(&meminfo).unwrap_or(0),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            root: nix::unistd::geteuid().is_root(),
            engine: FoundEngine::look(std::env::var_os("XDG_RUNTIME_DIR").as_deref().map(Path::new)),
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
    fn the_first_socket_there_is_is_taken() {
        let run = tempfile::tempdir().unwrap();
        let [docker, podman, own_docker, own] =
            ["1.sock", "2.sock", "3.sock", "4.sock"].map(|name| run.path().join(name));
        let found = || {
            FoundEngine::first([
                (FoundEngine::Docker, Some(&docker)),
                (FoundEngine::Podman, Some(&podman)),
                (FoundEngine::RootlessDocker, Some(&own_docker)),
                (FoundEngine::RootlessPodman, Some(&own)),
            ])
        };
        assert_eq!(found(), FoundEngine::Docker);
        for (socket, engine) in [
            (&own, FoundEngine::RootlessPodman),
            (&own_docker, FoundEngine::RootlessDocker),
            (&podman, FoundEngine::Podman),
            (&docker, FoundEngine::Docker),
        ] {
            std::fs::write(socket, "").unwrap();
            assert_eq!(found(), engine);
        }
    }

    #[test]
    fn reads_the_total_of_meminfo() {
        assert_eq!(meminfo_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(meminfo_total("MemFree: 1 kB\n"), None);
    }
}
