//! The container that a worker gets: the one hardened profile.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};

use warmpool_protocol::SHARED_FOLDER;

use super::network::WorkerNetwork;
use super::{Docker, TCP, UNIX};
use crate::WorkerSpec;
use crate::labels;

/// The system calls a worker may make: Docker's default list and what Chromium's own sandbox needs on top.
const SECCOMP: &str = include_str!("../../../../worker-image/seccomp.json");

/// The name server of every worker, where nobody answers: names are the daemon's affair. Where none is named, the engine tells
/// the container those of the host.
pub(crate) const NO_NAME_SERVER: &str = "127.0.0.1";

/// Variable by which agents of earlier images are told to leave the network on which they listen. Later ones do so anyway.
pub(crate) const LEAVE_NETWORK: &str = "WARMPOOL_LEAVE_NETWORK=yes";

impl Docker {
    /// Returns the profile of a worker's container.
    pub(super) fn worker_container(&self, spec: &WorkerSpec, network: WorkerNetwork) -> ContainerCreateBody {
        let config = &self.config;
        let worker = &config.worker;
        let mut labels = labels::of_worker(&self.instance, spec);
        let agent = if config.shares_folders() { UNIX } else { TCP };
        labels.insert(labels::AGENT.to_owned(), agent.to_owned());
        let limits = Limits {
            memory: worker.memory.bytes(),
            shm: worker.shm.bytes(),
            tmp: worker.tmp.bytes(),
            pids: worker.pids,
            cpus: worker.cpus,
        };
        let host = HostConfig {
            network_mode: Some(network.mode),
            dns: Some(vec![NO_NAME_SERVER.to_owned()]),
            mounts: config.shares_folders().then(|| {
                vec![Mount {
                    typ: Some(MountType::BIND),
                    source: Some(self.folders.on_host(&spec.worker).display().to_string()),
                    target: Some(SHARED_FOLDER.to_owned()),
                    ..Default::default()
                }]
            }),
            ..self.hardened(&limits)
        };
        ContainerCreateBody {
            image: Some(spec.image.clone()),
            hostname: Some("worker".to_owned()),
            user: Some("1000:1000".to_owned()),
            env: (!config.shares_folders()).then(|| vec![LEAVE_NETWORK.to_owned()]),
            labels: Some(labels),
            host_config: Some(host),
            networking_config: network.endpoints,
            ..Default::default()
        }
    }

    /// Returns what every container has, whatever runs in it.
    pub(super) fn hardened(&self, limits: &Limits) -> HostConfig {
        // The owner is named, since the runtime may give the mount the owner and mode of the image's directory.
        let tmpfs = |bytes: u64| format!("rw,noexec,nosuid,nodev,size={bytes},mode=0700,uid=1000,gid=1000");
        HostConfig {
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned(), format!("seccomp={SECCOMP}")]),
            readonly_rootfs: Some(true),
            tmpfs: Some(HashMap::from([
                ("/tmp".to_owned(), format!("rw,noexec,nosuid,nodev,size={},mode=1777", limits.tmp)),
                ("/run".to_owned(), tmpfs(16 << 20)),
                ("/home/worker".to_owned(), tmpfs(limits.tmp)),
            ])),
            shm_size: Some(signed(limits.shm)),
            memory: Some(signed(limits.memory)),
            memory_swap: Some(signed(limits.memory)),
            pids_limit: Some(i64::from(limits.pids)),
            nano_cpus: nano_cpus(limits.cpus),
            ulimits: Some(no_core_dumps()),
            log_config: Some(HostConfigLogConfig { typ: Some("json-file".to_owned()), config: Some(log_limits()) }),
            restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }),
            // The kernel should take a container before it takes the daemon.
            oom_score_adj: Some(500),
            runtime: self.config.docker.runtime.clone(),
            ..Default::default()
        }
    }
}

/// How much of the host a container may use, sizes in bytes.
pub(super) struct Limits {
    pub memory: u64,
    pub shm: u64,
    pub tmp: u64,
    pub pids: u32,
    /// Cores; 0 sets no limit.
    pub cpus: f64,
}

/// A size as the engine wants it.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A number of cores as the engine wants it; none without a limit.
#[expect(clippy::cast_possible_truncation, reason = "a number of cores times 1e9 fits")]
pub(crate) fn nano_cpus(cores: f64) -> Option<i64> {
    (cores > 0.0).then_some((cores * 1e9) as i64)
}

/// How much of what a container prints the engine keeps.
pub(crate) fn log_limits() -> HashMap<String, String> {
    HashMap::from([("max-size".to_owned(), "1m".to_owned()), ("max-file".to_owned(), "1".to_owned())])
}

/// The limit by which no program writes its memory to a file.
pub(crate) fn no_core_dumps() -> Vec<ResourcesUlimits> {
    vec![ResourcesUlimits { name: Some("core".to_owned()), soft: Some(0), hard: Some(0) }]
}
