//! Egress: every connection of a worker's browser, judged and dialled here.
//!
//! A worker's network leads nowhere. Its agent hands each connection of the browser to the daemon through a tunnel that the
//! daemon has opened (`tunnels`). On it the browser speaks SOCKS (`socks`) and names a host, to which `connection` connects by
//! `dial` under the session's policy, or through a `proxy`: one of the operator's `upstreams`, or the client's own. `refusal` is
//! what a page shows instead, `outcomes` what whoever drives the browser may ask about it, `traffic` what the session's record keeps.
//! `client_proxy` reads the proxy that a client names, `health` asks whether the upstreams answer, `no_connection` says why a page has no
//! connection, and `head` reads the head of an HTTP message and not one byte more.
//!
//! Two things confine a page, and each alone would suffice: the proxy setting of its browser, which holds for every address
//! without exception, and the network. With HTTP in place of SOCKS a refused connection would be a page with status 502. For a
//! script nobody listens at a refused address. While the daemon is away, the agent holds new connections for 30 seconds.

mod client_proxy;
mod connection;
mod head;
mod health;
mod no_connection;
mod outcomes;
mod proxy;
mod refusal;
mod socks;
mod traffic;
mod tunnels;
mod upstreams;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio_rustls::rustls::ClientConfig;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The parsers of this module, for the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::proxy::fuzzing as proxy;
    pub use super::socks::fuzzing as socks;
}

pub use client_proxy::ClientProxy;
pub use no_connection::NoConnection;
pub use outcomes::Outcomes;
pub use upstreams::{Location, Upstreams};

use crate::Error;
use crate::hiding::Hide;
use crate::worker::Worker;
use traffic::Traffic;
use upstreams::{ChosenUpstream, Upstream};
use warmpool_api::session::EgressSummary;
use warmpool_config::Config;
use warmpool_dial::{Dialler, Lookups, Policy, Resolver};

/// The way out of one session's worker; open until this is dropped.
#[derive(Debug)]
pub struct Egress {
    shared: Arc<Shared>,
    _open: DropGuard,
}

/// Which way a session's connections are to go.
#[derive(Debug)]
pub enum WantedRoute<'a> {
    /// Straight to their sites.
    Direct,
    /// Through one of the operator's upstreams at this location, chosen for the session of this id.
    Upstream(&'a Location, &'a str),
    /// Through a proxy that a WebDriver client named.
    Client(Box<ClientProxy>),
    /// Nowhere, since nobody can tell any more.
    Closed,
}

/// The route of a session's connections.
#[derive(Debug, Clone)]
enum Route {
    Direct,
    /// Through one of the operator's upstreams, and through another when that one fails; never direct. None is chosen while none
    /// answers: the next connection looks again.
    Upstream {
        chosen: Option<ChosenUpstream>,
        wanted: Location,
        upstreams: Upstreams,
        session: String,
    },
    /// Through a proxy that a WebDriver client named.
    Client(Box<ClientProxy>),
    /// Its upstream is no longer configured, or its client's proxy is lost.
    Closed,
}

impl Route {
    /// The route that is wanted. Where no upstream is configured that would do any more, nothing goes out.
    fn new(context: &EgressContext, wanted: WantedRoute<'_>) -> Self {
        match wanted {
            WantedRoute::Direct => Self::Direct,
            WantedRoute::Client(proxy) => Self::Client(proxy),
            WantedRoute::Closed => Self::Closed,
            WantedRoute::Upstream(wanted, session) => {
                let chosen = match context.upstreams.choose(wanted, session) {
                    Ok(chosen) => Some(chosen),
                    Err(Error::NoUpstream) => None,
                    Err(_) => return Self::Closed,
                };
                let (wanted, session) = (wanted.clone(), session.to_owned());
                Self::Upstream { chosen, wanted, upstreams: context.upstreams.clone(), session }
            }
        }
    }

    /// Has the nearest upstream that is up take the place of one that is down, or of none. A route that is another one by now stays as
    /// it is.
    /// Errors: when no upstream is left.
    fn fail_over(&mut self, down: Option<&Arc<Upstream>>) -> Result<(), Error> {
        match self {
            Self::Upstream { chosen, wanted, upstreams, session }
                if chosen.as_ref().map(|chosen| Arc::as_ptr(&chosen.upstream)) == down.map(Arc::as_ptr) =>
            {
                *chosen = Some(upstreams.choose(wanted, session)?);
            }
            Self::Upstream { .. } | Self::Direct | Self::Client(_) | Self::Closed => {}
        }
        Ok(())
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
    outcomes: Arc<Outcomes>,
    /// One permit for each connection.
    places: Arc<Semaphore>,
    route: RwLock<Route>,
    /// How to verify upstream proxies.
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
    stop: CancellationToken,
}

impl Egress {
    /// Opens the way out of a worker under this policy, with the counters of an earlier process. Its first connection goes the wanted
    /// way already.
    pub fn open(
        worker: Arc<Worker>,
        policy: Policy,
        config: &Config,
        context: &EgressContext,
        wanted: WantedRoute<'_>,
        before: Option<EgressSummary>,
    ) -> Self {
        let stop = CancellationToken::new();
        let lookups = context.resolver.share();
        let shared = Arc::new(Shared {
            worker,
            dialler: Dialler::new(policy, lookups.clone(), config.egress.connect_timeout),
            lookups,
            traffic: Traffic::new(before),
            outcomes: Arc::default(),
            places: Arc::new(Semaphore::new(config.egress.max_connections)),
            // Before the first tunnel opens, because a loading page already waits for one.
            route: RwLock::new(Route::new(context, wanted)),
            tls: Arc::clone(&context.tls),
            connect_timeout: config.egress.connect_timeout,
            stop: stop.clone(),
        });
        tunnels::open(&shared);
        Self { shared, _open: stop.drop_guard() }
    }

    /// Sends every connection from now on the wanted way. The policy judges the address of a client's own proxy.
    pub fn reroute(&self, context: &EgressContext, wanted: WantedRoute<'_>) {
        *self.shared.route.write() = Route::new(context, wanted);
    }

    /// The upstream proxy in use, as the client sees it.
    #[must_use]
    pub fn upstream(&self) -> Option<serde_json::Value> {
        match &*self.shared.route.read() {
            Route::Upstream { chosen, .. } => chosen.as_ref().map(ChosenUpstream::shown),
            Route::Direct | Route::Client(_) | Route::Closed => None,
        }
    }

    /// Takes out of the hosts that it lists what may not be told. The first one holds.
    pub fn hide(&self, hide: Hide) {
        self.shared.traffic.hiding.begin(hide);
    }

    /// The traffic so far.
    #[must_use]
    pub fn summary(&self) -> EgressSummary {
        self.shared.traffic.summary()
    }

    /// What came of its connections.
    #[must_use]
    pub fn outcomes(&self) -> &Arc<Outcomes> {
        &self.shared.outcomes
    }

    /// Ends every connection.
    pub fn close(&self) {
        self.shared.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::upstreams_from;

    #[test]
    fn another_upstream_takes_over_and_no_newer_route_is_lost() {
        let tables = r#"[{ name = "near", url = "http://p", country = "de", city = "berlin" },
                         { name = "far", url = "http://p", country = "de" }]"#;
        let mut context = EgressContext::nowhere();
        context.upstreams = Upstreams::new(&upstreams_from(tables));
        let text = |text: &str| Some(text.to_owned());
        let berlin = Location { country: text("de"), city: text("berlin"), ..Location::default() };
        let mut route = Route::new(&context, WantedRoute::Upstream(&berlin, "s"));
        let chosen = |route: &Route| match route {
            Route::Upstream { chosen: Some(chosen), .. } => Arc::clone(&chosen.upstream),
            Route::Upstream { .. } | Route::Direct | Route::Client(_) | Route::Closed => panic!("{route:?}"),
        };
        let near = chosen(&route);
        near.set_up(false);
        route.fail_over(Some(&near)).unwrap();
        let far = chosen(&route);
        assert_eq!(far.config.table.name, "far");
        // Another connection that failed at the same time finds another upstream already, or another route.
        near.set_up(true);
        route.fail_over(Some(&near)).unwrap();
        assert!(Arc::ptr_eq(&chosen(&route), &far));
        let mut newer = Route::new(&context, WantedRoute::Closed);
        newer.fail_over(Some(&far)).unwrap();
        assert!(matches!(newer, Route::Closed), "{newer:?}");
        near.set_up(false);
        far.set_up(false);
        assert!(route.fail_over(Some(&far)).is_err(), "none is left");
        let mut route = Route::new(&context, WantedRoute::Upstream(&berlin, "s"));
        assert!(route.fail_over(None).is_err(), "none is there yet");
        near.set_up(true);
        route.fail_over(None).unwrap();
        assert!(Arc::ptr_eq(&chosen(&route), &near));
        let elsewhere = Location { country: text("fr"), ..Location::default() };
        let route = Route::new(&context, WantedRoute::Upstream(&elsewhere, "s"));
        assert!(matches!(route, Route::Closed), "{route:?}");
    }
}
