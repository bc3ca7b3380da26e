//! The debugging port: for one session, it answers as Chromium does on `--remote-debugging-port`.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use ::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::{Host, Url};

use super::session::Session;
use crate::error::ClientError;
use warmpool_core::accept;

/// Where browsers say from where they ask, whatever they ask for.
const FETCH_SITE: &str = "sec-fetch-site";

type Reply = Response<Full<Bytes>>;

/// Answers tools for as long as it runs.
pub(super) async fn serve(listener: &TcpListener, session: &Arc<Session>) {
    loop {
        let (stream, _) = accept::next(|| listener.accept()).await;
        let _ = stream.set_nodelay(true);
        let session = Arc::clone(session);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let session = Arc::clone(&session);
                async move { Ok::<_, Infallible>(answer(&session, request).await) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            // A tool may hang up whenever it likes.
            let _ = served.await;
        });
    }
}

async fn answer(session: &Session, request: Request<Incoming>) -> Reply {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    if !is_local(&host, request.headers()) {
        let why = "this port serves programs of this machine, by its address or as localhost, and no web page";
        return plain(StatusCode::FORBIDDEN, why);
    }
    let path = request.uri().path().trim_end_matches('/').to_owned();
    if path.starts_with("/devtools/") {
        return match relay(session, &path, request).await {
            Ok(reply) => reply,
            Err(error) => failed(&error),
        };
    }
    let query = request.uri().query().unwrap_or_default();
    // Tools write methods in both cases, and Chromium takes both.
    let method = request.method().as_str().to_ascii_uppercase();
    if ![Method::GET, Method::PUT, Method::POST].iter().any(|known| *known == method.as_str()) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "this port answers GET, PUT and POST");
    }
    let rest = path.strip_prefix("/json").unwrap_or("/none");
    // As in Chromium: a page of the user's own browser can send GET to any address.
    if rest == "/new" && method != Method::PUT.as_str() {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "/json/new answers PUT alone");
    }
    let answered = match rest {
        "" | "/list" => targets(session, &host).await.map(|targets| Some(json!(targets))),
        "/version" => version(session, &host).await.map(Some),
        "/protocol" => session.caller.get("/json/protocol").await.map(Some),
        "/new" => new_target(session, &host, query).await,
        rest => return act(session, rest).await,
    };
    match answered {
        Ok(Some(body)) => reply(StatusCode::OK, "application/json; charset=UTF-8", body.to_string()),
        Ok(None) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the browser could not create a target"),
        Err(error) => failed(&error),
    }
}

/// Whether a program of this machine asks: a page that a browser shows sends its origin, or says that it is of another site where it
/// asks for a picture, and one that reached this port by DNS rebinding sends its own name as host.
fn is_local(host: &str, headers: &HeaderMap) -> bool {
    let address = Url::parse(&format!("http://{host}/")).ok().and_then(|url| {
        Some(match url.host()? {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => IpAddr::from(address).is_loopback(),
            Host::Ipv6(address) => IpAddr::from(address).is_loopback(),
        })
    });
    // Python's websocket clients send the port's own origin.
    let own = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| origin == format!("http://{host}"));
    // Every port of this machine is the same site.
    let foreign = |site: &HeaderValue| !matches!(site.as_bytes(), b"none" | b"same-origin");
    address == Some(true) && headers.get(ORIGIN).is_none_or(own) && !headers.get(FETCH_SITE).is_some_and(foreign)
}

/// What the session's own browser says of itself. The daemon describes the one that a new session would get, which may
/// have a display where this one has none.
async fn version(session: &Session, host: &str) -> Result<Value, ClientError> {
    let said = session.command("Browser.getVersion", json!({})).await;
    let said = said.ok_or_else(|| ClientError::Unreachable("the session's browser does not answer".to_owned()))?;
    Ok(json!({
        "Browser": said["product"],
        "Protocol-Version": said["protocolVersion"],
        "User-Agent": said["userAgent"],
        "V8-Version": said["jsVersion"],
        "webSocketDebuggerUrl": format!("ws://{host}/devtools/browser/{}", session.id),
    }))
}

/// The session's targets, with websockets of this port.
async fn targets(session: &Session, host: &str) -> Result<Vec<Value>, ClientError> {
    let Value::Array(mut all) = session.caller.get("/json/list").await? else { return Ok(Vec::new()) };
    all.retain(|target| target["sessionId"] == session.id.as_str());
    for target in &mut all {
        let (kind, id) = (target["type"].as_str().unwrap_or("page"), target["id"].as_str().unwrap_or_default());
        let kind = if matches!(kind, "page" | "webview") { "page" } else { kind };
        target["webSocketDebuggerUrl"] = json!(format!("ws://{host}/devtools/{kind}/{id}"));
        if let Some(target) = target.as_object_mut() {
            target.remove("sessionId");
        }
    }
    Ok(all)
}

/// `/json/new?URL`; `None` where the browser refuses.
async fn new_target(session: &Session, host: &str, query: &str) -> Result<Option<Value>, ClientError> {
    let url = percent_decode_str(query).decode_utf8_lossy();
    let url = if url.is_empty() { "about:blank" } else { &url };
    let Some(made) = session.command("Target.createTarget", json!({"url": url})).await else { return Ok(None) };
    Ok(targets(session, host).await?.into_iter().find(|target| target["id"] == made["targetId"]))
}

/// `/json/activate/ID` and `/json/close/ID`.
async fn act(session: &Session, path: &str) -> Reply {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (method, done) = match parts.next() {
        Some("activate") => ("Target.activateTarget", "Target activated"),
        Some("close") => ("Target.closeTarget", "Target is closing"),
        _ => return plain(StatusCode::NOT_FOUND, "this port has /json/… and /devtools/…"),
    };
    let id = parts.next().unwrap_or_default();
    match session.command(method, json!({"targetId": id})).await {
        Some(_) => plain(StatusCode::OK, done),
        None => plain(StatusCode::NOT_FOUND, &format!("No such target id: {id}")),
    }
}

/// Passes a websocket on to the session, byte by byte.
async fn relay(session: &Session, path: &str, mut request: Request<Incoming>) -> Result<Reply, ClientError> {
    let rest = path.trim_start_matches("/devtools");
    // There is one browser here, whatever a tool calls it.
    let target = if rest == "/browser" || rest.starts_with("/browser/") { "" } else { rest };
    let mut headers = request.headers().clone();
    headers.remove(ORIGIN);
    let client = hyper::upgrade::on(&mut request);
    let mut opened = session.websocket(target, headers).await?;
    let daemon = hyper::upgrade::on(&mut opened);
    tokio::spawn(async move {
        if let (Ok(client), Ok(daemon)) = tokio::join!(client, daemon) {
            let (mut client, mut daemon) = (TokioIo::new(client), TokioIo::new(daemon));
            // Either end may hang up.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut daemon).await;
        }
    });
    let (parts, _) = opened.into_parts();
    Ok(Response::from_parts(parts, Full::default()))
}

fn failed(error: &ClientError) -> Reply {
    let status = match error {
        ClientError::Refused { status, .. } => *status,
        ClientError::Usage(_) | ClientError::Key(_) | ClientError::NoIntegrationKey | ClientError::Unreachable(_) => {
            StatusCode::BAD_GATEWAY
        }
    };
    plain(status, &error.to_string())
}

fn plain(status: StatusCode, text: &str) -> Reply {
    reply(status, "text/plain; charset=UTF-8", text.to_owned())
}

fn reply(status: StatusCode, kind: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::from(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

#[cfg(test)]
mod tests {
    use ::http::HeaderName;

    use super::*;

    #[test]
    fn only_programs_of_this_machine_are_answered() {
        let from = |host, headers: &[(HeaderName, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            is_local(host, &headers.collect())
        };
        let local = |host, origin: Option<&'static str>| {
            from(host, &origin.map(|origin| (ORIGIN, origin)).into_iter().collect::<Vec<_>>())
        };
        for host in ["127.0.0.1:9222", "localhost:9222", "[::1]:9222", "localhost"] {
            assert!(local(host, None), "{host}");
        }
        for host in ["", "evil.example:9222", "10.0.0.1:9222", "127.0.0.1.evil.example"] {
            assert!(!local(host, None), "{host}");
        }
        assert!(local("127.0.0.1:9222", Some("http://127.0.0.1:9222")));
        for origin in ["http://localhost:3000", "https://evil.example", "null"] {
            assert!(!local("localhost:9222", Some(origin)), "{origin}");
        }
        let site = |site| from("localhost:9222", &[(HeaderName::from_static(FETCH_SITE), site)]);
        assert!(site("none") && site("same-origin"), "a person, and a page of the port's own");
        for foreign in ["cross-site", "same-site", "", "another"] {
            assert!(!site(foreign), "{foreign}");
        }
    }
}
