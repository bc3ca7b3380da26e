//! Plain requests to the engine, for what bollard does not model.

use std::fmt::Display;
use std::path::Path;

use bytes::Bytes;
use http::header::HOST;
use http::request::Builder;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{Client, slow};
use crate::RuntimeError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Connect(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

impl Client {
    /// Whether the engine answers, and still speaks the version that it was first asked for: most other calls name none.
    /// Errors: `Unreachable`.
    pub(crate) async fn ping(&self) -> Result<(), RuntimeError> {
        let (status, body) = self.ask(self.request(Method::GET, "/_ping"), Bytes::new()).await?;
        if status == StatusCode::OK {
            return Ok(());
        }
        Err(RuntimeError::Unreachable(format!("{status}: {}", String::from_utf8_lossy(&body).trim())))
    }

    /// A request for a path of the version of the engine's interface that this client speaks.
    pub(crate) fn request(&self, method: Method, path: &str) -> Builder {
        let version = self.connection.client_version();
        let uri = format!("/v{}.{}{path}", version.major_version, version.minor_version);
        Request::builder().method(method).uri(uri).header(HOST, "docker")
    }

    /// The engine's answer to such a request, within `docker.timeout`.
    /// Errors: `Unreachable`.
    pub(crate) async fn ask(&self, request: Builder, body: Bytes) -> Result<(StatusCode, Bytes), RuntimeError> {
        let unreachable = |error: &dyn Display| RuntimeError::Unreachable(error.to_string());
        let request = request.body(Full::from(body)).map_err(|error| unreachable(&error))?;
        let limit = self.limits.look;
        let answer = timeout(limit, send(&self.limits.socket, request)).await;
        answer.map_err(|_| unreachable(&slow(limit)))?.map_err(|error| unreachable(&error))
    }
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
