//! Connections to the browser and the driver in a worker, past its agent where that is possible.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, Shutdown, SocketType,
    recv, recvmsg, send, shutdown,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio_util::either::Either;

use super::connected::Connected;
use super::connection::{AgentStream, ReadHalf, WriteHalf};

/// A connected socket of the browser or the driver, which the agent has handed over.
///
/// The worker still holds this socket too, and could take its non-blocking mode away at any time. Then a plain read would stop a
/// whole thread of the daemon. So every call here says for itself that it must not wait.
#[derive(Debug, Clone)]
pub struct HandedSocket(Arc<UnixStream>);

impl HandedSocket {
    /// Asks the agent for the socket.
    /// Fails when it gives anything but one connected stream between programs of one host.
    pub(super) async fn receive(mut agent: UnixStream) -> io::Result<Self> {
        agent.write_all(&[0]).await?;
        let fd = agent.async_io(Interest::READABLE, || receive(&agent)).await?;
        let socket = std::os::unix::net::UnixStream::from(fd);
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket).map(|socket| Self(Arc::new(socket)))
    }
}

fn receive(agent: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0; 1];
    // There is room for more than the one, so that an agent that gives more is seen to.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut parts = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = recvmsg(agent, &mut [IoSliceMut::new(&mut byte)], &mut parts, flags)?;
    let mut given = Vec::new();
    for part in parts.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = part {
            given.extend(fds);
        }
    }
    let is_whole = message.bytes == 1 && !message.flags.contains(ReturnFlags::CTRUNC);
    match given.pop() {
        Some(fd) if is_whole && given.is_empty() && is_local_stream(&fd) => Ok(fd),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the agent gave no connected socket")),
    }
}

fn is_local_stream(fd: &OwnedFd) -> bool {
    socket_domain(fd) == Ok(AddressFamily::UNIX) && socket_type(fd) == Ok(SocketType::STREAM)
}

impl AsyncRead for HandedSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let space = buf.initialize_unfilled();
        if space.is_empty() {
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            let mut short = None;
            let read = self.0.try_io(Interest::READABLE, || {
                let read = recv(&*self.0, &mut *space, RecvFlags::DONTWAIT)?.1;
                if (1..space.len()).contains(&read) {
                    short = Some(read);
                    // A read that leaves room has taken all there was, as tokio's own sockets know: wait for the next event,
                    // without one more call to ask.
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(read)
            });
            match short.map_or(read, Ok) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                read => {
                    buf.advance(read?);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for HandedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_io(Interest::WRITABLE, || Ok(send(&*self.0, bytes, flags)?)) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&*self.0, Shutdown::Write).map_err(Into::into))
    }
}

/// A connection to the browser or the driver: its own socket, or one that the agent carries.
pub type PortStream = Connected<Either<HandedSocket, AgentStream>>;

/// The reading direction of a [`PortStream`].
pub type PortReadHalf = Either<HandedSocket, ReadHalf>;
/// The writing direction of a [`PortStream`].
pub type PortWriteHalf = Either<HandedSocket, WriteHalf>;

impl PortStream {
    /// Splits the connection into its two directions.
    pub fn into_split(self) -> (PortReadHalf, PortWriteHalf) {
        match self.0 {
            Either::Left(socket) => (Either::Left(socket.clone()), Either::Left(socket)),
            Either::Right(stream) => {
                let (reader, writer) = stream.into_split();
                (Either::Right(reader), Either::Right(writer))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::IoSlice;
    use std::net::TcpListener;
    use std::os::fd::{AsFd as _, BorrowedFd};

    use rustix::fs::{OFlags, fcntl_getfl};
    use rustix::io::{FdFlags, fcntl_getfd};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// What comes of it when an agent gives these descriptors.
    async fn given(fds: &[BorrowedFd<'_>]) -> io::Result<HandedSocket> {
        let (daemon, mut agent) = UnixStream::pair().unwrap();
        let gives = async {
            assert_eq!(agent.read_u8().await.unwrap(), 0);
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
            let mut parts = SendAncillaryBuffer::new(&mut space);
            assert!(fds.is_empty() || parts.push(SendAncillaryMessage::ScmRights(fds)));
            sendmsg(&agent, &[IoSlice::new(&[0])], &mut parts, SendFlags::empty()).unwrap();
        };
        tokio::join!(HandedSocket::receive(daemon), gives).0
    }

    #[tokio::test]
    async fn a_handed_socket_carries_bytes_and_never_makes_a_thread_wait() {
        let (mut browser, socket) = UnixStream::pair().unwrap();
        let mut handed = given(&[socket.as_fd()]).await.unwrap();
        let kept = socket.into_std().unwrap();
        // The other program holds the same socket, and makes it wait.
        kept.set_nonblocking(false).unwrap();
        assert!(!fcntl_getfl(&*handed.0).unwrap().contains(OFlags::NONBLOCK));
        assert!(
            fcntl_getfd(&*handed.0).unwrap().contains(FdFlags::CLOEXEC),
            "no program that the daemon starts has it"
        );
        let mut buffer = [0; 64];
        let waits = tokio::select! {
            biased;
            _ = handed.read(&mut buffer) => false,
            () = tokio::task::yield_now() => true,
        };
        assert!(waits);
        browser.write_all(b"hello").await.unwrap();
        assert_eq!(handed.read(&mut buffer).await.unwrap(), 5);
        // More than the socket takes at once.
        let much = vec![7; 8 << 20];
        let reads = async {
            let mut read = Vec::new();
            browser.read_to_end(&mut read).await.unwrap();
            read
        };
        let writes = async {
            handed.write_all(&much).await.unwrap();
            handed.shutdown().await.unwrap();
        };
        assert!(tokio::join!(writes, reads).1 == much);
    }

    #[tokio::test]
    async fn what_comes_behind_a_short_read_is_read_as_well() {
        let (mut browser, socket) = UnixStream::pair().unwrap();
        let mut handed = given(&[socket.as_fd()]).await.unwrap();
        drop(socket);
        let mut buffer = [0; 8];
        // One that fills the buffer, one that does not, and one that comes while the reader waits.
        for piece in ["12345678", "123", "12345678123"] {
            browser.write_all(piece.as_bytes()).await.unwrap();
            handed.read_exact(&mut buffer[..piece.len().min(8)]).await.unwrap();
        }
        let (late, read) = tokio::join!(browser.write_all(b"45678"), handed.read_exact(&mut buffer));
        assert!(late.is_ok() && read.is_ok() && buffer == *b"12345678");
        // The last words of one that is gone.
        browser.write_all(b"123").await.unwrap();
        drop(browser);
        assert_eq!(handed.read(&mut buffer).await.unwrap(), 3);
        assert_eq!(handed.read(&mut buffer).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn nothing_but_one_connected_socket_is_taken() {
        let (one, two) = UnixStream::pair().unwrap();
        let (datagrams, _other) = tokio::net::UnixDatagram::pair().unwrap();
        let (file, tcp) = (File::open("/dev/null").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        for fds in [
            &[][..],
            &[one.as_fd(), two.as_fd()],
            &[one.as_fd(); 20],
            &[datagrams.as_fd()],
            &[file.as_fd()],
            &[tcp.as_fd()],
        ] {
            assert!(given(fds).await.is_err(), "{fds:?}");
        }
    }
}
