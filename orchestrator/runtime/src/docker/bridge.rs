//! The workers' network, a bridge of this engine, and what it must be so that workers cannot reach one another.
//!
//! The network is internal, and its bridge has no address of the host (`inhibit_ipv4`), so a compromised browser finds neither
//! gateway nor sibling, neither name server nor UDP. This needs no privilege in any kernel, as a packet filter in the container
//! would. It needs a bridge all the same: with no interface at all, `navigator.onLine` is false.
//!
//! Engines before 25 make two networks of one name when two daemons ask at once, and start nothing on either. So a daemon looks
//! at all of them before it uses one, keeps the eldest and removes its like.

use std::collections::HashMap;

use bollard::models::{Network, NetworkCreateRequest, NetworkInspect};
use bollard::query_parameters::{InspectNetworkOptions, ListNetworksOptionsBuilder};

use super::Docker;
use crate::client::unless;
use crate::labels::{self, labels};
use crate::{NetworkFacts, RuntimeError};

/// The driver of the network.
const DRIVER: &str = "bridge";
/// The option that lets containers of one bridge reach one another; the engine takes its absence for `true`.
const BETWEEN_CONTAINERS: &str = "com.docker.network.bridge.enable_icc";
/// The option by which this host has no address on the bridge.
const WITHOUT_HOST: &str = "com.docker.network.bridge.inhibit_ipv4";
/// The option by which other hosts can be let through to every port of a container, and the value that does so.
const GATEWAY_MODE: &str = "com.docker.network.bridge.gateway_mode_ipv4";
const UNPROTECTED: &str = "nat-unprotected";
/// What the engine is asked for.
const CREATE: &str = "make the workers' network";
const LOOK: &str = "look up the network";

impl Docker {
    /// Creates the workers' bridge where it is missing: no traffic between workers or to anywhere else, no IPv6. One that
    /// exists must be so already, whoever created it.
    pub(super) async fn ensure_bridge(&self) -> Result<(), RuntimeError> {
        if self.networks().await?.is_empty() {
            self.create_network(request(&self.config.docker.network, self.config.shares_folders())).await?;
        }
        self.remove_duplicate_networks().await?;
        self.bridge().await?.ok_or_else(vanished)?.check()
    }

    /// Returns the workers' bridge, if it exists.
    pub(super) async fn bridge(&self) -> Result<Option<NetworkFacts>, RuntimeError> {
        let networks = self.networks().await?;
        let Some(id) = networks.first().and_then(|network| network.id.as_deref()) else { return Ok(None) };
        let found = self.inspect_network(id).await?;
        Ok(found.map(|found| NetworkFacts::read(found, self.config.shares_folders())))
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

    /// Removes all networks of the name but one. Engines before 25 make several when daemons ask at the same moment, and then start no
    /// container on any of them.
    async fn remove_duplicate_networks(&self) -> Result<(), RuntimeError> {
        let networks = self.networks().await?;
        let mut left = networks.len();
        // The youngest first, so that daemons agree; one with containers stays.
        for network in networks.iter().rev().filter(|network| is_labelled(network.labels.as_ref())) {
            if left <= 1 {
                break;
            }
            let id = network.id.as_deref().unwrap_or_default();
            let remove = async move |engine: bollard::Docker| engine.remove_network(id).await;
            match unless(&[404], self.work("remove a network", remove).await) {
                Ok(_) => left -= 1,
                Err(error) => tracing::warn!(id, %error, "a second network of the name stays"),
            }
        }
        if left <= 1 {
            return Ok(());
        }
        let name = &self.config.docker.network;
        let message =
            format!("{left} networks have the name {name}: run `docker network rm ID` for all but one of them");
        Err(RuntimeError::refused(LOOK, message))
    }

    /// Lists the networks that have the name of the workers' network, the eldest first.
    async fn networks(&self) -> Result<Vec<Network>, RuntimeError> {
        let name = &self.config.docker.network;
        let filters = HashMap::from([("name", vec![name.as_str()])]);
        let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
        let mut found = self.look(LOOK, async move |engine| engine.list_networks(Some(options)).await).await?;
        // The filter also lets those through whose names only contain this one.
        found.retain(|network| network.name.as_ref() == Some(name));
        found.sort_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)));
        Ok(found)
    }
}

/// The error where a network that was just created is gone.
pub(crate) fn vanished() -> RuntimeError {
    RuntimeError::refused(CREATE, "it is gone again")
}

impl NetworkFacts {
    fn read(found: NetworkInspect, needs_no_host: bool) -> Self {
        let members = found.containers.unwrap_or_default().into_iter();
        let mut members: Vec<_> = members.map(|(id, member)| member.name.unwrap_or(id)).collect();
        members.sort();
        Self {
            name: found.name.unwrap_or_default(),
            driver: found.driver.unwrap_or_default(),
            options: found.options.unwrap_or_default(),
            internal: found.internal == Some(true),
            needs_no_host,
            ipv6: found.enable_ipv6 == Some(true),
            labelled: is_labelled(found.labels.as_ref()),
            members,
        }
    }

    /// Returns what makes it unsafe for workers, in words that follow its name; none where it is safe.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let option = |name: &str| self.options.get(name).map(String::as_str);
        // The engine's own words for false and true.
        let kept_apart = matches!(option(BETWEEN_CONTAINERS), Some("0" | "f" | "F" | "false" | "False" | "FALSE"));
        let without_host = matches!(option(WITHOUT_HOST), Some("1" | "t" | "T" | "true" | "True" | "TRUE"));
        if self.driver != DRIVER {
            Some(format!("has the driver {}, and workers are kept apart on a {DRIVER} only", self.driver))
        } else if !kept_apart {
            Some(format!("lets workers reach one another: its option {BETWEEN_CONTAINERS} is not false"))
        } else if !self.internal {
            Some("leads to other networks: it is not internal, so pages could go around egress rules".to_owned())
        } else if self.needs_no_host && !without_host {
            Some(format!("lets workers reach this host: its option {WITHOUT_HOST} is not true"))
        } else if !self.needs_no_host && without_host {
            Some(format!("keeps agents on TCP out of reach: its option {WITHOUT_HOST} is true"))
        } else if self.ipv6 {
            Some("has IPv6, by which workers can reach one another".to_owned())
        } else if option(GATEWAY_MODE) == Some(UNPROTECTED) {
            Some(format!("lets other hosts reach workers: its option {GATEWAY_MODE} is {UNPROTECTED}"))
        } else {
            None
        }
    }

    /// Returns what the operator can do about a flaw.
    #[must_use]
    pub fn remedy(&self) -> String {
        let name = &self.name;
        let remove = format!("run `docker network rm {name}`, and the daemon makes it as it must be");
        let other = "or name another network in docker.network";
        if self.members.is_empty() {
            format!("{remove}; {other}")
        } else {
            format!("disconnect or remove the containers on it ({}), then {remove}; {other}", self.members.join(", "))
        }
    }

    /// Fails where workers must not be put on it.
    fn check(&self) -> Result<(), RuntimeError> {
        match self.flaw() {
            None => Ok(()),
            Some(flaw) => Err(RuntimeError::UnfitNetwork { name: self.name.clone(), flaw, remedy: self.remedy() }),
        }
    }
}

/// Whether a daemon made the network with these labels.
fn is_labelled(labels: Option<&HashMap<String, String>>) -> bool {
    labels.is_some_and(|labels| labels.contains_key(labels::NETWORK))
}

/// The network that a daemon creates where none has this name.
fn request(name: &str, needs_no_host: bool) -> NetworkCreateRequest {
    let options = HashMap::from([
        (BETWEEN_CONTAINERS.to_owned(), "false".to_owned()),
        (WITHOUT_HOST.to_owned(), needs_no_host.to_string()),
    ]);
    NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some(DRIVER.to_owned()),
        internal: Some(true),
        enable_ipv6: Some(false),
        options: Some(options),
        labels: Some(labels([(labels::NETWORK, "workers")])),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::EndpointResource;

    use super::*;

    /// What the engine answers of a network that was made as we ask for it.
    fn ours() -> NetworkInspect {
        let asked = request("warmpool", true);
        NetworkInspect {
            name: Some(asked.name),
            driver: asked.driver,
            internal: asked.internal,
            enable_ipv6: asked.enable_ipv6,
            options: asked.options,
            labels: asked.labels,
            containers: Some(HashMap::new()),
            ..Default::default()
        }
    }

    fn with(name: &str, value: &str) -> NetworkInspect {
        let mut network = ours();
        network.options.get_or_insert_default().insert(name.to_owned(), value.to_owned());
        network
    }

    #[test]
    fn a_network_of_ours_is_fit_and_known_as_ours() {
        let facts = NetworkFacts::read(ours(), true);
        assert!(facts.labelled && facts.check().is_ok(), "{facts:?}");
    }

    #[test]
    fn one_that_an_earlier_release_made_is_fit_without_the_label() {
        let facts = NetworkFacts::read(NetworkInspect { labels: Some(HashMap::new()), ..ours() }, true);
        assert!(!facts.labelled && facts.check().is_ok(), "{facts:?}");
        assert!(NetworkFacts::read(with(BETWEEN_CONTAINERS, "0"), true).check().is_ok(), "the engine's other word");
    }

    #[test]
    fn each_flaw_is_refused_with_the_command_that_mends_it() {
        let cases = [
            (NetworkInspect { options: None, ..ours() }, "reach one another"),
            (NetworkInspect { options: Some(HashMap::new()), ..ours() }, "enable_icc is not false"),
            (with(BETWEEN_CONTAINERS, "true"), "enable_icc is not false"),
            (with(BETWEEN_CONTAINERS, "no"), "enable_icc is not false"),
            (NetworkInspect { driver: Some("macvlan".to_owned()), ..ours() }, "driver macvlan"),
            (NetworkInspect { driver: None, ..ours() }, "driver"),
            (NetworkInspect { internal: Some(false), ..ours() }, "not internal"),
            (NetworkInspect { internal: None, ..ours() }, "not internal"),
            (with(WITHOUT_HOST, "false"), "reach this host"),
            (NetworkInspect { enable_ipv6: Some(true), ..ours() }, "IPv6"),
            (with(GATEWAY_MODE, UNPROTECTED), "other hosts"),
        ];
        for (network, words) in cases {
            let refused = NetworkFacts::read(network, true).check().unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
            assert!(
                refused.contains("run `docker network rm warmpool`") && refused.contains("docker.network"),
                "{refused}"
            );
        }
    }

    #[test]
    fn agents_on_tcp_need_the_hosts_address() {
        let refused = NetworkFacts::read(ours(), false).check().unwrap_err().to_string();
        assert!(refused.contains("agents on TCP"), "{refused}");
        assert!(NetworkFacts::read(with(WITHOUT_HOST, "false"), false).check().is_ok());
    }

    #[test]
    fn a_network_in_use_cannot_be_removed_at_once() {
        let member = |name: &str| EndpointResource { name: Some(name.to_owned()), ..Default::default() };
        let containers = HashMap::from([("1".to_owned(), member("web")), ("2".to_owned(), member("db"))]);
        let facts = NetworkFacts::read(NetworkInspect { containers: Some(containers), ..ours() }, true);
        assert!(facts.remedy().starts_with("disconnect or remove the containers on it (db, web), then run"));
    }
}
