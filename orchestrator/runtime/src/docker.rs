//! Docker Engine as the container runtime.

mod own_container;
mod profile;
mod renderer;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bollard::models::{ContainerInspectResponse, Network};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, InspectNetworkOptions, ListContainersOptionsBuilder,
    ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
};
use parking_lot::RwLock;

use warmpool_protocol::PORT;

pub(super) use profile::{labels, signed};
pub use renderer::RendererPipes;

use super::agent_folder::AgentFolders;
use super::client::{CallError, Client, refused, status};
use super::facts::{DockerFacts, ImageFact};
use super::network::{self, NetworkFacts};
use super::{
    AgentAddress, ContainerState, LABEL_AGENT, LABEL_ENGINE, LABEL_INSTANCE, LABEL_MODE, LABEL_PRESET, LABEL_RENDERER,
    LABEL_WORKER, OwnedContainer, RuntimeError, WorkerSpec,
};
use warmpool_config::Config;
use warmpool_core::browser::{Engine, PoolKey};
use warmpool_core::ids::WorkerId;

/// The port of agents that say nothing of how they are reached: those of workers that an earlier version started.
const EARLIER_AGENT_PORT: u16 = 8400;

/// Values of [`LABEL_AGENT`].
const UNIX: &str = "unix";
const TCP: &str = "tcp";

/// A client of one Docker Engine. Connects when first needed, so the daemon can start before the engine does.
#[derive(Clone)]
pub struct Docker {
    inner: Arc<Inner>,
}

struct Inner {
    config: Arc<Config>,
    instance: String,
    /// Tells the renderers of this process from those of an earlier one.
    process: String,
    folders: AgentFolders,
    client: RwLock<Option<Client>>,
}

impl Docker {
    /// A client for the engine that `config` names; every container it makes is labelled with `instance`.
    #[must_use]
    pub fn new(config: Arc<Config>, instance: String) -> Self {
        let folders = AgentFolders::below(&config.store.data_dir);
        let process = WorkerId::random().to_string();
        Self { inner: Arc::new(Inner { config, instance, process, folders, client: RwLock::new(None) }) }
    }

    pub(super) async fn client(&self) -> Result<Client, RuntimeError> {
        if let Some(client) = self.inner.client.read().clone() {
            return Ok(client);
        }
        let client = Client::connect(&self.inner.config).await?;
        if self.inner.config.shares_folders() {
            let data_dir = own_container::path_on_host(&client, &self.inner.config.store.data_dir).await?;
            self.inner.folders.known_to_the_engine_below(&data_dir);
        }
        *self.inner.client.write() = Some(client.clone());
        Ok(client)
    }

    /// Whether the engine answers.
    /// Errors: [`RuntimeError::Unreachable`].
    pub async fn ping(&self) -> Result<(), RuntimeError> {
        let client = self.client().await?;
        let answer = client.look(|engine| async move { engine.ping().await }).await;
        answer.map(drop).map_err(|error| RuntimeError::Unreachable(error.to_string()))
    }

    /// Makes the workers' own bridge network where it is missing: no traffic between workers or to anywhere else, no IPv6. One
    /// that is there must be so already, whoever made it.
    /// Errors: [`RuntimeError`]; `UnfitNetwork` where workers on the network could reach one another.
    pub async fn ensure_network(&self) -> Result<(), RuntimeError> {
        if self.networks().await?.is_empty() {
            let config = &self.inner.config;
            let asked = network::request(&config.docker.network, config.shares_folders());
            let client = self.client().await?;
            match client.work(|engine| async move { engine.create_network(asked).await }).await {
                Ok(_) => {}
                // Somebody else was first: perhaps another daemon on this engine.
                Err(error) if status(&error) == Some(409) => {}
                Err(error) => return Err(refused("make the workers' network", error)),
            }
        }
        self.remove_duplicate_networks().await?;
        match self.network().await? {
            Some(found) => found.check(),
            None => Err(RuntimeError::Refused {
                action: "make the workers' network",
                message: "it is gone again".to_owned(),
            }),
        }
    }

    /// Leaves one network of the name. Engines before 25 make several when daemons ask at the same moment, and then start no
    /// container on any of them.
    async fn remove_duplicate_networks(&self) -> Result<(), RuntimeError> {
        let client = self.client().await?;
        let networks = self.networks().await?;
        let mut left = networks.len();
        // The youngest first, so that daemons agree; one with containers stays.
        for network in networks.iter().rev().filter(|network| network::is_ours(network)) {
            if left <= 1 {
                break;
            }
            let id = network.id.as_deref().unwrap_or_default();
            match client.work(|engine| async move { engine.remove_network(id).await }).await {
                Ok(()) => left -= 1,
                Err(error) if status(&error) == Some(404) => left -= 1,
                Err(error) => tracing::warn!(id, %error, "a second network of the name stays"),
            }
        }
        if left <= 1 {
            return Ok(());
        }
        let name = &self.inner.config.docker.network;
        let message =
            format!("{left} networks have the name {name}: run `docker network rm ID` for all but one of them");
        Err(RuntimeError::Refused { action: "look up the network", message })
    }

    /// The workers' network, if there is one.
    async fn network(&self) -> Result<Option<NetworkFacts>, RuntimeError> {
        let networks = self.networks().await?;
        let Some(id) = networks.first().and_then(|network| network.id.as_deref()) else { return Ok(None) };
        let client = self.client().await?;
        let look =
            |engine: bollard::Docker| async move { engine.inspect_network(id, None::<InspectNetworkOptions>).await };
        match client.look(look).await {
            Ok(found) => Ok(Some(NetworkFacts::read(found, self.inner.config.shares_folders()))),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(refused("look up the network", error)),
        }
    }

    /// All networks of the workers' network's name, the eldest first.
    async fn networks(&self) -> Result<Vec<Network>, RuntimeError> {
        let name = &self.inner.config.docker.network;
        let filters = HashMap::from([("name", vec![name.as_str()])]);
        let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
        let client = self.client().await?;
        let found = client.look(|engine| async move { engine.list_networks(Some(options)).await }).await;
        let mut found = found.map_err(|error| refused("look up the network", error))?;
        // The filter also lets those through whose names only contain this one.
        found.retain(|network| network.name.as_ref() == Some(name));
        found.sort_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)));
        Ok(found)
    }

    /// Makes and starts the worker's container; gives where its agent listens.
    ///
    /// Safe to call again for the same worker when a reply was lost: the name decides.
    /// Errors: [`RuntimeError`]; the caller removes what may have been made.
    pub async fn start(&self, spec: &WorkerSpec) -> Result<AgentAddress, RuntimeError> {
        let client = self.client().await?;
        let name = &container_name(&spec.worker);
        let folders = &self.inner.folders;
        if self.inner.config.shares_folders() {
            folders.make(&spec.worker).map_err(|error| RuntimeError::Folder(error.to_string()))?;
        }
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let profile = self.container(spec);
        match client.work(|engine| async move { engine.create_container(Some(options), profile).await }).await {
            Ok(_) => {}
            // Our own earlier call made it and its reply was lost.
            Err(error) if status(&error) == Some(409) => {}
            Err(error) if status(&error) == Some(404) => return Err(RuntimeError::NoImage(spec.image.clone())),
            Err(error) => return Err(refused("create a container", error)),
        }
        client
            .work(|engine| async move { engine.start_container(name, None::<StartContainerOptions>).await })
            .await
            .map_err(|error| refused("start a container", error))?;
        if self.inner.config.shares_folders() {
            return match folders.close(&spec.worker).await {
                Ok(true) => Ok(AgentAddress::Unix(folders.socket(&spec.worker))),
                Ok(false) => Err(RuntimeError::Folder(
                    "the agent made no socket there: build the worker images anew, or set worker.agent_transport = \"tcp\""
                        .to_owned(),
                )),
                Err(error) => Err(RuntimeError::Folder(error.to_string())),
            };
        }
        let detail = inspect(&client, name).await.map_err(|error| refused("inspect a container", error))?;
        let address = detail
            .network_settings
            .and_then(|settings| settings.networks)
            .and_then(|mut networks| networks.remove(&self.inner.config.docker.network))
            .and_then(|endpoint| endpoint.ip_address)
            .and_then(|text| text.parse::<IpAddr>().ok());
        match address {
            Some(address) => Ok(AgentAddress::Tcp(SocketAddr::new(address, PORT))),
            _ => Err(RuntimeError::Refused {
                action: "start a container",
                message: "it ended at once or has no address".to_owned(),
            }),
        }
    }

    /// The address of a worker on its network, and the first one of that network, which is its gateway's where it has one.
    /// Errors: [`RuntimeError`] when the engine cannot be asked.
    pub async fn addresses(&self, worker: &WorkerId) -> Result<Option<(Ipv4Addr, Ipv4Addr)>, RuntimeError> {
        let client = self.client().await?;
        let detail = inspect(&client, &container_name(worker)).await;
        let networks = detail.map_err(|error| refused("inspect a container", error))?.network_settings;
        let networks = networks.and_then(|settings| settings.networks);
        let endpoint = networks.and_then(|mut networks| networks.remove(&self.inner.config.docker.network));
        Ok(endpoint.and_then(|endpoint| {
            let address: Ipv4Addr = endpoint.ip_address?.parse().ok()?;
            let prefix = u32::try_from(endpoint.ip_prefix_len?).ok()?;
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(prefix)?).unwrap_or(0);
            Some((address, Ipv4Addr::from_bits((address.to_bits() & mask) + 1)))
        }))
    }

    /// Looks a worker's container up.
    /// Errors: [`RuntimeError`] when the engine cannot be asked.
    pub async fn state(&self, worker: &WorkerId) -> Result<ContainerState, RuntimeError> {
        let client = self.client().await?;
        match inspect(&client, &container_name(worker)).await {
            Ok(detail) => {
                let state = detail.state.unwrap_or_default();
                if state.running == Some(true) {
                    Ok(ContainerState::Running)
                } else {
                    Ok(ContainerState::Exited {
                        code: state.exit_code.unwrap_or(-1),
                        oom: state.oom_killed == Some(true),
                    })
                }
            }
            Err(error) if status(&error) == Some(404) => Ok(ContainerState::Missing),
            Err(error) => Err(refused("inspect a container", error)),
        }
    }

    /// Removes a worker's container, running or not, with all it wrote. A container that is gone is a success.
    /// Errors: [`RuntimeError`]; reconciling tries again.
    pub async fn remove(&self, worker: &WorkerId) -> Result<(), RuntimeError> {
        let client = self.client().await?;
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let name = &container_name(worker);
        match client.work(|engine| async move { engine.remove_container(name, Some(options)).await }).await {
            Ok(()) => {}
            // Gone already, or somebody else's removal is under way.
            Err(error) if matches!(status(&error), Some(404 | 409)) => {}
            Err(error) => return Err(refused("remove a container", error)),
        }
        self.inner.folders.remove(worker);
        Ok(())
    }

    /// Every container with this daemon's label, in whatever state.
    /// Errors: [`RuntimeError`] when the engine cannot be asked.
    pub async fn owned(&self) -> Result<Vec<OwnedContainer>, RuntimeError> {
        let client = self.client().await?;
        let label = format!("{LABEL_INSTANCE}={}", self.inner.instance);
        let filters = HashMap::from([("label".to_owned(), vec![label])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let list = client.look(|engine| async move { engine.list_containers(Some(options)).await }).await;
        let list = list.map_err(|error| refused("list the containers", error))?;
        let owned = list.into_iter().filter_map(|container| {
            let labels = container.labels.unwrap_or_default();
            if labels.contains_key(LABEL_RENDERER) {
                return None;
            }
            let label = |name: &str| labels.get(name).map(String::as_str);
            let engine = label(LABEL_ENGINE).and_then(|text| text.parse().ok());
            let mode = label(LABEL_MODE).and_then(|text| text.parse().ok());
            let preset = label(LABEL_PRESET).and_then(|text| text.parse().ok());
            let network = container.network_settings.and_then(|settings| settings.networks).and_then(|networks| {
                networks.into_values().find_map(|endpoint| endpoint.ip_address?.parse::<IpAddr>().ok())
            });
            let worker = WorkerId::from(label(LABEL_WORKER)?);
            let port = |port| network.map(|address| AgentAddress::Tcp(SocketAddr::new(address, port)));
            let address = match label(LABEL_AGENT) {
                Some(UNIX) => Some(AgentAddress::Unix(self.inner.folders.socket(&worker))),
                Some(_) => port(PORT),
                None => port(EARLIER_AGENT_PORT),
            };
            Some(OwnedContainer {
                worker,
                key: engine.zip(mode).map(|(engine, mode)| PoolKey { engine, mode, preset }),
                running: container
                    .state
                    .is_some_and(|state| matches!(state.to_string().as_str(), "running" | "paused")),
                place: address.map(Into::into),
                image: container.image_id.unwrap_or_default(),
            })
        });
        Ok(owned.collect())
    }

    /// Removes what other workers than these, of an earlier process, left in the data directory.
    pub fn forget_others(&self, workers: &[OwnedContainer]) {
        self.inner.folders.keep_only(&workers.iter().map(|container| &container.worker).collect::<HashSet<_>>());
    }

    /// The id of the image that `name` means now.
    /// Errors: [`RuntimeError::NoImage`] when there is none.
    pub async fn image_id(&self, name: &str) -> Result<String, RuntimeError> {
        let client = self.client().await?;
        match client.look(|engine| async move { engine.inspect_image(name).await }).await {
            Ok(image) => Ok(image.id.unwrap_or_default()),
            Err(error) if status(&error) == Some(404) => Err(RuntimeError::NoImage(name.to_owned())),
            Err(error) => Err(refused("look up an image", error)),
        }
    }

    /// What `warmpool doctor` wants to know of the engine.
    /// Errors: [`RuntimeError`] when the engine cannot be asked.
    pub async fn facts(&self) -> Result<DockerFacts, RuntimeError> {
        let client = self.client().await?;
        let version = client.look(|engine| async move { engine.version().await }).await;
        let version = version.map_err(|error| refused("report its version", error))?;
        let info = client.look(|engine| async move { engine.info().await }).await;
        let info = info.map_err(|error| refused("describe itself", error))?;
        let mut images = Vec::new();
        for engine in Engine::ALL {
            let (name, needed) = (self.inner.config.image(engine), self.inner.config.needs_engine(engine));
            let there = self.image_id(name).await.is_ok();
            images.push(ImageFact { engine, name: name.to_owned(), there, needed });
        }
        let renderer = self.inner.config.world.image.clone();
        let renderer_there = self.image_id(&renderer).await.is_ok();
        let runc = version.components.unwrap_or_default().into_iter().find(|part| part.name == "runc");
        Ok(DockerFacts {
            api_version: version.api_version.unwrap_or_default(),
            server_version: info.server_version.unwrap_or_default(),
            runc_version: runc.map(|part| part.version).unwrap_or_default(),
            cgroup_version: info.cgroup_version.map(|version| version.to_string()).unwrap_or_default(),
            memory_limit: info.memory_limit.unwrap_or_default(),
            cpu_limit: info.cpu_cfs_quota.unwrap_or_default(),
            pids_limit: info.pids_limit.unwrap_or_default(),
            security_options: info.security_options.unwrap_or_default(),
            root_dir: info.docker_root_dir.unwrap_or_default().into(),
            driver: info.driver.unwrap_or_default(),
            runtimes: info.runtimes.unwrap_or_default().into_keys().collect(),
            images,
            renderer: (renderer, renderer_there),
            // An overlay is another matter than this engine's bridges.
            network: if self.inner.config.swarm.enabled { None } else { self.network().await? },
        })
    }
}

/// The name of the container or service of a worker.
pub(super) fn container_name(worker: &WorkerId) -> String {
    format!("warmpool-{worker}")
}

/// What the engine says of a container.
async fn inspect(client: &Client, name: &str) -> Result<ContainerInspectResponse, CallError> {
    client.look(|engine| async move { engine.inspect_container(name, None::<InspectContainerOptions>).await }).await
}
