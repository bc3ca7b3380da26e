//! The container engine.

use super::{fail, host::rounded, ok, warn};
use crate::doctor::{Directory, DockerFacts, Facts, Finding, ImageFact, Needs, Socket};

/// The oldest engine API the daemon speaks.
const OLDEST_API: (u64, u64) = (1, 41);
/// Free space the engine needs for images and containers.
const ENGINE_SPACE: u64 = 2 << 30;

pub(super) fn engine(facts: &Facts) -> Finding {
    const TITLE: &str = "Docker engine";
    let socket = facts.needs.docker_socket.display();
    let docker = match (&facts.docker, facts.socket) {
        (Ok(docker), _) => docker,
        (Err(_), Socket::Missing) => {
            let remedy =
                "install it and start it (on Debian: apt install docker.io), or name its socket in docker.host";
            return fail(
                TITLE,
                format!("there is no {socket}: Docker is not installed, not started, or elsewhere"),
                remedy,
            );
        }
        (Err(_), Socket::OtherFile) => {
            return fail(TITLE, format!("{socket} is not a socket"), "name the engine's socket in docker.host");
        }
        (Err(_), Socket::Denied) => {
            let remedy = "add the user to the group docker (usermod -aG docker USER) and log in again; \
                          members of that group are as mighty as root";
            return fail(TITLE, format!("this user may not use {socket}"), remedy);
        }
        (Err(_), Socket::Refused) => {
            let remedy = "start it (systemctl start docker) and see its log (journalctl -u docker)";
            return fail(TITLE, format!("nothing listens on {socket}: the engine has stopped"), remedy);
        }
        (Err(reason), Socket::Open) => {
            let remedy = "see its log (journalctl -u docker), and restart it if it hangs";
            return fail(TITLE, format!("something listens on {socket} but gives no good answer: {reason}"), remedy);
        }
    };
    let DockerFacts { api_version, server_version, cgroup_version, driver, .. } = docker;
    let detail = format!("{server_version}, API {api_version}, cgroups v{cgroup_version}, {driver}");
    match numbers(api_version) {
        Some((major, minor, _)) if (major, minor) < OLDEST_API => {
            fail(TITLE, format!("{detail}: older than API 1.41"), "install Docker 20.10 or newer")
        }
        _ => ok(TITLE, detail),
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
    let remedy = match missing.contains(&"memory") {
        true => {
            "boot with the kernel parameters cgroup_enable=memory swapaccount=1; in rootless Docker, delegate the controllers to the user"
        }
        false => {
            "boot a kernel with CONFIG_CFS_BANDWIDTH and CONFIG_CGROUP_PIDS; in rootless Docker, delegate the controllers to the user"
        }
    };
    fail(TITLE, detail, remedy)
}

pub(super) fn seccomp(docker: &DockerFacts) -> Finding {
    const TITLE: &str = "System call filter";
    let filters = docker.security_options.iter().any(|option| option.starts_with("name=seccomp"));
    match filters {
        true => ok(TITLE, "seccomp is there"),
        false => fail(
            TITLE,
            "the engine has no seccomp, so a worker could make every system call",
            "use a kernel with CONFIG_SECCOMP_FILTER and an engine built with seccomp",
        ),
    }
}

/// Releases with every container escape known when this was written mended: 1.2.8, 1.3.3, and all from 1.4 on.
pub(super) fn runc(docker: &DockerFacts) -> Finding {
    const TITLE: &str = "runc";
    let version = docker.runc_version.as_str();
    let packaged = ["deb", "ubuntu", "+ds", ".el", ".fc"].iter().any(|mark| version.contains(mark));
    match numbers(version) {
        None => ok(TITLE, "its version is not known"),
        Some((1, 2, patch)) if patch >= 8 => ok(TITLE, version),
        Some((1, 3, patch)) if patch >= 3 => ok(TITLE, version),
        Some(number) if number >= (1, 4, 0) => ok(TITLE, version),
        Some(_) if packaged => {
            ok(TITLE, format!("{version}, a distribution's package: keep security updates installed"))
        }
        Some(_) => {
            warn(TITLE, format!("{version} has known ways out of a container"), "upgrade to runc 1.2.8, 1.3.3 or newer")
        }
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
            format!("no {name}, so {engine} sessions are refused; ./scripts/images --engine {engine} makes it"),
        ),
        (false, true) => fail(
            TITLE,
            format!("the engine has no {name}"),
            format!("build it with ./scripts/images --engine {engine}, or name another in worker.{engine}_image"),
        ),
    }
}

pub(super) fn renderer_image((name, there): &(String, bool)) -> Finding {
    const TITLE: &str = "Renderer image";
    match there {
        true => ok(TITLE, name),
        false => ok(TITLE, format!("no {name}, so requests for worlds are refused; ./scripts/images --scene makes it")),
    }
}

pub(super) fn engine_space(root: &Directory) -> Finding {
    const TITLE: &str = "Engine's disk";
    let path = root.path.display();
    match root.free {
        None => ok(TITLE, format!("free space of {path} is not known")),
        Some(free) if free >= ENGINE_SPACE => ok(TITLE, format!("{} free in {path}", rounded(free))),
        Some(free) => warn(
            TITLE,
            format!("only {} free in {path}, where images and containers are", rounded(free)),
            "make room; docker image prune removes images without a name",
        ),
    }
}
