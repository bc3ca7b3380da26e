//! The agent's one address, a Unix socket or a TCP port.

use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6, TcpListener as StdListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;
use warmpool_protocol::{PORT, SHARED_FOLDER, SOCKET};

/// How many connections may wait to be accepted; as many as the standard library lets.
const BACKLOG: i32 = 128;

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
                Ok(Either::Right(stream))
            }
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
