//! The host itself.

use super::{fail, ok, warn};
use crate::doctor::facts::HostFacts;
use crate::doctor::{Directory, Facts, Finding, Needs, Port};
use warmpool_config::ByteSize;

/// What a worker is reckoned to use of the host's memory, as in the default of `pool.max_workers`.
const WORKER_SHARE: u64 = 1 << 30;
/// Files the daemon has open beside its connections and workers.
const OWN_FILES: u64 = 256;
/// Those of a connection: a websocket of Chromium's has the client's, the browser's, and one on which the agent hears of messages.
const CONNECTION_FILES: u64 = 3;
/// Those of a worker beside its clients'.
const WORKER_FILES: u64 = 8;

/// Chromium's sandbox makes user namespaces as an unprivileged user inside the container.
pub(super) fn sandbox(facts: &Facts) -> Finding {
    const TITLE: &str = "Browser sandbox";
    let host = &facts.host;
    if !facts.needs.sandbox {
        return warn(
            TITLE,
            "worker.sandbox is false: a hostile page is held by the container alone",
            "set worker.sandbox to true",
        );
    }
    if let Err((why, remedy)) = user_namespaces(host) {
        return fail(TITLE, why, remedy);
    }
    if host.apparmor_restrict_userns == Some(1) {
        return warn(
            TITLE,
            "kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor may keep the sandbox from starting",
            "if workers fail to start, sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, and the same in /etc/sysctl.d",
        );
    }
    ok(TITLE, "user namespaces are allowed")
}

/// The network of its own that an agent makes for its worker takes user namespaces as well.
pub(super) fn network(facts: &Facts) -> Option<Finding> {
    const TITLE: &str = "Workers' network";
    let Err((why, remedy)) = user_namespaces(&facts.host) else {
        return Some(ok(TITLE, "each worker has one of its own, which leads nowhere"));
    };
    if facts.needs.sandbox {
        // The sandbox cannot do without them either, and its line says so.
        return None;
    }
    Some(if facts.needs.leaves_network {
        let detail = format!("{why}: agents cannot leave the network on which they listen, so no worker starts");
        fail(TITLE, detail, remedy)
    } else {
        let detail = format!("{why}: workers have none, so pages find themselves offline (navigator.onLine)");
        warn(TITLE, detail, remedy)
    })
}

/// Whether an unprivileged user may make user namespaces; else what forbids it, and the remedy.
fn user_namespaces(host: &HostFacts) -> Result<(), (String, String)> {
    if !host.user_namespaces {
        return Err(("the kernel has no user namespaces".to_owned(), "boot a kernel with CONFIG_USER_NS".to_owned()));
    }
    for (name, value, remedy) in [
        ("user.max_user_namespaces", host.max_user_namespaces, "sysctl -w user.max_user_namespaces=15000"),
        (
            "kernel.unprivileged_userns_clone",
            host.unprivileged_userns_clone,
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
    ] {
        if value == Some(0) {
            return Err((
                format!("{name} is 0: unprivileged users may not make user namespaces"),
                format!("{remedy}, and the same in /etc/sysctl.d to keep it"),
            ));
        }
    }
    Ok(())
}

pub(super) fn memory(facts: &Facts) -> Finding {
    const TITLE: &str = "Memory";
    let Needs { max_workers, worker_memory, .. } = &facts.needs;
    let Some(memory) = facts.host.memory else {
        return ok(TITLE, "its size is not known");
    };
    let detail = format!("{} for at most {max_workers} workers, each limited to {worker_memory}", rounded(memory));
    let fitting = memory / WORKER_SHARE;
    if worker_memory.bytes() > memory {
        warn(TITLE, format!("{detail}: one worker may take all of it"), "lower worker.memory")
    } else if u64::try_from(*max_workers).is_ok_and(|workers| workers > fitting) {
        let remedy = format!("set pool.max_workers to {} or less; a worker is reckoned at 1GiB", fitting.max(1));
        warn(TITLE, format!("{detail}: too little when all are busy"), remedy)
    } else {
        ok(TITLE, detail)
    }
}

/// Whether the memory of workers that wait can go to swap, where it is to.
pub(super) fn page_out(facts: &Facts) -> Option<Finding> {
    const TITLE: &str = "Paging out";
    if !facts.needs.pages_out {
        return None;
    }
    if let Err(why) = &facts.may_page_out {
        let remedy = "run the daemon as root or with CAP_DAC_OVERRIDE, outside of a container, on Linux 5.19 or newer; or unset \
                      worker.page_out_after";
        return Some(warn(TITLE, format!("the daemon may not page workers out: {why}"), remedy));
    }
    Some(match facts.host.swap {
        None | Some(0) => {
            let remedy = "make swap, such as zram of half the memory; or unset worker.page_out_after";
            warn(TITLE, "this host has no swap for the memory of workers that wait", remedy)
        }
        Some(swap) => ok(TITLE, format!("{} of swap for workers that wait", rounded(swap))),
    })
}

pub(super) fn data_dir(dir: &Directory, needs: &Needs) -> Finding {
    const TITLE: &str = "Data directory";
    let path = dir.path.display();
    if let Err(reason) = &dir.writable {
        let remedy = "give it to the user the daemon runs as, or name another in store.data_dir";
        return fail(TITLE, format!("{path} cannot be written ({reason})"), remedy);
    }
    let Some(free) = dir.free else {
        return ok(TITLE, format!("{path}; its free space is not known"));
    };
    let (detail, least) = (format!("{} free in {path}", rounded(free)), needs.min_free.bytes());
    if free < least {
        let remedy = "make room, or lower store.min_free";
        fail(TITLE, format!("only {detail}: nothing new is accepted below store.min_free, {}", needs.min_free), remedy)
    } else if free / 2 < least {
        warn(TITLE, format!("only {detail}: store.min_free, {}, is near", needs.min_free), "make room")
    } else {
        ok(TITLE, detail)
    }
}

pub(super) fn port(facts: &Facts) -> Finding {
    const TITLE: &str = "Port";
    let listen = facts.needs.listen;
    match &facts.port {
        Port::Free => ok(TITLE, format!("{listen} is free")),
        Port::Taken(Some((name, id))) if name == "warmpool" && facts.starting => {
            let waits = "which is starting: it waits for its workers or opens its store, as its log says";
            ok(TITLE, format!("{listen} is taken by warmpool, process {id}, {waits}"))
        }
        Port::Taken(Some((name, id))) if name == "warmpool" => {
            ok(TITLE, format!("{listen} is served by warmpool, process {id}"))
        }
        Port::Taken(holder) => {
            let holder =
                holder.as_ref().map_or("another process".to_owned(), |(name, id)| format!("{name}, process {id}"));
            fail(
                TITLE,
                format!("{listen} is taken by {holder}"),
                "end that process, or set another port in server.listen",
            )
        }
        Port::Denied => fail(
            TITLE,
            format!("this user may not listen on {listen}"),
            "use a port from 1024 on in server.listen, or give the daemon CAP_NET_BIND_SERVICE",
        ),
        Port::NotOurs => fail(
            TITLE,
            format!("{listen} is not an address of this host"),
            "use one of its addresses in server.listen, or 0.0.0.0 for all",
        ),
        Port::Unusable(reason) => {
            fail(TITLE, format!("cannot listen on {listen}: {reason}"), "set another address in server.listen")
        }
    }
}

pub(super) fn open_files(facts: &Facts) -> Finding {
    const TITLE: &str = "Open files";
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let (connections, workers) = (count(facts.needs.max_connections), count(facts.needs.max_workers));
    let (of_clients, of_workers) = (connections.saturating_mul(CONNECTION_FILES), workers.saturating_mul(WORKER_FILES));
    let needed = of_clients.saturating_add(of_workers).saturating_add(OWN_FILES);
    match facts.host.open_files {
        None => ok(TITLE, "the limit is not known"),
        Some(u64::MAX) => ok(TITLE, "no limit"),
        Some(limit) if limit >= needed => ok(TITLE, format!("at most {limit}")),
        Some(limit) => warn(
            TITLE,
            format!("at most {limit}, where {connections} connections and {workers} workers may need {needed}"),
            format!(
                "ulimit -n {needed} before the start, or LimitNOFILE={needed} in the systemd unit; or lower server.max_connections"
            ),
        ),
    }
}

pub(super) fn certificate(tls: &Result<(), String>) -> Finding {
    const TITLE: &str = "Certificate";
    match tls {
        Ok(()) => ok(TITLE, "it and its key go together"),
        Err(reason) => fail(
            TITLE,
            reason,
            "mend the files in server.tls_cert and server.tls_key, and let the daemon's user read them",
        ),
    }
}

/// None where browsers trust the public authorities alone.
pub(super) fn authorities(found: &Result<usize, String>) -> Option<Finding> {
    const TITLE: &str = "Authorities";
    match found {
        Ok(0) => None,
        Ok(count) => Some(ok(TITLE, format!("browsers trust {count} beside the public ones"))),
        Err(reason) => Some(fail(
            TITLE,
            reason,
            "name files with certificates in PEM form in egress.ca_certificates, and let the daemon's user read them",
        )),
    }
}

/// A size to one decimal place at most, for people.
pub(super) fn rounded(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x10_0000 => return ByteSize(bytes).to_string(),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let tenths = u128::from(bytes) * 10 / unit;
    match tenths % 10 {
        0 => format!("{}{name}", tenths / 10),
        tenth => format!("{}.{tenth}{name}", tenths / 10),
    }
}
