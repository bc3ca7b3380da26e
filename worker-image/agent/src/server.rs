//! The routes of the agent, and who may use them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use warmpool_heads::{AnswerBody, HeadCount, HeadGuard, HeadLimits};
use warmpool_protocol::extension::ExtensionLimits;
use warmpool_protocol::folder::FolderQuery;
use warmpool_protocol::{BUILT_IN_LIST, CLAIM_LIMIT, CLIPBOARD_LIMIT, DriverPort, Rename, StorageQuery, Window};

use crate::ads::AdRules;
use crate::agent::Agent;
use crate::attach;
use crate::body::{Body, collect, collect_within, empty, failure, full, json, read_json, read_json_within};
use crate::clipboard;
use crate::display::Display;
use crate::engine::{CommandVerdict, Engine};
use crate::error::ApiError;
use crate::execution;
use crate::handover;
use crate::listener::{Listener, Socket};
use crate::log;
use crate::pages;
use crate::percent;
use crate::ports::LocalPort;
use crate::probe;
use crate::recording;
use crate::status;
use crate::tunnel;

/// Longest id of a driver's session; they are 32 to 36 characters long.
const MAX_SESSION_ID: usize = 64;
/// The daemon keeps an idle connection, so that a launch finds one however long its worker has waited. The kernel ends it where the
/// daemon vanishes, and [`answer`] that of anybody else.
const HEAD_LIMITS: HeadLimits = HeadLimits { head: Duration::from_secs(30), idle: None };
/// How long the events sent to a daemon may stay unacknowledged. A daemon that hears nothing for as long gives its worker up, too.
const EVENTS_LIMIT: Duration = Duration::from_secs(15);
/// The first parts of paths whose calls leave a browser stopped that its launch has left so. Any other call wakes it.
const NEED_NO_BROWSER: [&str; 4] = ["launch", "health", "events", "egress"];
/// Pause after a failure to accept, which means that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers the daemon until the process ends.
pub(crate) async fn serve(listener: Listener, agent: Arc<Agent>) {
    loop {
        let Ok(stream) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let agent = Arc::clone(&agent);
        tokio::spawn(async move {
            let socket = Socket::of(&stream);
            let stream = HeadGuard::new(stream, HEAD_LIMITS);
            let heads = stream.count();
            let service = service_fn(|request| {
                heads.came();
                answer(&agent, &socket, heads.clone(), request)
            });
            let _ = http1::Builder::new()
                // `HeadGuard` has the limit.
                .header_read_timeout(None)
                .preserve_header_case(true)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
                .await;
        });
    }
}

async fn answer(
    agent: &Arc<Agent>,
    socket: &Socket,
    heads: HeadCount,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody<Body>>, Infallible> {
    let authorization = request.headers().get(AUTHORIZATION).cloned();
    let mut response = route(agent, socket, request).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "refused");
        failure(&error)
    });
    if agent.open(authorization.as_ref().map(HeaderValue::as_bytes)).is_err() {
        // Only whoever knows the secret may stay.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    Ok(response.map(|body| AnswerBody::new(body, (!switches).then_some(heads))))
}

async fn route(agent: &Arc<Agent>, socket: &Socket, request: Request<Incoming>) -> Result<Response<Body>, ApiError> {
    let path = request.uri().path().to_owned();
    if path == "/claim" && request.method() == Method::POST {
        // The caller has shown no secret yet, so the agent reads little of the first claim and nothing of later ones.
        agent.check_unclaimed()?;
        agent.claim(read_json_within(request.into_body(), CLAIM_LIMIT).await?)?;
        return json(&json!({}));
    }
    let worker = agent.open(request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes))?;
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let asked = query.strip_prefix('?').unwrap_or_default();
    let (first, rest) = path.trim_start_matches('/').split_once('/').unwrap_or((&path[1..], ""));
    if !NEED_NO_BROWSER.contains(&first) {
        worker.wake_if_launched();
    }
    let engine = &worker.engine;
    let files = &worker.shared.files;
    let limit = worker.shared.claim.file_limit;
    match (request.method().as_str(), first, rest) {
        ("GET", "health", "") => json(&worker.shared.status.snapshot()),
        ("GET", "events", "") => {
            // Whoever reads them keeps the worker alive.
            socket.end_unless_acknowledged(EVENTS_LIMIT.min(worker.shared.claim.orphan_timeout()));
            Ok(events(status::stream(&worker.shared.status)))
        }
        ("POST", "launch", "") => json(&worker.launch(read_json(request.into_body()).await?).await?),
        ("PUT", "ads", "") => {
            let rules = collect(request.into_body()).await?;
            let are_built_in = asked == BUILT_IN_LIST;
            worker.brought.bring_ad_rules(if are_built_in { AdRules::BuiltIn(rules) } else { AdRules::Plain(rules) });
            Ok(nothing())
        }
        ("PUT", "ads", "compiled") => {
            worker.brought.bring_ad_rules(AdRules::Compiled(collect(request.into_body()).await?));
            Ok(nothing())
        }
        ("GET", "ads", "compiled") => Ok(Response::new(full(engine.compiled_ads()?))),
        ("PUT", "extensions", name) => {
            let limits = ExtensionLimits::from_query(asked);
            let limits = limits.ok_or_else(|| ApiError::bad_request("unpacked, files: numbers wanted"))?;
            worker.bring_extension(name, request.into_body(), limits).await?;
            Ok(nothing())
        }
        ("POST", "storage", "") => {
            let query: StorageQuery = read_json(request.into_body()).await?;
            json(&engine.read_storage(query).await?)
        }
        ("PUT", "storage", "") => {
            worker.shared.status.touch();
            // Its launch needs it awake: it wakes up while the state arrives.
            worker.wake();
            worker.brought.bring_storage(read_json(request.into_body()).await?);
            Ok(nothing())
        }
        ("PUT", "folder", "") => {
            worker.shared.status.touch();
            worker.bring_folder(request.into_body(), folder_query(asked)?).await?;
            Ok(nothing())
        }
        ("POST", "folder", "") => worker.give_folder(folder_query(asked)?).await,
        ("POST", "captchas", id) => {
            worker.act_on_captcha(id, read_json(request.into_body()).await?).await?;
            Ok(nothing())
        }
        ("POST", "context", "") => json(&Window { window: worker.open_context().await? }),
        ("POST", "context", "window") => json(&Window { window: engine.open_window().await? }),
        ("DELETE", "context", "") => {
            worker.close_context().await?;
            Ok(nothing())
        }
        ("GET", "attach", _) => {
            let (kind, rest) = rest.split_once('/').unwrap_or((rest, ""));
            let endpoint = match kind {
                "devtools" => {
                    let rest = Some(rest).filter(|rest| !rest.is_empty()).map(|rest| format!("{rest}{query}"));
                    engine.devtools(rest.as_deref())?
                }
                "bidi" => engine.bidi(format!("/{rest}{query}"))?,
                "playwright" => engine.playwright()?,
                _ => return Err(ApiError::not_found("no such path")),
            };
            attach::open(request, endpoint)
        }
        ("GET", "ports", "driver") => json(&DriverPort { port: engine.driver()?.number() }),
        ("GET", "ports", number) => {
            let port = number.parse().map_err(|_| ApiError::bad_request("a port is a number"))?;
            handover::open(request, LocalPort::new(port)).await
        }
        ("GET" | "PUT", "json", _) => {
            let to = engine.debugging()?;
            worker.shared.upstream.forward(request, to, &format!("{path}{query}")).await
        }
        ("POST", "driver", "session") => {
            let (worker, wanted) = (Arc::clone(worker), read_json(request.into_body()).await?);
            to_its_end(async move { worker.engine.new_session(wanted).await }).await?
        }
        (_, "webdriver", _) => {
            let to = engine.driver()?;
            check_command_path(rest)?;
            let path = format!("/{rest}{query}");
            let (mut parts, body) = request.into_parts();
            let mut body = collect(body).await?;
            match engine.before_command(rest, &body).await? {
                CommandVerdict::Passes => {}
                CommandVerdict::Changed(changed) => {
                    parts.headers.insert(CONTENT_LENGTH, changed.len().into());
                    body = changed;
                }
                CommandVerdict::Answered(answer) => return Ok(answer),
            }
            worker.shared.upstream.forward(Request::from_parts(parts, Full::new(body)), to, &path).await
        }
        ("GET", "log", "") => log::stream(Arc::clone(&worker.shared.log)),
        ("POST", "log", "") => {
            worker.shared.log.daemon_listens();
            Ok(nothing())
        }
        ("GET", "pages", "") => pages::stream(engine.clone()).await,
        ("POST", "pages", page) => {
            pages::act(engine, &percent::decode(page)?, read_json(request.into_body()).await?).await
        }
        ("GET", "recording", "") => recording::stream(&worker.shared.processes, asked),
        ("POST", "probe", "") => json(&probe::carry_out(&read_json(request.into_body()).await?).await),
        ("POST", "probe", "programs") => {
            let shared = &worker.shared;
            json(&execution::carry_out(&shared.processes, &shared.home).await?)
        }
        ("GET", "egress", "") => worker.shared.egress.open(request),
        ("GET", "screen", "") => tunnel::screen(request).await,
        ("GET", "clipboard", "") => {
            Ok(Response::new(full(clipboard::read(&worker.shared.processes, display(engine)?).await?)))
        }
        ("PUT", "clipboard", "") => {
            let text = collect_within(request.into_body(), CLIPBOARD_LIMIT).await?;
            clipboard::write(&worker.shared.processes, display(engine)?, &text).await?;
            Ok(nothing())
        }
        ("GET", "files", "") => json(&files.list().await?),
        ("POST", "files", "archive") => json(&files.unpack(request.into_body(), limit).await?),
        ("GET", "files", name) => files.read(&percent::decode(name)?).await,
        ("GET", "uploads", name) => files.read_upload(&percent::decode(name)?).await,
        ("POST", "uploads", name) => {
            let Rename { name: new } = read_json(request.into_body()).await?;
            json(&files.rename_upload(&percent::decode(name)?, &new).await?)
        }
        ("DELETE", "uploads", name) => {
            files.remove_upload(&percent::decode(name)?).await?;
            Ok(nothing())
        }
        ("PUT", "files", name) => json(&files.store(&percent::decode(name)?, request.into_body(), limit).await?),
        ("DELETE", "files", name) => {
            files.remove(&percent::decode(name)?).await?;
            Ok(nothing())
        }
        _ => Err(ApiError::not_found("no such path")),
    }
}

/// Lets what has begun come to its end, though its caller may leave. A new browser that takes another's place would be left half
/// there.
async fn to_its_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, ApiError> {
    tokio::spawn(work).await.map_err(|error| ApiError::internal(error.to_string()))
}

fn display(engine: &Engine) -> Result<&Display, ApiError> {
    engine.display().ok_or_else(|| ApiError::not_found("this worker has no display"))
}

fn folder_query(query: &str) -> Result<FolderQuery, ApiError> {
    FolderQuery::from_query(query).ok_or_else(|| ApiError::bad_request("limit: a number of bytes"))
}

/// Accepts only commands of a driver's session. Otherwise a path that the agent and the daemon read differently could make
/// the driver start a browser with unchecked capabilities, or end itself.
/// Fails for every path but `session/<id>/…`, and for one whose parts a driver might resolve against one another.
fn check_command_path(path: &str) -> Result<(), ApiError> {
    let refused = || ApiError::not_found("only commands of a driver's session are served here");
    let mut parts = path.split('/');
    let (Some("session"), Some(id)) = (parts.next(), parts.next()) else { return Err(refused()) };
    let is_id = (1..=MAX_SESSION_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let mut parts = parts.peekable();
    if !is_id || parts.peek().is_none_or(|command| command.is_empty()) {
        return Err(refused());
    }
    for part in parts {
        let part = percent::decode(part)?;
        if part.split(['/', '\\']).any(|name| name == "." || name == "..") {
            return Err(refused());
        }
    }
    Ok(())
}

fn nothing() -> Response<Body> {
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    // It has a limit of its own, which no other answer is to have.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::agent::Claimed;
    use crate::egress::Egress;
    use crate::process::Processes;

    #[tokio::test]
    async fn who_does_not_know_the_secret_gets_one_answer() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let agent = Arc::new(Agent::new(Processes::default(), Arc::new(Egress::new())));
        let serving = tokio::spawn(serve(Listener::Tcp(listener), agent));
        for (request, status) in [("GET /health", 401), ("POST /claim", 400)] {
            let mut stranger = TcpStream::connect(address).await.unwrap();
            let head = format!("{request} HTTP/1.1\r\nHost: agent\r\nContent-Length: 0\r\n\r\n");
            stranger.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            tokio::time::timeout(HEAD_LIMITS.head / 2, stranger.read_to_string(&mut answer)).await.unwrap().unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
        serving.abort();
    }

    #[tokio::test]
    async fn a_call_that_needs_a_launched_browser_wakes_it() {
        let home = tempfile::tempdir().unwrap();
        let worker = Claimed::of_tests(home.path());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let agent = Arc::new(Agent::of_tests(Arc::clone(&worker)));
        let serving = tokio::spawn(serve(Listener::Tcp(listener), agent));
        let secret = "ab".repeat(32);
        let call = async |request: &str| {
            let mut daemon = TcpStream::connect(address).await.unwrap();
            let head = format!("{request} HTTP/1.1\r\nHost: agent\r\nAuthorization: Bearer {secret}\r\n");
            daemon.write_all(format!("{head}Content-Length: 0\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            daemon.read_exact(&mut answer).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 ") && !answer.ends_with(b"401"), "{request}");
        };
        for request in ["GET /health", "GET /files", "PUT /ads", "GET /ports/driver"] {
            call(request).await;
            assert!(worker.is_frozen(), "{request}: it waits for a client");
        }
        assert!(worker.shared.status.activate());
        for request in ["GET /health", "GET /events", "GET /egress", "POST /launch"] {
            call(request).await;
            assert!(worker.is_frozen(), "{request} needs no browser");
        }
        for request in ["GET /attach/devtools", "GET /ports/driver", "GET /json/list", "GET /files", "POST /log"] {
            worker.pretend_frozen();
            call(request).await;
            assert!(!worker.is_frozen(), "{request}");
        }
        serving.abort();
    }

    #[tokio::test]
    async fn work_whose_caller_has_left_comes_to_its_end() {
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let (done, is_done) = tokio::sync::oneshot::channel();
        let work = to_its_end(async move {
            let _ = wait.await;
            let _ = done.send(());
        });
        assert!(tokio::time::timeout(Duration::from_millis(1), work).await.is_err());
        go.send(()).unwrap();
        is_done.await.unwrap();
    }

    #[test]
    fn only_commands_of_a_session_reach_the_driver() {
        let id = "0123456789abcdef0123456789abcdef";
        for command in [
            "url",
            "element/f.1/attribute/a%20b",
            "execute/sync",
            "cookie/%F0%9F%8D%AA",
            "window/",
            "a//b",
            "property/a%2Fb",
        ] {
            assert!(check_command_path(&format!("session/{id}/{command}")).is_ok(), "{command}");
        }
        for path in [
            "",
            "session",
            "session/",
            "shutdown",
            "status",
            "sessions",
            "Session/a/url",
            "%73ession/a/url",
            "/session/a/url",
            "session//url",
            "session/a",
            "session/a/",
            "session/../session/url",
            "session/a/../../session",
            "session/a/%2e%2E/%2e./session",
            "session/a/.%2e/x",
            "session/a/./url",
            "session/a/x%2F..%2Fsession",
            "session/a%2Fb/url",
            "session/a/x/..",
            "session/a/..%5Csession",
        ] {
            assert!(check_command_path(path).is_err(), "{path}");
        }
    }
}
