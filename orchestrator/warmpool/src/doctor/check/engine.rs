//! The container engine.

use super::{fail, host::rounded, ok, warn};
use crate::doctor::{Directory, DockerFacts, Facts, Finding, ImageFact, Needs, Socket};
use warmpool_config::SelinuxType;
use warmpool_protocol::WORKER_USER;
use warmpool_runtime::EngineKind;

/// The oldest engine API the daemon speaks.
const OLDEST_API: (u64, u64) = (1, 41);
/// Free space the engine needs for images and containers.
const ENGINE_SPACE: u64 = 2 << 30;

pub(super) fn engine(facts: &Facts) -> Finding {
    const TITLE: &str = "Container engine";
    let docker = match &facts.docker {
        Ok(docker) => docker,
        Err(reason) => {
            let (detail, remedy) = silent(facts, reason);
            return fail(TITLE, detail, remedy);
        }
    };
    let DockerFacts { kind, api_version, server_version, cgroup_version, driver, .. } = docker;
    let rights = match docker.rootless {
        true => ", rootless",
        false if has_option(docker, "userns") => ", users remapped",
        false => "",
    };
    let name = kind.name();
    let detail = format!("{name} {server_version}{rights}, API {api_version}, cgroups v{cgroup_version}, {driver}");
    match numbers(api_version) {
        Some((major, minor, _)) if (major, minor) < OLDEST_API => fail(
            TITLE,
            format!("{detail}: older than API 1.41"),
            "install Docker 20.10 or newer, or Podman 4.3 or newer",
        ),
        _ => ok(TITLE, detail),
    }
}

/// Why the engine says nothing of itself, and what to do about it.
fn silent(facts: &Facts, reason: &str) -> (String, String) {
    let socket = facts.needs.docker_socket.display().to_string();
    // Nobody says which engine this is, but its socket has a name.
    let kind = if socket.contains("podman") { EngineKind::Podman } else { EngineKind::Docker };
    match (facts.socket, kind) {
        (Socket::Missing, _) => (
            format!("there is no {socket}, nor another engine's socket: none is installed, none is started, or it is elsewhere"),
            "install one and start it: on Debian, apt install docker.io, or apt install podman and systemctl enable --now \
             podman.socket (with --user, for Podman without root's rights); or name its socket in docker.host"
                .to_owned(),
        ),
        (Socket::OtherFile, _) => {
            (format!("{socket} is not a socket"), "name the engine's socket in docker.host".to_owned())
        }
        (Socket::Denied, EngineKind::Docker) => (
            format!("this user may not use {socket}"),
            "add the user to the group docker (usermod -aG docker USER) and log in again; members of that group are as \
             mighty as root; or use Podman as this user (systemctl --user enable --now podman.socket)"
                .to_owned(),
        ),
        (Socket::Denied, EngineKind::Podman) => (
            format!("this user may not use {socket}"),
            "use Podman as this user (systemctl --user enable --now podman.socket), or run the daemon as root".to_owned(),
        ),
        (Socket::Refused, EngineKind::Docker) => (
            format!("nothing listens on {socket}: the engine has stopped"),
            "start it (systemctl start docker) and see its log (journalctl -u docker), or name another engine's socket in \
             docker.host"
                .to_owned(),
        ),
        (Socket::Refused, EngineKind::Podman) => (
            format!("nothing listens on {socket}: the engine has stopped"),
            "start it (systemctl start podman.socket, with --user for a user's own), or name another engine's socket in \
             docker.host"
                .to_owned(),
        ),
        (Socket::Open, _) => (
            format!("something listens on {socket} but cannot be used: {reason}"),
            format!(
                "mend what it says; otherwise see its log (journalctl -u {}), and restart it if it hangs",
                kind.command()
            ),
        ),
    }
}

/// The first three numbers of a version; what is missing counts as 0.
fn numbers(version: &str) -> Option<(u64, u64, u64)> {
    let version = version.trim_start_matches('v');
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    let first = parts.next()?.parse().ok()?;
    let mut next = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    Some((first, next(), next()))
}

pub(super) fn limits(docker: &DockerFacts, needs: &Needs) -> Finding {
    const TITLE: &str = "Limits";
    let needed = [
        ("memory", docker.memory_limit, true),
        ("processor", docker.cpu_limit, needs.worker_cpus > 0.0),
        ("process", docker.pids_limit, true),
    ];
    let missing: Vec<_> =
        needed.iter().filter(|(_, there, needed)| *needed && !there).map(|(name, ..)| *name).collect();
    if missing.is_empty() {
        return ok(TITLE, "workers can be limited in memory, processor time and processes");
    }
    let detail = format!(
        "the kernel gives the engine no {} limits, so one page could take the host down",
        missing.join(" and no ")
    );
    let remedy = match (docker.rootless, docker.cgroup_version.as_str()) {
        (true, "1") => {
            "boot with the kernel parameter systemd.unified_cgroup_hierarchy=1, since engines without root's rights limit \
             nothing on cgroups v1; or use the engine with root's rights"
        }
        (true, _) => {
            "delegate the controllers cpu, memory and pids to the user: Delegate=yes in a drop-in of user@.service, as \
             rootlesscontaine.rs/getting-started/common/cgroup2 shows"
        }
        (false, _) if missing.contains(&"memory") => {
            "boot with the kernel parameters cgroup_enable=memory swapaccount=1"
        }
        (false, _) => "boot a kernel with CONFIG_CFS_BANDWIDTH and CONFIG_CGROUP_PIDS",
    };
    fail(TITLE, detail, remedy)
}

pub(super) fn users(docker: &DockerFacts) -> Option<Finding> {
    const TITLE: &str = "User ids";
    if !docker.rootless {
        return None;
    }
    Some(match docker.has_worker_user {
        true => ok(TITLE, "workers have a user of their own"),
        false => fail(
            TITLE,
            format!("this user was given too few ids for a container's user {WORKER_USER}"),
            "give it some (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER), install uidmap, and run \
             podman system migrate as this user",
        ),
    })
}

pub(super) fn seccomp(docker: &DockerFacts) -> Finding {
    const TITLE: &str = "System call filter";
    match has_option(docker, "seccomp") {
        true => ok(TITLE, "seccomp is there"),
        false => fail(
            TITLE,
            "the engine has no seccomp, so a worker could make every system call",
            "use a kernel with CONFIG_SECCOMP_FILTER and an engine built with seccomp",
        ),
    }
}

/// Whether the engine names this among what protects its containers.
fn has_option(docker: &DockerFacts, name: &str) -> bool {
    let names = docker.security_options.iter().filter_map(|option| option.strip_prefix("name="));
    names.filter_map(|option| option.split(',').next()).any(|found| found == name)
}

pub(super) fn selinux(docker: &DockerFacts, facts: &Facts) -> Option<Finding> {
    const TITLE: &str = "SELinux";
    Some(match (facts.host.selinux_enforces?, has_option(docker, "selinux"), &facts.needs.selinux_type) {
        (false, ..) => ok(TITLE, "permissive: it refuses nothing"),
        (true, false, _) => warn(
            TITLE,
            "enforcing, but the engine labels no containers, so SELinux does not keep workers apart",
            match docker.kind {
                EngineKind::Docker => {
                    "install container-selinux, set \"selinux-enabled\": true in /etc/docker/daemon.json, and restart Docker"
                }
                EngineKind::Podman => "install container-selinux, and let containers.conf not have label = false",
            },
        ),
        (true, true, Some(SelinuxType::Disabled)) => warn(
            TITLE,
            "enforcing, but docker.selinux_type is disable, so it does not confine workers",
            "unset docker.selinux_type, or name a type in it that lets workers start",
        ),
        (true, true, Some(SelinuxType::Named(name))) => ok(TITLE, format!("enforcing; workers are {name}")),
        (true, true, None) => ok(TITLE, "enforcing; each worker's folder carries the label of its container"),
    })
}

/// Releases with every container escape known when this was written mended: 1.2.8, 1.3.3, and all from 1.4 on.
pub(super) fn runc(docker: &DockerFacts) -> Finding {
    const TITLE: &str = "runc";
    let version = match &docker.oci_runtime {
        Some((name, version)) if name != "runc" => return ok("OCI runtime", format!("{name} {version}")),
        Some((_, version)) => version.as_str(),
        None => "",
    };
    let packaged = ["deb", "ubuntu", "+ds", ".el", ".fc"].iter().any(|mark| version.contains(mark));
    let old =
        || warn(TITLE, format!("{version} has known ways out of a container"), "upgrade to runc 1.2.8, 1.3.3 or newer");
    match numbers(version) {
        None => ok(TITLE, "its version is not known"),
        Some((1, 2, patch)) if patch >= 8 => ok(TITLE, version),
        Some((1, 3, patch)) if patch >= 3 => ok(TITLE, version),
        // The first two candidates of 1.4.0 came before the others were mended.
        Some((1, 4, 0)) if ["-rc.1", "-rc.2"].iter().any(|candidate| version.ends_with(candidate)) => old(),
        Some(number) if number >= (1, 4, 0) => ok(TITLE, version),
        Some(_) if packaged => {
            ok(TITLE, format!("{version}, a distribution's package: keep security updates installed"))
        }
        Some(_) => old(),
    }
}

pub(super) fn runtime(docker: &DockerFacts, needs: &Needs) -> Option<Finding> {
    const TITLE: &str = "Container runtime";
    let name = needs.runtime.as_ref()?;
    Some(match docker.runtimes.contains(name) {
        true => ok(TITLE, name),
        false => fail(
            TITLE,
            format!("the engine knows no runtime {name}, only {}", docker.runtimes.join(", ")),
            "register it in /etc/docker/daemon.json under \"runtimes\" and restart the engine, or unset docker.runtime",
        ),
    })
}

pub(super) fn worker_image(image: &ImageFact) -> Finding {
    const TITLE: &str = "Worker image";
    let ImageFact { engine, name, there, needed } = image;
    match (there, needed) {
        (true, _) => ok(TITLE, name),
        (false, false) => ok(
            TITLE,
            format!(
                "no {name}, so {engine} sessions are refused; build it with ./scripts/images --engine {engine}, or load a packed one with docker load"
            ),
        ),
        (false, true) => fail(
            TITLE,
            format!("the engine has no {name}"),
            format!(
                "build it with ./scripts/images --engine {engine}, load a packed one with docker load, or name another in worker.{engine}_image"
            ),
        ),
    }
}

pub(super) fn renderer_image((name, there): &(String, bool)) -> Finding {
    const TITLE: &str = "Renderer image";
    match there {
        true => ok(TITLE, name),
        false => ok(
            TITLE,
            format!(
                "no {name}, so requests for worlds are refused; build it with ./scripts/images --scene, or load a packed one with docker load"
            ),
        ),
    }
}

pub(super) fn storage(docker: &DockerFacts) -> Option<Finding> {
    const TITLE: &str = "Engine's storage";
    // Podman may choose it without root's rights, and either engine on a file system that cannot lie in layers.
    if docker.driver != "vfs" {
        return None;
    }
    let remedy = match (docker.kind, docker.rootless) {
        (EngineKind::Docker, _) => {
            "remove \"storage-driver\": \"vfs\" from daemon.json, or put the engine's data-root on ext4 or xfs; then build or \
             load the worker images once more"
        }
        (EngineKind::Podman, true) => {
            "write driver = \"overlay\" below [storage] in ~/.config/containers/storage.conf, run podman system reset, which \
             removes all containers and images of this user, and build or load the worker images once more"
        }
        (EngineKind::Podman, false) => {
            "write driver = \"overlay\" below [storage] in /etc/containers/storage.conf, run podman system reset, which \
             removes all containers and images, and build or load the worker images once more"
        }
    };
    Some(warn(
        TITLE,
        "vfs, which copies the whole image for each worker: slow starts, and half a gigabyte of disk each",
        remedy,
    ))
}

pub(super) fn engine_space(root: &Directory, kind: EngineKind) -> Finding {
    const TITLE: &str = "Engine's disk";
    let path = root.path.display();
    match root.free {
        None => ok(TITLE, format!("free space of {path} is not known")),
        Some(free) if free >= ENGINE_SPACE => ok(TITLE, format!("{} free in {path}", rounded(free))),
        Some(free) => warn(
            TITLE,
            format!("only {} free in {path}, where images and containers are", rounded(free)),
            format!("make room; {} image prune removes images without a name", kind.command()),
        ),
    }
}
