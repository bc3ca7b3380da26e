//! What leaves a worker: every connection of its browser, judged and dialled here.
//!
//! A worker's network leads nowhere. Its agent hands each connection of the browser to the daemon through a tunnel that the
//! daemon has opened (`tunnels`). On it the browser speaks SOCKS (`socks`) and names a host, which is resolved once; `policy`
//! judges every address that comes of it, and `dial` connects to one of these very addresses, or asks an upstream proxy
//! (`upstream`). `refusal` is what a page shows instead, `traffic` what the session's record says of it all.

mod dial;
mod policy;
mod refusal;
mod socks;
mod traffic;
mod tunnels;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use policy::{Policy, Rules};
pub(crate) use traffic::Summary;

use crate::config::Config;
use crate::worker::Worker;
use traffic::Traffic;

/// The way out of one session's worker; open until this is dropped.
#[derive(Debug)]
pub(crate) struct Egress {
    shared: Arc<Shared>,
    _open: DropGuard,
}

/// What the connections of one session share.
#[derive(Debug)]
struct Shared {
    worker: Arc<Worker>,
    policy: Policy,
    traffic: Traffic,
    /// A place for each connection.
    places: Arc<Semaphore>,
    connect_timeout: Duration,
    stop: CancellationToken,
}

impl Egress {
    /// Opens the way out of a worker, under this policy.
    pub(crate) fn open(worker: Arc<Worker>, policy: Policy, config: &Config, before: Option<Summary>) -> Self {
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            worker,
            policy,
            traffic: Traffic::new(before),
            places: Arc::new(Semaphore::new(config.egress.max_connections)),
            connect_timeout: config.egress.connect_timeout,
            stop: stop.clone(),
        });
        tunnels::open(&shared);
        Self { shared, _open: stop.drop_guard() }
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
