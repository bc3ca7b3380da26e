//! Traces: a collector of the test's own takes what the daemon sends by OTLP over HTTP.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message as _;
use serde_json::json;
use tokio::net::TcpListener;
use warmpool_tests::{Cdp, Daemon, Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [a_trace_has_what_its_client_asked_and_no_secret])
}

type Spans = Arc<Mutex<Vec<Span>>>;

/// A collector that keeps every span; gives its address.
async fn collector() -> Result<(String, Spans)> {
    async fn take(State(spans): State<Spans>, body: Bytes) {
        let request = ExportTraceServiceRequest::decode(body).unwrap_or_default();
        let resources = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        spans.lock().extend(resources.flat_map(|scope| scope.spans));
    }
    let spans = Spans::default();
    let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&spans));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((address, spans))
}

fn named(spans: &[Span], name: &str) -> Result<Span> {
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    spans.iter().find(|span| span.name == name).cloned().with_context(|| format!("no span {name}: {names:?}"))
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let value = span.attributes.iter().find(|attribute| attribute.key == name)?.value.clone()?.value?;
    match value {
        Attribute::StringValue(text) => Some(text),
        Attribute::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

async fn a_trace_has_what_its_client_asked_and_no_secret(_stage: Stage) -> Result<()> {
    let (endpoint, spans) = collector().await?;
    let settings = Settings::new().set("TRACES_ENDPOINT", &endpoint).set("POOL_CHROMIUM_HEADLESS", "1");
    let daemon = Daemon::start(settings).await?;
    daemon.warm().await?;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let headers = HeaderMap::from_iter([
        (HeaderName::from_static("traceparent"), HeaderValue::try_from(format!("00-{trace}-b7ad6b7169203331-01"))?),
        (HeaderName::from_static("content-type"), HeaderValue::from_static("application/json")),
    ]);
    let api = daemon.api();
    let body = json!({"headless": true, "url": "data:text/html,<title>a-page-of-mine</title>"}).to_string();
    let created = api.send(Method::POST, "/sessions/create", headers.clone(), body.into()).await?.ok()?;
    let (id, url) = (created["session_id"].as_str().context("id")?, created["websocket_url"].as_str().context("url")?);
    let cdp = Cdp::connect(url).await?;
    drop(cdp);
    api.delete(&format!("/sessions/{id}")).await?.ok()?;
    let body = json!({
        "url": "data:text/html,<h1>{{secret.word}}</h1>", "schema": {"title": "h1"}, "secrets": {"word": "swordfish"}, "wait": 60,
    });
    let task = api.send(Method::POST, "/lam/extract", headers, body.to_string().into()).await?.ok()?;
    ensure!(task["status"] == "success", "{task}");
    eventually!("all spans have come", 30, {
        let spans = spans.lock();
        ["task", "open relay", "POST /sessions/create", "POST /lam/extract"]
            .iter()
            .all(|name| spans.iter().any(|span| span.name == *name))
    })?;
    let spans = spans.lock().clone();
    // The client's own trace goes on in each of the two calls, and below them.
    let create = named(&spans, "POST /sessions/create")?;
    ensure!(hex::encode(&create.trace_id) == trace, "{create:?}");
    ensure!(hex::encode(&create.parent_span_id) == "b7ad6b7169203331", "{create:?}");
    ensure!(attribute(&create, "http.response.status_code").as_deref() == Some("200"), "{create:?}");
    let made = spans.iter().find(|span| span.parent_span_id == create.span_id).context("a span below the call")?;
    ensure!(made.name == "create session" && attribute(made, "warmpool.session").as_deref() == Some(id), "{made:?}");
    for part in ["lease worker", "launch browser"] {
        ensure!(
            spans.iter().any(|span| span.name == part && span.parent_span_id == made.span_id),
            "{part} is no part of {made:?}"
        );
    }
    let relay = named(&spans, "open relay")?;
    ensure!(attribute(&relay, "warmpool.session").as_deref() == Some(id), "{relay:?}");
    let played = named(&spans, "task")?;
    ensure!(hex::encode(&played.trace_id) == trace, "{played:?}");
    ensure!(attribute(&played, "warmpool.task.status").as_deref() == Some("success"), "{played:?}");
    // Nothing that opens something, and nothing of what pages are about.
    let (_, token) = url.split_once("token=").context("a token")?;
    let text = format!("{spans:?}");
    for secret in [daemon.key(), token, "swordfish", "a-page-of-mine", "data:text"] {
        ensure!(!text.contains(secret), "a span holds {secret}");
    }
    let shown: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    ensure!(!shown.iter().any(|name| name.contains("/status") || name.contains("/metrics")), "{shown:?}");
    tokio::time::timeout(Duration::from_secs(60), daemon.assert_idle()).await?
}
