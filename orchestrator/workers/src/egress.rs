//! Egress: every connection of a worker's browser, judged and dialled here.
//!
//! A worker's network leads nowhere. Its agent hands each connection of the browser to the daemon through a tunnel that the
//! daemon has opened (`tunnels`). On it the browser speaks SOCKS (`socks`) and names a host, to which `connection` connects by
//! `dial` under the session's policy, or through a `proxy`: one of the operator's `upstreams`, or the client's own. `refusal` is
//! what a page shows instead, `verdicts` what whoever drives the browser may ask about that, `traffic` what the session's record keeps about it.
//!
//! Two things confine a page, and each alone would suffice: the proxy setting of its browser, which holds for every address
//! without exception, and the network. With HTTP in place of SOCKS a refused connection would be a page with status 502. For a
//! script nobody listens at a refused address. While the daemon is away, the agent holds new connections for 30 seconds.

mod client_proxy;
mod connection;
mod head;
mod health;
mod proxy;
mod refusal;
mod socks;
mod traffic;
mod tunnels;
mod upstreams;
mod verdicts;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio_rustls::rustls::ClientConfig;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

pub use client_proxy::ClientProxy;
pub use upstreams::{Location, Upstreams};
pub use verdicts::NoConnection;

use crate::worker::Worker;
use traffic::Traffic;
use upstreams::ChosenUpstream;
use verdicts::Verdicts;
use warmpool_api::session::EgressSummary;
use warmpool_config::Config;
use warmpool_core::address;
use warmpool_dial::{Dialler, Lookups, Policy, Resolver};

/// The way out of one session's worker; open until this is dropped.
#[derive(Debug)]
pub struct Egress {
    shared: Arc<Shared>,
    _open: DropGuard,
}

/// The route of a session's connections.
#[derive(Debug, Clone, Default)]
enum Route {
    #[default]
    Direct,
    /// Through one of the operator's upstreams, and through another when that one fails; never direct.
    Upstream { chosen: ChosenUpstream, wanted: Location, upstreams: Upstreams, session: String },
    /// Through a proxy that a WebDriver client named.
    Client(ClientProxy),
    /// Its upstream is no longer configured.
    Closed,
}

impl Route {
    /// Through an upstream proxy. When none is left, nothing goes out.
    fn through(context: &EgressContext, wanted: &Location, session: &str) -> Self {
        match context.upstreams.choose(wanted, session) {
            Ok(chosen) => {
                let (wanted, session) = (wanted.clone(), session.to_owned());
                Self::Upstream { chosen, wanted, upstreams: context.upstreams.clone(), session }
            }
            Err(_) => Self::Closed,
        }
    }
}

/// What the egress of all sessions shares.
#[derive(Debug, Clone)]
pub struct EgressContext {
    /// The operator's upstream proxies.
    pub upstreams: Upstreams,
    /// How the daemon verifies upstream proxies.
    pub tls: Arc<ClientConfig>,
    /// The resolver of all sessions' names.
    pub resolver: Resolver,
}

#[cfg(any(test, feature = "testing"))]
impl EgressContext {
    /// An egress without upstreams, whose resolver knows no name.
    #[expect(clippy::unwrap_used, reason = "only tests use it")]
    pub fn nowhere() -> Self {
        Self {
            upstreams: Upstreams::default(),
            tls: warmpool_core::tls::client_config().unwrap(),
            resolver: Resolver::nowhere(),
        }
    }
}

/// What the connections of one session share.
#[derive(Debug)]
struct Shared {
    worker: Arc<Worker>,
    dialler: Dialler,
    /// The session's own, with which nobody else's interfere.
    lookups: Lookups,
    traffic: Traffic,
    verdicts: Verdicts,
    /// One permit for each connection.
    places: Arc<Semaphore>,
    route: RwLock<Route>,
    /// How to verify upstream proxies.
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
    stop: CancellationToken,
}

impl Egress {
    /// Opens the way out of a worker under this policy, with the counters of an earlier process. A session that wants an upstream
    /// uses it from its first connection on.
    pub fn open(
        worker: Arc<Worker>,
        policy: Policy,
        config: &Config,
        context: &EgressContext,
        wanted: Option<(&Location, &str)>,
        before: Option<EgressSummary>,
    ) -> Self {
        let stop = CancellationToken::new();
        let lookups = context.resolver.share();
        let shared = Arc::new(Shared {
            worker,
            dialler: Dialler::new(policy, lookups.clone(), config.egress.connect_timeout),
            lookups,
            traffic: Traffic::new(before),
            verdicts: Verdicts::default(),
            places: Arc::new(Semaphore::new(config.egress.max_connections)),
            // Before the first tunnel opens, because a loading page already waits for one.
            route: RwLock::new(
                wanted.map_or(Route::Direct, |(wanted, session)| Route::through(context, wanted, session)),
            ),
            tls: Arc::clone(&context.tls),
            connect_timeout: config.egress.connect_timeout,
            stop: stop.clone(),
        });
        tunnels::open(&shared);
        Self { shared, _open: stop.drop_guard() }
    }

    /// Sends everything from now on through the client's own proxy, whose address the policy judges.
    pub fn go_through_clients(&self, proxy: ClientProxy) {
        *self.shared.route.write() = Route::Client(proxy);
    }

    /// The upstream proxy in use, as the client sees it.
    #[must_use]
    pub fn upstream(&self) -> Option<serde_json::Value> {
        match &*self.shared.route.read() {
            Route::Upstream { chosen, .. } => Some(chosen.shown()),
            Route::Direct | Route::Client(_) | Route::Closed => None,
        }
    }

    /// The traffic so far.
    #[must_use]
    pub fn summary(&self) -> EgressSummary {
        self.shared.traffic.summary()
    }

    /// Why the last connection to the site of an address failed, if it did.
    #[must_use]
    pub fn failure_at(&self, url: &Url) -> Option<NoConnection> {
        let host = address::host(url.host_str()?)?;
        self.shared.verdicts.failure_at(&host.to_string(), url.port_or_known_default()?)
    }

    /// What a page stands for that carries this mark; none for a page that the daemon did not make.
    #[must_use]
    pub fn shown_with(&self, mark: &str) -> Option<NoConnection> {
        self.shared.verdicts.shown_with(mark)
    }

    /// Ends every connection.
    pub fn close(&self) {
        self.shared.stop.cancel();
    }
}
