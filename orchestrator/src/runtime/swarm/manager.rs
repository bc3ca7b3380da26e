//! Plain requests to the manager's engine, for what bollard does not model.

use std::path::Path;
use std::time::Duration;

use bollard::ClientVersion;
use bytes::Bytes;
use http::header::HOST;
use http::request::Builder;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::super::RuntimeError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Connect(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// A request for a path of this version of the engine's interface.
pub(super) fn request(method: Method, version: ClientVersion, path: &str) -> Builder {
    let uri = format!("/v{}.{}{path}", version.major_version, version.minor_version);
    Request::builder().method(method).uri(uri).header(HOST, "docker")
}

/// The engine's answer.
/// Errors: `Unreachable`.
pub(super) async fn ask(
    socket: &Path,
    limit: Duration,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), RuntimeError> {
    let unreachable = |error: &dyn std::fmt::Display| RuntimeError::Unreachable(error.to_string());
    let answer = timeout(limit, send(socket, request)).await.map_err(|_| unreachable(&"no answer in time"))?;
    answer.map_err(|error| unreachable(&error))
}

async fn send(socket: &Path, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), AskError> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let asking = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    };
    tokio::pin!(asking);
    tokio::select! {
        answer = &mut asking => answer,
        ended = connection => {
            ended?;
            asking.await
        }
    }
}
