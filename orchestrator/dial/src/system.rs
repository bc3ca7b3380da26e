//! What this host knows of names, and whom it asks for others: `/etc/hosts` and `/etc/resolv.conf`, which are read again when
//! they change.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;
use hickory_resolver::system_conf::parse_resolv_conf;
use parking_lot::Mutex;

use super::resolver::{Found, ResolverLimits, UnknownName};
use warmpool_core::address::is_public;

/// The port of name servers.
const PORT: u16 = 53;
/// Time between two looks whether a file has changed.
const LOOK: Duration = Duration::from_secs(1);
/// Where names are asked for if nothing says so, as resolv.conf(5) has it.
const DEFAULT_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Where the system says what it knows.
#[derive(Debug, Clone)]
pub(super) struct SystemFiles {
    pub resolv_conf: PathBuf,
    pub hosts: PathBuf,
    /// What resolv.conf(5) cannot say.
    pub port: u16,
    /// The time between two looks at the files.
    pub look: Duration,
}

impl Default for SystemFiles {
    fn default() -> Self {
        Self { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into(), port: PORT, look: LOOK }
    }
}

/// Answers from the files as they are now.
pub(super) struct SystemNames {
    files: SystemFiles,
    options: ResolverOpts,
    current: Mutex<Current>,
}

struct Current {
    state: Arc<State>,
    stamps: [Option<Stamp>; 2],
    looked: Instant,
}

/// Distinguishes a file from what it was: when it was written, how long it is, and which one it is.
type Stamp = (SystemTime, u64, u64);

struct State {
    hosts: HashMap<String, Vec<IpAddr>>,
    /// None where nothing usable is configured.
    resolver: Option<TokioResolver>,
    /// The domains to search, and how many dots a name needs to be asked for as it is first.
    search: Vec<Name>,
    ndots: usize,
}

impl SystemNames {
    pub(super) fn new(files: SystemFiles, limits: &ResolverLimits) -> Self {
        let mut options = ResolverOpts::default();
        options.use_hosts_file = ResolveHosts::Never;
        options.timeout = limits.time;
        options.positive_max_ttl = Some(limits.max_ttl);
        options.negative_max_ttl = Some(limits.max_negative_ttl);
        let current =
            Current { state: Arc::new(State::read(&files, &options)), stamps: files.stamps(), looked: Instant::now() };
        Self { files, options, current: Mutex::new(current) }
    }

    /// The addresses of a name, in the order in which to try them, and the name that has them.
    pub(super) async fn look_up(&self, name: &str) -> Result<Found, UnknownName> {
        let state = self.state();
        if let Some(addresses) = state.hosts.get(name) {
            return Ok(Found { name: name.to_owned(), addresses: in_order(addresses.clone()) });
        }
        let resolver = state.resolver.as_ref().ok_or(UnknownName)?;
        for asked in state.candidates(name)? {
            let full = written(&asked);
            match resolver.lookup_ip(asked).await {
                Ok(found) if found.iter().next().is_some() => {
                    return Ok(Found { name: full, addresses: in_order(found.iter().collect()) });
                }
                Ok(_) => {}
                // Only an answer leads on to the next: silence about a name says nothing of what it is below a search domain.
                Err(error) if error.is_no_records_found() => {}
                Err(error) => {
                    tracing::trace!(%error, "a look-up failed");
                    break;
                }
            }
        }
        Err(UnknownName)
    }

    /// The files' content, read again if one of them has changed. They are small and the system's own, so reading them takes
    /// no thread of its own.
    fn state(&self) -> Arc<State> {
        let mut current = self.current.lock();
        if current.looked.elapsed() >= self.files.look {
            current.looked = Instant::now();
            let stamps = self.files.stamps();
            if stamps != current.stamps {
                tracing::info!("/etc/resolv.conf or /etc/hosts has changed");
                *current = Current { state: Arc::new(State::read(&self.files, &self.options)), stamps, ..*current };
            }
        }
        Arc::clone(&current.state)
    }
}

impl SystemFiles {
    fn stamps(&self) -> [Option<Stamp>; 2] {
        use std::os::unix::fs::MetadataExt as _;
        [&self.resolv_conf, &self.hosts].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        })
    }
}

impl State {
    fn read(files: &SystemFiles, options: &ResolverOpts) -> Self {
        let hosts = fs::read_to_string(&files.hosts).map(|text| known_hosts(&text)).unwrap_or_default();
        let configured = fs::read(&files.resolv_conf).unwrap_or_default();
        let (mut config, written) = configuration(&configured);
        for connection in config.name_servers.iter_mut().flat_map(|server| &mut server.connections) {
            connection.port = files.port;
        }
        let mut options = options.clone();
        (options.ndots, options.attempts) = (written.ndots, written.attempts);
        // Every try, and some time beside them: where nobody answers for IPv6, what was said of IPv4 must not be lost.
        let tries = u32::try_from(written.attempts).unwrap_or(u32::MAX).saturating_add(2);
        options.timeout = written.timeout.min(options.timeout / tries);
        options.edns0 = written.edns0;
        let (search, ndots) = (search_list(&mut config), options.ndots);
        let resolver = resolver(config, options)
            .inspect_err(|error| tracing::error!(%error, "no name can be looked up: /etc/resolv.conf is of no use"));
        Self { hosts, resolver: resolver.ok(), search, ndots }
    }

    /// The full names that one may stand for, in the order of resolv.conf(5).
    fn candidates(&self, name: &str) -> Result<Vec<Name>, UnknownName> {
        let mut name = Name::from_ascii(name).map_err(|_| UnknownName)?;
        let mut names: Vec<Name> =
            self.search.iter().filter_map(|domain| name.clone().append_domain(domain).ok()).collect();
        let dots = usize::from(name.num_labels()).saturating_sub(1);
        let first = dots >= self.ndots || name.is_localhost();
        name.set_fqdn(true);
        names.insert(if first { 0 } else { names.len() }, name);
        names.iter_mut().for_each(|name| name.set_fqdn(true));
        Ok(names)
    }
}

/// A full name as rules write it: in small letters, without the dot at its end.
fn written(name: &Name) -> String {
    let name = name.to_lowercase().to_ascii();
    name.strip_suffix('.').unwrap_or(&name).to_owned()
}

fn resolver(config: ResolverConfig, options: ResolverOpts) -> Result<TokioResolver, NetError> {
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build()
}

/// What a resolv.conf says.
fn configuration(text: &[u8]) -> (ResolverConfig, ResolverOpts) {
    parse_resolv_conf(text).unwrap_or_else(|_| {
        let server = NameServerConfig::udp_and_tcp(DEFAULT_SERVER);
        (ResolverConfig::from_parts(None, Vec::new(), vec![server]), ResolverOpts::default())
    })
}

/// Takes the domains to search out of a configuration: the host's own only where the file lists none.
fn search_list(config: &mut ResolverConfig) -> Vec<Name> {
    let (own, listed) = (config.domain.take(), std::mem::take(&mut config.search));
    if listed.is_empty() { own.into_iter().collect() } else { listed }
}

/// What hosts(5) knows: of each name all addresses, in small letters.
fn known_hosts(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        for name in words {
            let addresses = hosts.entry(name.trim_end_matches('.').to_ascii_lowercase()).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    hosts
}

/// Puts the kind of addresses first that reaches further: IPv6 where this host has a public IPv6 address, otherwise IPv4.
fn in_order(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let ipv6 = addresses.iter().copied().find(IpAddr::is_ipv6);
    if let Some(ipv6) = ipv6
        && addresses.iter().any(IpAddr::is_ipv4)
    {
        let first = leaves_from_a_public_address(ipv6);
        addresses.sort_by_key(|address| address.is_ipv6() != first);
    }
    addresses
}

/// Sends nothing: the system only chooses the address that it would send from.
fn leaves_from_a_public_address(to: IpAddr) -> bool {
    let from = || {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        socket.connect((to, 9))?;
        socket.local_addr()
    };
    from().is_ok_and(|from| is_public(from.ip()))
}
