//! Connections to the browser and its driver, handed over to the daemon.
//!
//! What passes through the agent costs two more wake-ups for each message. So the agent connects a socket and gives it to the
//! daemon, which from then on speaks to the browser itself. By TCP no socket can be given, and the agent carries the bytes.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;

use http::Request;
use http::Response;
use hyper::body::Incoming;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt as _, Interest, copy_bidirectional_with_sizes};
use tokio::net::UnixStream;
use tokio_util::either::Either;
use warmpool_protocol::PORT_PROTOCOL;

use crate::body::Body;
use crate::error::ApiError;
use crate::listener::Connection;
use crate::ports::LocalPort;
use crate::tunnel::{bare, switch};

/// Bytes held at most on the way to the browser: commands are small.
const UP_BUFFER: usize = 16 << 10;
/// Bytes held at most on the way to the client: screenshots and pages are not.
const DOWN_BUFFER: usize = 128 << 10;

/// `GET /ports/{number}`: a connection to a port here.
/// Errors: when nothing listens.
pub(crate) async fn open(request: Request<Incoming>, port: LocalPort) -> Result<Response<Body>, ApiError> {
    let program = port.connect().await.map_err(|error| ApiError::upstream(format!("no answer: {error}")))?;
    switch(request, PORT_PROTOCOL, async move |daemon| {
        let Ok((daemon, _)) = bare(daemon) else { return };
        if let Err(error) = give(daemon, program).await {
            tracing::debug!(%error, "a connection was not handed over");
        }
    })
}

async fn give(daemon: Connection, mut program: UnixStream) -> io::Result<()> {
    match daemon {
        Either::Left(mut daemon) => {
            // The daemon asks for it, so that it does not read over it together with the head of the answer.
            daemon.read_u8().await?;
            daemon.async_io(Interest::WRITABLE, || send(&daemon, &program)).await
        }
        Either::Right(mut daemon) => {
            copy_bidirectional_with_sizes(&mut daemon, &mut program, UP_BUFFER, DOWN_BUFFER).await.map(drop)
        }
    }
}

fn send(daemon: &UnixStream, program: &UnixStream) -> io::Result<()> {
    let fds = [program.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut parts = SendAncillaryBuffer::new(&mut space);
    parts.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(daemon, &[IoSlice::new(&[0])], &mut parts, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}
