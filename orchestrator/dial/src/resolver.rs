//! Looking up the addresses of host names, so that nobody's look-ups stand in the way of another's.
//!
//! The C library's look-ups share tokio's blocking threads with the files of the store and of worlds. Threads of their own would
//! only have moved the end, since a thread cannot be called back at a deadline. The exporter of traces alone keeps the C
//! library's: it has one connection, to the operator's collector.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::system::{SystemFiles, SystemNames};
use warmpool_config::Config;

/// How many addresses of a name are tried, those first that reach furthest. An answer over TCP may have 4,000, of which each would be
/// judged and dialled; no site needs as many as these.
const MAX_ADDRESSES: usize = 16;

/// Limits of look-ups.
#[derive(Debug, Clone, Copy)]
pub struct ResolverLimits {
    /// Maximum number of concurrent look-ups in one share.
    pub at_once: usize,
    /// Timeout of one look-up, counted from when it has its place.
    pub time: Duration,
    /// Maximum time that addresses are cached. Name servers may say less.
    pub max_ttl: Duration,
    /// Maximum time that the absence of a name is cached.
    pub max_negative_ttl: Duration,
}

impl ResolverLimits {
    /// The limits that the settings under `egress` name.
    pub fn from_config(config: &Config) -> Self {
        let settings = &config.egress;
        Self {
            at_once: settings.max_lookups,
            time: settings.lookup_timeout,
            max_ttl: settings.max_ttl,
            max_negative_ttl: settings.max_negative_ttl,
        }
    }
}

/// Why a name has no address: nobody knows it, or nobody says so in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no such host")]
pub struct UnknownName;

/// What a look-up has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The name that answered: the one that was asked for, or that one below a search domain.
    pub name: String,
    /// Its addresses, in the order in which to try them: [`MAX_ADDRESSES`] at most.
    pub addresses: Vec<IpAddr>,
}

/// Asks the system's name servers, without a thread, except for names that are known beforehand. Clones share the answers.
#[derive(Clone)]
pub struct Resolver(Arc<Shared>);

struct Shared {
    limits: ResolverLimits,
    system: SystemNames,
    known: Box<Known>,
}

type Known = dyn Fn(&str) -> Option<Vec<IpAddr>> + Send + Sync;

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    /// A resolver that asks the name servers in the system's files.
    pub fn new(limits: ResolverLimits) -> Self {
        Self::with(limits, |_| None)
    }

    /// A resolver that takes the addresses that `known` returns, and asks for other names.
    pub fn with(limits: ResolverLimits, known: impl Fn(&str) -> Option<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self::from_files(SystemFiles::default(), limits, known)
    }

    /// A resolver that knows no name, and asks nobody.
    #[cfg(any(test, feature = "testing"))]
    pub fn nowhere() -> Self {
        let none = Duration::ZERO;
        let limits = ResolverLimits { at_once: 1, time: none, max_ttl: none, max_negative_ttl: none };
        Self::with(limits, |_| Some(Vec::new()))
    }

    fn from_files(
        files: SystemFiles,
        limits: ResolverLimits,
        known: impl Fn(&str) -> Option<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        let system = SystemNames::new(files, &limits);
        Self(Arc::new(Shared { limits, system, known: Box::new(known) }))
    }

    /// A share of the look-ups, for one session or another who asks.
    pub fn share(&self) -> Lookups {
        Lookups { resolver: self.clone(), places: Arc::new(Semaphore::new(self.0.limits.at_once)) }
    }
}

/// One share of a resolver's look-ups: so many at once, and the others wait for one of these to end. Clones are the same share.
#[derive(Debug, Clone)]
pub struct Lookups {
    resolver: Resolver,
    places: Arc<Semaphore>,
}

impl Lookups {
    /// Asks for the addresses of a name, once.
    /// Errors: [`UnknownName`].
    pub(crate) async fn look_up(&self, name: &str) -> Result<Found, UnknownName> {
        let Shared { limits, system, known } = &*self.resolver.0;
        let mut found = match known(name) {
            Some(addresses) => Found { name: name.to_owned(), addresses },
            None => {
                let _place = self.places.acquire().await.map_err(|_| UnknownName)?;
                timeout(limits.time, system.look_up(name)).await.map_err(|_| UnknownName)??
            }
        };
        found.addresses.truncate(MAX_ADDRESSES);
        Ok(found)
    }
}

/// For clients of the daemon's own.
impl tower::Service<Name> for Lookups {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = UnknownName;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, UnknownName>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), UnknownName>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let lookups = self.clone();
        Box::pin(async move {
            let found = lookups.look_up(name.as_str()).await?;
            // The connector fills in the port.
            Ok(found.addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect::<Vec<_>>().into_iter())
        })
    }
}

#[cfg(test)]
mod tests;
