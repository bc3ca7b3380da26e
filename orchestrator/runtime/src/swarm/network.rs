//! The overlay between the daemon and its workers.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use bollard::models::{NetworkCreateRequest, NetworkInspect};
use ipnet::Ipv4Net;

use crate::RuntimeError;
use crate::labels::{self, labels};

const DRIVER: &str = "overlay";
/// The driver's option that encrypts what goes from node to node; its presence alone counts.
const ENCRYPTED: &str = "encrypted";

/// What the manager says of the workers' network, as far as it matters to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OverlayFacts {
    name: String,
    driver: String,
    internal: bool,
    ipv6: bool,
    encrypted: bool,
    /// Whether the configuration wants it encrypted.
    must_be_encrypted: bool,
    subnets: Vec<Ipv4Net>,
}

impl OverlayFacts {
    pub(super) fn read(found: NetworkInspect, must_be_encrypted: bool) -> Self {
        let pools = found.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
        Self {
            name: found.name.unwrap_or_default(),
            driver: found.driver.unwrap_or_default(),
            internal: found.internal == Some(true),
            ipv6: found.enable_ipv6 == Some(true),
            encrypted: found.options.is_some_and(|options| options.contains_key(ENCRYPTED)),
            must_be_encrypted,
            subnets: pools.into_iter().filter_map(|pool| pool.subnet?.parse().ok()).collect(),
        }
    }

    /// Fails where workers must not be put on it, or a daemon with these addresses could not reach them.
    pub(super) fn check(&self, own: &[Ipv4Addr]) -> Result<(), RuntimeError> {
        let name = &self.name;
        let flaw = if self.driver != DRIVER {
            format!("has the driver {}, and only an {DRIVER} reaches other nodes", self.driver)
        } else if !self.internal {
            "leads to other networks: it is not internal, so pages could go around egress rules".to_owned()
        } else if self.ipv6 {
            "has IPv6, for which workers have no rules".to_owned()
        } else if self.must_be_encrypted && !self.encrypted {
            "is not encrypted, and swarm.encrypted is true".to_owned()
        } else {
            return self.check_reach(own);
        };
        let remedy = format!(
            "remove what is on it and run `docker network rm {name}`, and the daemon makes it as it must be; or name \
             another network in docker.network"
        );
        Err(RuntimeError::UnfitNetwork { name: name.clone(), flaw, remedy })
    }

    fn check_reach(&self, own: &[Ipv4Addr]) -> Result<(), RuntimeError> {
        if own.iter().any(|address| self.subnets.iter().any(|subnet| subnet.contains(address))) {
            return Ok(());
        }
        let name = self.name.clone();
        Err(RuntimeError::UnfitNetwork {
            flaw: "does not reach this daemon, which has no address on it".to_owned(),
            remedy: format!(
                "run the daemon in a container and `docker network connect {name} CONTAINER`, or as a service on {name}"
            ),
            name,
        })
    }
}

/// The network that a daemon makes where there is none of this name.
pub(super) fn request(name: &str, encrypted: bool) -> NetworkCreateRequest {
    NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some(DRIVER.to_owned()),
        internal: Some(true),
        attachable: Some(true),
        enable_ipv6: Some(false),
        options: encrypted.then(|| HashMap::from([(ENCRYPTED.to_owned(), String::new())])),
        labels: Some(labels([(labels::NETWORK, "workers")])),
        ..Default::default()
    }
}

/// The addresses that this process could be reached at.
pub(super) fn own_addresses() -> Vec<Ipv4Addr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    interfaces.filter_map(|interface| Some(interface.address?.as_sockaddr_in()?.ip())).collect()
}

#[cfg(test)]
mod tests {
    use bollard::models::{Ipam, IpamConfig};

    use super::*;

    const OWN: [Ipv4Addr; 2] = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 0, 1, 7)];

    fn ours() -> NetworkInspect {
        let asked = request("workers", true);
        let pool = IpamConfig { subnet: Some("10.0.1.0/24".to_owned()), ..Default::default() };
        NetworkInspect {
            name: Some(asked.name),
            driver: asked.driver,
            internal: asked.internal,
            enable_ipv6: asked.enable_ipv6,
            options: asked.options,
            ipam: Some(Ipam { config: Some(vec![pool]), ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn a_network_of_ours_is_fit() {
        assert!(OverlayFacts::read(ours(), true).check(&OWN).is_ok());
        let open = NetworkInspect { options: None, ..ours() };
        assert!(OverlayFacts::read(open, false).check(&OWN).is_ok());
    }

    #[test]
    fn each_flaw_is_refused() {
        let cases = [
            (NetworkInspect { driver: Some("bridge".to_owned()), ..ours() }, "driver bridge"),
            (NetworkInspect { internal: Some(false), ..ours() }, "not internal"),
            (NetworkInspect { enable_ipv6: Some(true), ..ours() }, "IPv6"),
            (NetworkInspect { options: None, ..ours() }, "not encrypted"),
            (NetworkInspect { ipam: None, ..ours() }, "no address on it"),
        ];
        for (network, words) in cases {
            let refused = OverlayFacts::read(network, true).check(&OWN).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
        let refused = OverlayFacts::read(ours(), true).check(&OWN[..1]).unwrap_err().to_string();
        assert!(refused.contains("docker network connect workers"), "{refused}");
    }
}
