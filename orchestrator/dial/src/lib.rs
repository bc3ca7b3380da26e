//! Connections to hosts that others name: pages, their clients, and who asks for a world.
//!
//! | module     | what it holds |
//! |------------|---------------|
//! | `policy`   | which addresses may be reached: rules of keys, presets and settings |
//! | `resolver` | look-ups of names, shared out among sessions |
//! | `system`   | what the host knows of names: `/etc/hosts`, `/etc/resolv.conf` and its name servers |
//!
//! The crate may use `config` and `core`. Egress, CAPTCHA services and worlds connect through it; it knows none of them.
//!
//! - *A name is resolved once.* Each of its addresses is judged, and the connection goes to the very address that was judged,
//!   so DNS rebinding has no effect. Only the daemon resolves names. A name below a search domain that answers for a shorter one
//!   is judged like the one that was asked for.
//! - *A look-up is a future*, by Hickory's resolver, with a place in its session's share ([`Lookups`]); dropping it ends it. The C
//!   library blocks a thread for as long as a name server is silent, and pages that asked for such names would take the network
//!   from everybody. What the C library takes from elsewhere by nsswitch.conf (mDNS, NIS, LDAP) is not looked up.
//! - *A name has at most sixteen addresses here.* A page may ask for a name of its own with thousands, each of which would be judged and
//!   dialled.
//! - *The system's files are read here*, and again when they change. Hickory reads them once, drops names with an underscore,
//!   asks for IPv6 addresses of names with an IPv4 one in the file, and goes on to search domains after silence.

mod policy;
mod resolver;
mod system;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use url::Host;

use policy::OwnAddresses;
use resolver::Found;
use warmpool_core::address;
use warmpool_core::tcp::TcpTimeouts;

pub use policy::{Policy, Refusal};
pub use resolver::{Lookups, Resolver, ResolverLimits};

/// When the kernel gives a connection up: nobody may be there any more to close it. Chromium begins to probe its own as early, and
/// a server that takes none of the bytes that wait for it for as long takes none any more.
const TIMEOUTS: TcpTimeouts =
    TcpTimeouts { keepalive: Duration::from_secs(45), user_timeout: Some(Duration::from_secs(300)) };

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The policy forbids the address.
    #[error("{}", .0.problem())]
    Refused(Refusal),
    /// The name has no address.
    #[error("there is no such host")]
    UnknownHost,
    /// The system could not connect.
    #[error("{0}")]
    Failed(#[from] io::Error),
    /// The host did not answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The look-up did not end in time, which says nothing of the host: others of the same share may have been before it.
    #[error("no answer in time")]
    LookupTimedOut,
}

/// Connects where one policy allows it.
#[derive(Debug, Clone)]
pub struct Dialler {
    policy: Policy,
    lookups: Lookups,
    limit: Duration,
}

impl Dialler {
    /// A dialler that waits for `limit` at most for a look-up, and as long for a connection to any of the addresses.
    pub const fn new(policy: Policy, lookups: Lookups, limit: Duration) -> Self {
        Self { policy, lookups, limit }
    }

    /// Connects to a host; returns the address, too, that the connection leads to.
    /// Errors: [`DialError`], which of several addresses tells about the last that was tried.
    pub async fn connect(&self, host: &Host, port: u16) -> Result<(TcpStream, SocketAddr), DialError> {
        let own = OwnAddresses::default();
        let judge = |names: &[String], address| self.policy.judge_named(names, address, port, &own);
        attempt(&self.lookups, self.limit, host, port, judge).await
    }

    /// Judges a site whose name a proxy resolves.
    /// Errors: the reason why it may not be asked for.
    pub fn judge_unresolved(&self, host: &Host, port: u16) -> Result<(), DialError> {
        match (host, address::host_ip(host)) {
            (Host::Domain(name), _) => self.policy.judge_name(name, port),
            (_, Some(address)) => self.policy.judge(None, address, port),
            (_, None) => Ok(()),
        }
        .map_err(DialError::Refused)
    }
}

impl Lookups {
    /// Connects to a host that the operator named, which no policy judges; waits as long as a [`Dialler`].
    /// Errors: [`DialError`].
    pub async fn connect(&self, host: &Host, port: u16, limit: Duration) -> Result<TcpStream, DialError> {
        attempt(self, limit, host, port, |_, _| Ok(())).await.map(|(stream, _)| stream)
    }
}

async fn attempt(
    lookups: &Lookups,
    limit: Duration,
    host: &Host,
    port: u16,
    judge: impl Fn(&[String], IpAddr) -> Result<(), Refusal>,
) -> Result<(TcpStream, SocketAddr), DialError> {
    let (names, addresses) = match host {
        Host::Domain(name) => {
            let found = timeout(limit, lookups.look_up(name)).await.map_err(|_| DialError::LookupTimedOut)?;
            let Found { name: full, addresses } = found.map_err(|_| DialError::UnknownHost)?;
            (vec![name.clone(), full], addresses)
        }
        host => (Vec::new(), address::host_ip(host).into_iter().collect()),
    };
    let mut failure = DialError::UnknownHost;
    let mut allowed = Vec::with_capacity(addresses.len());
    for address in addresses {
        match judge(&names, address) {
            Ok(()) => allowed.push(address),
            Err(refused) => failure = DialError::Refused(refused),
        }
    }
    let begun = Instant::now();
    let mut left = u32::try_from(allowed.len()).unwrap_or(u32::MAX);
    for address in allowed {
        let peer = SocketAddr::new(address, port);
        // One that never answers leaves the others their part of the time.
        let part = limit.saturating_sub(begun.elapsed()) / left;
        left -= 1;
        match timeout(part, TcpStream::connect(peer)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                let _ = TIMEOUTS.apply(&stream);
                return Ok((stream, peer));
            }
            Ok(Err(error)) => failure = error.into(),
            Err(_) => failure = DialError::TimedOut,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    use nix::sys::socket::getsockopt;
    use nix::sys::socket::sockopt::{KeepAlive, TcpUserTimeout};
    use tokio::net::{TcpListener, TcpSocket};

    const MINUTE: Duration = Duration::from_secs(60);

    /// A port that takes no connection and refuses none: its queue is full, and nobody accepts.
    async fn deaf() -> (TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
            waiting.push(stream.unwrap());
        }
        (listener, waiting)
    }

    /// Look-ups that know every name by these addresses.
    fn lookups(addresses: [IpAddr; 2]) -> Lookups {
        let none = Duration::ZERO;
        let limits = ResolverLimits { at_once: 1, time: MINUTE, max_ttl: none, max_negative_ttl: none };
        Resolver::with(limits, move |_| Some(addresses.to_vec())).share()
    }

    #[tokio::test]
    async fn an_address_that_never_answers_leaves_time_for_the_next() {
        let (deaf, _waiting) = deaf().await;
        let deaf = deaf.local_addr().unwrap();
        let live = TcpListener::bind(("127.0.0.2", deaf.port())).await.unwrap();
        let live = live.local_addr().unwrap();
        let limit = Duration::from_secs(4);
        let (host, lookups) = (Host::Domain("two.example".to_owned()), lookups([deaf.ip(), live.ip()]));
        let connected =
            timeout(limit, lookups.connect(&host, deaf.port(), limit)).await.expect("the limit is for both");
        assert_eq!(connected.unwrap().peer_addr().unwrap(), live);
    }

    #[tokio::test]
    async fn the_kernel_gives_up_a_host_that_is_gone_or_takes_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let host = Host::Ipv4([127, 0, 0, 1].into());
        let stream = lookups([address.ip(); 2]).connect(&host, address.port(), MINUTE).await.unwrap();
        assert!(getsockopt(&stream, KeepAlive).unwrap());
        assert_eq!(getsockopt(&stream, TcpUserTimeout).unwrap(), 300_000);
    }

    #[tokio::test]
    async fn a_host_that_never_answers_is_given_up() {
        let (deaf, _waiting) = deaf().await;
        let address = deaf.local_addr().unwrap();
        let lookups = lookups([address.ip(), address.ip()]);
        let limit = Duration::from_millis(200);
        let policy = Policy::for_attachments(Vec::new(), vec!["127.0.0.0/8".parse().unwrap()]);
        let dialler = Dialler::new(policy, lookups.clone(), limit);
        // The second has two addresses, of which none answers.
        for host in [Host::Ipv4([127, 0, 0, 1].into()), Host::Domain("deaf.example".to_owned())] {
            let asked = timeout(MINUTE, dialler.connect(&host, address.port())).await.expect("it ends");
            assert!(matches!(asked, Err(DialError::TimedOut)), "{host}: {asked:?}");
            let asked = timeout(MINUTE, lookups.connect(&host, address.port(), limit)).await.expect("it ends");
            assert!(matches!(asked, Err(DialError::TimedOut)), "{host}: {asked:?}");
        }
    }
}
