//! The network of workers on this engine.
//!
//! - *Agents on Unix sockets need none*: their containers start with `none`, so whatever breaks out of a browser finds nothing
//!   there. The engine has less to do, too: starting and removing a container took 0.29 s with a bridge and 0.20 s without.
//!   Docker starts itself twice for each such container all the same, to look after a network that has nobody on it, which takes
//!   0.1 s of processor time, unless it is told that the network is disabled. It then writes no `/etc/hosts`, where drivers look for
//!   `localhost`, so that file comes from the worker's folder.
//! - *An agent on TCP needs one on which this daemon reaches its port.* It leaves that network before it starts anything
//!   (`own_network.rs` of the agent), so that nothing depends on how the network was made. It is internal and keeps containers
//!   apart all the same, for the moment in which agents start.
//! - *Workers name their network by its id.* Engines before 25 make two networks of one name when two daemons ask at once, and
//!   start nothing on the name.

use std::collections::HashMap;

use bollard::models::{EndpointSettings, Network, NetworkCreateRequest, NetworkInspect, NetworkingConfig};
use bollard::query_parameters::{InspectNetworkOptions, ListNetworksOptionsBuilder};

use super::Docker;
use crate::RuntimeError;
use crate::client::unless;
use crate::labels::{self, labels};

/// The driver of the network.
const DRIVER: &str = "bridge";
/// The option that lets containers of one bridge reach one another; the engine takes its absence for `true`.
const BETWEEN_CONTAINERS: &str = "com.docker.network.bridge.enable_icc";
/// The option by which the host has no address on a bridge. Of all networks with the daemon's label, only those have it as
/// `true` that earlier versions made for agents on Unix sockets.
const WITHOUT_HOST: &str = "com.docker.network.bridge.inhibit_ipv4";
/// What the engine is asked for.
const CREATE: &str = "make the workers' network";
const LOOK: &str = "look up the network";

/// The network on which a worker starts.
pub(super) struct WorkerNetwork {
    /// By its id, or `none`.
    pub mode: String,
    /// Where a container is on it; none where there is no network.
    pub endpoints: Option<NetworkingConfig>,
}

impl Docker {
    /// Creates the network of agents on TCP where it is missing, and removes what earlier versions needed.
    pub(super) async fn prepare_network(&self) -> Result<(), RuntimeError> {
        self.remove_left_networks().await?;
        self.worker_network().await.map(drop)
    }

    /// Returns the network on which a worker starts.
    pub(super) async fn worker_network(&self) -> Result<WorkerNetwork, RuntimeError> {
        if self.config.shares_folders() {
            return Ok(WorkerNetwork { mode: "none".to_owned(), endpoints: None });
        }
        let name = &self.config.docker.network;
        let id = match self.eldest_network().await? {
            Some(id) => id,
            None => {
                self.create_network(request(name)).await?;
                self.eldest_network().await?.ok_or_else(vanished)?
            }
        };
        // The engine connects a container by the id that its end has, and by the name where that has none.
        let end = EndpointSettings { network_id: Some(id.clone()), ..Default::default() };
        let endpoints = NetworkingConfig { endpoints_config: Some(HashMap::from([(name.clone(), end)])) };
        Ok(WorkerNetwork { mode: id, endpoints: Some(endpoints) })
    }

    /// Creates a network, unless somebody else was first: perhaps another daemon on this engine.
    pub(crate) async fn create_network(&self, asked: NetworkCreateRequest) -> Result<(), RuntimeError> {
        let create = async move |engine: bollard::Docker| engine.create_network(asked).await;
        unless(&[409], self.work(CREATE, create).await)?;
        Ok(())
    }

    /// Returns the network of this name or id, if it exists.
    pub(crate) async fn inspect_network(&self, name: &str) -> Result<Option<NetworkInspect>, RuntimeError> {
        let options = None::<InspectNetworkOptions>;
        let inspect = async move |engine: bollard::Docker| engine.inspect_network(name, options).await;
        Ok(unless(&[404], self.look(LOOK, inspect).await)?)
    }

    /// Removes the networks that earlier versions made for agents on Unix sockets, unless containers are on them.
    async fn remove_left_networks(&self) -> Result<(), RuntimeError> {
        for network in self.networks("label", labels::NETWORK).await?.iter().filter(|network| is_left(network)) {
            let id = network.id.as_deref().unwrap_or_default();
            let remove = async move |engine: bollard::Docker| engine.remove_network(id).await;
            if let Err(error) = self.work("remove a network", remove).await {
                // Workers of an earlier version may still be on it.
                tracing::debug!(id, %error, "a network that workers need no more stays for now");
            }
        }
        Ok(())
    }

    /// Returns the id of the eldest network that has the name of the workers' network, so that all daemons agree.
    async fn eldest_network(&self) -> Result<Option<String>, RuntimeError> {
        let name = &self.config.docker.network;
        // The filter also lets those through whose names only contain this one.
        let found =
            self.networks("name", name).await?.into_iter().filter(|network| network.name.as_ref() == Some(name));
        let eldest = found.min_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)));
        Ok(eldest.and_then(|network| network.id))
    }

    async fn networks(&self, filter: &str, value: &str) -> Result<Vec<Network>, RuntimeError> {
        let options = ListNetworksOptionsBuilder::default().filters(&HashMap::from([(filter, vec![value])])).build();
        Ok(self.look(LOOK, async move |engine| engine.list_networks(Some(options)).await).await?)
    }
}

/// The error where a network that was just created is gone.
pub(crate) fn vanished() -> RuntimeError {
    RuntimeError::refused(CREATE, "it is gone again")
}

/// Whether no worker of this version can be on it.
fn is_left(network: &Network) -> bool {
    let option = |name| network.options.as_ref().and_then(|options| options.get(name)).map(String::as_str);
    network.driver.as_deref() == Some(DRIVER) && option(WITHOUT_HOST) == Some("true")
}

/// The network that a daemon creates where none has this name.
fn request(name: &str) -> NetworkCreateRequest {
    NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some(DRIVER.to_owned()),
        internal: Some(true),
        options: Some(labels([(BETWEEN_CONTAINERS, "false")])),
        labels: Some(labels([(labels::NETWORK, "workers")])),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_earlier_versions_made_for_unix_sockets_is_left() {
        let network = |driver: &str, options: &[(&str, &str)]| Network {
            driver: Some(driver.to_owned()),
            options: Some(options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()),
            ..Default::default()
        };
        assert!(is_left(&network(DRIVER, &[(BETWEEN_CONTAINERS, "false"), (WITHOUT_HOST, "true")])));
        assert!(!is_left(&network(DRIVER, &[(BETWEEN_CONTAINERS, "false"), (WITHOUT_HOST, "false")])));
        assert!(!is_left(&network("overlay", &[(WITHOUT_HOST, "true")])));
        let ours = request("warmpool");
        assert!(!is_left(&Network { driver: ours.driver, options: ours.options, ..Default::default() }));
    }
}
