//! The agent's one address, a Unix socket or a TCP port.

use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6, TcpListener as StdListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;
use warmpool_protocol::{PORT, SHARED_FOLDER, SOCKET};

/// How many connections may wait to be accepted; as many as the standard library lets.
const BACKLOG: i32 = 128;

/// How long a connection over the network is idle before the kernel asks whether the daemon is there, the time between two such
/// questions, and how many of them may stay without an answer. A host that lost its power or its network closes nothing.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);

/// The daemon's connection: a Unix socket in a folder that it shares with this worker alone, or TCP.
pub(crate) type Connection = Either<UnixStream, TcpStream>;

/// Where the daemon reaches the agent.
pub(crate) enum Listener {
    /// In a folder that the daemon shares with this worker.
    Unix(UnixListener),
    /// On the workers' network, which the agent then leaves.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens in the shared folder where there is one, else on the network. To be called inside a runtime.
    /// Errors: when neither is possible.
    pub(crate) fn bind() -> io::Result<Self> {
        if !Path::new(SHARED_FOLDER).is_dir() {
            let listener = on_every_address(PORT)?;
            listener.set_nonblocking(true)?;
            return Ok(Self::Tcp(TcpListener::from_std(listener)?));
        }
        let socket = Path::new(SHARED_FOLDER).join(SOCKET);
        let listener = UnixListener::bind(&socket)?;
        // The daemon may be another user. The folder lets in nobody but that user and this worker.
        fs::set_permissions(&socket, Permissions::from_mode(0o666))?;
        Ok(Self::Unix(listener))
    }

    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Unix(listener) => Ok(Either::Left(listener.accept().await?.0)),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                let _ = keep_alive(&stream);
                Ok(Either::Right(stream))
            }
        }
    }
}

fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    let (idle, interval, count) = KEEPALIVE;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, interval)?;
    sockopt::set_tcp_keepcnt(stream, count)?;
    sockopt::set_socket_keepalive(stream, true)
}

/// The kernel's end of a daemon's connection, beside whoever reads and writes there.
pub(crate) struct Socket(Option<OwnedFd>);

impl Socket {
    /// That of a connection.
    pub(crate) fn of(connection: &Connection) -> Self {
        match connection {
            // Its other end closes with its process.
            Either::Left(_) => Self(None),
            Either::Right(stream) => Self(stream.as_fd().try_clone_to_owned().ok()),
        }
    }

    /// Has the connection end once the daemon has not acknowledged for so long what was sent, and not after the quarter of an hour
    /// for which a kernel tries again. It is not for every connection: the kernel counts as well how long a client does not read.
    pub(crate) fn end_unless_acknowledged(&self, within: Duration) {
        let Some(socket) = &self.0 else { return };
        let millis = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        if let Err(error) = sockopt::set_tcp_user_timeout(socket, millis) {
            tracing::debug!(%error, "a daemon that vanishes will be missed late");
        }
    }
}

/// Listens on this port of every address, of IPv6 and of IPv4: a worker may have only one of them.
fn on_every_address(port: u16) -> io::Result<StdListener> {
    // A kernel without IPv6 makes no such socket.
    on_both(port).or_else(|_| StdListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

fn on_both(port: u16) -> io::Result<StdListener> {
    let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The host decides what a socket that is not told takes.
    sockopt::set_ipv6_v6only(&socket, false)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpStream as StdStream};

    use super::*;

    #[tokio::test]
    async fn a_daemon_that_vanishes_is_missed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = Listener::Tcp(listener);
        let (connection, daemon) = tokio::join!(listener.accept(), TcpStream::connect(address));
        let (connection, _daemon) = (connection.unwrap(), daemon.unwrap());
        let Either::Right(stream) = &connection else { panic!("it is no TCP connection") };
        assert!(sockopt::socket_keepalive(stream).unwrap());
        let asks_for = sockopt::tcp_keepintvl(stream).unwrap() * sockopt::tcp_keepcnt(stream).unwrap();
        let missed_within = sockopt::tcp_keepidle(stream).unwrap() + asks_for;
        assert!(missed_within <= Duration::from_secs(30), "{missed_within:?} where nothing was sent");
        assert_eq!(sockopt::tcp_user_timeout(stream).unwrap(), 0, "a client may not read for a while");
        Socket::of(&connection).end_unless_acknowledged(Duration::from_secs(12));
        assert_eq!(sockopt::tcp_user_timeout(stream).unwrap(), 12_000);
    }

    #[test]
    fn every_address_of_this_host_reaches_it() {
        let listener = on_every_address(0).unwrap();
        let port = listener.local_addr().unwrap().port();
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            // A host without IPv6 has no such address.
            if StdListener::bind((address, 0)).is_ok() {
                StdStream::connect((address, port)).unwrap();
                listener.accept().unwrap();
            }
        }
    }
}
