//! Rules of `egress.allow` and `egress.deny`: networks and hosts, each with a port or without.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};
use url::Host;

use super::ca_certificates::{CaCertificates, Trust};
use super::value::{InvalidValue, TomlForm, Value, quoted, text_value};
use warmpool_core::address;

const REMEDY: &str = "write a network, an address or a host, such as 10.0.0.0/8, 10.0.0.7:8080, intranet.example:8080, *.corp.example or *";

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EgressRule {
    target: Target,
    /// None stands for every port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Everything,
    Network(IpNet),
    Host(String),
    /// Every name that ends in this, which begins with a dot.
    Below(String),
}

/// Rules of one origin: of the daemon's settings, of a preset, or of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EgressRules {
    /// What may be reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<EgressRule>,
    /// What may not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<EgressRule>,
    /// Authorities whose certificates of sites browsers believe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ca_certificates: Vec<CaCertificates>,
}

impl EgressRules {
    /// The authorities that they name.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.ca_certificates.as_slice().into()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty() && self.ca_certificates.is_empty()
    }
}

impl From<IpNet> for EgressRule {
    /// The rule that names a network, at every port.
    fn from(network: IpNet) -> Self {
        Self { target: Target::Network(canonical(network.trunc())), port: None }
    }
}

impl EgressRule {
    /// Whether it stands for all hosts, at one port or at any.
    pub fn is_general(&self) -> bool {
        self.target == Target::Everything
    }

    /// Whether it names this host by its name.
    pub fn names(&self, name: &str, port: u16) -> bool {
        let target = match &self.target {
            Target::Everything => true,
            Target::Network(_) => false,
            Target::Host(host) => name == host,
            Target::Below(domain) => name.ends_with(domain.as_str()),
        };
        target && self.port.is_none_or(|own| own == port)
    }

    /// Whether it names this address, or the name that led to it.
    pub fn matches(&self, name: Option<&str>, address: IpAddr, port: u16) -> bool {
        let target = match &self.target {
            Target::Everything => true,
            Target::Network(network) => network.contains(&address),
            Target::Host(_) | Target::Below(_) => return name.is_some_and(|name| self.names(name, port)),
        };
        target && self.port.is_none_or(|own| own == port)
    }
}

impl FromStr for EgressRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(target) = target(text) {
            return Ok(Self { target, port: None });
        }
        let with_port = text.rsplit_once(':').and_then(|(host, port)| Some((target(host)?, port.parse::<u16>().ok()?)));
        match with_port {
            Some((target, port)) if port != 0 => Ok(Self { target, port: Some(port) }),
            _ => Err(format!("{text:?} is not a network, address or host")),
        }
    }
}

fn target(text: &str) -> Option<Target> {
    if text == "*" {
        return Some(Target::Everything);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(network) = bare.parse::<IpNet>() {
        return Some(Target::Network(canonical(network.trunc())));
    }
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(Target::Network(address.to_canonical().into()));
    }
    let (below, name) = match text.strip_prefix("*.").or_else(|| text.strip_prefix('.')) {
        Some(name) => (true, name),
        None => (false, text),
    };
    // As the hosts are read that the rule is compared with. A rule that could match none of them would protect nobody.
    match address::host(name)? {
        Host::Domain(name) if below => Some(Target::Below(format!(".{name}"))),
        Host::Domain(name) => Some(Target::Host(name)),
        _ if below => None,
        host => Some(Target::Network(address::host_ip(&host)?.to_canonical().into())),
    }
}

/// An IPv4 network written as an IPv6 one is the IPv4 network: addresses are judged in that form.
fn canonical(network: IpNet) -> IpNet {
    match network {
        IpNet::V6(mapped) if mapped.prefix_len() >= 96 => match mapped.addr().to_ipv4_mapped() {
            Some(address) => Ipv4Net::new(address, mapped.prefix_len() - 96).map_or(network, IpNet::V4),
            None => network,
        },
        _ => network,
    }
}

impl fmt::Display for EgressRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.port) {
            (Target::Everything, _) => out.write_str("*")?,
            (Target::Network(network), None) => write!(out, "{network}")?,
            (Target::Network(IpNet::V6(network)), Some(_)) => write!(out, "[{network}]")?,
            (Target::Network(network), Some(_)) => write!(out, "{network}")?,
            (Target::Host(host), _) => out.write_str(host)?,
            (Target::Below(domain), _) => write!(out, "*{domain}")?,
        }
        match self.port {
            Some(port) => write!(out, ":{port}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for EgressRule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<EgressRule> for String {
    fn from(rule: EgressRule) -> Self {
        rule.to_string()
    }
}

text_value!(EgressRule, "RULE", |text| text.parse().map_err(|what: String| InvalidValue::new(what, REMEDY)));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_networks_hosts_and_ports() {
        for (rule, name, address, port, matches) in [
            ("10.0.0.0/8", None, "10.1.2.3", 80, true),
            ("10.0.0.0/8", None, "11.1.2.3", 80, false),
            ("10.0.0.0/8:8080", None, "10.1.2.3", 80, false),
            ("10.0.0.7:8080", None, "10.0.0.7", 8080, true),
            ("0xa000007", None, "10.0.0.7", 1, true),
            ("[::1]:3000", None, "::1", 3000, true),
            ("::1", None, "::1", 3000, true),
            ("fd00::/8", None, "fd12::1", 3000, true),
            ("[fd00::/8]:443", None, "fd12::1", 443, true),
            ("Intranet.Example:8080", Some("intranet.example"), "10.0.0.1", 8080, true),
            ("intranet.example", Some("x.intranet.example"), "10.0.0.1", 8080, false),
            ("*.corp.example", Some("a.b.corp.example"), "10.0.0.1", 1, true),
            (".corp.example:80", Some("a.corp.example"), "10.0.0.1", 80, true),
            ("*.corp.example", Some("corp.example"), "10.0.0.1", 1, false),
            ("*.corp.example", Some("evilcorp.example"), "10.0.0.1", 1, false),
            ("intranet.example", None, "10.0.0.1", 8080, false),
            ("denied.example.", Some("denied.example"), "10.0.0.1", 1, true),
            ("*.corp.example.", Some("a.corp.example"), "10.0.0.1", 1, true),
            ("B\u{fc}cher.example", Some("xn--bcher-kva.example"), "10.0.0.1", 1, true),
            ("::ffff:10.0.0.1", None, "10.0.0.1", 1, true),
            ("[::ffff:10.0.0.0/104]:80", None, "10.1.2.3", 80, true),
            ("*", None, "8.8.8.8", 1, true),
            ("*:443", None, "8.8.8.8", 1, false),
        ] {
            let parsed: EgressRule = rule.parse().unwrap();
            assert_eq!(
                parsed.matches(name, address.parse().unwrap(), port),
                matches,
                "{rule} {name:?} {address} {port}"
            );
            assert_eq!(parsed.to_string().parse::<EgressRule>().unwrap(), parsed, "{rule}");
        }
        for wrong in [
            "",
            "a b",
            "http://x",
            "10.0.0.0/33",
            "host:0",
            "host:99999",
            "*.10.0.0.1",
            "::1:x",
            "a/b",
            "denied.example..",
            "a..example",
            ".",
            "..",
            "*..example",
            "*tracker.example",
            "a.*.example",
        ] {
            assert!(wrong.parse::<EgressRule>().is_err(), "{wrong}");
        }
    }
}
