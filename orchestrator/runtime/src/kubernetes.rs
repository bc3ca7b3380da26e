//! Kubernetes as the container runtime: each worker is a bare Pod that is never restarted. The scheduler chooses its node, and the
//! daemon watches it.
//!
//! `pod` is what a worker asks for, `start` how it comes to a node, `pods` what is asked of it there, `state` what became of it; `renderer` is the same for scenes. `lease` keeps a second daemon out, and
//! owns all that this one makes, so that nothing outlives it. `budget` keeps sessions' workers from eviction. `nodes`, `admission` and `probe` are Kubernetes' part of choosing nodes.
//!
//! `api` is the way to the API server, `credentials` as whom, `access` what the daemon has to be allowed, which `facts` asks about, `objects` what is read, and
//! `watch` keeps what the cluster says of objects up to date.
//!
//! - *An agent is reached by TCP on its Pod's address*, and leaves the Pod's network for one of its own before it starts anything.
//! - *That a Pod is gone says nothing of its container.* With a grace of 0 the Pod of a node that was cut off vanishes while its
//!   container runs on. So Pods have a grace, a node that comes back is looked at before it is used, and a worker that hears from no
//!   daemon ends by itself.
//! - *A drained node is this daemon's own idea*, kept in the lease: to cordon a node, the daemon would have to be allowed to change
//!   every node of the cluster. One that others cordoned gets no workers either.
//! - *Sessions outlive the API server*: it is asked for nothing while their agents are connected.

mod access;
mod admission;
mod api;
mod budget;
mod credentials;
mod facts;
#[cfg(test)]
mod fake_server;
mod lease;
mod nodes;
mod objects;
mod pod;
mod pods;
mod probe;
mod renderer;
mod start;
mod state;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use self::access::Access;
use self::api::{Api, unless};
use self::objects::{MetadataOnly, Node, Pod};
use self::pod::Owner;
use self::state::PodNode;
use self::watch::Watched;
use super::cluster::admission::{Admission, NodeAdmission as _};
use super::cluster::avoided::Avoided;
use super::cluster::ownership_term::OwnershipTerm;
use super::container::with_gateway;
use super::labels;
use super::{
    ClusterFacts, ContainerRuntime, ContainerState, DockerFacts, NodeCheck, NodeFacts, NodeLoss, NodeOrder,
    OwnedContainer, Ownership, RendererId, RendererPipes, RuntimeError, WorkerLocation, WorkerSpec,
};
use warmpool_config::{Config, PullPolicy};
use warmpool_core::browser::Engine;
use warmpool_core::ids::{WorkerId, random_bytes};

/// The version of the API server, which everybody may ask for.
const VERSION: Access = Access { verb: "get", group: "", resource: "version", namespaced: false, only_with: None };
/// How long what was asked for a moment ago may take to be there.
const IN_FLIGHT: Duration = Duration::from_secs(1);

/// A client of one cluster, which connects when first needed. Clones share what they know.
#[derive(Clone)]
pub(super) struct Kubernetes {
    config: Arc<Config>,
    instance: Arc<str>,
    /// Tells the renderers of this process from those of an earlier one.
    process: Arc<str>,
    api: Arc<Mutex<Option<Api>>>,
    watches: Arc<Mutex<Option<Watches>>>,
    avoided: Arc<Avoided>,
    admission: Arc<Admission>,
    /// Until when this process certainly owns the workers.
    term: OwnershipTerm,
    /// The lease, once this process has it.
    owner: Arc<Mutex<Option<Owner>>>,
    /// Nodes that an operator drains, and those of them that are drained.
    drained: Arc<Mutex<Drained>>,
    /// Held while the lease's list of drained nodes is read and written.
    draining: Arc<tokio::sync::Mutex<()>>,
    limiting: Arc<Mutex<Limiting>>,
    /// Why there is no budget, as the log says it.
    budget_told: Arc<Mutex<Option<String>>>,
    /// Whether nothing is started any more.
    is_ending: Arc<AtomicBool>,
}

/// The version at which a node was last found to limit a Pod's processes, by the node's name. Locked while it is tried.
type Limiting = HashMap<String, Arc<tokio::sync::Mutex<Option<u64>>>>;

/// What is followed of the cluster.
#[derive(Clone)]
struct Watches {
    /// Workers and probes of this instance.
    pods: Arc<Watched<Pod>>,
    nodes: Arc<Watched<Node>>,
}

#[derive(Default)]
struct Drained {
    marked: BTreeSet<String>,
    finished: BTreeSet<String>,
}

impl Kubernetes {
    /// A client for the cluster that `config` names; every Pod it makes is labelled with `instance`.
    #[must_use]
    pub(super) fn new(config: Arc<Config>, instance: String) -> Self {
        Self {
            api: Arc::default(),
            watches: Arc::default(),
            avoided: Arc::new(Avoided::new(config.kubernetes.avoid_for)),
            admission: Arc::new(Admission::new(config.kubernetes.recheck_after)),
            term: OwnershipTerm::default(),
            owner: Arc::default(),
            drained: Arc::default(),
            draining: Arc::default(),
            limiting: Arc::default(),
            budget_told: Arc::default(),
            is_ending: Arc::default(),
            instance: instance.into(),
            process: hex::encode(random_bytes::<8>()).into(),
            config,
        }
    }

    /// Errors: `Credentials`.
    fn api(&self) -> Result<Api, RuntimeError> {
        let mut api = self.api.lock();
        if let Some(api) = &*api {
            return Ok(api.clone());
        }
        Ok(api.insert(Api::new(&self.config)?).clone())
    }

    /// Errors: `Credentials`.
    fn watches(&self) -> Result<Watches, RuntimeError> {
        let api = self.api()?;
        let follow = || Watches {
            pods: Arc::new(Watched::follow(
                api.clone(),
                access::LIST_PODS,
                access::WATCH_PODS,
                labels::owned_by(&self.instance),
            )),
            nodes: Arc::new(Watched::follow(api, access::LIST_NODES, access::WATCH_NODES, String::new())),
        };
        Ok(self.watches.lock().get_or_insert_with(follow).clone())
    }

    fn limit(&self) -> Duration {
        self.config.kubernetes.timeout
    }
}

#[async_trait]
impl ContainerRuntime for Kubernetes {
    async fn ping(&self) -> Result<(), RuntimeError> {
        self.api()?.get::<Value>(VERSION, "/version").await?;
        Ok(())
    }

    /// The cluster has the network. What is to be there before the first worker is the budget.
    async fn ensure_network(&self) -> Result<(), RuntimeError> {
        self.want_budget().await
    }

    async fn start(&self, spec: &WorkerSpec) -> Result<WorkerLocation, RuntimeError> {
        self.start_pod(spec).await
    }

    async fn addresses(&self, worker: &WorkerId) -> Result<Option<(Ipv4Addr, Ipv4Addr)>, RuntimeError> {
        let Some(pod) = self.pods_of(worker).await?.pop() else { return Ok(None) };
        let Some(std::net::IpAddr::V4(address)) = pod.status.pod_ip else { return Ok(None) };
        let range = match self.node(&pod.spec.node_name).await? {
            PodNode::There(node) => node.spec.pod_cidr.and_then(|range| range.parse().ok()),
            PodNode::Gone | PodNode::Hidden => None,
        };
        let prefix = range.map_or(24, |range: ipnet::Ipv4Net| range.prefix_len());
        Ok(ipnet::Ipv4Net::new(address, prefix).ok().map(with_gateway))
    }

    /// The reason of the end stands in the Pod, also where it is gone by now.
    async fn state(&self, worker: &WorkerId) -> Result<ContainerState, RuntimeError> {
        let pod = match self.pods_of(worker).await?.pop() {
            Some(pod) => pod,
            None => match self.removed_pod(worker).await {
                Some(pod) => pod,
                None => return Ok(ContainerState::Missing),
            },
        };
        let node = match pod.spec.node_name.as_str() {
            "" => PodNode::Gone,
            name => self.node(name).await?,
        };
        Ok(match state::container_state(&pod, &node) {
            ContainerState::Node(NodeLoss::Evicted { node, why }) if why.is_empty() => {
                let told = self.told_eviction(&pod.metadata.name).await;
                let why = told.unwrap_or_else(|| state::DELETED.to_owned());
                ContainerState::Node(NodeLoss::Evicted { node, why })
            }
            state => state,
        })
    }

    async fn remove(&self, worker: &WorkerId) -> Result<(), RuntimeError> {
        for pod in self.pods_of(worker).await?.iter().filter(|pod| !pod.is_going()) {
            self.delete_pod(pod.metadata.name.as_str()).await?;
        }
        Ok(())
    }

    async fn mark_leased(&self, worker: &WorkerId) -> Result<(), RuntimeError> {
        let api = self.api()?;
        for pod in self.pods_of(worker).await?.iter().filter(|pod| !pod.is_going()) {
            self.term.check()?;
            let path = format!("{}/{}", api.path("/api/v1", access::PATCH_PODS), pod.metadata.name);
            unless(404, api.patch::<MetadataOnly>(access::PATCH_PODS, &path, &pod::leased()).await)?;
        }
        Ok(())
    }

    /// Those that are being removed have nobody left to ask for them.
    async fn list_containers(&self) -> Result<Vec<OwnedContainer>, RuntimeError> {
        let pods = self.api()?.list::<Pod>(access::LIST_PODS, &pod::workers_of(&self.instance)).await?.items;
        let owned = pods.into_iter().filter(|pod| !pod.is_going()).filter_map(|pod| {
            let (worker, key) = labels::worker(&pod.metadata.labels)?;
            Some(OwnedContainer {
                worker,
                key,
                running: state::progress(&pod) == state::Progress::Running,
                place: Self::place(&pod),
                image: pod.metadata.annotations.get(labels::IMAGE).cloned().unwrap_or_default(),
            })
        });
        Ok(owned.collect())
    }

    /// An image goes by its digest where all nodes that have it agree on one, so that all run the same. Otherwise the nodes
    /// resolve its name, where that has a registry: without one they would pull whatever a public registry has under the name.
    async fn image_id(&self, name: &str) -> Result<String, RuntimeError> {
        let is_pulled = self.config.kubernetes.pull_policy == PullPolicy::Always;
        let names_registry = nodes::names_registry(name);
        if name.contains("@sha256:") || is_pulled && names_registry {
            return Ok(name.to_owned());
        }
        let nodes = self.watches()?.nodes.all(self.limit()).await?;
        if !names_registry && (is_pulled || !nodes::is_there(&nodes, name)) {
            return Err(RuntimeError::NoRegistry(name.to_owned()));
        }
        Ok(nodes::digest(&nodes, name).unwrap_or_else(|| name.to_owned()))
    }

    async fn acquire_ownership(&self, data_dir: &Path) -> Result<Ownership, RuntimeError> {
        self.acquire_lease(data_dir).await.map(Ownership::leased)
    }

    async fn nodes(&self) -> Result<Vec<NodeFacts>, RuntimeError> {
        let mut facts: Vec<NodeFacts> = self.list_nodes().await?.iter().map(|node| self.facts_of(node)).collect();
        facts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(facts)
    }

    async fn order_node(&self, name: &str, order: NodeOrder) -> Result<NodeFacts, RuntimeError> {
        self.mark_node(name, order).await
    }

    async fn finish_drain(&self, node: &NodeFacts) -> Result<(), RuntimeError> {
        let mut drained = self.drained.lock();
        if drained.marked.contains(&node.id) {
            drained.finished.insert(node.id.clone());
        }
        Ok(())
    }

    async fn distrust_node(&self, node: &str, image: &str) {
        let Ok(image) = self.image_id(image).await else { return };
        tracing::warn!(node, "a worker cannot be reached on its node, which is left out for a while");
        self.avoided.add(&image, node, node, "the agent of a worker there did not answer");
    }

    async fn check_nodes(&self, image: &str, _engine: Engine) -> Result<Vec<NodeCheck>, RuntimeError> {
        let image = self.image_id(image).await?;
        let mut nodes = self.list_nodes().await?;
        nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let looks = nodes.iter().map(|node| async {
            let name = &node.metadata.name;
            let verdict = match self.kept_away(node) {
                Some(why) => Err(why),
                None => match self.probe_node(name, &image).await {
                    Ok(look) => Ok(look.missing),
                    Err(error) => Err(self.explained(error.to_string(), &image).await),
                },
            };
            NodeCheck { node: name.clone(), verdict }
        });
        Ok(join_all(looks).await)
    }

    async fn belong_to(&self, instance: &str) {
        self.keep_owner_of(instance).await;
    }

    /// What was asked for a moment ago may come only now.
    async fn wind_down(&self) -> Result<(), RuntimeError> {
        self.is_ending.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        loop {
            self.forget_probes().await?;
            if begun.elapsed() > IN_FLIGHT {
                return Ok(());
            }
            sleep(IN_FLIGHT / 4).await;
        }
    }

    fn notices_within(&self) -> Duration {
        self.config.kubernetes.node_grace
    }

    async fn start_renderer(&self, renderer: &RendererId) -> Result<RendererPipes, RuntimeError> {
        self.connect_renderer(renderer).await
    }

    async fn renderer_state(&self, renderer: &RendererId) -> Result<ContainerState, RuntimeError> {
        self.state(&WorkerId::from(renderer.as_str())).await
    }

    async fn remove_renderer(&self, renderer: &RendererId) -> Result<(), RuntimeError> {
        self.delete_renderer(renderer).await
    }

    async fn left_renderers(&self) -> Result<Vec<RendererId>, RuntimeError> {
        self.renderers_of_others().await
    }

    async fn has_renderer_image(&self) -> Result<bool, RuntimeError> {
        self.gets_renderer_image().await
    }

    async fn cluster_facts(&self) -> Result<ClusterFacts, RuntimeError> {
        self.facts().await
    }

    async fn engine_facts(&self) -> Result<DockerFacts, RuntimeError> {
        Err(RuntimeError::Unreachable("workers run on Kubernetes, and not by the engine of this host".to_owned()))
    }
}

/// Waits until something changes, or a second has passed.
async fn changed(changes: &mut tokio::sync::watch::Receiver<u64>) {
    tokio::select! {
        _ = changes.changed() => {}
        () = sleep(Duration::from_secs(1)) => {}
    }
}

#[cfg(test)]
#[path = "kubernetes/tests.rs"]
mod tests;
