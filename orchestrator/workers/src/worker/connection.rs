//! Connections to an agent: through a socket in the folder that the daemon shares with the worker, or by TCP.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio::time::timeout;
use tokio_util::either::Either;

use super::connected::Connected;
use warmpool_core::tcp::TcpTimeouts;
use warmpool_runtime::AgentAddress;

/// The workers are on this host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to an agent.
pub type AgentStream = Connected<Either<UnixStream, TcpStream>>;

/// The reading direction of an [`AgentStream`].
pub type ReadHalf = Either<unix::OwnedReadHalf, tcp::OwnedReadHalf>;
/// The writing direction of an [`AgentStream`].
pub type WriteHalf = Either<unix::OwnedWriteHalf, tcp::OwnedWriteHalf>;

impl AgentStream {
    /// Connects.
    /// Fails when nobody listens there, or when the file is not a socket.
    pub(super) async fn connect(to: &AgentAddress) -> io::Result<Self> {
        let connecting = async {
            match to {
                AgentAddress::Unix(socket) => Ok(Self(Either::Left(connect_unix(socket).await?))),
                AgentAddress::Tcp(address) => {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    // A worker that vanishes says no farewell.
                    TcpTimeouts::WORKER.apply(&stream)?;
                    Ok(Self(Either::Right(stream)))
                }
            }
        };
        timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// A connection that is there already.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn over(socket: UnixStream) -> Self {
        Self(Either::Left(socket))
    }

    /// The Unix socket, where it is one.
    pub(super) fn into_unix(self) -> Result<UnixStream, Self> {
        match self.0 {
            Either::Left(stream) => Ok(stream),
            Either::Right(stream) => Err(Self(Either::Right(stream))),
        }
    }

    /// Splits the connection into its two directions.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self.0 {
            Either::Left(stream) => {
                let (reader, writer) = stream.into_split();
                (Either::Left(reader), Either::Left(writer))
            }
            Either::Right(stream) => {
                let (reader, writer) = stream.into_split();
                (Either::Right(reader), Either::Right(writer))
            }
        }
    }
}

/// Connects to the file itself and follows no link, which could lead to any service of this host.
async fn connect_unix(socket: &Path) -> io::Result<UnixStream> {
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_PATH | nix::libc::O_NOFOLLOW).open(socket)?;
    if !file.metadata()?.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a socket"));
    }
    // The name of an open file is short, too: that of a socket may have 107 bytes at most.
    UnixStream::connect(format!("/proc/self/fd/{}", file.as_raw_fd())).await
}

/// Connects to one agent, whatever URI is asked for, in the form the pooled client wants.
#[derive(Debug, Clone)]
pub(super) struct Connector(pub(super) AgentAddress);

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<AgentStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.0.clone();
        Box::pin(async move { AgentStream::connect(&address).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    #[tokio::test]
    async fn a_link_in_the_sockets_place_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        // Longer than a socket's name may be.
        let deep = folder.path().join("a".repeat(100));
        std::fs::create_dir(&deep).unwrap();
        let (real, link) = (folder.path().join("real"), deep.join("link"));
        let _listener = UnixListener::bind(&real).unwrap();
        assert!(AgentStream::connect(&AgentAddress::Unix(real.clone())).await.is_ok());
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(AgentStream::connect(&AgentAddress::Unix(link.clone())).await.is_err());
        std::fs::remove_file(&link).unwrap();
        std::fs::rename(&real, &link).unwrap();
        assert!(AgentStream::connect(&AgentAddress::Unix(link.clone())).await.is_ok());
        std::fs::remove_file(&link).unwrap();
        std::fs::write(&link, "").unwrap();
        assert!(AgentStream::connect(&AgentAddress::Unix(link)).await.is_err());
    }
}
