//! What workers require of a node: compares what a container there says of itself with what it should say.

use std::collections::HashMap;

use crate::MissingRequirement;
use warmpool_config::Config;
use warmpool_protocol::WORKER_USER;

/// The last fact of a report that is whole: the hash of the others.
const HASH: &str = "Hash";
/// What the kernel says in place of a number.
const NO_LIMIT: &str = "max";

/// What mends it, where that is the kernel's affair alone.
const USER_NAMESPACES: &str = "set kernel.unprivileged_userns_clone=1 and user.max_user_namespaces=15000 by sysctl on the node, and \
                               kernel.apparmor_restrict_unprivileged_userns=0 where it has that; the seccomp profile must be ours";
const NO_SWAP: &str = "run `swapoff -a` on the node, and take swap out of its /etc/fstab";

/// What a cluster cannot ask its nodes for, and how an operator mends each.
pub(crate) struct Remedies {
    no_new_privileges: &'static str,
    seccomp: &'static str,
    /// Of all else that the engine or the kubelet there sees to.
    engine: &'static str,
    controller: &'static str,
    pids: &'static str,
    /// What the cluster has no means to ask for, so that only a warning is due where it is missing: sizes of tmpfs, which count
    /// towards memory anyway.
    only_asked_for: bool,
    tmpfs: &'static str,
    /// None where the cluster has no means to ask for it either; the agent sets this limit, too.
    core: Option<&'static str>,
}

const SWARM_ENGINE: &str = "use an engine with Docker's API 1.41 or newer on the node, and runc as its runtime";
const CONTROLLER: &str =
    "have the node's kernel count it: the engine needs the controllers `memory` and `pids` of control groups";

const SWARM: Remedies = Remedies {
    no_new_privileges: "add \"no-new-privileges\": true to /etc/docker/daemon.json on the node, and restart its engine",
    seccomp: "put worker-image/seccomp.json on the node as /etc/docker/warmpool-seccomp.json, add \"seccomp-profile\": \
              \"/etc/docker/warmpool-seccomp.json\" to /etc/docker/daemon.json there, and restart its engine",
    engine: SWARM_ENGINE,
    controller: CONTROLLER,
    pids: CONTROLLER,
    only_asked_for: false,
    tmpfs: SWARM_ENGINE,
    core: Some(SWARM_ENGINE),
};

const KUBERNETES_ENGINE: &str =
    "use containerd, CRI-O or cri-dockerd with runc on the node, and a kubelet of 1.20 or newer";

const KUBERNETES: Remedies = Remedies {
    no_new_privileges: KUBERNETES_ENGINE,
    seccomp: "put worker-image/seccomp.json on the node below the kubelet's folder, as /var/lib/kubelet/seccomp/ and the path in \
              kubernetes.seccomp_profile",
    engine: KUBERNETES_ENGINE,
    controller: CONTROLLER,
    pids: "set podPidsLimit in the kubelet's configuration to worker.pids or little more, or raise kubernetes.max_pids; 0 accepts \
           any number",
    only_asked_for: true,
    tmpfs: "use a kubelet of 1.22 or newer, which sizes volumes in memory",
    core: None,
};

/// The facts of one container, by name.
pub(crate) struct Report<'a>(HashMap<&'a str, &'a str>);

impl<'a> Report<'a> {
    /// Reads what the probe printed; none while its end is missing, or where the image has nothing to hash with.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let facts = text.lines().filter_map(|line| line.split_once(':')).map(|(name, fact)| (name.trim(), fact.trim()));
        let facts: HashMap<_, _> = facts.collect();
        facts.get(HASH).is_some_and(|hash| !hash.is_empty()).then_some(Self(facts))
    }

    /// What tells this report from others.
    pub(crate) fn hash(&self) -> &'a str {
        self.fact(HASH)
    }

    fn fact(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }

    fn first(&self, name: &str) -> &'a str {
        self.fact(name).split_whitespace().next().unwrap_or_default()
    }

    /// A mount's type and options.
    fn mount(&self, at: &str) -> Vec<&'a str> {
        self.fact(&format!("Mount {at}")).split(',').collect()
    }

    /// The size of a file system in memory, in bytes; none without a limit.
    fn size(&self, at: &str) -> Option<u64> {
        let size = self.mount(at).into_iter().find_map(|option| option.strip_prefix("size="))?;
        let (number, unit) = size.split_at(size.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(size.len()));
        let shift = match unit {
            "" => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            _ => return None,
        };
        number.parse::<u64>().ok().map(|number| number << shift)
    }

    /// A limit of the control group; none where there is none.
    fn limit(&self, name: &str) -> Option<u64> {
        Some(self.fact(name)).filter(|limit| *limit != NO_LIMIT)?.parse().ok()
    }
}

/// What the configuration gives a worker, sizes in bytes.
pub(crate) struct NodeRequirements {
    memory: u64,
    tmp: u64,
    shm: u64,
    /// How many processes a worker may have at most; none where any number will do.
    pids: Option<u64>,
    /// Whether browsers keep their own sandbox.
    sandbox: bool,
    remedies: &'static Remedies,
}

impl NodeRequirements {
    /// What is wanted of a node of a swarm.
    pub(crate) fn of_swarm(config: &Config) -> Self {
        Self::new(config, Some(config.worker.pids), &SWARM)
    }

    /// What is wanted of a node of Kubernetes.
    pub(crate) fn of_kubernetes(config: &Config) -> Self {
        Self::new(config, config.most_pids(), &KUBERNETES)
    }

    fn new(config: &Config, pids: Option<u32>, remedies: &'static Remedies) -> Self {
        let worker = &config.worker;
        Self {
            memory: worker.memory.bytes(),
            tmp: worker.tmp.bytes(),
            shm: worker.shm.bytes(),
            pids: pids.map(u64::from),
            sandbox: worker.sandbox,
            remedies,
        }
    }
}

/// The requirements that the report does not meet.
pub(crate) fn judge(report: &Report<'_>, wanted: &NodeRequirements) -> Vec<MissingRequirement> {
    let remedies = wanted.remedies;
    let mut missing = Vec::new();
    let mut note = |holds: bool, needed: bool, what: &str, remedy: &str| {
        if !holds {
            missing.push(MissingRequirement { what: what.to_owned(), remedy: remedy.to_owned(), needed });
        }
    };
    let filtered = report.first("Seccomp") == "2";
    note(report.first("NoNewPrivs") == "1", true, "no_new_privs is off", remedies.no_new_privileges);
    note(filtered, true, "no seccomp profile holds", remedies.seccomp);
    // Docker's own profile refuses them, and so may the kernel.
    let namespaces = if filtered { remedies.seccomp } else { USER_NAMESPACES };
    let sandboxed = !wanted.sandbox || report.first("UserNamespaces") == "usable";
    note(sandboxed, true, "user namespaces, which browsers' own sandbox is made of, cannot be used", namespaces);
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        let empty = report.first(set).bytes().all(|digit| digit == b'0') && !report.first(set).is_empty();
        note(empty, true, &format!("the capability set {set} is not empty"), remedies.engine);
    }
    let user = report.fact("Uid").split_whitespace().all(|id| id.parse() == Ok(WORKER_USER));
    note(user, true, &format!("the user is not {WORKER_USER}"), remedies.engine);
    note(report.mount("/").contains(&"ro"), true, "the root can be written", remedies.engine);
    for (at, most) in [("/tmp", wanted.tmp), ("/dev/shm", wanted.shm)] {
        let in_memory = report.mount(at).contains(&"tmpfs");
        note(in_memory, true, &format!("{at} is not in memory"), remedies.engine);
        // The kernel rounds up to whole pages.
        let sized = !in_memory || report.size(at).is_some_and(|size| size <= most + (64 << 10));
        let what = format!("{at} is not limited to what worker.tmp or worker.shm says");
        note(sized, !remedies.only_asked_for, &what, remedies.tmpfs);
    }
    if let Some(remedy) = remedies.core {
        note(report.first("Core") == "0", true, "core dumps are on", remedy);
    }
    let pids = wanted.pids.is_none_or(|most| {
        // A limit of a group above is not seen in the worker's own, and is tried.
        report.limit("Pids").is_some_and(|limit| limit <= most) || report.first("Processes") == "limited"
    });
    note(pids, true, "the number of processes is not limited", remedies.pids);
    let memory = report.limit("Memory").is_some_and(|limit| limit <= wanted.memory);
    note(memory, true, "memory is not limited", remedies.controller);
    let none_on_node = report.first("SwapTotal") == "0";
    let none_allowed = report.limit("MemorySwap") == Some(0)
        || report.limit("MemoryAndSwap").is_some_and(|limit| limit <= wanted.memory);
    let what = "the node swaps, so a worker may take more than worker.memory";
    note(none_on_node || none_allowed, false, what, NO_SWAP);
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
Uid:\t61000\t61000\t61000\t61000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Core:        0                    0                    bytes
Mount /: overlay,ro,relatime
Mount /tmp: tmpfs,rw,nosuid,nodev,noexec,relatime,size=8k
Mount /dev/shm: tmpfs,rw,nosuid,nodev,noexec,relatime,size=8k
Pids: 16
Memory: 1048576
SwapTotal:             0 kB
UserNamespaces: usable
Hash: 5f2b
";

    fn missing(text: &str) -> Vec<MissingRequirement> {
        found(text, &SWARM)
    }

    fn found(text: &str, remedies: &'static Remedies) -> Vec<MissingRequirement> {
        let wanted =
            NodeRequirements { memory: 1 << 20, tmp: 8 << 10, shm: 8 << 10, pids: Some(16), sandbox: true, remedies };
        judge(&Report::read(text).unwrap(), &wanted)
    }

    #[test]
    fn a_node_as_it_should_be_lacks_nothing() {
        assert_eq!(missing(GOOD), []);
    }

    #[test]
    fn each_gap_is_named_with_what_mends_it() {
        for (from, to, what, remedy) in [
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "no_new_privs", "\"no-new-privileges\": true"),
            ("Seccomp:\t2", "Seccomp:\t0", "seccomp", "seccomp-profile"),
            ("usable", "refused", "user namespaces", "seccomp-profile"),
            ("CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb", "CapBnd", "API 1.41"),
            ("Uid:\t61000", "Uid:\t0", "user", "API 1.41"),
            ("overlay,ro,", "overlay,rw,", "root", "API 1.41"),
            (
                "/tmp: tmpfs,rw,nosuid,nodev,noexec,relatime,size=8k",
                "/tmp: tmpfs,rw",
                "/tmp is not limited",
                "API 1.41",
            ),
            ("/dev/shm: tmpfs", "/dev/shm: overlay", "/dev/shm", "API 1.41"),
            ("Core:        0", "Core:        unlimited", "core dumps", "API 1.41"),
            ("Pids: 16", "Pids: max", "processes", "pids"),
            ("Memory: 1048576\n", "", "memory", "memory"),
            ("SwapTotal:             0", "SwapTotal:        1024", "swaps", "swapoff"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let found = missing(&GOOD.replace(from, to));
            assert_eq!(found.len(), 1, "{to}: {found:?}");
            assert!(found[0].what.contains(what) && found[0].remedy.contains(remedy), "{to}: {found:?}");
            assert_eq!(found[0].needed, what != "swaps");
        }
    }

    #[test]
    fn what_kubernetes_cannot_ask_for_is_told_and_keeps_no_worker_away() {
        assert_eq!(found(GOOD, &KUBERNETES), []);
        for (from, to, needed) in [
            ("size=8k", "size=9999k", false),
            ("Pids: 16", "Pids: max", true),
            ("Pids: 16", "Pids: max\nProcesses: unlimited", true),
            ("/tmp: tmpfs", "/tmp: ext4", true),
            ("Seccomp:\t2", "Seccomp:\t0", true),
        ] {
            let missing = found(&GOOD.replacen(from, to, 1), &KUBERNETES);
            assert_eq!(missing.iter().map(|gap| gap.needed).collect::<Vec<_>>(), [needed], "{to}: {missing:?}");
        }
        for (from, to) in [("Pids: 16", "Pids: max\nProcesses: limited"), ("Core:        0", "Core:        unlimited")]
        {
            assert_eq!(found(&GOOD.replace(from, to), &KUBERNETES), []);
        }
    }

    #[test]
    fn half_a_report_is_none() {
        assert!(Report::read(GOOD.strip_suffix("Hash: 5f2b\n").unwrap()).is_none());
    }
}
