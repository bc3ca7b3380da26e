//! The Pod that a worker gets: the hardened profile, as the Pod security standard "restricted" asks for it, and more.
//!
//! - It is bare: no controller makes it anew, and the lease of this instance owns it.
//! - The seccomp profile is a file of the node, since an API server takes none. `RuntimeDefault` would not do: it refuses the user
//!   namespaces of which browsers' own sandbox is made, and the network that the agent makes for itself.
//! - A node that is not ready drives it out only when the operator does: a kubelet that restarts ends no session. Whether the node
//!   is lost, the silence of its agents says.
//! - The number of processes and the size of core dumps are not among what a Pod can ask for. The first is tried on each node, and
//!   the agent sets the second.

use serde_json::{Map, Value, json};

use super::{Kubernetes, nodes};
use crate::cluster::probe::RUN_TIMEOUT;
use crate::container::hex_name;
use crate::docker::{LEAVE_NETWORK, NO_NAME_SERVER};
use crate::{WorkerSpec, labels};
use warmpool_config::{Config, PullPolicy};
use warmpool_core::ids::WorkerId;
use warmpool_protocol::{WORKER_HOME, WORKER_USER};

/// Label of what a Pod is for.
pub(super) const LABEL_ROLE: &str = "warmpool.role";
/// Its value for workers.
pub(super) const WORKER: &str = "worker";
/// Its value for renderers.
pub(super) const RENDERER: &str = "renderer";
/// Its value for probes.
const PROBE: &str = "probe";
/// Label of workers that sessions have.
const LABEL_LEASED: &str = "warmpool.leased";
/// Whether cluster-autoscaler may end a Pod. Without a word it would never take a node away from a bare Pod.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// What keeps autoscalers from ending a Pod; only workers that sessions have ask for it.
const KEEP: [(&str, &str); 2] = [("karpenter.sh/do-not-disrupt", "true"), (SAFE_TO_EVICT, "false")];
/// Where the kubelet takes the last words of a probe from.
pub(super) const LAST_WORDS: &str = "/dev/termination-log";
/// The same of every other container, which has none: the kubelet mounts a file of the node's disk there that everybody may write to
/// without limit, and a worker's user does not get into this folder of the image's.
const NO_LAST_WORDS: &str = "/var/cache/ldconfig/termination-log";
/// The container of a Pod. Others may inject more beside it.
pub(super) const CONTAINER: &str = "worker";
/// More than there ever are Pods: none may be evicted.
const ALL_PODS: i32 = 1_000_000;

/// The object that owns all that this instance makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub api: &'static str,
    pub kind: &'static str,
    pub name: String,
    pub uid: String,
}

impl Owner {
    pub(super) fn reference(&self) -> Value {
        let Self { api, kind, name, uid } = self;
        json!({ "apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": false, "blockOwnerDeletion": false })
    }
}

/// The name of the Pod that is a worker's `attempt`th.
pub(super) fn name(worker: &WorkerId, attempt: usize) -> String {
    // Ids have capital letters and signs, names of Pods have neither.
    format!("{}-{attempt}", hex_name(worker))
}

/// What finds the workers of an instance.
pub(super) fn workers_of(instance: &str) -> String {
    format!("{},{LABEL_ROLE}={WORKER}", labels::owned_by(instance))
}

/// What finds the workers of all instances.
pub(super) fn all_workers() -> String {
    format!("{LABEL_ROLE}={WORKER}")
}

/// What finds the probes of an instance.
pub(super) fn probes_of(instance: &str) -> String {
    format!("{},{LABEL_ROLE}={PROBE}", labels::owned_by(instance))
}

/// What finds the Pods of a worker.
pub(super) fn of_worker(worker: &WorkerId) -> String {
    format!("{}={worker}", labels::WORKER)
}

/// The change of a worker that a session gets.
pub(super) fn leased() -> Value {
    let annotations: Map<String, Value> = KEEP.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({ "metadata": { "labels": { LABEL_LEASED: "true" }, "annotations": annotations } })
}

/// The budget that keeps workers that sessions have from eviction, as when a node is drained by others.
pub(super) fn budget(name: &str, instance: &str, owner: &Owner, api: &str) -> Value {
    json!({
        "apiVersion": api,
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": name,
            "labels": { labels::INSTANCE: instance },
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            "minAvailable": ALL_PODS,
            "selector": { "matchLabels": { labels::INSTANCE: instance, LABEL_LEASED: "true" } },
        },
    })
}

impl Kubernetes {
    /// The Pod of a worker, for other nodes than these.
    pub(super) fn worker_pod(
        &self,
        name: &str,
        spec: &WorkerSpec,
        image: &str,
        left_out: &[String],
        owner: Option<&Owner>,
    ) -> Value {
        let config = &self.config;
        let mut labels = labels::of_worker(&self.instance, spec);
        labels.insert(LABEL_ROLE.to_owned(), WORKER.to_owned());
        let sizes = Sizes::of_worker(config);
        let container = container(config, image, &sizes, Some(config.reserved_cpus()));
        let mut pod = pod(config, name, json!(labels), owner, &sizes, container);
        // Until a session has it, nothing is lost with it: see `leased`.
        pod["metadata"]["annotations"] = json!({ labels::IMAGE: image, SAFE_TO_EVICT: "true" });
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": config.kubernetes.spread_over,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { labels::INSTANCE: &*self.instance, LABEL_ROLE: WORKER } },
        }]);
        leave_out(&mut pod, left_out);
        pod
    }

    /// The Pod of a probe: as a worker's, on this one node, with this command. It requests nothing, so that it also runs where
    /// nothing is left to give away.
    pub(super) fn probe_pod(
        &self,
        name: &str,
        image: &str,
        node: &str,
        command: &[String],
        owner: Option<&Owner>,
    ) -> Value {
        let config = &self.config;
        let labels = json!({ labels::INSTANCE: &*self.instance, labels::PROBE: &*self.instance, LABEL_ROLE: PROBE });
        let sizes = Sizes::of_worker(config);
        let mut container = container(config, image, &sizes, None);
        container["command"] = json!(command);
        container["terminationMessagePath"] = json!(LAST_WORDS);
        let mut pod = pod(config, name, labels, owner, &sizes, container);
        pod["metadata"]["annotations"] = json!({ SAFE_TO_EVICT: "true" });
        pod["spec"]["activeDeadlineSeconds"] = json!(config.kubernetes.start_timeout.as_secs() + RUN_TIMEOUT.as_secs());
        pod["spec"]["affinity"] = affinity(&[json!({ "key": "metadata.name", "operator": "In", "values": [node] })]);
        // The image closes its shell to the worker's user, and not to this group.
        pod["spec"]["securityContext"]["supplementalGroups"] = json!([0]);
        pod
    }
}

/// How much of its node a Pod may have: sizes in bytes, and cores, where 0 sets no limit.
pub(super) struct Sizes {
    pub memory: u64,
    pub tmp: u64,
    pub shm: u64,
    pub cpus: f64,
}

impl Sizes {
    fn of_worker(config: &Config) -> Self {
        let worker = &config.worker;
        Self { memory: worker.memory.bytes(), tmp: worker.tmp.bytes(), shm: worker.shm.bytes(), cpus: worker.cpus }
    }
}

/// Keeps a Pod from these nodes.
pub(super) fn leave_out(pod: &mut Value, nodes: &[String]) {
    // A field takes one value at a time.
    let not_there = nodes.iter().map(|node| json!({ "key": "metadata.name", "operator": "NotIn", "values": [node] }));
    let not_there: Vec<Value> = not_there.collect();
    if !not_there.is_empty() {
        pod["spec"]["affinity"] = affinity(&not_there);
    }
}

fn affinity(fields: &[Value]) -> Value {
    let terms = json!([{ "matchFields": fields }]);
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } })
}

/// A Pod of one container, as walled in as it can be.
pub(super) fn pod(
    config: &Config,
    name: &str,
    labels: Value,
    owner: Option<&Owner>,
    sizes: &Sizes,
    container: Value,
) -> Value {
    let kubernetes = &config.kubernetes;
    let in_memory = |name: &str, size: u64| json!({ "name": name, "emptyDir": { "medium": "Memory", "sizeLimit": size.to_string() } });
    let mut spec = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": kubernetes.termination_grace.as_secs(),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "hostname": "worker",
        "dnsPolicy": "None",
        "dnsConfig": { "nameservers": [NO_NAME_SERVER] },
        "nodeSelector": node_selector(config),
        "tolerations": tolerations(config),
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": WORKER_USER,
            "runAsGroup": WORKER_USER,
            "seccompProfile": { "type": "Localhost", "localhostProfile": kubernetes.seccomp_profile },
        },
        "containers": [container],
        "volumes": [
            in_memory("tmp", sizes.tmp),
            in_memory("home", sizes.tmp),
            in_memory("shm", sizes.shm),
        ],
    });
    if let Some(class) = &kubernetes.priority_class {
        spec["priorityClassName"] = json!(class);
    }
    if let Some(class) = &kubernetes.runtime_class {
        spec["runtimeClassName"] = json!(class);
    }
    if !kubernetes.image_pull_secrets.is_empty() {
        let secrets: Vec<Value> = kubernetes.image_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
        spec["imagePullSecrets"] = json!(secrets);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": labels,
            // None where no daemon runs, as for `warmpool doctor`, which removes what it makes.
            "ownerReferences": owner.map(Owner::reference).into_iter().collect::<Vec<Value>>(),
        },
        "spec": spec,
    })
}

/// The container of a Pod. With `reserved` cores it requests these and its memory, otherwise nothing.
pub(super) fn container(config: &Config, image: &str, sizes: &Sizes, reserved: Option<f64>) -> Value {
    let policy = match config.kubernetes.pull_policy {
        // A node without it would pull whatever a public registry has under the name.
        _ if !nodes::is_pullable(image) => "Never",
        PullPolicy::Always => "Always",
        PullPolicy::IfNotPresent => "IfNotPresent",
        PullPolicy::Never => "Never",
    };
    let memory = sizes.memory.to_string();
    let mut limits = json!({ "memory": memory });
    if sizes.cpus > 0.0 {
        limits["cpu"] = json!(millicores(sizes.cpus));
    }
    // What a Pod does not request, it would request as much of as it is limited to.
    let requested = match reserved {
        Some(cores) => json!({ "memory": memory, "cpu": millicores(cores) }),
        None => json!({ "memory": "0", "cpu": "0" }),
    };
    let (leave, yes) = LEAVE_NETWORK.split_once('=').unwrap_or((LEAVE_NETWORK, ""));
    json!({
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": policy,
        "terminationMessagePath": NO_LAST_WORDS,
        "env": [{ "name": "HOME", "value": WORKER_HOME }, { "name": leave, "value": yes }],
        "resources": { "limits": limits, "requests": requested },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
        "volumeMounts": [
            { "name": "tmp", "mountPath": "/tmp" },
            { "name": "home", "mountPath": WORKER_HOME },
            { "name": "shm", "mountPath": "/dev/shm" },
        ],
    })
}

/// A number of cores as the cluster wants it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of cores times 1e3 fits")]
fn millicores(cores: f64) -> String {
    format!("{}m", (cores * 1e3).round() as u64)
}

/// The labels that a worker's node must have.
pub(super) fn node_selector(config: &Config) -> Map<String, Value> {
    let pairs = config.kubernetes.node_selector.iter().filter_map(|entry| entry.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

/// The taints that workers tolerate.
pub(super) fn tolerations(config: &Config) -> Vec<Value> {
    let own = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .map(|key| json!({ "key": key, "operator": "Exists", "effect": "NoExecute" }));
    let configured = config.kubernetes.tolerations.iter().map(|entry| {
        let (taint, effect) =
            entry.rsplit_once(':').map_or((entry.as_str(), None), |(taint, effect)| (taint, Some(effect)));
        let mut toleration = match taint.split_once('=') {
            Some((key, value)) => json!({ "key": key, "operator": "Equal", "value": value }),
            None => json!({ "key": taint, "operator": "Exists" }),
        };
        if let Some(effect) = effect {
            toleration["effect"] = json!(effect);
        }
        toleration
    });
    own.into_iter().chain(configured).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use warmpool_config::{Flags, Host};
    use warmpool_core::browser::{Engine, Mode, PoolKey};

    fn cluster(settings: &[(&str, &str)]) -> Kubernetes {
        let flags = settings
            .iter()
            .fold(Flags::default().with("kubernetes.enabled", "true"), |flags, (name, text)| flags.with(name, *text));
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        Kubernetes::new(Arc::new(Config::resolve(None, [], &flags, &host).unwrap()), "0a1b".to_owned())
    }

    fn owner() -> Owner {
        Owner { api: "coordination.k8s.io/v1", kind: "Lease", name: "warmpool-0a1b".to_owned(), uid: "u1".to_owned() }
    }

    fn worker(settings: &[(&str, &str)], left_out: &[&str]) -> Value {
        worker_of(settings, "registry.example/i@sha256:1", left_out)
    }

    fn worker_of(settings: &[(&str, &str)], image: &str, left_out: &[&str]) -> Value {
        let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
        let spec = WorkerSpec { worker: WorkerId::from("wAb_-9"), key, image: "i".to_owned() };
        let left_out: Vec<String> = left_out.iter().map(|node| (*node).to_owned()).collect();
        cluster(settings).worker_pod(&name(&spec.worker, 0), &spec, image, &left_out, Some(&owner()))
    }

    #[test]
    fn a_worker_is_as_restricted_as_the_standard_asks() {
        let pod = worker(&[], &[]);
        let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u1");
        assert_eq!(pod["metadata"]["labels"]["warmpool.worker"], "wAb_-9");
        assert_eq!(pod["metadata"]["name"], "warmpool-774162 5f2d39-0".replace(' ', ""));
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(spec["enableServiceLinks"], false);
        for host in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(spec[host].is_null(), "{host}");
        }
        let user = &spec["securityContext"];
        assert_eq!((&user["runAsNonRoot"], &user["runAsUser"]), (&json!(true), &json!(61_000)));
        assert_eq!(user["seccompProfile"], json!({ "type": "Localhost", "localhostProfile": "warmpool.json" }));
        assert!(user["supplementalGroups"].is_null());
        assert_eq!(
            container["securityContext"],
            json!({
                "allowPrivilegeEscalation": false,
                "privileged": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            })
        );
        assert_eq!(container["resources"]["limits"], json!({ "memory": "2147483648", "cpu": "2000m" }));
        let volumes = spec["volumes"].as_array().unwrap();
        assert!(volumes.len() == 3 && volumes.iter().all(|volume| volume["emptyDir"]["medium"] == "Memory"));
        assert!(
            container["env"].as_array().unwrap().contains(&json!({ "name": "WARMPOOL_LEAVE_NETWORK", "value": "yes" }))
        );
        assert!(spec["terminationGracePeriodSeconds"].as_u64().unwrap() > 0, "gone would say nothing");
    }

    #[test]
    fn settings_say_where_a_worker_may_run() {
        let pod = worker(
            &[
                ("kubernetes.node_selector", "pool=browsers"),
                ("kubernetes.tolerations", "dedicated=browsers:NoSchedule,spot"),
                ("kubernetes.spread_over", "topology.kubernetes.io/zone"),
                ("kubernetes.reserved_cpus", "0.25"),
                ("kubernetes.image_pull_secrets", "registry"),
                ("kubernetes.priority_class", "browsers"),
                ("kubernetes.pull_policy", "never"),
            ],
            &["n1", "n2"],
        );
        let spec = &pod["spec"];
        assert_eq!(spec["nodeSelector"], json!({ "pool": "browsers" }));
        let tolerations = spec["tolerations"].as_array().unwrap();
        let dedicated = json!({ "key": "dedicated", "operator": "Equal", "value": "browsers", "effect": "NoSchedule" });
        assert_eq!(tolerations[2..], [dedicated, json!({ "key": "spot", "operator": "Exists" })]);
        assert!(tolerations.iter().all(|toleration| toleration["tolerationSeconds"].is_null()));
        assert_eq!(spec["topologySpreadConstraints"][0]["topologyKey"], "topology.kubernetes.io/zone");
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "250m");
        assert_eq!(spec["containers"][0]["imagePullPolicy"], "Never");
        assert_eq!(spec["imagePullSecrets"], json!([{ "name": "registry" }]));
        assert_eq!(spec["priorityClassName"], "browsers");
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let fields = required["nodeSelectorTerms"][0]["matchFields"].as_array().unwrap();
        assert!(fields.len() == 2 && fields.iter().all(|field| field["values"].as_array().unwrap().len() == 1));
    }

    #[test]
    fn what_has_neither_registry_nor_digest_is_never_pulled() {
        for (image, setting, policy) in [
            ("warmpool/chromium:latest", "if_not_present", "Never"),
            ("warmpool/chromium:latest", "always", "Never"),
            ("warmpool/chromium@sha256:1", "if_not_present", "IfNotPresent"),
            ("registry.example/chromium:1", "if_not_present", "IfNotPresent"),
            ("registry.example/chromium:1", "always", "Always"),
        ] {
            let pod = worker_of(&[("kubernetes.pull_policy", setting)], image, &[]);
            assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}, {setting}");
        }
    }

    #[test]
    fn only_a_probe_has_last_words() {
        let path = |pod: &Value| pod["spec"]["containers"][0]["terminationMessagePath"].clone();
        assert_eq!(path(&worker(&[], &[])), NO_LAST_WORDS);
        assert_eq!(path(&cluster(&[]).probe_pod("p", "i", "n1", &[], None)), LAST_WORDS);
    }

    #[test]
    fn a_probe_is_as_a_worker_but_for_its_command() {
        let probe = cluster(&[]).probe_pod("p", "i", "n1", &["/bin/sh".to_owned()], Some(&owner()));
        let worker = worker(&[], &[]);
        for part in ["volumes", "dnsConfig", "tolerations", "automountServiceAccountToken"] {
            assert_eq!(probe["spec"][part], worker["spec"][part], "{part}");
        }
        let (probed, run) = (&probe["spec"]["containers"][0], &worker["spec"]["containers"][0]);
        for part in ["securityContext", "volumeMounts"] {
            assert_eq!(probed[part], run[part], "{part}");
        }
        assert_eq!(probed["resources"]["limits"], run["resources"]["limits"]);
        assert_eq!(probed["resources"]["requests"]["memory"], "0");
    }

    #[test]
    fn only_what_a_session_has_is_kept_from_autoscalers() {
        // Of bare Pods, cluster-autoscaler ends those alone that say so.
        let warm = worker(&[], &[])["metadata"]["annotations"].clone();
        assert_eq!(warm, json!({ "warmpool.image": "registry.example/i@sha256:1", SAFE_TO_EVICT: "true" }));
        let probe = cluster(&[]).probe_pod("p", "i", "n1", &[], None);
        assert_eq!(probe["metadata"]["annotations"], json!({ SAFE_TO_EVICT: "true" }));
        let change = leased();
        assert_eq!(change["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"], "true");
        assert_eq!(change["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false");
        let budget = budget("b", "0a1b", &owner(), "policy/v1");
        let wanted = &budget["spec"]["selector"]["matchLabels"];
        assert_eq!(wanted["warmpool.leased"], change["metadata"]["labels"]["warmpool.leased"]);
        assert_eq!(wanted["warmpool.instance"], "0a1b");
    }
}
