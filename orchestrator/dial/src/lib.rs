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
//!   so DNS rebinding has no effect. Only the daemon resolves names.
//! - *A look-up is a future*, by Hickory's resolver, with a place in its session's share ([`Lookups`]); dropping it ends it. The C
//!   library blocks a thread for as long as a name server is silent, and pages that asked for such names would take the network
//!   from everybody. What the C library takes from elsewhere by nsswitch.conf (mDNS, NIS, LDAP) is not looked up.
//! - *The system's files are read here*, and again when they change. Hickory reads them once, drops names with an underscore,
//!   asks for IPv6 addresses of names with an IPv4 one in the file, and goes on to search domains after silence.

mod policy;
mod resolver;
mod system;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Host;

use warmpool_core::address;

pub use policy::{Policy, Refusal};
pub use resolver::{Lookups, Resolver, ResolverLimits};

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
    /// The look-up, or the host, did not answer in time.
    #[error("no answer in time")]
    TimedOut,
}

/// Connects where one policy allows it.
#[derive(Debug, Clone)]
pub struct Dialler {
    policy: Policy,
    lookups: Lookups,
    limit: Duration,
}

impl Dialler {
    /// A dialler that waits for `limit` at most: for a look-up, and for each address.
    pub const fn new(policy: Policy, lookups: Lookups, limit: Duration) -> Self {
        Self { policy, lookups, limit }
    }

    /// Connects to a host; returns the address, too, that the connection leads to.
    /// Errors: [`DialError`], which of several addresses tells about the last.
    pub async fn connect(&self, host: &Host, port: u16) -> Result<(TcpStream, SocketAddr), DialError> {
        let name = match host {
            Host::Domain(name) => Some(name.as_str()),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        };
        attempt(&self.lookups, self.limit, host, port, |address| self.policy.judge(name, address, port)).await
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
        attempt(self, limit, host, port, |_| Ok(())).await.map(|(stream, _)| stream)
    }
}

async fn attempt(
    lookups: &Lookups,
    limit: Duration,
    host: &Host,
    port: u16,
    judge: impl Fn(IpAddr) -> Result<(), Refusal>,
) -> Result<(TcpStream, SocketAddr), DialError> {
    let addresses = match host {
        Host::Domain(name) => {
            let found = timeout(limit, lookups.look_up(name)).await.map_err(|_| DialError::TimedOut)?;
            found.map_err(|_| DialError::UnknownHost)?
        }
        host => address::host_ip(host).into_iter().collect(),
    };
    let mut failure = DialError::UnknownHost;
    for address in addresses {
        if let Err(refused) = judge(address) {
            failure = DialError::Refused(refused);
            continue;
        }
        let peer = SocketAddr::new(address, port);
        match timeout(limit, TcpStream::connect(peer)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
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

    use tokio::net::TcpSocket;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A port that takes no connection and refuses none: its queue is full, and nobody accepts.
    async fn deaf() -> (tokio::net::TcpListener, Vec<TcpStream>) {
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

    #[tokio::test]
    async fn a_host_that_never_answers_is_given_up() {
        let (deaf, _waiting) = deaf().await;
        let address = deaf.local_addr().unwrap();
        let none = Duration::ZERO;
        let limits = ResolverLimits { at_once: 1, time: MINUTE, max_ttl: none, max_negative_ttl: none };
        let lookups = Resolver::with(limits, move |_| Some(vec![address.ip(), address.ip()])).share();
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
