//! Docker Engine as the container runtime.
//!
//! `profile` is the container that a worker gets, and `renderer` that of a scene; `seccomp` is the list of their system calls as the engine
//! wants it. `network` makes the network of agents on TCP. `control_group` pages a container's memory out. `own_container` finds the data directory where the daemon itself runs in a container.

mod control_group;
mod network;
mod on_link;
mod own_container;
mod profile;
mod renderer;
mod seccomp;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use bollard::errors::Error as Bollard;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerSummary, EndpointSettings, ImageInspect,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions,
};
use ipnet::Ipv4Net;
use parking_lot::RwLock;
use warmpool_protocol::PORT;

pub use control_group::may_page_out;
pub(super) use network::vanished;
pub(super) use profile::{LEAVE_NETWORK, NO_NAME_SERVER, log_limits, nano_cpus, signed, user};
pub use renderer::RendererPipes;

use control_group::MemoryGroup;
use seccomp::Seccomp;

use super::agent_folder::AgentFolders;
use super::client::{Answer, Client, unless};
use super::container::{container_name, with_gateway};
use super::engine_kind::podman::{self, PodmanFacts};
use super::labels::{self, Labels};
use super::{
    AgentAddress, ContainerRuntime, ContainerState, DockerFacts, EngineKind, ImageFact, OwnedContainer, RendererId,
    RuntimeError, WorkerLocation, WorkerSpec,
};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::ids::{WorkerId, random_bytes};

/// The port of agents whose containers have no label [`labels::AGENT`]: an earlier version started them.
const EARLIER_AGENT_PORT: u16 = 8400;

/// Values of [`labels::AGENT`].
const UNIX: &str = "unix";
const TCP: &str = "tcp";

/// A client of one Docker Engine. Connects when first needed.
pub(super) struct Docker {
    config: Arc<Config>,
    instance: String,
    /// Tells the renderers of this process from those of an earlier one.
    process: String,
    folders: AgentFolders,
    seccomp: Seccomp,
    client: RwLock<Option<Client>>,
}

impl Docker {
    /// A client for the engine that `config` names; every container it makes is labelled with `instance`.
    #[must_use]
    pub(super) fn new(config: Arc<Config>, instance: String) -> Self {
        let folders = AgentFolders::below(&config.store.data_dir);
        let seccomp = Seccomp::below(&config.store.data_dir);
        Self {
            config,
            instance,
            process: hex::encode(random_bytes::<8>()),
            folders,
            seccomp,
            client: RwLock::new(None),
        }
    }

    pub(super) async fn client(&self) -> Result<Client, RuntimeError> {
        if let Some(client) = self.client.read().clone() {
            return Ok(client);
        }
        let client = Client::connect(&self.config).await?;
        if self.config.shares_folders() || client.kind().reads_seccomp_file() {
            let data_dir = own_container::path_on_host(&client, &self.config.store.data_dir).await?;
            self.folders.known_to_the_engine_below(&data_dir);
            self.seccomp.known_to_the_engine_below(&data_dir);
        }
        *self.client.write() = Some(client.clone());
        Ok(client)
    }

    /// Calls [`Client::look`], and connects first where needed.
    pub(super) async fn look<T, F>(&self, action: &'static str, call: impl FnOnce(bollard::Docker) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, Bollard>>,
    {
        self.client().await?.look(action, call).await
    }

    /// Calls [`Client::work`], and connects first where needed.
    pub(super) async fn work<T, F>(&self, action: &'static str, call: impl FnOnce(bollard::Docker) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, Bollard>>,
    {
        self.client().await?.work(action, call).await
    }

    /// Whether the engine labels its containers, where that makes a difference: Podman is told the same in both cases.
    async fn labels_containers(&self, client: &Client) -> Result<bool, RuntimeError> {
        if client.kind() == EngineKind::Podman || !self.config.shares_folders() {
            return Ok(false);
        }
        let ask = async {
            let info = client.look("describe itself", async move |engine| engine.info().await).await?;
            Ok::<_, RuntimeError>(profile::labels_containers(&info))
        };
        Ok(*client.labels_containers().get_or_try_init(|| ask).await?)
    }

    /// Returns what the engine says of an image.
    /// Errors: [`RuntimeError::NoImage`] when there is none.
    pub(super) async fn inspect_image(&self, name: &str) -> Result<ImageInspect, RuntimeError> {
        let image = self.look("look up an image", async move |engine| engine.inspect_image(name).await).await;
        unless(&[404], image)?.ok_or_else(|| RuntimeError::NoImage(name.to_owned()))
    }

    async fn inspect(&self, name: &str) -> Answer<ContainerInspectResponse> {
        let options = None::<InspectContainerOptions>;
        self.look("inspect a container", async move |engine| engine.inspect_container(name, options).await).await
    }

    async fn state_of(&self, name: &str) -> Result<ContainerState, RuntimeError> {
        let Some(detail) = unless(&[404], self.inspect(name).await)? else { return Ok(ContainerState::Missing) };
        let state = detail.state.unwrap_or_default();
        if state.running == Some(true) {
            return Ok(ContainerState::Running);
        }
        Ok(ContainerState::Exited { code: state.exit_code.unwrap_or(-1), oom: state.oom_killed == Some(true) })
    }

    /// Returns what the engine says of a worker's place on its one network.
    async fn endpoint(&self, worker: &WorkerId) -> Result<Option<EndpointSettings>, RuntimeError> {
        let networks =
            self.inspect(&container_name(worker)).await?.network_settings.and_then(|settings| settings.networks);
        Ok(networks.and_then(|networks| networks.into_values().next()))
    }

    async fn create_container(&self, name: &str, profile: ContainerCreateBody) -> Answer<()> {
        let options = Some(CreateContainerOptionsBuilder::default().name(name).build());
        let create = async move |engine: bollard::Docker| engine.create_container(options, profile).await;
        self.work("create a container", create).await.map(drop)
    }

    async fn start_container(&self, name: &str) -> Answer<()> {
        let options = None::<StartContainerOptions>;
        self.work("start a container", async move |engine| engine.start_container(name, options).await).await
    }

    async fn remove_container(&self, name: &str) -> Result<(), RuntimeError> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let remove = async move |engine: bollard::Docker| engine.remove_container(name, Some(options)).await;
        // It may be gone already, or somebody else's removal under way.
        unless(&[404, 409], self.work("remove a container", remove).await)?;
        Ok(())
    }

    /// Lists the containers that carry all of these labels, in whatever state.
    async fn containers<const N: usize>(&self, labels: [String; N]) -> Answer<Vec<ContainerSummary>> {
        let filters = labels::filter(labels);
        let client = self.client().await?;
        if client.kind() == EngineKind::Podman {
            return Ok(podman::list_containers(&client, &filters).await?);
        }
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        self.look("list the containers", async move |engine| engine.list_containers(Some(options)).await).await
    }

    /// Returns where the agent of a found worker listens. `address` is the worker's own, on its network.
    fn agent_address(&self, worker: &WorkerId, labels: &Labels, address: Option<IpAddr>) -> Option<AgentAddress> {
        let address = address.filter(|address| is_ours(*address));
        let on_port = |port| address.map(|address| AgentAddress::Tcp(SocketAddr::new(address, port)));
        match labels.get(labels::AGENT).map(String::as_str) {
            Some(UNIX) => Some(AgentAddress::Unix(self.folders.socket(worker))),
            Some(_) => on_port(PORT),
            None => on_port(EARLIER_AGENT_PORT),
        }
    }
}

/// Whether an agent's address is on a network of this host. What is sent to another one leaves by the default route, with the secret
/// of its worker, and somebody else may answer.
fn is_ours(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => on_link::is_on_link(address).unwrap_or(false),
        // The engine's networks of workers have none.
        IpAddr::V6(_) => false,
    }
}

/// What to do where this host has no address on the workers' network.
fn unreached(address: IpAddr, config: &Config) -> String {
    let network = &config.docker.network;
    format!(
        "{address} is on no network of this host; Podman's CNI gives hosts no address on internal networks: remove the network \
         {network}, and make it without --internal, or set worker.agent_transport = \"auto\""
    )
}

/// What to do where an agent made no socket in its folder.
fn no_socket(labels_containers: bool) -> String {
    let remedy = "build the worker images anew, or set worker.agent_transport = \"tcp\"";
    let selinux = "; if SELinux denied it (ausearch -m avc), name a type that may in docker.selinux_type";
    format!("the agent made no socket there: {remedy}{}", if labels_containers { selinux } else { "" })
}

#[async_trait]
impl ContainerRuntime for Docker {
    async fn ping(&self) -> Result<(), RuntimeError> {
        let answer = self.client().await?.ping().await;
        if answer.is_err() {
            // Another engine may be the next to answer there, of another version or kind.
            *self.client.write() = None;
        }
        answer
    }

    /// Only agents on TCP need a network.
    async fn ensure_network(&self) -> Result<(), RuntimeError> {
        self.prepare_network().await
    }

    async fn start(&self, spec: &WorkerSpec) -> Result<WorkerLocation, RuntimeError> {
        let name = &container_name(&spec.worker);
        let shares_folders = self.config.shares_folders();
        let unusable = |error: std::io::Error| RuntimeError::Folder(error.to_string());
        if shares_folders {
            self.folders.make(&spec.worker).map_err(unusable)?;
        }
        // A conflict: our own earlier call made it, and its reply was lost.
        let client = self.client().await?;
        let (kind, labels) = (client.kind(), self.labels_containers(&client).await?);
        let profile = self.worker_container(kind, spec, self.worker_network().await?, labels)?;
        match self.create_container(name, profile).await {
            Err(error) if error.status() == Some(404) => return Err(RuntimeError::NoImage(spec.image.clone())),
            Err(error) if kind.is_name_taken(&error) => {}
            made => made?,
        }
        self.start_container(name).await?;
        if shares_folders {
            if self.folders.close(&spec.worker).await.map_err(unusable)? {
                return Ok(AgentAddress::Unix(self.folders.socket(&spec.worker)).into());
            }
            return Err(RuntimeError::Folder(no_socket(labels)));
        }
        let address = self.endpoint(&spec.worker).await?.and_then(|endpoint| endpoint.ip_address?.parse().ok());
        match address {
            Some(address) if is_ours(address) => Ok(AgentAddress::Tcp(SocketAddr::new(address, PORT)).into()),
            Some(address) => Err(RuntimeError::refused("reach an agent", unreached(address, &self.config))),
            None => Err(RuntimeError::refused("start a container", "it ended at once or has no address")),
        }
    }

    async fn addresses(&self, worker: &WorkerId) -> Result<Option<(Ipv4Addr, Ipv4Addr)>, RuntimeError> {
        let address = self.endpoint(worker).await?.and_then(|endpoint| {
            Ipv4Net::new(endpoint.ip_address?.parse().ok()?, endpoint.ip_prefix_len?.try_into().ok()?).ok()
        });
        Ok(address.map(with_gateway))
    }

    async fn state(&self, worker: &WorkerId) -> Result<ContainerState, RuntimeError> {
        self.state_of(&container_name(worker)).await
    }

    async fn remove(&self, worker: &WorkerId) -> Result<(), RuntimeError> {
        self.remove_container(&container_name(worker)).await?;
        self.folders.remove(worker);
        Ok(())
    }

    async fn page_out(&self, worker: &WorkerId) -> Result<u64, RuntimeError> {
        let container = self.inspect(&container_name(worker)).await?;
        let process = container.state.and_then(|state| state.pid).unwrap_or_default();
        let group = MemoryGroup::of(process, &container.id.unwrap_or_default());
        let paged_out = async { group?.page_out().await }.await;
        paged_out.map_err(|error| RuntimeError::NotPagedOut(error.to_string()))
    }

    async fn list_containers(&self) -> Result<Vec<OwnedContainer>, RuntimeError> {
        let found = self.containers([labels::owned_by(&self.instance)]).await?.into_iter().filter_map(|container| {
            let labels = container.labels.unwrap_or_default();
            let (worker, key) = labels::worker(&labels).filter(|_| !labels.contains_key(labels::RENDERER))?;
            let networks = container.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
            let address = networks.into_values().find_map(|endpoint| endpoint.ip_address?.parse().ok());
            let is_running = |state: &str| matches!(state, "running" | "paused");
            Some(OwnedContainer {
                key,
                running: container.state.is_some_and(|state| is_running(state.to_string().as_str())),
                place: self.agent_address(&worker, &labels, address).map(Into::into),
                image: container.image_id.unwrap_or_default(),
                worker,
            })
        });
        Ok(found.collect())
    }

    fn forget_others(&self, workers: &[OwnedContainer]) {
        self.folders.keep_only(&workers.iter().map(|container| &container.worker).collect());
    }

    async fn image_id(&self, name: &str) -> Result<String, RuntimeError> {
        Ok(self.inspect_image(name).await?.id.unwrap_or_default())
    }

    async fn start_renderer(&self, renderer: &RendererId) -> Result<RendererPipes, RuntimeError> {
        self.attach_renderer(renderer).await
    }

    async fn renderer_state(&self, renderer: &RendererId) -> Result<ContainerState, RuntimeError> {
        self.state_of(&container_name(renderer)).await
    }

    async fn remove_renderer(&self, renderer: &RendererId) -> Result<(), RuntimeError> {
        self.remove_container(&container_name(renderer)).await
    }

    async fn left_renderers(&self) -> Result<Vec<RendererId>, RuntimeError> {
        let found = self.containers([labels::owned_by(&self.instance), labels::RENDERER.to_owned()]).await?;
        let is_left = |labels: &Labels| labels.get(labels::RENDERER).is_some_and(|process| *process != self.process);
        let left = found.into_iter().filter_map(|container| container.labels.filter(is_left));
        Ok(left.filter_map(|labels| Some(RendererId::from(labels.get(labels::WORKER)?.as_str()))).collect())
    }

    async fn has_renderer_image(&self) -> Result<bool, RuntimeError> {
        match self.inspect_image(&self.config.world.image).await {
            Ok(_) => Ok(true),
            Err(RuntimeError::NoImage(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn engine_facts(&self) -> Result<DockerFacts, RuntimeError> {
        let version = self.look("report its version", async move |engine| engine.version().await).await?;
        let info = self.look("describe itself", async move |engine| engine.info().await).await?;
        let mut images = Vec::new();
        for engine in Engine::ALL {
            let (name, needed) = (self.config.image(engine), self.config.needs_engine(engine));
            let there = self.inspect_image(name).await.is_ok();
            images.push(ImageFact { engine, name: name.to_owned(), there, needed });
        }
        let renderer = self.config.world.image.clone();
        let renderer_there = self.inspect_image(&renderer).await.is_ok();
        let client = self.client().await?;
        let kind = client.kind();
        let podman = match kind {
            EngineKind::Docker => None,
            EngineKind::Podman => Some(PodmanFacts::ask(&client).await?),
        };
        let rootless = match &podman {
            Some(podman) => podman.rootless,
            None => info.security_options.iter().flatten().any(|option| option.starts_with("name=rootless")),
        };
        let limits = |controller: &str, said: Option<bool>| {
            said.unwrap_or_default() && podman.as_ref().is_none_or(|podman| podman.controls(controller))
        };
        Ok(DockerFacts {
            kind,
            oci_runtime: kind.runtime(&version),
            api_version: version.api_version.unwrap_or_default(),
            server_version: info.server_version.unwrap_or_default(),
            rootless,
            cgroup_version: info.cgroup_version.map(|version| version.to_string()).unwrap_or_default(),
            has_worker_user: podman.as_ref().is_none_or(|podman| podman.has_worker_user),
            memory_limit: limits("memory", info.memory_limit),
            cpu_limit: limits("cpu", info.cpu_cfs_quota),
            pids_limit: limits("pids", info.pids_limit),
            security_options: info.security_options.unwrap_or_default(),
            root_dir: info.docker_root_dir.unwrap_or_default().into(),
            driver: info.driver.unwrap_or_default(),
            runtimes: info.runtimes.unwrap_or_default().into_keys().collect(),
            images,
            renderer: (renderer, renderer_there),
        })
    }
}
