//! The host that the daemon runs on.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

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
    /// The socket of a user's own Docker, below their [`runtime_dir`].
    pub const ROOTLESS_DOCKER: &str = "docker.sock";
    /// The socket of a user's own Podman, below their [`runtime_dir`].
    pub const ROOTLESS_PODMAN: &str = "podman/podman.sock";

    /// The first engine whose socket this user may use; where there is none, the first that has one at all. `runtime_dir` is the
    /// user's [`runtime_dir`].
    pub fn look(runtime_dir: &Path) -> Self {
        Self::first([
            (Self::Docker, Path::new(Self::DOCKER)),
            (Self::Podman, Path::new(Self::PODMAN)),
            (Self::RootlessDocker, &runtime_dir.join(Self::ROOTLESS_DOCKER)),
            (Self::RootlessPodman, &runtime_dir.join(Self::ROOTLESS_PODMAN)),
        ])
    }

    fn first(sockets: [(Self, &Path); 4]) -> Self {
        let first = |flags: AccessFlags| {
            sockets.iter().find(|(_, socket)| access(*socket, flags).is_ok()).map(|(engine, _)| *engine)
        };
        first(AccessFlags::R_OK | AccessFlags::W_OK).or_else(|| first(AccessFlags::F_OK)).unwrap_or_default()
    }
}

/// The folder of this user's sockets: their `XDG_RUNTIME_DIR`, and where it is not set, as in a service or after `su`, the folder that
/// logind gives it.
pub(super) fn runtime_dir(named: Option<PathBuf>) -> PathBuf {
    named.filter(|folder| folder.is_absolute()).unwrap_or_else(|| PathBuf::from(format!("/run/user/{}", geteuid())))
}

impl Host {
    /// Asks the running system. What cannot be read counts as one core and no memory, which gives the smallest pool.
    pub fn read() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            memory: meminfo_total(&meminfo).unwrap_or(0),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            root: geteuid().is_root(),
            engine: FoundEngine::look(&runtime_dir(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))),
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
                (FoundEngine::Docker, &docker),
                (FoundEngine::Podman, &podman),
                (FoundEngine::RootlessDocker, &own_docker),
                (FoundEngine::RootlessPodman, &own),
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
    fn a_user_without_a_session_has_a_folder_for_sockets() {
        assert_eq!(runtime_dir(Some("/run/mine".into())), Path::new("/run/mine"));
        for unset in [None, Some(PathBuf::new())] {
            assert_eq!(runtime_dir(unset), PathBuf::from(format!("/run/user/{}", geteuid())));
        }
    }

    #[test]
    fn reads_the_total_of_meminfo() {
        assert_eq!(meminfo_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(meminfo_total("MemFree: 1 kB\n"), None);
    }
}
