//! Why the container runtime did not do what it was asked.

/// Why the container runtime did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime does not answer at all.
    #[error("the container runtime does not answer: {0}")]
    Unreachable(String),
    /// The engine cannot run workers, or not as the configuration asks for.
    #[error("{flaw}: {remedy}")]
    UnfitEngine {
        /// What it lacks.
        flaw: String,
        /// What the operator can do.
        remedy: String,
    },
    /// The file with the filter of system calls, which this engine reads, cannot be used.
    #[error("the file with the filter of system calls: {0}")]
    Seccomp(String),
    /// The worker image is not there.
    #[error(
        "the image `{0}` is not on this host: build it with scripts/images, or load a packed one with `docker load` or `podman load`"
    )]
    NoImage(String),
    /// No node has the worker image, and its name says nothing of where nodes could pull it: they would ask a public registry, for
    /// whatever image has that name there.
    #[error(
        "no node has the image `{0}`, and its name has no registry: push it with `scripts/images --push`, and name it with the registry, such as registry.example/{0}, in worker.chromium_image and its like or world.image"
    )]
    NoRegistry(String),
    /// The folder in which a worker's agent listens cannot be used.
    #[error("the folder shared with the worker: {0}")]
    Folder(String),
    /// A network of a swarm has the name of the workers' network, and is not fit for them.
    #[error("the network `{name}` {flaw}; {remedy}")]
    UnfitNetwork {
        /// The network.
        name: String,
        /// What is wrong with it; the text follows its name.
        flaw: String,
        /// What the operator can do.
        remedy: String,
    },
    /// The cluster has no node that can take the worker.
    #[error("no node of the cluster takes a worker that asks for {asked}: {why}{}", left_out(avoided))]
    NoNode {
        /// The cluster's own words.
        why: String,
        /// What the worker reserves.
        asked: String,
        /// The nodes that are left out for a while, with the reasons; empty where there are none.
        avoided: String,
    },
    /// No node has this name, or several have.
    #[error("{flaw} `{name}`: {known}")]
    NodeName {
        /// The name that was given.
        name: String,
        /// What is wrong with it; the text precedes the name.
        flaw: &'static str,
        /// The names that exist, or the ids of the nodes that share the name.
        known: String,
    },
    /// Workers run on this host alone, so there are no nodes.
    #[error(
        "workers run on this host alone: nodes are those of a cluster, and swarm.enabled and kubernetes.enabled are false"
    )]
    NoNodes,
    /// The file with the registry's password cannot be used.
    #[error("`swarm.registry_password_file` {path} cannot be used: {why}")]
    RegistryPassword {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// What the daemon has to show the API server of Kubernetes cannot be used.
    #[error("the cluster's credentials, {path}: {why}")]
    Credentials {
        /// Where they are.
        path: String,
        /// What is wrong with them.
        why: String,
    },
    /// The API server does not allow a call.
    #[error("the cluster does not let this daemon {action} {place}: add to its {role} the rule {rule}")]
    NotAllowed {
        /// The verb and the resource.
        action: String,
        /// Where; a phrase that follows them.
        place: String,
        /// What is to hold the rule: Role or ClusterRole.
        role: &'static str,
        /// The rule that is missing.
        rule: String,
    },
    /// The namespace of the workers cannot be used.
    #[error("the namespace `{namespace}` {flaw}: name another in kubernetes.namespace, or make it anew")]
    NoNamespace {
        /// The namespace.
        namespace: String,
        /// What is wrong with it; the text follows its name.
        flaw: &'static str,
    },
    /// The namespace has no more room.
    #[error("the quota of the namespace `{namespace}` is used up: raise it, or lower pool.max_workers: {message}")]
    QuotaUsedUp {
        /// The namespace.
        namespace: String,
        /// The API server's own words.
        message: String,
    },
    /// An admission controller or a webhook refuses what the daemon makes.
    #[error("the cluster's admission refuses it: exempt the namespace, or mend the policy: {message}")]
    NotAdmitted {
        /// The API server's own words.
        message: String,
    },
    /// Another daemon owns the workers of this instance.
    #[error("another daemon has the workers of this instance: {0}")]
    NotOwned(String),
    /// A worker's memory stays where it is.
    #[error("a worker's memory was not paged out: {0}")]
    NotPagedOut(String),
    /// The runtime refused the call.
    #[error("the container runtime refused to {action}: {message}")]
    Refused {
        /// What was asked.
        action: &'static str,
        /// The runtime's own words.
        message: String,
    },
}

impl RuntimeError {
    /// Whether waiting is pointless: the operator has to change the engine, its network or the configuration.
    #[must_use]
    pub const fn is_unfit(&self) -> bool {
        matches!(self, Self::UnfitNetwork { .. } | Self::UnfitEngine { .. })
    }

    /// Whether waiting for a renderer is pointless: there is no image of one.
    #[must_use]
    pub const fn has_no_renderer(&self) -> bool {
        self.is_no_image()
    }

    /// Whether there is no image to start a container from.
    #[must_use]
    pub const fn is_no_image(&self) -> bool {
        matches!(self, Self::NoImage(_) | Self::NoRegistry(_))
    }

    /// The refusal of an action, for this reason.
    pub(crate) fn refused(action: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { action, message: message.into() }
    }
}

fn left_out(avoided: &str) -> String {
    if avoided.is_empty() { String::new() } else { format!("; left out for now: {avoided}") }
}
