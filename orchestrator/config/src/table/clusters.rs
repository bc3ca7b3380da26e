//! The settings of the clusters that workers may run on.

use std::{path::PathBuf, time::Duration};

use super::super::{
    layers::Layers,
    setting::{DefaultValue, Setting},
    settings::settings,
    units::PullPolicy,
    value::Value,
};

use DefaultValue::{Is, Unset};

settings! {
    /// Workers on the nodes of a Docker Swarm instead of containers on this host. The engine at `docker.host` must be a manager.
    swarm: Swarm {
        /// Whether workers run as services of the swarm.
        enabled: bool = Is("false");
        /// Placement constraints for workers, such as `node.role==worker`; all of them must hold.
        constraints: Vec<String> = Unset("node.role==worker");
        /// Placement constraints for Chromium workers only.
        chromium_constraints: Vec<String> = Unset("node.labels.browser==chromium");
        /// Placement constraints for Firefox workers only.
        firefox_constraints: Vec<String> = Unset("node.labels.browser==firefox");
        /// Placement constraints for WebKit workers only.
        webkit_constraints: Vec<String> = Unset("node.labels.browser==webkit");
        /// Node label whose values workers are spread over evenly.
        spread_over: Option<String> = Unset("node.labels.rack");
        /// Registry that requires a password, as image names give it.
        registry: Option<String> = Unset("registry.example:5000");
        /// User name at the registry.
        registry_user: Option<String> = Unset("warmpool");
        /// File with the password at the registry. It is read for each worker, so it may change.
        registry_password_file: Option<PathBuf> = Unset("/run/secrets/warmpool-registry");
        /// Cores that a worker reserves on its node; worker.cpus when unset, and 0 reserves none. Memory is reserved as
        /// worker.memory says.
        reserved_cpus: Option<f64> = Unset("0.5"), min "0";
        /// Timeout for Swarm to assign a worker to a node.
        placement_timeout: Duration = Is("5s"), min "1s";
        /// Timeout for a worker's container to run once its service is created; the node may have to pull the image first.
        start_timeout: Duration = Is("2m"), min "1s";
        /// Time during which a node that failed to start an image gets no more workers of that image.
        avoid_for: Duration = Is("1m"), min "1s";
        /// Minimum time between two checks of a node from inside.
        recheck_after: Duration = Is("1m"), min "1s";
        /// Lease on the workers of this instance: without a renewal for this long, another daemon may take them over. This daemon
        /// stops when it could not renew the lease for two thirds of the time.
        lease: Duration = Is("1m"), min "5s";
        /// Whether the workers' network, named by `docker.network`, must encrypt traffic between nodes.
        encrypted: bool = Is("true");
    }

    /// Workers as Pods of a Kubernetes cluster instead of containers on this host.
    kubernetes: Kubernetes {
        /// Whether workers run as Pods of the cluster.
        enabled: bool = Is("false");
        /// File that names the cluster and holds the credentials; when unset, the daemon runs in a Pod and uses its service
        /// account.
        kubeconfig: Option<PathBuf> = Unset("/etc/warmpool/kubeconfig");
        /// Context of the kubeconfig; its current one when unset.
        context: Option<String> = Unset("production");
        /// Namespace of the workers; when unset that of the context, or of the daemon's own Pod.
        namespace: Option<String> = Unset("warmpool");
        /// ConfigMap of the namespace that owns all that the daemon makes there, so that deleting it removes the workers.
        owner: Option<String> = Unset("warmpool");
        /// Timeout for a request to the API server, to the last byte of its response.
        timeout: Duration = Is("10s"), min "1s";
        /// Timeout for a request that makes an object: the API server waits for each admission webhook, 30 seconds at most.
        create_timeout: Duration = Is("35s"), min "1s";
        /// When a node pulls an image: always, if_not_present or never.
        pull_policy: PullPolicy = Is("if_not_present");
        /// Secrets of the namespace with which nodes pull images.
        image_pull_secrets: Vec<String> = Unset("registry");
        /// Labels that a worker's node must have, as `name=value`; all of them.
        node_selector: Vec<String> = Unset("pool=browsers");
        /// Taints that workers tolerate, as `key=value:Effect` or `key:Effect`; without an effect, all effects of the key.
        tolerations: Vec<String> = Unset("dedicated=browsers:NoSchedule");
        /// Priority class of workers.
        priority_class: Option<String> = Unset("browsers");
        /// Runtime class of workers.
        runtime_class: Option<String> = Unset("crun");
        /// Node label whose values workers are spread over evenly, as far as there is room.
        spread_over: String = Is("kubernetes.io/hostname");
        /// The seccomp profile of workers, as a path below the kubelet's folder for them, /var/lib/kubelet/seccomp. Every node must
        /// have worker-image/seccomp.json there.
        seccomp_profile: String = Is("warmpool.json");
        /// Number of processes that a node may let a Pod have at most; nodes that allow more get no workers. 0 accepts any number.
        max_pids: u32 = Is("4096");
        /// Cores that a worker requests of its node; worker.cpus when unset, and 0 requests none. Memory is requested as
        /// worker.memory says.
        reserved_cpus: Option<f64> = Unset("0.5"), min "0";
        /// Timeout for the cluster to assign a worker to a node.
        placement_timeout: Duration = Is("15s"), min "1s";
        /// Timeout for a worker's container to run once its Pod is created; the node may have to pull the image first.
        start_timeout: Duration = Is("2m"), min "1s";
        /// Time during which a node that failed to start an image gets no more workers of that image.
        avoid_for: Duration = Is("1m"), min "1s";
        /// Minimum time between two checks of a node from inside.
        recheck_after: Duration = Is("1m"), min "1s";
        /// Time that the cluster may take to notice a lost node, from when its workers have been silent for 15 seconds: about the
        /// node-monitor-grace-period of its controller manager. After that their sessions end as unresponsive.
        node_grace: Duration = Is("44s"), min "1s";
        /// Time that a node gives a worker to end when its Pod is evicted. It must not be 0: the Pod of a node that is cut off would
        /// vanish while its container runs on.
        termination_grace: Duration = Is("5s"), min "1s";
        /// Lease on the workers of this instance: without a renewal for this long, another daemon may take them over. This daemon
        /// stops when it could not renew the lease for two thirds of the time.
        lease: Duration = Is("3m"), min "5s";
    }
}
