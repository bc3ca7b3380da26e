//! Forwards upgraded connections: websockets, whose heads are rewritten and whose frames stay as they are, and the display.

use std::io;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_EXTENSIONS, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional_with_sizes};
use tokio::net::UnixStream;

use crate::body::{Body, empty};
use crate::display::RFB_SOCKET;
use crate::endpoint::{Endpoint, Interception};
use crate::error::ApiError;
use crate::listener::Connection;
use crate::upstream::address_headers;

/// Bytes held at most on the way to the browser: commands are small.
const UP_BUFFER: usize = 16 << 10;
/// Bytes held at most on the way to the client: screenshots and pages are not.
const DOWN_BUFFER: usize = 128 << 10;

/// Bytes held at most of a display's picture: what lies here is older than what is on the screen.
const SCREEN_BUFFER: usize = 16 << 10;
/// The name of RFB in an upgrade.
const RFB: &str = "rfb";

/// Opens an endpoint with the client's own handshake and, once both sides have switched,
/// carries bytes both ways until both have ended.
///
/// Nothing but the rewritten head goes upstream before its 101. Any other answer goes back as it is.
pub(crate) async fn open(request: Request<Incoming>, to: Endpoint) -> Result<Response<Body>, ApiError> {
    let Endpoint { port, path, interception } = to;
    if !wants_websocket(&request) {
        return Err(ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", "this path speaks websocket only"));
    }
    let (mut parts, _) = request.into_parts();
    let client = parts.extensions.remove::<OnUpgrade>();
    parts.uri = path.parse().map_err(|e| ApiError::bad_request(format!("path: {e}")))?;
    address_headers(&mut parts.headers, port);
    if interception.is_some() {
        parts.headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    }

    let unreachable = |e: &dyn std::fmt::Display| ApiError::upstream(format!("no answer: {e}"));
    let stream = port.connect().await.map_err(|e| unreachable(&e))?;
    let (mut sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
        .await
        .map_err(|e| unreachable(&e))?;
    tokio::spawn(connection.with_upgrades());
    let mut response =
        sender.send_request(Request::from_parts(parts, Empty::new())).await.map_err(|e| unreachable(&e))?;

    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let browser = hyper::upgrade::on(&mut response);
        if let Some(client) = client {
            tokio::spawn(carry(client, browser, interception));
        }
    }
    Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
}

/// Opens the display for one viewer: after the 101 both sides speak RFB, without any framing.
pub(crate) async fn screen(mut request: Request<Incoming>) -> Result<Response<Body>, ApiError> {
    if !wants(&request, RFB) {
        let message = "this path speaks RFB only, after an upgrade";
        return Err(ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message));
    }
    let mut display =
        UnixStream::connect(RFB_SOCKET).await.map_err(|_| ApiError::not_found("this worker has no display"))?;
    let viewer = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(viewer) = viewer.await else { return };
        let Ok((mut viewer, sent)) = bare::<Connection>(viewer) else { return };
        if display.write_all(&sent).await.is_ok() {
            let _ = copy_bidirectional_with_sizes(&mut viewer, &mut display, UP_BUFFER, SCREEN_BUFFER).await;
        }
    });
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(RFB));
    Ok(response)
}

fn wants_websocket(request: &Request<Incoming>) -> bool {
    wants(request, "websocket")
}

pub(crate) fn wants(request: &Request<Incoming>, protocol: &str) -> bool {
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

async fn carry(client: OnUpgrade, browser: OnUpgrade, interception: Option<Interception>) {
    // The browser's side comes first: the client's answer is made from its 101.
    let Ok(browser) = browser.await else { return };
    let Ok(client) = client.await else { return };
    let (Ok((mut client, sent)), Ok((mut browser, told))) = (bare::<Connection>(client), bare::<UnixStream>(browser))
    else {
        tracing::error!("an upgraded connection is not a plain socket");
        return;
    };
    // Bytes that either side sent right after its head were read together with it.
    if client.write_all(&told).await.is_err() {
        return;
    }
    let _ = match interception {
        Some(interception) => intercepted(client, browser, &sent, interception).await,
        None => {
            if browser.write_all(&sent).await.is_err() {
                return;
            }
            drop((sent, told));
            copy_bidirectional_with_sizes(&mut client, &mut browser, UP_BUFFER, DOWN_BUFFER).await.map(drop)
        }
    };
}

async fn intercepted(
    client: Connection,
    browser: UnixStream,
    sent: &[u8],
    interception: Interception,
) -> io::Result<()> {
    let Interception { up: mut interceptor, mut addresses, mut errors } = interception;
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (from_browser, mut to_browser) = browser.into_split();
    let up = async {
        let mut buffer = vec![0; UP_BUFFER.max(sent.len())];
        buffer[..sent.len()].copy_from_slice(sent);
        let mut count = sent.len();
        loop {
            let passed = interceptor.pass(&buffer[..count]).await;
            to_browser.write_all(&passed).await?;
            count = from_client.read(&mut buffer).await?;
            if count == 0 {
                return to_browser.shutdown().await;
            }
        }
    };
    let down = async {
        let mut from_browser = BufReader::with_capacity(DOWN_BUFFER, from_browser);
        loop {
            let read = from_browser.fill_buf().await?;
            let count = read.len();
            if count == 0 {
                to_client.write_all(&errors.pass(&addresses.rest())).await?;
                to_client.write_all(&errors.rest()).await?;
                return to_client.shutdown().await;
            }
            to_client.write_all(&errors.pass(&addresses.pass(read))).await?;
            from_browser.consume(count);
        }
    };
    tokio::try_join!(up, down).map(drop)
}

/// The socket itself and the bytes already read from it.
pub(crate) fn bare<S>(upgraded: Upgraded) -> Result<(S, Bytes), Upgraded>
where
    TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let parts = upgraded.downcast::<TokioIo<S>>()?;
    Ok((parts.io.into_inner(), parts.read_buf))
}
