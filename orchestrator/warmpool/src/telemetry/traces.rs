//! Traces of what clients ask: the making of sessions, the opening of relays, tasks. They go to a collector by OTLP over
//! HTTP, and nowhere unless `traces.endpoint` is set. What names or opens something for others (tokens, keys, addresses
//! of pages, inputs) is never in a trace.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tokio::runtime::Handle;
use tracing::{Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use warmpool_config::Config;
use warmpool_core::trace::TRACES;

/// Time for a collector to take a batch.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer of a collector that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// Where spans go. What waits to be sent is lost unless this is shut down.
#[derive(Debug, Default)]
#[must_use = "spans that wait are lost without a shutdown"]
pub(crate) struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Traces as the settings want them. Needs a runtime of tokio.
    /// Errors: when the exporter cannot be built.
    pub(super) fn start(config: &Config) -> Result<Self, ExporterBuildError> {
        let Some(endpoint) = &config.traces.endpoint else { return Ok(Self(None)) };
        let base = endpoint.as_str().trim_end_matches('/');
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{base}/v1/traces"))
            .with_http_client(Sender {
                runtime: Handle::current(),
                client: Client::builder(TokioExecutor::new()).build_http(),
            })
            .with_timeout(SEND_TIMEOUT)
            .build()?;
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.traces.sample)));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(sampler)
            .with_resource(Resource::builder().with_service_name("warmpool").build())
            .build();
        Ok(Self(Some(provider)))
    }

    /// What takes spans from the code, if traces are wanted.
    pub(super) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer = self.0.as_ref()?.tracer("warmpool");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_level(false);
        Some(layer.with_filter(filter_fn(is_of_traces)))
    }

    /// Sends the waiting spans, within a few seconds.
    pub(crate) async fn shutdown(self) {
        let Some(provider) = self.0 else { return };
        // It waits for a thread that sends by this runtime.
        match tokio::task::spawn_blocking(move || provider.shutdown()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last traces could not be sent"),
            Err(error) => tracing::warn!(%error, "the last traces could not be sent"),
        }
    }
}

fn is_of_traces(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TRACES
}

/// Makes a span a part of the trace that the client began, if it sent the header `traceparent` (W3C Trace Context).
pub(crate) fn continue_trace(span: &Span, headers: &HeaderMap) {
    if !span.is_disabled() {
        // Fails where nothing is traced.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&HeaderExtractor(headers)));
    }
}

/// Sends batches on the daemon's own runtime: the thread that makes them has none.
#[derive(Debug)]
struct Sender {
    runtime: Handle,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl HttpClient for Sender {
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answered = async {
                let response = client.request(request.map(Full::new)).await?;
                let (parts, body) = response.into_parts();
                let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
                Ok::<_, HttpError>(Response::from_parts(parts, body))
            };
            tokio::time::timeout(SEND_TIMEOUT, answered).await?
        });
        Box::pin(async move { sent.await? })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    /// Sends a batch to a collector that says this and leaves the connection open.
    async fn send(answer: &'static [u8]) -> Result<Response<Bytes>, HttpError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1/traces", listener.local_addr()?);
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(answer).await?;
            stream.read_to_end(&mut Vec::new()).await
        });
        let sender = Sender { runtime: Handle::current(), client: Client::builder(TokioExecutor::new()).build_http() };
        sender.send_bytes(Request::post(url).body(Bytes::from_static(b"spans"))?).await
    }

    #[tokio::test]
    async fn a_collector_that_answers_is_heard() {
        let answer = send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        assert_eq!(answer.body(), "ok");
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_never_ends_its_answer_is_given_up() {
        for answer in [b"".as_slice(), b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"] {
            let began = Instant::now();
            let error = send(answer).await.unwrap_err();
            assert!(error.is::<tokio::time::error::Elapsed>(), "{error}");
            assert!(began.elapsed() >= SEND_TIMEOUT);
        }
    }

    #[tokio::test]
    async fn a_collectors_answer_has_an_end() {
        let answer =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}", MAX_ANSWER + 1, "x".repeat(MAX_ANSWER + 1));
        assert!(send(answer.leak().as_bytes()).await.is_err());
    }
}
