//! What leaves a worker: every connection of its browser, judged and dialled here.
//!
//! A worker's network leads nowhere. Its agent hands each connection of the browser to the daemon through a tunnel that the
//! daemon has opened (`tunnels`). On it the browser speaks SOCKS (`socks`) and names a host, which is resolved once; `policy`
//! judges every address that comes of it, and `dial` connects to one of these very addresses, or asks an upstream proxy
//! (`upstream`). `refusal` is what a page shows instead, `traffic` what the session's record says of it all.

mod choose;
mod client_proxy;
mod dial;
mod health;
mod policy;
mod refusal;
mod socks;
mod traffic;
mod tunnels;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio_rustls::rustls::ClientConfig;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use choose::{Location, Upstreams};
pub(crate) use client_proxy::ClientProxy;
pub(crate) use policy::{Policy, Rules};
pub(crate) use traffic::Summary;

use crate::config::Config;
use crate::worker::Worker;
use choose::Chosen;
use traffic::Traffic;

/// The way out of one session's worker; open until this is dropped.
#[derive(Debug)]
pub(crate) struct Egress {
    shared: Arc<Shared>,
    _open: DropGuard,
}

/// Which way a session's connections go.
#[derive(Debug, Clone, Default)]
enum Route {
    #[default]
    Direct,
    /// Through one of the operator's upstreams, and through another when that one fails; never direct.
    Upstream { chosen: Chosen, wanted: Location, upstreams: Upstreams, session: String },
    /// Through a proxy that a WebDriver client named.
    Client(ClientProxy),
    /// The upstream that it had is not configured any more.
    Closed,
}

/// What the ways out of all sessions share.
#[derive(Debug, Clone)]
pub(crate) struct Outside {
    pub upstreams: Upstreams,
    pub tls: Arc<ClientConfig>,
}

#[cfg(test)]
impl Outside {
    /// Without upstreams.
    pub(crate) fn nowhere() -> Self {
        Self { upstreams: Upstreams::default(), tls: crate::tls::client_config().unwrap() }
    }
}

/// What the connections of one session share.
#[derive(Debug)]
struct Shared {
    worker: Arc<Worker>,
    policy: Policy,
    traffic: Traffic,
    /// A place for each connection.
    places: Arc<Semaphore>,
    route: RwLock<Route>,
    /// What upstream proxies are believed to be by.
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
    stop: CancellationToken,
}

impl Egress {
    /// Opens the way out of a worker, under this policy.
    pub(crate) fn open(
        worker: Arc<Worker>,
        policy: Policy,
        config: &Config,
        outside: &Outside,
        before: Option<Summary>,
    ) -> Self {
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            worker,
            policy,
            traffic: Traffic::new(before),
            places: Arc::new(Semaphore::new(config.egress.max_connections)),
            route: RwLock::default(),
            tls: Arc::clone(&outside.tls),
            connect_timeout: config.egress.connect_timeout,
            stop: stop.clone(),
        });
        tunnels::open(&shared);
        Self { shared, _open: stop.drop_guard() }
    }

    /// Sends everything from now on through an upstream proxy. Where there is none any more, nothing goes out.
    pub(crate) fn go_through(&self, outside: &Outside, wanted: &Location, session: &str) {
        *self.shared.route.write() = match outside.upstreams.choose(wanted, session) {
            Ok(chosen) => {
                let (wanted, session) = (wanted.clone(), session.to_owned());
                Route::Upstream { chosen, wanted, upstreams: outside.upstreams.clone(), session }
            }
            Err(_) => Route::Closed,
        };
    }

    /// Sends everything from now on through a proxy of the client's own, whose address the policy judges.
    pub(crate) fn go_through_clients(&self, proxy: ClientProxy) {
        *self.shared.route.write() = Route::Client(proxy);
    }

    /// The upstream proxy that it goes through, for the client.
    #[must_use]
    pub(crate) fn upstream(&self) -> Option<serde_json::Value> {
        match &*self.shared.route.read() {
            Route::Upstream { chosen, .. } => Some(chosen.shown()),
            Route::Direct | Route::Client(_) | Route::Closed => None,
        }
    }

    /// What has gone through it so far.
    #[must_use]
    pub(crate) fn summary(&self) -> Summary {
        self.shared.traffic.summary()
    }

    /// Ends every connection.
    pub(crate) fn close(&self) {
        self.shared.stop.cancel();
    }
}
