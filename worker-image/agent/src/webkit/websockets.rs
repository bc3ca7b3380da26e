//! The inspector as clients know it: a list of pages over HTTP, and a websocket for each.
//!
//! WebKit has such a server too, but a browser that runs it takes no driver.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

use crate::body::{Body, empty, failure, json};
use crate::error::ApiError;
use crate::ports::LocalPort;

use super::inspector::{Attachment, Inspector, PageId};

/// Largest message of a client, in bytes. The daemon's own limit comes first.
const MAX_MESSAGE: usize = 256 << 20;
/// How long a client that sent Close may take to close its connection, and one that has lost its page to read what is left.
const GOODBYE: Duration = Duration::from_secs(2);
/// Where this listens.
const PORT: LocalPort = LocalPort::new(9401);
const PAGES: &str = "/devtools/page/";

/// Listens until the agent ends, for the browser of the time.
pub(super) fn serve(inspector: Arc<Mutex<Option<Inspector>>>) -> io::Result<LocalPort> {
    let listener = PORT.listen()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let inspector = Arc::clone(&inspector);
            tokio::spawn(async move {
                let service = service_fn(|request| answer(&inspector, request));
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades()
                    .await;
            });
        }
    });
    Ok(PORT)
}

async fn answer(
    inspector: &Mutex<Option<Inspector>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let inspector = inspector.lock().clone();
    let answered = match inspector {
        Some(inspector) => route(&inspector, request).await,
        None => Err(ApiError::upstream("no browser is running")),
    };
    Ok(answered.unwrap_or_else(|error| failure(&error)))
}

async fn route(inspector: &Inspector, request: Request<Incoming>) -> Result<Response<Body>, ApiError> {
    let path = request.uri().path();
    if request.method() != Method::GET {
        return Err(ApiError::not_found("no such path"));
    }
    match path {
        "/json" | "/json/" | "/json/list" | "/json/list/" => json(&list(inspector)),
        "/devtools" => upgrade(inspector, inspector.first_page(), request).await,
        _ => {
            let page = path.strip_prefix(PAGES).and_then(parse_id);
            upgrade(inspector, page, request).await
        }
    }
}

fn list(inspector: &Inspector) -> Value {
    let page = |page: super::inspector::Page| json!({"id": format_id(page.id), "type": "page", "title": page.title, "url": page.url});
    inspector.pages().into_iter().map(page).collect()
}

fn format_id((connection, target): PageId) -> String {
    format!("{connection}-{target}")
}

fn parse_id(text: &str) -> Option<PageId> {
    let (connection, target) = text.split_once('-')?;
    Some((connection.parse().ok()?, target.parse().ok()?))
}

async fn upgrade(
    inspector: &Inspector,
    page: Option<PageId>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let key = request.headers().get(SEC_WEBSOCKET_KEY).cloned();
    let key = key.ok_or_else(|| ApiError::bad_request("a websocket handshake is wanted"))?;
    let gone = || ApiError::not_found("no such page");
    let attachment = inspector.attach(page.ok_or_else(gone)?).await.ok_or_else(gone)?;
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(stream) = upgraded.await else { return attachment.detach().await };
        let mut config = WebSocketConfig::default();
        config.max_message_size = Some(MAX_MESSAGE);
        config.max_frame_size = Some(MAX_MESSAGE);
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, Some(config)).await;
        carry(socket, attachment).await;
    });
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let accept = accept.map_err(|e| ApiError::internal(e.to_string()))?;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// Passes messages both ways until either side has ended.
async fn carry<S>(socket: WebSocketStream<S>, mut page: Attachment)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut to_client, mut from_client) = socket.split();
    loop {
        tokio::select! {
            said = page.incoming.recv() => match said {
                Some(message) => tokio::select! {
                    sent = to_client.send(Message::text(message)) => if sent.is_err() { break },
                    // It does not read any more, and another one has the page.
                    () = overdue(&page.replaced) => break,
                },
                // The daemon reports how the browser ended.
                None if page.is_lost() => break,
                None => {
                    let reason = CloseFrame { code: CloseCode::Away, reason: "the page is gone or another client took it".into() };
                    let _ = timeout(GOODBYE, to_client.send(Message::Close(Some(reason)))).await;
                    break;
                }
            },
            said = from_client.next() => match said {
                Some(Ok(Message::Text(text))) => page.send(&text).await,
                Some(Ok(Message::Binary(bytes))) => if let Some(text) = text(&bytes) { page.send(text).await },
                Some(Ok(Message::Close(_))) => {
                    // The answer to the Close is written with the next flush.
                    let _ = to_client.flush().await;
                    page.detach().await;
                    if let Ok(socket) = to_client.reunite(from_client) {
                        let _ = timeout(GOODBYE, read_to_end(socket.into_inner())).await;
                    }
                    return;
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            },
        }
    }
    page.detach().await;
}

/// Returns a little after a client was replaced.
async fn overdue(replaced: &CancellationToken) {
    replaced.cancelled().await;
    sleep(GOODBYE).await;
}

/// The side that sent Close first closes its connection first. Otherwise it looks as if the browser had left.
async fn read_to_end(mut stream: impl AsyncRead + Unpin) {
    let mut sink = [0; 1024];
    while let Ok(1..) = stream.read(&mut sink).await {}
}

fn text(bytes: &Bytes) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::super::inspector::tests::{pair, say};
    use super::*;

    #[tokio::test]
    async fn a_client_that_has_stopped_reading_goes_once_it_is_replaced() {
        let (inspector, mut browser) = pair().await;
        let (ours, mut client) = tokio::io::duplex(64);
        let socket = WebSocketStream::from_raw_socket(ours, Role::Server, None).await;
        let carrying = tokio::spawn(carry(socket, inspector.attach((1, 1)).await.unwrap()));
        let long = format!("SendMessageToFrontend\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0{{{}}}\0", " ".repeat(1000));
        say(&mut browser, long.as_bytes()).await;
        client.read_u8().await.unwrap();
        let _next = inspector.attach((1, 1)).await.unwrap();
        tokio::time::pause();
        timeout(GOODBYE * 10, carrying).await.unwrap().unwrap();
    }

    #[test]
    fn ids_come_back() {
        assert_eq!(parse_id(&format_id((3, 17))), Some((3, 17)));
        for wrong in ["", "1", "1-", "-1", "1-2/3", "a-b"] {
            assert_eq!(parse_id(wrong), None, "{wrong}");
        }
    }
}
