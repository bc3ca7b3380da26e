//! The service that a worker gets: the hardened profile, as far as Swarm can ask for it.
//!
//! Seccomp and "no new privileges" are not among what a service of API 1.41 can ask for, so the engine of each node must
//! have them as its defaults.

use bollard::models::{
    EndpointSpec, EndpointSpecModeEnum, Limit, Mount, MountTmpfsOptions, MountType, NetworkAttachmentConfig,
    ResourceObject, ServiceSpec, ServiceSpecMode, ServiceSpecModeReplicated, TaskSpec, TaskSpecContainerSpec,
    TaskSpecContainerSpecDnsConfig, TaskSpecLogDriver, TaskSpecPlacement, TaskSpecResources, TaskSpecRestartPolicy,
    TaskSpecRestartPolicyConditionEnum,
};

use super::Swarm;
use super::constraints::constraints;
use crate::WorkerSpec;
use crate::container::container_name;
use crate::docker::{LEAVE_NETWORK, NO_NAME_SERVER, log_limits, nano_cpus, signed, user};
use crate::engine_kind::no_core_dumps;
use crate::labels::{self, Labels};
use warmpool_config::Config;
use warmpool_core::browser::Engine;

/// A service's tmpfs has no owner, so everybody in the container may write there; there is but one user.
const TMPFS_MODE: i64 = 0o1777;
/// The worker's home. The image has no such directory: on one that it has, runc gives a tmpfs the directory's mode, and only
/// root could write there.
const HOME: &str = "/home/own";

impl Swarm {
    /// The service of a worker, for other nodes than these.
    pub(super) fn service(&self, spec: &WorkerSpec, image: &str, left_out: &[String]) -> ServiceSpec {
        let config = &self.config;
        let mut labels = labels::of_worker(&self.instance, spec);
        labels.insert(labels::IMAGE.to_owned(), image.to_owned());
        let (limits, reservations) = resources(config);
        let left_out = left_out.iter().map(|node| format!("node.id!={node}"));
        let task = TaskSpec {
            resources: Some(TaskSpecResources {
                limits: Some(limits),
                reservations: Some(reservations),
                ..Default::default()
            }),
            placement: Some(TaskSpecPlacement {
                constraints: Some(constraints(config, spec.key.engine).chain(left_out).collect()),
                ..Default::default()
            }),
            networks: Some(vec![NetworkAttachmentConfig {
                target: Some(config.docker.network.clone()),
                ..Default::default()
            }]),
            ..once(container(config, image, labels.clone()))
        };
        replicated(container_name(&spec.worker), labels, task)
    }

    /// The service of a probe: a container as a worker's that runs `command` on this one node. It reserves nothing, so that it
    /// also runs where nothing is left to give away, and has no network of workers.
    pub(super) fn probe_service(
        &self,
        name: &str,
        (image, engine): (&str, Engine),
        node: &str,
        command: Vec<String>,
    ) -> ServiceSpec {
        let config = &self.config;
        let labels = labels::labels([(labels::INSTANCE, &self.instance), (labels::PROBE, &self.instance)]);
        let container = TaskSpecContainerSpec {
            command: Some(command),
            // The image closes its shell to the worker's user, and not to this group.
            groups: Some(vec!["0".to_owned()]),
            ..container(config, image, labels.clone())
        };
        let here = std::iter::once(format!("node.id=={node}"));
        let task = TaskSpec {
            resources: Some(TaskSpecResources { limits: Some(resources(config).0), ..Default::default() }),
            placement: Some(TaskSpecPlacement {
                constraints: Some(constraints(config, engine).chain(here).collect()),
                ..Default::default()
            }),
            ..once(container)
        };
        replicated(name.to_owned(), labels, task)
    }
}

/// A task that is tried once.
fn once(container: TaskSpecContainerSpec) -> TaskSpec {
    TaskSpec {
        container_spec: Some(container),
        restart_policy: Some(TaskSpecRestartPolicy {
            condition: Some(TaskSpecRestartPolicyConditionEnum::NONE),
            ..Default::default()
        }),
        log_driver: Some(TaskSpecLogDriver { name: Some("json-file".to_owned()), options: Some(log_limits()) }),
        ..Default::default()
    }
}

fn replicated(name: String, labels: Labels, task: TaskSpec) -> ServiceSpec {
    ServiceSpec {
        name: Some(name),
        labels: Some(labels),
        task_template: Some(task),
        mode: Some(ServiceSpecMode {
            replicated: Some(ServiceSpecModeReplicated { replicas: Some(1) }),
            ..Default::default()
        }),
        // A name for the one container is all that is wanted: no virtual address, no load balancer.
        endpoint_spec: Some(EndpointSpec { mode: Some(EndpointSpecModeEnum::DNSRR), ..Default::default() }),
        ..Default::default()
    }
}

fn container(config: &Config, image: &str, labels: Labels) -> TaskSpecContainerSpec {
    let worker = &config.worker;
    let tmpfs = |target: &str, size: u64| Mount {
        typ: Some(MountType::TMPFS),
        target: Some(target.to_owned()),
        tmpfs_options: Some(MountTmpfsOptions {
            size_bytes: Some(signed(size)),
            mode: Some(TMPFS_MODE),
            ..Default::default()
        }),
        ..Default::default()
    };
    TaskSpecContainerSpec {
        image: Some(image.to_owned()),
        labels: Some(labels),
        hostname: Some("worker".to_owned()),
        user: Some(user()),
        env: Some(vec![format!("HOME={HOME}"), LEAVE_NETWORK.to_owned()]),
        read_only: Some(true),
        capability_drop: Some(vec!["ALL".to_owned()]),
        mounts: Some(vec![
            tmpfs("/tmp", worker.tmp.bytes()),
            tmpfs(HOME, worker.tmp.bytes()),
            tmpfs("/dev/shm", worker.shm.bytes()),
        ]),
        // Nothing in it is worth waiting for.
        stop_grace_period: Some(0),
        dns_config: Some(TaskSpecContainerSpecDnsConfig {
            nameservers: Some(vec![NO_NAME_SERVER.to_owned()]),
            ..Default::default()
        }),
        ulimits: Some(no_core_dumps()),
        ..Default::default()
    }
}

/// What a worker may use of its node, and what it reserves there.
fn resources(config: &Config) -> (Limit, ResourceObject) {
    let worker = &config.worker;
    let memory = signed(worker.memory.bytes());
    let limits =
        Limit { memory_bytes: Some(memory), nano_cpus: nano_cpus(worker.cpus), pids: Some(i64::from(worker.pids)) };
    let reservations = ResourceObject {
        memory_bytes: Some(memory),
        nano_cpus: nano_cpus(config.reserved_cpus()),
        ..Default::default()
    };
    (limits, reservations)
}
