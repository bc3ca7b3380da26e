//! What the settings of Kubernetes must be, alone and with others.

use super::{Layers, Sections, faults};
use crate::units::AgentTransport;

/// What a taint does.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn check(config: &Sections, layers: &mut Layers<'_>) {
    let kubernetes = &config.kubernetes;
    if !kubernetes.enabled {
        return;
    }
    if config.swarm.enabled {
        let what = "workers run on a swarm or on Kubernetes, and swarm.enabled is true";
        layers.fault("kubernetes.enabled", what, "set one of the two to false");
    }
    if config.worker.agent_transport == AgentTransport::Unix {
        let what = "unix shares a folder, and Pods are on other hosts";
        layers.fault("worker.agent_transport", what, "set tcp or auto, or kubernetes.enabled = false");
    }
    if config.docker.runtime.is_some() {
        let what = "Pods are not made by the engine of this host";
        layers.fault("docker.runtime", what, "name a runtime class in kubernetes.runtime_class, and unset this");
    }
    if config.docker.selinux_type.is_some() {
        let what = "nodes' own container runtimes label the workers of a cluster";
        layers.fault("docker.selinux_type", what, "unset it");
    }
    if config.worker.page_out_after.is_some() {
        let what = "the daemon cannot write the control groups of other nodes";
        layers.fault("worker.page_out_after", what, "unset it, or set kubernetes.enabled = false");
    }
    if kubernetes.kubeconfig.is_none() && kubernetes.context.is_some() {
        let what = "is a context of no file: kubernetes.kubeconfig is unset";
        layers.fault("kubernetes.context", what, "name the kubeconfig, or unset this");
    }
    for (name, object) in [
        ("kubernetes.namespace", kubernetes.namespace.as_deref()),
        ("kubernetes.owner", kubernetes.owner.as_deref()),
        ("kubernetes.priority_class", kubernetes.priority_class.as_deref()),
        ("kubernetes.runtime_class", kubernetes.runtime_class.as_deref()),
    ] {
        let what =
            object.filter(|object| !is_name(object)).map(|object| format!("{object:?} is not a name of an object"));
        faults(layers, name, "write lower-case letters, digits, `-` and `.`", what);
    }
    let what = kubernetes.image_pull_secrets.iter().filter(|name| !is_name(name));
    let what = what.map(|name| format!("{name:?} is not a name of a secret"));
    faults(layers, "kubernetes.image_pull_secrets", "write lower-case letters, digits, `-` and `.`", what);
    let what =
        kubernetes.node_selector.iter().filter(|entry| entry.split_once('=').is_none_or(|(name, _)| !is_key(name)));
    let what = what.map(|entry| format!("{entry:?} is not a label of a node"));
    faults(layers, "kubernetes.node_selector", "write name=value, such as pool=browsers", what);
    let what = kubernetes.tolerations.iter().filter(|entry| !is_toleration(entry));
    let what = what.map(|entry| format!("{entry:?} is not a toleration"));
    let remedy = "write key=value:Effect, key:Effect or key, with the effect NoSchedule, PreferNoSchedule or NoExecute";
    faults(layers, "kubernetes.tolerations", remedy, what);
    let what = (!is_key(&kubernetes.spread_over)).then(|| format!("{:?} is not a label", kubernetes.spread_over));
    faults(
        layers,
        "kubernetes.spread_over",
        "write the name of a node's label, such as topology.kubernetes.io/zone",
        what,
    );
    let profile = &kubernetes.seccomp_profile;
    let leaves = profile.is_empty() || profile.starts_with('/') || profile.split('/').any(|part| part == "..");
    let what = leaves.then(|| format!("{profile:?} is not a path below the kubelet's folder"));
    faults(layers, "kubernetes.seccomp_profile", "write a path such as warmpool.json", what);
    if layers.sound(&["kubernetes.lease", "kubernetes.timeout"]) && kubernetes.timeout * 3 > kubernetes.lease {
        let what = "is more than a third of kubernetes.lease: a request could end after another daemon has taken over";
        layers.fault("kubernetes.timeout", what, "lower it, or raise kubernetes.lease");
    }
    if layers.sound(&["kubernetes.lease", "worker.orphan_timeout"]) && kubernetes.lease >= config.worker.orphan_timeout
    {
        let what = "workers end before another daemon may take them over, by worker.orphan_timeout";
        layers.fault("kubernetes.lease", what, "lower it, or raise worker.orphan_timeout");
    }
}

/// Whether an object may have this name.
fn is_name(text: &str) -> bool {
    let inside = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit();
    (1..=253).contains(&text.len())
        && text.starts_with(inside)
        && text.ends_with(inside)
        && text.chars().all(|sign| inside(sign) || matches!(sign, '-' | '.'))
}

/// Whether a label or a taint may have this name.
fn is_key(text: &str) -> bool {
    let name = match text.split_once('/') {
        Some((domain, name)) if is_name(domain) => name,
        Some(_) => return false,
        None => text,
    };
    (1..=63).contains(&name.len())
        && name.starts_with(|sign: char| sign.is_ascii_alphanumeric())
        && name.ends_with(|sign: char| sign.is_ascii_alphanumeric())
        && name.chars().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.'))
}

fn is_toleration(text: &str) -> bool {
    let taint = match text.rsplit_once(':') {
        Some((taint, effect)) if EFFECTS.contains(&effect) => taint,
        Some(_) => return false,
        None => text,
    };
    is_key(taint.split_once('=').map_or(taint, |(key, _)| key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_taints_are_read_as_the_cluster_reads_them() {
        for (text, wanted) in
            [("warmpool", true), ("a.b-c", true), ("-a", false), ("A", false), ("", false), ("a b", false)]
        {
            assert_eq!(is_name(text), wanted, "{text}");
        }
        for (text, wanted) in [
            ("pool", true),
            ("topology.kubernetes.io/zone", true),
            ("Bad.Domain/zone", false),
            ("a/b/c", false),
            ("", false),
        ] {
            assert_eq!(is_key(text), wanted, "{text}");
        }
        for (text, wanted) in [
            ("dedicated=browsers:NoSchedule", true),
            ("dedicated:NoExecute", true),
            ("dedicated", true),
            ("dedicated:Never", false),
            (":NoSchedule", false),
        ] {
            assert_eq!(is_toleration(text), wanted, "{text}");
        }
    }
}
