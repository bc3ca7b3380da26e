//! Upgrades: a request by HTTP, after whose answer both sides speak another protocol.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::agent::{AgentError, uri};
use super::connection::AgentStream;

/// What became of an upgrade.
#[derive(Debug)]
pub enum Upgrade<S = AgentStream> {
    /// Both sides speak the other protocol from here.
    Switched {
        /// The headers of the reply.
        headers: HeaderMap,
        /// The connection.
        stream: S,
        /// The first bytes on it, which came with the reply.
        early: Bytes,
    },
    /// The other side answered with this status instead.
    Declined(StatusCode),
}

/// Asks for another protocol at `path`, with these headers and no others.
pub(super) async fn upgrade<S>(stream: S, path: &str, headers: HeaderMap) -> Result<Upgrade<S>, AgentError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| AgentError::Broken(error.into());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let connection = tokio::spawn(connection.with_upgrades());
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = uri(path)?;
    *request.headers_mut() = headers;
    let response = sender.send_request(request).await.map_err(broken)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        connection.abort();
        return Ok(Upgrade::Declined(response.status()));
    }
    let headers = response.headers().clone();
    let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
    let parts = upgraded.downcast::<TokioIo<S>>();
    let parts = parts.map_err(|_| AgentError::Unreadable("the connection is not a plain socket".into()))?;
    Ok(Upgrade::Switched { headers, stream: parts.io.into_inner(), early: parts.read_buf })
}
