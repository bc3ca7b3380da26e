//! What the container engine says of itself.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::EngineKind;
use warmpool_core::browser::Engine;

/// What the container engine says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DockerFacts {
    /// Which engine it is.
    pub kind: EngineKind,
    /// Whether it runs without root's rights.
    pub rootless: bool,
    /// The newest API it speaks, such as `1.41`.
    pub api_version: String,
    /// Its version, such as `20.10.24`.
    pub server_version: String,
    /// Whether a container can have the user that workers run as.
    pub has_worker_user: bool,
    /// The program that starts its containers, such as `runc`, and the version of that; none if it does not say.
    pub oci_runtime: Option<(String, String)>,
    /// The version of control groups, `1` or `2`.
    pub cgroup_version: String,
    /// Whether containers can be limited in memory.
    pub memory_limit: bool,
    /// Whether containers can be limited in processor time.
    pub cpu_limit: bool,
    /// Whether containers can be limited in processes.
    pub pids_limit: bool,
    /// Its security options, such as `name=seccomp,profile=default`.
    pub security_options: Vec<String>,
    /// The directory it keeps images and containers in.
    pub root_dir: PathBuf,
    /// Its storage driver.
    pub driver: String,
    /// Names of the container runtimes it knows.
    pub runtimes: Vec<String>,
    /// The workers' images.
    pub images: Vec<ImageFact>,
    /// The image of the renderers of worlds, and whether the container engine has it.
    pub renderer: (String, bool),
}

/// The image of one engine's workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFact {
    /// The engine.
    pub engine: Engine,
    /// The image's name.
    pub name: String,
    /// Whether the container engine has it, or the nodes of a cluster get it.
    pub there: bool,
    /// Whether the configuration cannot do without.
    pub needed: bool,
}

/// What a cluster says of itself, and of what this daemon may do there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Its version, such as `v1.20.2`.
    pub version: String,
    /// The namespace of the workers.
    pub namespace: String,
    /// What the daemon may not do there and has to.
    pub missing: Vec<MissingAccess>,
    /// How many verbs were asked for.
    pub asked: usize,
    /// Why the cluster would not take a worker's Pod now, if it would not.
    pub refusal: Option<Refusal>,
    /// The workers' images; empty where nobody may see the nodes.
    pub images: Vec<ImageFact>,
    /// The lease of this instance; none where there is none, or it cannot be read.
    pub lease: Option<LeaseFacts>,
}

/// Which daemon holds the lease of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseFacts {
    /// The host of the daemon that has them; none where it was given up.
    pub host: Option<String>,
    /// Whether that daemon is the one of this host and this data directory.
    pub is_ours: bool,
    /// When it was last renewed, by its host's clock; none where it does not say.
    pub renewed: Option<SystemTime>,
    /// For how long it holds without a renewal.
    pub holds_for: Duration,
}

/// Why a cluster would not take a worker's Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The error, with its remedy.
    pub why: String,
    /// Whether there is no more room at the moment, which is as it should be while the pool is full.
    pub is_full: bool,
}

/// Something that the daemon may not do in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingAccess {
    /// The verb and the resource.
    pub action: String,
    /// What is to hold the rule: Role or ClusterRole.
    pub role: &'static str,
    /// The rule that is missing.
    pub rule: String,
}
