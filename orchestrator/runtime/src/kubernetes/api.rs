//! The one way to the API server: each call has a deadline, to the last byte of its answer, and an error that names what was asked.
//!
//! These are plain requests with the HTTP client that the daemon has anyway: fourteen verbs on six resources, two of them watches.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::access::Access;
use super::credentials::{Credentials, Token};
use super::objects::{List, Status};
use crate::RuntimeError;
use warmpool_config::Config;

/// How long an idle connection is kept: less than load balancers before API servers do.
const IDLE: Duration = Duration::from_secs(30);
/// Most of an answer that is read: a list of a few thousand Pods.
const MOST: usize = 256 << 20;
/// How long the API server keeps a watch open, and how much longer it may take to end it.
const WATCH: u64 = 60;

/// The words by which admission is known: of webhooks, of Pod security, and of policies in CEL.
const ADMISSION: [&str; 3] = ["admission webhook", "violates PodSecurity", "ValidatingAdmissionPolicy"];

/// A client of one API server. Clones share its connections.
#[derive(Clone)]
pub(crate) struct Api(Arc<Parts>);

struct Parts {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: String,
    token: Token,
    namespace: String,
    limit: Duration,
    /// For what makes an object, which waits for webhooks.
    create_limit: Duration,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The API server could not be asked.
    #[error("the API server was asked to {access}: {why}")]
    Unreachable { access: Access, why: String },
    /// It refused.
    #[error("the API server refused to {access}: {}", status.message)]
    Refused { access: Access, namespace: String, status: Box<Status> },
}

/// The result of a call.
pub(crate) type Answer<T> = Result<T, CallError>;

impl CallError {
    /// The status with which the API server answered, where it did.
    pub(crate) const fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            Self::Unreachable { .. } => None,
        }
    }
}

/// Returns the answer, or none where the API server refused with this status.
pub(crate) fn unless<T>(code: u16, answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some(code) => Ok(None),
        Err(error) => Err(error),
    }
}

impl From<CallError> for RuntimeError {
    fn from(error: CallError) -> Self {
        let CallError::Refused { access, namespace, status } = error else {
            return Self::Unreachable(error.to_string());
        };
        let status = *status;
        let message = status.message;
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        let is_ending = causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
        match status.code {
            _ if is_ending || message.contains("because it is being terminated") => {
                Self::NoNamespace { namespace, flaw: "is being deleted" }
            }
            404 if message.starts_with("namespaces ") => Self::NoNamespace { namespace, flaw: "does not exist" },
            401 => Self::Credentials {
                path: "kubernetes.kubeconfig, or the Pod's service account".to_owned(),
                why: format!("the API server does not accept them: {message}"),
            },
            403 if message.contains("exceeded quota") || message.contains("failed quota") => {
                Self::QuotaUsedUp { namespace, message }
            }
            // Admission answers with any status that it likes.
            _ if ADMISSION.iter().any(|words| message.contains(words)) => Self::NotAdmitted { message },
            500 if message.contains("failed calling webhook") => Self::NotAdmitted { message },
            403 if message.contains(" cannot ") => Self::NotAllowed {
                action: access.to_string(),
                place: if access.namespaced {
                    format!("in the namespace {namespace}")
                } else {
                    "of the cluster".to_owned()
                },
                role: access.role(),
                rule: access.rule(),
            },
            // Such as a Pod security policy, or a service account that is missing.
            403 => Self::NotAdmitted { message },
            429 | 500.. => Self::Unreachable(format!("the API server could not {access}: {message}")),
            _ => Self::refused(access.verb, format!("{}: {message}", access.resource)),
        }
    }
}

/// A part of a path's query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Api {
    /// A client of the API server that `config` names. It has asked nothing yet.
    /// Errors: `Credentials`.
    pub(crate) fn new(config: &Config) -> Result<Self, RuntimeError> {
        let credentials = Credentials::load(config)?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(config.kubernetes.timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(credentials.tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Ok(Self(Arc::new(Parts {
            http,
            server: credentials.server,
            token: credentials.token,
            namespace: config.kubernetes.namespace.clone().unwrap_or(credentials.namespace),
            limit: config.kubernetes.timeout,
            create_limit: config.kubernetes.create_timeout.max(config.kubernetes.timeout),
        })))
    }

    /// The namespace of the workers.
    pub(crate) fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// The path of a resource's objects in an API, such as `/api/v1`.
    pub(crate) fn path(&self, api: &str, access: Access) -> String {
        let Access { resource, namespaced, .. } = access;
        if namespaced {
            format!("{api}/namespaces/{}/{resource}", self.0.namespace)
        } else {
            format!("{api}/{resource}")
        }
    }

    /// Reads an object, or a list.
    pub(crate) async fn get<T: DeserializeOwned>(&self, access: Access, path: &str) -> Answer<T> {
        self.call(access, Method::GET, path, None).await
    }

    /// Lists the objects of the core's API that have these labels.
    pub(crate) async fn list<T: DeserializeOwned>(&self, access: Access, labels: &str) -> Answer<List<T>> {
        // Version 0 would be quicker, and answered by a cache that may be behind.
        let path = format!("{}?labelSelector={}", self.path("/api/v1", access), encoded(labels));
        self.get(access, &path).await
    }

    pub(crate) async fn create<T: DeserializeOwned>(&self, access: Access, path: &str, object: &Value) -> Answer<T> {
        self.call(access, Method::POST, path, Some(("application/json", object))).await
    }

    /// Changes the parts of an object that `change` has.
    pub(crate) async fn patch<T: DeserializeOwned>(&self, access: Access, path: &str, change: &Value) -> Answer<T> {
        self.call(access, Method::PATCH, path, Some(("application/merge-patch+json", change))).await
    }

    pub(crate) async fn delete(&self, access: Access, path: &str, options: &Value) -> Answer<Value> {
        self.call(access, Method::DELETE, path, Some(("application/json", options))).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        access: Access,
        method: Method,
        path: &str,
        body: Option<(&'static str, &Value)>,
    ) -> Answer<T> {
        let unreachable = |why: String| CallError::Unreachable { access, why };
        let creates = method == Method::POST;
        let whole = async {
            let response = self.send(access, method, path, body).await?;
            let status = response.status();
            let body = http_body_util::Limited::new(response.into_body(), MOST).collect().await;
            let body = body.map_err(|error| unreachable(error.to_string()))?.to_bytes();
            if !status.is_success() {
                return Err(self.refusal(access, status, &body));
            }
            serde_json::from_slice(&body).map_err(|error| unreachable(format!("the answer cannot be read: {error}")))
        };
        let limit = if creates { self.0.create_limit } else { self.0.limit };
        let slow = |_| unreachable(format!("no whole answer within {} s", limit.as_secs()));
        timeout(limit, whole).await.map_err(slow)?
    }

    async fn send(
        &self,
        access: Access,
        method: Method,
        path: &str,
        body: Option<(&'static str, &Value)>,
    ) -> Answer<Response<Incoming>> {
        let unreachable = |why: String| CallError::Unreachable { access, why };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.0.server))
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("warmpool/", env!("CARGO_PKG_VERSION")));
        match &self.0.token {
            Token::None => {}
            Token::Fixed(token) => request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose())),
            Token::File(file) => {
                let token = tokio::fs::read_to_string(file).await;
                let token = token.map_err(|error| unreachable(format!("{}: {error}", file.display())))?;
                request = request.header(AUTHORIZATION, format!("Bearer {}", token.trim()));
            }
        }
        if let Some((kind, _)) = body {
            request = request.header(CONTENT_TYPE, kind);
        }
        let body = body.map(|(_, body)| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request.body(Full::from(body)).map_err(|error| unreachable(error.to_string()))?;
        self.0.http.request(request).await.map_err(|error| unreachable(words(&error)))
    }

    fn refusal(&self, access: Access, code: StatusCode, body: &[u8]) -> CallError {
        let mut status: Status = serde_json::from_slice(body).unwrap_or_default();
        status.code = code.as_u16();
        if status.message.is_empty() {
            status.message = format!("{code}: {}", String::from_utf8_lossy(&body[..body.len().min(500)]));
        }
        CallError::Refused { access, namespace: self.0.namespace.clone(), status: Box::new(status) }
    }

    /// Follows the objects with these labels from a version on, and hands each line of the answer to `each`, which returns whether
    /// to go on. Ends after a minute at the latest.
    pub(crate) async fn watch(
        &self,
        access: Access,
        labels: &str,
        version: &str,
        mut each: impl FnMut(&[u8]) -> bool + Send,
    ) -> Answer<()> {
        let unreachable = |why: String| CallError::Unreachable { access, why };
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH}&resourceVersion={}&labelSelector={}",
            self.path("/api/v1", access),
            encoded(version),
            encoded(labels)
        );
        let response = timeout(self.0.limit, self.send(access, Method::GET, &path, None)).await;
        let response =
            response.map_err(|_| unreachable(format!("no answer within {} s", self.0.limit.as_secs())))??;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let body = timeout(self.0.limit, body.collect()).await;
            let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
            return Err(self.refusal(access, status, &body));
        }
        let reading = async {
            let mut rest: Vec<u8> = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| unreachable(error.to_string()))?;
                let Ok(data) = frame.into_data() else { continue };
                rest.extend_from_slice(&data);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    if !line.trim_ascii().is_empty() && !each(&line) {
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        let limit = Duration::from_secs(WATCH) + self.0.limit;
        timeout(limit, reading).await.unwrap_or_else(|_| Err(unreachable("a watch does not end".to_owned())))
    }
}

/// An error with its causes, of which the last says most.
fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

#[cfg(test)]
#[path = "api/tests.rs"]
mod tests;
