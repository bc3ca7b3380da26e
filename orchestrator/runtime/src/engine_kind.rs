//! What differs between the engines that speak Docker's API: how containers are made for each, and what each says of itself.

pub(crate) mod podman;

use bollard::models::{HostConfig, Mount, MountType, ResourcesUlimits, SystemVersion};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::RuntimeError;
use crate::client::CallError;
use warmpool_config::Config;
use warmpool_protocol::WORKER_USER;

/// The name of the part by which Podman tells its version.
const PODMAN: &str = "Podman Engine";
/// The oldest Podman that gives a tmpfs to the container's user.
const OLDEST_PODMAN: (u64, u64) = (4, 3);
/// What a container may open at most; engines use the same number.
const OPEN_FILES: u64 = 1 << 20;

/// An engine that speaks Docker's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineKind {
    /// Docker Engine, and all that is not known to be anything else.
    #[default]
    Docker,
    /// Podman, rootful or rootless.
    Podman,
}

/// Where a container keeps what it writes, and how much of it.
pub(crate) struct Tmpfs {
    pub path: &'static str,
    /// In bytes.
    pub size: u64,
    /// Whether only the worker's user may enter.
    pub private: bool,
}

impl EngineKind {
    /// The engine that says this of itself.
    /// Errors: [`RuntimeError::UnfitEngine`], where it is too old or lacks what `config` asks for.
    pub(crate) fn of(version: &SystemVersion, config: &Config) -> Result<Self, RuntimeError> {
        let parts = version.components.iter().flatten();
        let Some(podman) = parts.into_iter().find(|part| part.name == PODMAN) else { return Ok(Self::Docker) };
        let unfit = |flaw: String, remedy: &str| RuntimeError::UnfitEngine { flaw, remedy: remedy.to_owned() };
        if number(&podman.version).is_some_and(|number| number < OLDEST_PODMAN) {
            return Err(unfit(format!("Podman {} is too old", podman.version), "install Podman 4.3 or newer"));
        }
        if config.swarm.enabled {
            return Err(unfit(
                "Podman has no swarm".to_owned(),
                "set swarm.enabled = false, or name a Docker engine in docker.host",
            ));
        }
        if let Some(runtime) = &config.docker.runtime {
            return Err(unfit(
                format!("Podman takes no runtime by its interface, and docker.runtime is {runtime}"),
                "unset docker.runtime, and name the runtime in containers.conf, under [engine]",
            ));
        }
        Ok(Self::Podman)
    }

    /// Its name, as people know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        }
    }

    /// Its command.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// The program that starts its containers, and that program's version, if the engine says so.
    pub(crate) fn runtime(self, version: &SystemVersion) -> Option<(String, String)> {
        let mut parts = version.components.iter().flatten();
        match self {
            Self::Docker => {
                parts.find(|part| part.name == "runc").map(|part| (part.name.clone(), part.version.clone()))
            }
            // As in `OCI Runtime (crun)`, and `crun version 1.8.1` in the first of several lines.
            Self::Podman => parts.find_map(|part| {
                let name = part.name.strip_prefix("OCI Runtime (")?.strip_suffix(')')?;
                let line = part.version.lines().next().unwrap_or_default();
                Some((name.to_owned(), line.rsplit(' ').next().unwrap_or_default().to_owned()))
            }),
        }
    }

    /// Whether it reads seccomp profiles from files of its host. Otherwise it is given the text of one.
    pub(crate) const fn reads_seccomp_file(self) -> bool {
        matches!(self, Self::Podman)
    }

    /// Mounts these folders of a container in memory.
    pub(crate) fn put_tmpfs(self, host: &mut HostConfig, folders: &[Tmpfs]) {
        let mut folders: Vec<_> = folders.iter().map(|folder| (folder.path, folder.size, folder.private)).collect();
        if let (Self::Podman, Some(&(_, size, _))) = (self, folders.first()) {
            // With a root that is read-only, Podman mounts one of any size there unless it is told of another.
            folders.push(("/var/tmp", size, false));
        }
        let options = folders.into_iter().map(|(path, size, private)| {
            let mode = if private { "0700" } else { "1777" };
            // The owner is named, since the runtime may give the mount the owner and mode of the image's directory.
            let owner = match (self, private) {
                (Self::Docker, true) => format!(",uid={WORKER_USER},gid={WORKER_USER}"),
                (Self::Podman, true) => ",U".to_owned(),
                (_, false) => String::new(),
            };
            (path.to_owned(), format!("rw,noexec,nosuid,nodev,size={size},mode={mode}{owner}"))
        });
        host.tmpfs = Some(options.collect());
    }

    /// Shares a folder of the host with a container. `labels` says whether the engine gives its containers labels of SELinux:
    /// then the folder has to carry the container's own, or nothing in it may use the folder.
    pub(crate) fn share_folder(self, host: &mut HostConfig, source: String, target: &str, labels: bool) {
        match self {
            // A mount cannot ask for a label. A bind can, but where the folder is not there, it makes an empty one.
            Self::Docker if !labels => {
                host.mounts.get_or_insert_default().push(bind(source, target));
            }
            Self::Docker | Self::Podman => host.binds = Some(vec![format!("{source}:{target}:Z")]),
        }
    }

    /// Mounts this file of the host as the `/etc/hosts` of a container without a network, if the engine can leave the network
    /// out. Returns whether it can: it is to be told so, and writes no such file itself.
    pub(crate) fn leave_out_network(self, host: &mut HostConfig, hosts: String, labels: bool) -> bool {
        // Podman starts nothing for a network that is not there. With labels, the file would need the container's own.
        let leaves_out = self == Self::Docker && !labels;
        if leaves_out {
            host.mounts.get_or_insert_default().push(Mount { read_only: Some(true), ..bind(hosts, "/etc/hosts") });
        }
        leaves_out
    }

    /// The limits of a container's processes.
    pub(crate) fn process_limits(self) -> Vec<ResourcesUlimits> {
        let mut limits = no_core_dumps();
        if self == Self::Podman {
            // It asks for more than it may where its own limits are low, and then starts nothing.
            limits.extend([
                limit("nofile", own_limit(Resource::RLIMIT_NOFILE).min(OPEN_FILES)),
                limit("nproc", own_limit(Resource::RLIMIT_NPROC).min(most_processes())),
            ]);
        }
        limits
    }

    /// For how many seconds a container is waited for before it is killed, where the engine waits though it is told to remove by
    /// force; none where it does not.
    pub(crate) const fn removal_wait(self) -> Option<i64> {
        match self {
            Self::Docker => None,
            Self::Podman => Some(0),
        }
    }

    /// Whether the engine refused to create a container because its name is taken.
    pub(crate) fn is_name_taken(self, error: &CallError) -> bool {
        match self {
            Self::Docker => error.status() == Some(409),
            Self::Podman => {
                error.status() == Some(409)
                    || error.status() == Some(500) && error.to_string().contains("already in use")
            }
        }
    }
}

/// Shows what the host has there at this place in the container.
fn bind(source: String, target: &str) -> Mount {
    Mount { typ: Some(MountType::BIND), source: Some(source), target: Some(target.to_owned()), ..Default::default() }
}

/// The limit by which no program writes its memory to a file.
pub(crate) fn no_core_dumps() -> Vec<ResourcesUlimits> {
    vec![limit("core", 0)]
}

fn limit(name: &str, most: u64) -> ResourcesUlimits {
    // Without a limit is -1.
    let most = if most == RLIM_INFINITY { -1 } else { i64::try_from(most).unwrap_or(-1) };
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(most), hard: Some(most) }
}

/// What this process may have at most.
fn own_limit(resource: Resource) -> u64 {
    getrlimit(resource).map_or(RLIM_INFINITY, |(_, hard)| hard)
}

/// How many processes the kernel has at most, which is Podman's own limit.
fn most_processes() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1 << 15)
}

/// The first two numbers of a version.
fn number(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bollard::models::SystemVersionComponents;
    use warmpool_config::{Flags, Host};

    fn judged(part: &str, version: &str, flags: &Flags) -> Result<EngineKind, String> {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, [], flags, &host).unwrap();
        let part = SystemVersionComponents { name: part.to_owned(), version: version.to_owned(), ..Default::default() };
        let version = SystemVersion { components: Some(vec![part]), ..Default::default() };
        EngineKind::of(&version, &config).map_err(|error| error.to_string())
    }

    #[test]
    fn an_engine_is_known_by_its_parts() {
        let none = Flags::default();
        assert_eq!(judged("Engine", "20.10.24", &none), Ok(EngineKind::Docker));
        assert_eq!(judged(PODMAN, "4.3.1", &none), Ok(EngineKind::Podman));
        assert_eq!(judged(PODMAN, "5.4.0-dev", &none), Ok(EngineKind::Podman));
        let old = judged(PODMAN, "3.4.4", &none).unwrap_err();
        assert!(old.contains("Podman 3.4.4 is too old") && old.contains("install Podman 4.3"), "{old}");
        let swarm = Flags::default().with("swarm.enabled", "true");
        assert!(judged(PODMAN, "4.3.1", &swarm).unwrap_err().contains("has no swarm"));
        assert_eq!(judged("Engine", "20.10.24", &swarm), Ok(EngineKind::Docker));
        let runtime = Flags::default().with("docker.runtime", "runsc");
        assert!(judged(PODMAN, "4.3.1", &runtime).unwrap_err().contains("containers.conf"));
    }

    #[test]
    fn podman_names_the_program_that_starts_containers() {
        let part = |name: &str, version: &str| SystemVersionComponents {
            name: name.to_owned(),
            version: version.to_owned(),
            ..Default::default()
        };
        let version = |parts| SystemVersion { components: Some(parts), ..Default::default() };
        let podman = version(vec![
            part(PODMAN, "4.3.1"),
            part("OCI Runtime (crun)", "crun version 1.8.1\ncommit: f8a096be\nspec: 1.0.0"),
        ]);
        assert_eq!(EngineKind::Podman.runtime(&podman), Some(("crun".to_owned(), "1.8.1".to_owned())));
        assert_eq!(EngineKind::Docker.runtime(&version(vec![part("runc", "1.1.5")])).unwrap().1, "1.1.5");
    }

    #[test]
    fn only_docker_leaves_out_a_network_and_its_names() {
        let left_out = |kind: EngineKind, labels: bool| {
            let mut host = HostConfig::default();
            let leaves_out = kind.leave_out_network(&mut host, "/data/w1/hosts".to_owned(), labels);
            let mounts = host.mounts.into_iter().flatten().map(|mount| (mount.target.unwrap(), mount.read_only));
            (leaves_out, mounts.collect::<Vec<_>>())
        };
        let hosts = vec![("/etc/hosts".to_owned(), Some(true))];
        assert_eq!(left_out(EngineKind::Docker, false), (true, hosts));
        assert_eq!(left_out(EngineKind::Docker, true), (false, Vec::new()));
        assert_eq!(left_out(EngineKind::Podman, false), (false, Vec::new()));
    }

    #[test]
    fn a_shared_folder_carries_the_label_of_its_container() {
        let shared = |kind: EngineKind, labels: bool| {
            let mut host = HostConfig::default();
            kind.share_folder(&mut host, "/data/w1".to_owned(), "/agent", labels);
            (host.binds, host.mounts.map(|mounts| mounts[0].source.clone()))
        };
        let bound = (Some(vec!["/data/w1:/agent:Z".to_owned()]), None);
        assert_eq!(shared(EngineKind::Docker, true), bound);
        assert_eq!(shared(EngineKind::Podman, true), bound);
        // Podman takes the option where there is no SELinux as well.
        assert_eq!(shared(EngineKind::Podman, false), bound);
        assert_eq!(shared(EngineKind::Docker, false), (None, Some(Some("/data/w1".to_owned()))));
    }

    #[test]
    fn every_folder_in_memory_has_a_size_and_runs_nothing() {
        let folders = [
            Tmpfs { path: "/tmp", size: 1000, private: false },
            Tmpfs { path: "/home/worker", size: 2000, private: true },
        ];
        for (kind, paths, owner) in [
            (EngineKind::Docker, vec!["/home/worker", "/tmp"], ",uid=61000,gid=61000"),
            (EngineKind::Podman, vec!["/home/worker", "/tmp", "/var/tmp"], ",U"),
        ] {
            let mut host = HostConfig::default();
            kind.put_tmpfs(&mut host, &folders);
            let tmpfs = host.tmpfs.unwrap();
            let mut found: Vec<_> = tmpfs.keys().map(String::as_str).collect();
            found.sort_unstable();
            assert_eq!(found, paths);
            assert!(tmpfs.values().all(|options| options.contains("noexec,nosuid,nodev,size=")), "{tmpfs:?}");
            assert!(tmpfs["/home/worker"].ends_with(&format!("size=2000,mode=0700{owner}")), "{tmpfs:?}");
        }
    }
}
