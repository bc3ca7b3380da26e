//! The agent's one address, a Unix socket or a TCP port.

use std::fs::{self, Permissions};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;
use warmpool_protocol::{PORT, SHARED_FOLDER, SOCKET};

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
            let listener = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
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
