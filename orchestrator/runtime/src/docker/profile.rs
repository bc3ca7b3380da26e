//! The container that a worker gets: the one hardened profile.

use std::collections::HashMap;
use std::path::PathBuf;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, RestartPolicy, RestartPolicyNameEnum, SystemInfo,
};

use warmpool_config::SelinuxType;
use warmpool_protocol::{SHARED_FOLDER, WORKER_HOME, WORKER_USER};

use super::network::WorkerNetwork;
use super::{Docker, TCP, UNIX};
use crate::engine_kind::Tmpfs;
use crate::labels;
use crate::{EngineKind, RuntimeError, WorkerSpec};

/// The name server of every worker, where nobody answers: names are the daemon's affair. Where none is named, the engine tells
/// the container those of the host.
pub(crate) const NO_NAME_SERVER: &str = "127.0.0.1";

/// Variable by which agents of earlier images are told to leave the network on which they listen. Later ones do so anyway.
pub(crate) const LEAVE_NETWORK: &str = "WARMPOOL_LEAVE_NETWORK=yes";

impl Docker {
    /// Returns the profile of a worker's container.
    /// Errors: [`RuntimeError::Seccomp`].
    pub(super) fn worker_container(
        &self,
        kind: EngineKind,
        spec: &WorkerSpec,
        network: WorkerNetwork,
        labels_containers: bool,
    ) -> Result<ContainerCreateBody, RuntimeError> {
        let config = &self.config;
        let worker = &config.worker;
        let mut labels = labels::of_worker(&self.instance, spec);
        let agent = if config.shares_folders() { UNIX } else { TCP };
        labels.insert(labels::AGENT.to_owned(), agent.to_owned());
        let limits = Limits {
            memory: worker.memory.bytes(),
            // By version 2 of control groups a container without swap of its own cannot be paged out.
            swap: if worker.page_out_after.is_some() { worker.memory.bytes() } else { 0 },
            shm: worker.shm.bytes(),
            tmp: worker.tmp.bytes(),
            pids: worker.pids,
            cpus: worker.cpus,
        };
        let mut host = HostConfig {
            network_mode: Some(network.mode),
            dns: Some(vec![NO_NAME_SERVER.to_owned()]),
            ..self.hardened(kind, &limits)?
        };
        let network_disabled = config.shares_folders().then(|| {
            let on_host = |path: PathBuf| path.display().to_string();
            let (folder, hosts) = (self.folders.on_host(&spec.worker), self.folders.hosts_on_host(&spec.worker));
            kind.share_folder(&mut host, on_host(folder), SHARED_FOLDER, labels_containers);
            kind.leave_out_network(&mut host, on_host(hosts), labels_containers)
        });
        // An image may have another user, or none of this number, and then the engine would name another home.
        let mut env = vec![format!("HOME={WORKER_HOME}")];
        if !config.shares_folders() {
            env.push(LEAVE_NETWORK.to_owned());
        }
        Ok(ContainerCreateBody {
            image: Some(spec.image.clone()),
            hostname: Some("worker".to_owned()),
            user: Some(user()),
            env: Some(env),
            labels: Some(labels),
            host_config: Some(host),
            network_disabled,
            networking_config: network.endpoints,
            stop_timeout: kind.removal_wait(),
            ..Default::default()
        })
    }

    /// Returns what every container has, whatever runs in it.
    /// Errors: [`RuntimeError::Seccomp`].
    pub(super) fn hardened(&self, kind: EngineKind, limits: &Limits) -> Result<HostConfig, RuntimeError> {
        let mut security = vec!["no-new-privileges".to_owned(), format!("seccomp={}", self.seccomp.option(kind)?)];
        security.extend(self.config.docker.selinux_type.as_ref().map(SelinuxType::security_option));
        let mut host = HostConfig {
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(security),
            readonly_rootfs: Some(true),
            shm_size: Some(signed(limits.shm)),
            memory: Some(signed(limits.memory)),
            memory_swap: Some(signed(limits.memory.saturating_add(limits.swap))),
            pids_limit: Some(i64::from(limits.pids)),
            nano_cpus: nano_cpus(limits.cpus),
            ulimits: Some(kind.process_limits()),
            log_config: Some(HostConfigLogConfig { typ: Some("json-file".to_owned()), config: Some(log_limits()) }),
            restart_policy: Some(RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None }),
            // The kernel should take a container before it takes the daemon.
            oom_score_adj: Some(500),
            runtime: self.config.docker.runtime.clone(),
            ..Default::default()
        };
        kind.put_tmpfs(
            &mut host,
            &[
                Tmpfs { path: "/tmp", size: limits.tmp, private: false },
                Tmpfs { path: "/run", size: RUN, private: true },
                Tmpfs { path: WORKER_HOME, size: limits.tmp, private: true },
            ],
        );
        Ok(host)
    }
}

/// The user of a container and its group, as the engine wants them.
pub(crate) fn user() -> String {
    format!("{WORKER_USER}:{WORKER_USER}")
}

/// Whether an engine that says this of itself labels its containers for SELinux.
pub(super) fn labels_containers(info: &SystemInfo) -> bool {
    info.security_options.iter().flatten().any(|option| option.starts_with("name=selinux"))
}

/// The size of `/run`.
const RUN: u64 = 16 << 20;

/// How much of the host a container may use, sizes in bytes.
pub(super) struct Limits {
    pub memory: u64,
    pub swap: u64,
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
