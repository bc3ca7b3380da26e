//! Upgraded connections, and the display, which is one of them.

use std::future::Future;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::UnixStream;
use warmpool_heads::HeadGuard;

use crate::body::{Body, empty};
use crate::display::RFB_SOCKET;
use crate::error::ApiError;
use crate::listener::Connection;

/// Bytes held at most of what a viewer sends.
const UP_BUFFER: usize = 16 << 10;
/// Bytes held at most of a display's picture: what lies here is older than what is on the screen.
const SCREEN_BUFFER: usize = 16 << 10;
/// The name of RFB in an upgrade.
const RFB: &str = "rfb";

/// Answers an upgrade to a protocol with a 101; `serve` gets the connection.
/// Errors: when the request is no such upgrade.
pub(crate) fn switch<F>(
    mut request: Request<Incoming>,
    protocol: &'static str,
    serve: impl FnOnce(Upgraded) -> F + Send + 'static,
) -> Result<Response<Body>, ApiError>
where
    F: Future<Output = ()> + Send + 'static,
{
    if !wants(&request, protocol) {
        let message = format!("this path speaks {protocol} only, after an upgrade");
        return Err(ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message));
    }
    let daemon = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(daemon) = daemon.await {
            serve(daemon).await;
        }
    });
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
    Ok(response)
}

/// Opens the display for one viewer: after the 101 both sides speak RFB, without any framing.
pub(crate) async fn screen(request: Request<Incoming>) -> Result<Response<Body>, ApiError> {
    let mut display =
        UnixStream::connect(RFB_SOCKET).await.map_err(|_| ApiError::not_found("this worker has no display"))?;
    switch(request, RFB, async move |viewer| {
        let Ok((mut viewer, sent)) = bare(viewer) else { return };
        if display.write_all(&sent).await.is_ok() {
            let _ = copy_bidirectional_with_sizes(&mut viewer, &mut display, UP_BUFFER, SCREEN_BUFFER).await;
        }
    })
}

fn wants(request: &Request<Incoming>, protocol: &str) -> bool {
    let names = |name, wanted: &str| {
        request
            .headers()
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(wanted)))
    };
    request.method() == Method::GET && names(UPGRADE, protocol) && names(CONNECTION, "upgrade")
}

/// The socket itself and the bytes already read from it.
pub(crate) fn bare(upgraded: Upgraded) -> Result<(Connection, Bytes), Upgraded> {
    let parts = upgraded.downcast::<TokioIo<HeadGuard<Connection>>>()?;
    Ok((parts.io.into_inner().into_inner(), parts.read_buf))
}
