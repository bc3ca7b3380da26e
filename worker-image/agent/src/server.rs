//! The agent's one port: who may ask, and what for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;

use crate::agent::Agent;
use crate::board;
use crate::body::{Body, collect, empty, json, read_json};
use crate::error::ApiError;
use crate::pages;
use crate::percent;
use crate::recording;
use crate::tunnel;

/// Time a client has for sending the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failure to accept, which means that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the port until the process ends.
pub(crate) async fn serve(listener: TcpListener, agent: Arc<Agent>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let agent = Arc::clone(&agent);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(Arc::clone(&agent), request));
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .preserve_header_case(true)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
                .await;
        });
    }
}

async fn answer(agent: Arc<Agent>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(route(&agent, request).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "refused");
        error.response()
    }))
}

async fn route(agent: &Arc<Agent>, request: Request<Incoming>) -> Result<Response<Body>, ApiError> {
    let path = request.uri().path().to_owned();
    if path == "/claim" && request.method() == Method::POST {
        agent.claim(read_json(request.into_body()).await?)?;
        return json(&json!({}));
    }
    let worker = agent.open(request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes))?;
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let (first, rest) = path.trim_start_matches('/').split_once('/').unwrap_or((&path[1..], ""));
    let engine = &worker.engine;
    let files = &worker.shared.files;
    let limit = worker.shared.claim.file_limit;
    match (request.method().as_str(), first, rest) {
        ("GET", "health", "") => json(&worker.shared.board.health()),
        ("GET", "events", "") => Ok(events(board::stream(&worker.shared.board))),
        ("POST", "launch", "") => json(&worker.launch(read_json(request.into_body()).await?).await?),
        ("POST", "context", "") => json(&json!({"window": worker.open_context().await?})),
        ("POST", "context", "window") => json(&json!({"window": engine.open_window().await?})),
        ("DELETE", "context", "") => {
            worker.close_context().await?;
            Ok(nothing())
        }
        ("GET", "devtools", _) => {
            let rest = Some(rest).filter(|rest| !rest.is_empty()).map(|rest| format!("{rest}{query}"));
            tunnel::open(request, engine.devtools(rest.as_deref())?).await
        }
        ("GET" | "PUT", "json", _) => {
            let to = engine.debugging()?;
            worker.shared.upstream.forward(request, to, &format!("{path}{query}")).await
        }
        ("POST", "driver", "session") => engine.new_session(read_json(request.into_body()).await?).await,
        (_, "webdriver", _) => {
            let to = engine.driver()?;
            let path = format!("/{rest}{query}");
            if engine.oversees(rest) {
                let (parts, body) = request.into_parts();
                let body = collect(body).await?;
                engine.before_command(&body).await;
                let request = Request::from_parts(parts, Full::new(body));
                return worker.shared.upstream.forward(request, to, &path).await;
            }
            worker.shared.upstream.forward(request, to, &path).await
        }
        ("GET", "pages", "") => pages::stream(engine.clone()).await,
        ("POST", "pages", page) => {
            pages::act(engine, &percent::decode(page)?, read_json(request.into_body()).await?).await
        }
        ("GET", "recording", "") => recording::stream(&worker.shared.processes, &query),
        ("GET", "screen", "") => tunnel::screen(request).await,
        ("GET", "bidi", _) => tunnel::open(request, engine.bidi(format!("/{rest}{query}"))?).await,
        ("GET", "files", "") => json(&files.list().await?),
        ("POST", "files", "archive") => json(&files.unpack(request.into_body(), limit).await?),
        ("GET", "files", name) => files.read(&percent::decode(name)?).await,
        ("PUT", "files", name) => json(&files.store(&percent::decode(name)?, request.into_body(), limit).await?),
        ("DELETE", "files", name) => {
            files.remove(&percent::decode(name)?).await?;
            Ok(nothing())
        }
        _ => Err(ApiError::not_found("no such path")),
    }
}

fn nothing() -> Response<Body> {
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}
