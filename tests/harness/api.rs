//! The REST client: one connection for each request, so that no test depends on an earlier one.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::wire::{self, Target, Trusted};

/// Name of the header that carries the key.
pub const KEY_HEADER: &str = "service-secret-key";

/// After this time, an answer that waits for nothing counts as hung.
const HUNG: Duration = Duration::from_secs(30);
/// The same for an answer that waits for a worker: it may stand in the queue, and then start.
const HUNG_WORKER: Duration = Duration::from_secs(180);

/// A caller of the daemon's API.
#[derive(Clone)]
pub struct Api {
    base: String,
    key: Option<String>,
    trusted: Option<Trusted>,
}

impl Api {
    /// A caller of `base`, with or without a slash at its end.
    #[must_use]
    pub fn new(base: impl AsRef<str>) -> Self {
        Self { base: base.as_ref().trim_end_matches('/').to_owned(), key: None, trusted: None }
    }

    /// The same caller with another key.
    #[must_use]
    pub fn with_key(&self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self.clone() }
    }

    /// The same caller with no key.
    #[must_use]
    pub fn without_key(&self) -> Self {
        Self { key: None, ..self.clone() }
    }

    /// The same caller, trusting this certificate for https.
    #[must_use]
    pub fn trusting(&self, certificate: Trusted) -> Self {
        Self { trusted: Some(certificate), ..self.clone() }
    }

    /// The address all paths are added to.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The certificate trusted for TLS, if any.
    #[must_use]
    pub fn trusted(&self) -> Option<&Trusted> {
        self.trusted.as_ref()
    }

    /// `GET path`.
    pub async fn get(&self, path: &str) -> Result<Reply> {
        self.send(Method::GET, path, HeaderMap::new(), Bytes::new()).await
    }

    /// `DELETE path`.
    pub async fn delete(&self, path: &str) -> Result<Reply> {
        self.send(Method::DELETE, path, HeaderMap::new(), Bytes::new()).await
    }

    /// `POST path` with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.post_bytes(path, "application/json", body.to_string()).await
    }

    /// `POST path` with any body.
    pub async fn post_bytes(&self, path: &str, content_type: &'static str, body: impl Into<Bytes>) -> Result<Reply> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        self.send(Method::POST, path, headers, body.into()).await
    }

    /// Any request. Headers given here win over the caller's own.
    /// Errors: no connection, and no whole answer long after there should be one.
    pub async fn send(&self, method: Method, path: &str, headers: HeaderMap, body: Bytes) -> Result<Reply> {
        let (what, limit) = (format!("{method} {path}"), patience(&method, path, &body));
        let answered = tokio::time::timeout(limit, self.exchange(what.clone(), method, path, headers, body)).await;
        answered.with_context(|| format!("{what} hung: no whole answer within {limit:?}"))?
    }

    async fn exchange(
        &self,
        what: String,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply> {
        let target = Target::parse(&format!("{}{path}", self.base))?;
        let mut request = Request::builder().method(method).uri(&target.path).body(Full::new(body))?;
        request.headers_mut().insert(HOST, target.authority().parse()?);
        if let Some(key) = &self.key {
            request.headers_mut().insert(HeaderName::from_static(KEY_HEADER), key.parse()?);
        }
        for (name, value) in &headers {
            request.headers_mut().insert(name, value.clone());
        }
        let stream = wire::connect(&target, self.trusted.as_ref()).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let reply = sender.send_request(request).await.with_context(|| what.clone())?;
        let (head, body) = reply.into_parts();
        let body = body.collect().await.with_context(|| format!("{what}: body"))?.to_bytes();
        driver.abort();
        Ok(Reply { what, status: head.status.as_u16(), headers: head.headers, body })
    }
}

/// How long an answer may take that does not hang: tasks and worlds say how long they wait, and other POSTs may start a worker.
fn patience(method: &Method, path: &str, body: &[u8]) -> Duration {
    /// Only those of attacks are longer, and they wait for nothing.
    const LONGEST: usize = 1 << 20;
    let read = (body.len() <= LONGEST).then(|| serde_json::from_slice::<Value>(body).ok()).flatten();
    let waits = read.and_then(|body| body["wait"].as_u64());
    match waits {
        Some(seconds) => HUNG_WORKER + Duration::from_secs(seconds.min(600)),
        None if *method == Method::POST && !path.starts_with("/lam/") => HUNG_WORKER,
        None => HUNG,
    }
}

/// A response, read whole.
pub struct Reply {
    what: String,
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// Every REST error has this shape.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Machine-readable code.
    pub code: String,
    /// A message that says what to do.
    pub message: String,
    /// The field at fault, as a dotted path; empty if none.
    pub field: String,
}

impl Reply {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, whatever the status.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("{self}: not JSON"))
    }

    /// The answer of a success, by its type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_value(self.ok()?).with_context(|| self.to_string())
    }

    /// The JSON of a success; `null` if there is no body.
    pub fn ok(&self) -> Result<Value> {
        ensure!((200..300).contains(&self.status), "{self}");
        if self.body.is_empty() { Ok(Value::Null) } else { self.json() }
    }

    /// The fault of an answer that must have this status and the shape of an error.
    pub fn fault(&self, status: u16) -> Result<Fault> {
        ensure!(self.status == status, "expected {status}: {self}");
        let body = self.json()?;
        let part = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
        let fault = Fault { code: part("code"), message: part("message"), field: part("field") };
        ensure!(!fault.code.is_empty() && !fault.message.is_empty(), "an error says code and message: {self}");
        ensure!(!part("request_id").is_empty(), "an error carries its request id: {self}");
        Ok(fault)
    }

    /// A header's value as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let short: String = text.chars().take(400).collect();
        write!(f, "{} answered {}: {short}", self.what, self.status)
    }
}
