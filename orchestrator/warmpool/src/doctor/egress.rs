//! `warmpool doctor --egress`: what a worker reaches or executes that it must not, tried from inside.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use tokio::time::{sleep, timeout};
use warmpool_protocol::{Claim, Probe, ProbeWay, Secret};

use super::facts::instance;
use super::interrupt::unless_interrupted;
use super::{Finding, Level, programs};
use warmpool_client::note;
use warmpool_config::{Config, EgressRules};
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::ids::{WorkerId, random_bytes};
use warmpool_dial::{Policy, Resolver, ResolverLimits};
use warmpool_runtime::{Runtime, RuntimeError, WorkerSpec};
use warmpool_workers::egress::{Egress, EgressContext, Upstreams, WantedRoute};
use warmpool_workers::worker::{AgentError, PAGE, Worker};

/// Time for an agent to listen.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(15);
const CLAIM_RETRY: Duration = Duration::from_millis(20);
/// Tries at the same time.
const AT_ONCE: usize = 16;
/// The port of clouds' metadata, and those at which Docker may listen.
const METADATA: (&str, u16) = ("169.254.169.254", 80);
const DOCKER: [u16; 2] = [2375, 2376];
const NAME_SERVER: u16 = 53;
/// The gateway, and the first container, of the network on which an engine puts containers that name none.
const BRIDGE: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(172, 17, 0, 1), Ipv4Addr::new(172, 17, 0, 2));
/// An address of the world.
const WORLD: &str = "1.1.1.1";
/// A name whose address is another at each look, and this host's loopback at every second one.
const REBOUND: &str = "rebinding.invalid";
/// An address of nobody.
const SAFE_LOOK: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Why nothing could be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// No worker could be started.
    #[error("no worker starts to try it from: {0}")]
    Runtime(#[from] RuntimeError),
    /// Its agent does not answer.
    #[error("the agent of a worker does not answer: {0}")]
    Agent(String),
    /// No image of a worker is there.
    #[error("there is no image of a worker to try it from: build one with ./scripts/images")]
    NoImage,
    /// Somebody ended this.
    #[error("interrupted: the workers that were started are removed")]
    Interrupted,
    /// The system's certificates cannot be used.
    #[error("the system's certificates: {0}")]
    Certificates(std::io::Error),
}

impl From<AgentError> for ProbeError {
    fn from(error: AgentError) -> Self {
        Self::Agent(error.to_string())
    }
}

/// One address to be tried.
struct EgressTry {
    title: &'static str,
    probe: Probe,
}

/// Starts a worker of each engine, and at least two, tries everything from them, and removes them.
/// Errors: [`ProbeError`], when nothing could be tried.
pub(crate) async fn probe_egress(config: Arc<Config>) -> Result<Vec<Finding>, ProbeError> {
    let runtime = Runtime::new(Arc::clone(&config), format!("doctor-{}", hex::encode(random_bytes::<6>())));
    let mut keys = Vec::new();
    for engine in Engine::ALL {
        if runtime.image_id(config.image(engine)).await.is_ok() {
            keys.push(PoolKey::plain(engine, Mode::Headless));
        }
    }
    // One more is the other's neighbour.
    if let [only] = keys[..] {
        keys.push(only);
    }
    if let Some(instance) = instance(&config).await {
        runtime.belong_to(&instance).await;
    }
    let keys: Vec<_> = keys.into_iter().map(|key| (WorkerId::random(), key)).collect();
    let tried = unless_interrupted(probe(&config, &runtime, &keys)).await;
    if tried.is_none()
        && let Err(error) = runtime.wind_down().await
    {
        note(format_args!("what looked at the nodes is left: {error}"));
    }
    for (id, _) in &keys {
        if let Err(error) = runtime.remove(id).await {
            note(format_args!("the container of worker {id} is left: {error}"));
        }
    }
    tried.unwrap_or(Err(ProbeError::Interrupted))
}

async fn probe(
    config: &Arc<Config>,
    runtime: &Runtime,
    keys: &[(WorkerId, PoolKey)],
) -> Result<Vec<Finding>, ProbeError> {
    runtime.ensure_network().await?;
    let started = join_all(keys.iter().map(|(id, key)| start(config, runtime, id, *key))).await;
    let (mut workers, mut findings, mut failed) = (Vec::new(), Vec::new(), None);
    for ((_, key), started) in keys.iter().zip(started) {
        match started {
            Ok(worker) => workers.push(worker),
            Err(error) => {
                findings.push(not_started(key.engine, config.needs_engine(key.engine), &error));
                failed = Some(error);
            }
        }
    }
    let Some(worker) = workers.first() else { return Err(failed.unwrap_or(ProbeError::NoImage)) };
    // Workers without a network have no addresses.
    let gateway = runtime.addresses(&worker.id).await?.map_or(BRIDGE.0, |(_, gateway)| gateway);
    let beside = match workers.get(1) {
        Some(sibling) => runtime.addresses(&sibling.id).await?.map_or(BRIDGE.1, |(address, _)| address),
        None => BRIDGE.1,
    };

    let context = EgressContext {
        upstreams: Upstreams::default(),
        tls: warmpool_core::tls::client_config().map_err(ProbeError::Certificates)?,
        resolver: rebinding(config),
    };
    let rules =
        EgressRules { allow: config.egress.allow.clone(), deny: config.egress.deny.clone(), ..EgressRules::default() };
    let policy = Policy::new(vec![rules]);
    let egress = Egress::open(Arc::clone(worker), policy.clone(), config, &context, WantedRoute::Direct, None);
    let tries = tries(config.server.listen.port(), gateway, beside);
    let tried: Vec<Finding> = stream::iter(tries)
        .map(|EgressTry { title, probe }| {
            let policy = &policy;
            async move {
                let probed = worker.agent.probe(&probe).await?;
                Ok::<_, ProbeError>(finding(title, &probe, &probed, policy))
            }
        })
        .buffered(AT_ONCE)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect::<Result<_, _>>()?;
    egress.close();
    findings.extend(tried);
    findings.extend(programs::probe(&workers, !config.kubernetes.enabled).await?);
    Ok(findings)
}

/// What is said of an engine of which no worker could be tried.
fn not_started(engine: Engine, needed: bool, error: &ProbeError) -> Finding {
    Finding {
        level: if needed { Level::Fail } else { Level::Warn },
        title: "Worker",
        detail: format!("{engine} was not tried: {error}"),
        remedy: Some("mend that, and run this again".to_owned()),
    }
}

/// Starts a worker and claims it; its browser need not be ready.
async fn start(config: &Config, runtime: &Runtime, id: &WorkerId, key: PoolKey) -> Result<Arc<Worker>, ProbeError> {
    let spec = WorkerSpec { worker: id.clone(), key, image: config.image(key.engine).to_owned() };
    let place = runtime.start(&spec).await?;
    let secret = Secret::new(hex::encode(random_bytes::<32>()));
    let (worker, _reports) = Worker::new(id.clone(), key, place, &secret);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let claim = Claim {
        extensions: Vec::new(),
        secret,
        headless: true,
        sandbox: config.worker.sandbox,
        freeze: false,
        rehearse: false,
        page: PAGE,
        // Whatever becomes of this process, they end soon.
        orphan_timeout_ms: millis(config.worker.orphan_timeout),
        unresponsive_timeout_ms: millis(config.worker.unresponsive_timeout),
        file_limit: config.worker.file_limit.bytes(),
        preset: Default::default(),
        ca_certificates: Vec::new(),
        chromium: Default::default(),
        firefox: Default::default(),
    };
    let claiming = async {
        loop {
            match worker.agent.claim(&claim).await {
                Err(AgentError::Connect(_)) => sleep(CLAIM_RETRY).await,
                claimed => return claimed,
            }
        }
    };
    timeout(CLAIM_TIMEOUT, claiming).await.map_err(|_| ProbeError::Agent("it does not listen".to_owned()))??;
    Ok(worker)
}

/// A name that is rebound between two looks.
fn rebinding(config: &Config) -> Resolver {
    let looks = AtomicUsize::new(0);
    Resolver::with(ResolverLimits::from_config(config), move |name| {
        (name == REBOUND).then(|| {
            let first = looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            let address = if first { SAFE_LOOK } else { Ipv4Addr::LOCALHOST };
            vec![IpAddr::V4(address)]
        })
    })
}

/// Everything that is tried. `port` is the daemon's own.
fn tries(port: u16, gateway: Ipv4Addr, sibling: Ipv4Addr) -> Vec<EgressTry> {
    let mut tries = Vec::new();
    let mut add = |title, way, host: String, port| tries.push(EgressTry { title, probe: Probe { host, port, way } });
    let hosts = own_addresses();
    for way in [ProbeWay::Proxy, ProbeWay::Direct] {
        add("Metadata", way, METADATA.0.to_owned(), METADATA.1);
        add("Gateway", way, gateway.to_string(), 80);
        for host in &hosts {
            add("This host", way, host.to_string(), port);
        }
        for host in hosts.iter().chain([&gateway]) {
            DOCKER.into_iter().for_each(|port| add("Docker", way, host.to_string(), port));
        }
        for port in [warmpool_protocol::PORT, warmpool_protocol::EGRESS_PORT] {
            add("Another worker", way, sibling.to_string(), port);
        }
        add("Private network", way, "10.0.0.1".to_owned(), 80);
    }
    // Only the proxy makes anything of these: without it, loopback is the worker's own.
    let proxy = ProbeWay::Proxy;
    for port in DOCKER {
        add("Docker", proxy, "127.0.0.1".to_owned(), port);
    }
    for form in [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
    ] {
        add("Notation", proxy, form.to_owned(), port);
    }
    for form in ["2852039166", "0xa9fea9fe", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "fd00:ec2::254"] {
        add("Notation", proxy, form.to_owned(), METADATA.1);
    }
    let own_name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    for name in [Some("localhost".to_owned()), own_name, Some(REBOUND.to_owned()), Some(REBOUND.to_owned())]
        .into_iter()
        .flatten()
    {
        add("Name", proxy, name, port);
    }
    // A program that broke out has no way to the world at all.
    add("Internet", ProbeWay::Direct, WORLD.to_owned(), 443);
    for host in hosts.iter().chain([&gateway]).map(Ipv4Addr::to_string).chain([WORLD.to_owned()]) {
        add("Name server", ProbeWay::Datagram, host, NAME_SERVER);
    }
    tries
}

/// The addresses of this host that others may know.
fn own_addresses() -> BTreeSet<Ipv4Addr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return BTreeSet::new() };
    let addresses = interfaces.filter_map(|interface| Some(interface.address?.as_sockaddr_in()?.ip()));
    addresses.filter(|address| !address.is_loopback()).collect()
}

fn finding(title: &'static str, probe: &Probe, probed: &warmpool_protocol::Probed, policy: &Policy) -> Finding {
    let way = match probe.way {
        ProbeWay::Proxy => "by the proxy",
        ProbeWay::Direct => "around it",
        ProbeWay::Datagram => "around it, by UDP",
    };
    let host = if probe.host.contains(':') { format!("[{}]", probe.host) } else { probe.host.clone() };
    let detail = format!("{host}:{} {way}: {}", probe.port, probed.detail);
    // What a rule lets through is the operator's wish.
    let allowed = match probe.host.parse::<IpAddr>() {
        Ok(address) => policy.judge(None, address, probe.port).is_ok(),
        Err(_) => policy.judge(Some(&probe.host), Ipv4Addr::LOCALHOST.into(), probe.port).is_ok(),
    };
    let (level, remedy) = match (probed.reached, probe.way, allowed) {
        (false, ..) => (Level::Ok, None),
        (true, ProbeWay::Proxy, true) => (
            Level::Warn,
            Some("a rule of egress.allow lets pages reach it: narrow the rule, or name a port".to_owned()),
        ),
        (true, ProbeWay::Proxy, false) => {
            (Level::Fail, Some("stop the daemon: pages reach what no rule allows".to_owned()))
        }
        (true, ProbeWay::Direct | ProbeWay::Datagram, _) => {
            let remedy = "stop the daemon, and build the worker images anew with ./scripts/images: an agent must leave its network";
            (Level::Fail, Some(remedy.to_owned()))
        }
    };
    Finding { level, title, detail, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_protocol::Probed;

    #[test]
    fn each_way_and_each_notation_is_tried() {
        let tries = tries(4444, Ipv4Addr::new(172, 18, 0, 1), Ipv4Addr::new(172, 18, 0, 3));
        let has = |title: &str, host: &str, way| {
            tries.iter().any(|it| it.title == title && it.probe.host == host && it.probe.way == way)
        };
        for way in [ProbeWay::Proxy, ProbeWay::Direct] {
            assert!(has("Metadata", "169.254.169.254", way) && has("Docker", "172.18.0.1", way));
            assert!(has("Another worker", "172.18.0.3", way));
        }
        assert!(has("Name server", "172.18.0.1", ProbeWay::Datagram) && has("Name server", WORLD, ProbeWay::Datagram));
        assert!(has("Notation", "2130706433", ProbeWay::Proxy) && has("Name", REBOUND, ProbeWay::Proxy));
    }

    #[test]
    fn what_a_rule_lets_through_is_no_failure() {
        let rules = EgressRules { allow: vec!["127.0.0.1:4444".parse().unwrap()], ..EgressRules::default() };
        let policy = Policy::new(vec![rules]);
        let level = |host: &str, way, reached| {
            let probe = Probe { host: host.to_owned(), port: 4444, way };
            finding("x", &probe, &Probed { reached, detail: String::new() }, &policy).level
        };
        assert_eq!(level("127.0.0.1", ProbeWay::Proxy, true), Level::Warn);
        assert_eq!(level("10.0.0.1", ProbeWay::Proxy, true), Level::Fail);
        assert_eq!(level("127.0.0.1", ProbeWay::Direct, true), Level::Fail);
        assert_eq!(level("127.0.0.1", ProbeWay::Datagram, true), Level::Fail);
        assert_eq!(level("10.0.0.1", ProbeWay::Direct, false), Level::Ok);
    }
}
