//! Client of the agent's protocol: plain HTTP, with a secret of the worker's own.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use warmpool_protocol::{
    Claim, DriverMode, ErrorBody, Event, Launch, Launched, NewDriverSession, Page, PageAction, Secret, Snapshot, Window,
};

use super::connection::{AgentStream, Connector};
use super::lines::Lines;
use crate::error::Cause;
use crate::runtime::AgentAddress;

/// A streamed request body.
pub(crate) type Body = UnsyncBoxBody<Bytes, Cause>;

/// Small calls are answered at once or not at all.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// What requests name as their host: each connection leads to one agent, whatever it is called.
const AUTHORITY: &str = "agent";
/// No answer to a small call is longer, in bytes.
const REPLY_LIMIT: usize = 4 << 20;
/// No event is longer, in bytes.
const EVENT_LIMIT: usize = 256 << 10;
/// No list of pages is longer, in bytes.
const PAGES_LIMIT: usize = 1 << 20;

/// Why a call to the agent failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// No connection could be made.
    #[error("cannot connect to the agent: {0}")]
    Connect(Cause),
    /// The connection broke.
    #[error("the connection to the agent broke: {0}")]
    Broken(Cause),
    /// It took too long.
    #[error("the agent did not answer within {} seconds", .0.as_secs())]
    Timeout(Duration),
    /// The agent said no.
    #[error("the agent answered {status}: {message}")]
    Refused {
        /// Its status.
        status: StatusCode,
        /// Its words.
        message: String,
    },
    /// The agent's answer makes no sense.
    #[error("the agent's answer cannot be read: {0}")]
    Nonsense(Cause),
}

/// The driver's own answer to a new session.
#[derive(Debug)]
pub(crate) struct DriverReply {
    /// Its status.
    pub status: StatusCode,
    /// Its JSON.
    pub body: Bytes,
}

/// What became of an upgrade.
#[derive(Debug)]
pub(crate) enum Upgrade {
    /// Both sides speak websocket from here; `early` came with the reply.
    Switched {
        /// The 101's headers.
        headers: HeaderMap,
        /// The connection.
        stream: AgentStream,
        /// Bytes that followed the 101 at once.
        early: Bytes,
    },
    /// The browser said no.
    Declined(StatusCode),
}

/// The way to one agent.
pub(crate) struct Agent {
    address: AgentAddress,
    secret: HeaderValue,
    client: Client<Connector, Body>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Agent {
    /// An agent that answers to `secret` (hex) on `address`.
    #[must_use]
    pub(crate) fn new(address: AgentAddress, secret: &Secret) -> Self {
        // A client of its own: when the worker goes, so do its pooled connections, and a container that gets the same
        // address later never sees them.
        let client = Client::builder(TokioExecutor::new()).build(Connector(address.clone()));
        let mut secret = HeaderValue::try_from(secret.authorization()).unwrap_or(HeaderValue::from_static("Bearer"));
        secret.set_sensitive(true);
        Self { address, secret, client }
    }

    /// Gives the agent its secret and its orders.
    ///
    /// # Errors
    /// [`AgentError`]; `Connect` while the container is still coming up.
    pub(crate) async fn claim(&self, claim: &Claim) -> Result<(), AgentError> {
        self.call(Method::POST, "/claim", Some(claim), CALL_TIMEOUT).await.map(drop)
    }

    /// Asks how the agent is.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) async fn health(&self) -> Result<Snapshot, AgentError> {
        self.call(Method::GET, "/health", None::<&()>, CALL_TIMEOUT).await.and_then(|body| read(&body))
    }

    /// Wakes the browser, makes the settings true and starts opening the page. Gives the warnings for the client.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) async fn launch(&self, launch: &Launch) -> Result<Vec<String>, AgentError> {
        let body = self.call(Method::POST, "/launch", Some(launch), CALL_TIMEOUT).await?;
        read(&body).map(|Launched { warnings }| warnings)
    }

    /// Opens a window in a browser context of its own, in the place of the one there was. Gives the window's WebDriver
    /// handle, or `None` where the engine has no contexts.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) async fn open_context(&self) -> Result<Option<String>, AgentError> {
        match self.window("/context").await {
            Err(AgentError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            window => window.map(Some),
        }
    }

    /// Opens another window in that context; gives its handle.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) async fn open_window(&self) -> Result<String, AgentError> {
        self.window("/context/window").await
    }

    /// Closes that context with its windows and files.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) async fn close_context(&self) -> Result<(), AgentError> {
        self.call(Method::DELETE, "/context", None::<&()>, CALL_TIMEOUT).await.map(drop)
    }

    async fn window(&self, path: &str) -> Result<String, AgentError> {
        let body = self.call(Method::POST, path, None::<&()>, CALL_TIMEOUT).await?;
        read(&body).map(|Window { window }| window)
    }

    /// Starts the one driver session. The driver's refusals are replies, not errors.
    ///
    /// # Errors
    /// [`AgentError`] when the agent could not bring an answer.
    pub(crate) async fn driver_session(
        &self,
        mode: DriverMode,
        capabilities: serde_json::Value,
        timeout: Duration,
    ) -> Result<DriverReply, AgentError> {
        let order = NewDriverSession { mode, capabilities };
        let request = self.json(Method::POST, "/driver/session", Some(&order))?;
        let (status, body) =
            tokio::time::timeout(timeout, self.exchange(request)).await.map_err(|_| AgentError::Timeout(timeout))??;
        Ok(DriverReply { status, body })
    }

    /// Sends a prepared request; `path` is the agent's. The body streams both ways.
    ///
    /// # Errors
    /// [`AgentError`] when no answer came.
    pub(crate) async fn send(&self, path: &str, mut request: Request<Body>) -> Result<Response<Incoming>, AgentError> {
        *request.uri_mut() = self.uri(path)?;
        request.headers_mut().insert(AUTHORIZATION, self.secret.clone());
        self.client.request(request).await.map_err(|error| {
            if error.is_connect() { AgentError::Connect(error.into()) } else { AgentError::Broken(error.into()) }
        })
    }

    /// Asks for a websocket at `path` with the client's own handshake headers.
    ///
    /// # Errors
    /// [`AgentError`] when no answer came.
    pub(crate) async fn upgrade(&self, path: &str, headers: HeaderMap) -> Result<Upgrade, AgentError> {
        let work = async {
            let stream =
                AgentStream::connect(&self.address).await.map_err(|error| AgentError::Connect(error.into()))?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|error| AgentError::Broken(error.into()))?;
            let connection = tokio::spawn(connection.with_upgrades());
            let mut request = Request::new(Empty::<Bytes>::new());
            *request.uri_mut() =
                path.parse().map_err(|error: http::uri::InvalidUri| AgentError::Nonsense(error.into()))?;
            *request.headers_mut() = headers;
            request.headers_mut().insert(AUTHORIZATION, self.secret.clone());
            request.headers_mut().insert(HOST, HeaderValue::from_static(AUTHORITY));
            let response = sender.send_request(request).await.map_err(|error| AgentError::Broken(error.into()))?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                connection.abort();
                return Ok(Upgrade::Declined(response.status()));
            }
            let headers = response.headers().clone();
            let upgraded = hyper::upgrade::on(response).await.map_err(|error| AgentError::Broken(error.into()))?;
            let parts = upgraded
                .downcast::<TokioIo<AgentStream>>()
                .map_err(|_| AgentError::Nonsense("the connection is not a plain socket".into()))?;
            Ok(Upgrade::Switched { headers, stream: parts.io.into_inner(), early: parts.read_buf })
        };
        tokio::time::timeout(CALL_TIMEOUT, work).await.map_err(|_| AgentError::Timeout(CALL_TIMEOUT))?
    }

    /// Opens the event stream. While one is open the agent knows that its daemon lives.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(super) async fn events(&self) -> Result<Lines<Event>, AgentError> {
        self.stream("/events", EVENT_LIMIT).await
    }

    /// Opens the list of the browser's pages, the one in front first: a line at once and one at each change. The worker
    /// looks after them for as long as this is open.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) async fn pages(&self) -> Result<Lines<Vec<Page>>, AgentError> {
        self.stream("/pages", PAGES_LIMIT).await
    }

    /// Does something to a page.
    ///
    /// # Errors
    /// [`AgentError`]; `Refused` with 404 when there is no such page any more.
    pub(crate) async fn act(&self, page: &str, action: &PageAction) -> Result<(), AgentError> {
        let path = format!("/pages/{}", crate::engine::escape(page));
        self.call(Method::POST, &path, Some(action), CALL_TIMEOUT).await.map(drop)
    }

    async fn stream<T>(&self, path: &str, limit: usize) -> Result<Lines<T>, AgentError> {
        let request = self.json(Method::GET, path, None::<&()>)?;
        let work = self.client.request(request);
        let response = tokio::time::timeout(CALL_TIMEOUT, work)
            .await
            .map_err(|_| AgentError::Timeout(CALL_TIMEOUT))?
            .map_err(|error| AgentError::Connect(error.into()))?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            return Err(AgentError::Refused { status, message: format!("no stream of {path}") });
        }
        Ok(Lines::new(response.into_body(), limit))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<Bytes, AgentError> {
        let request = self.json(method, path, body)?;
        let (status, body) =
            tokio::time::timeout(timeout, self.exchange(request)).await.map_err(|_| AgentError::Timeout(timeout))??;
        if status.is_success() {
            return Ok(body);
        }
        let message = serde_json::from_slice::<ErrorBody>(&body)
            .map_or_else(|_| String::from_utf8_lossy(&body).into_owned(), |refusal| refusal.error.message);
        Err(AgentError::Refused { status, message })
    }

    async fn exchange(&self, request: Request<Body>) -> Result<(StatusCode, Bytes), AgentError> {
        let response = self.client.request(request).await.map_err(|error| {
            if error.is_connect() { AgentError::Connect(error.into()) } else { AgentError::Broken(error.into()) }
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), REPLY_LIMIT).collect().await.map_err(AgentError::Broken)?;
        Ok((status, body.to_bytes()))
    }

    fn json(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<Request<Body>, AgentError> {
        let bytes = match body {
            Some(body) => serde_json::to_vec(body).map_err(|error| AgentError::Nonsense(error.into()))?,
            None => Vec::new(),
        };
        let mut request = Request::new(full(bytes));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri(path)?;
        request.headers_mut().insert(AUTHORIZATION, self.secret.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(request)
    }

    fn uri(&self, path: &str) -> Result<Uri, AgentError> {
        format!("http://{AUTHORITY}{path}")
            .parse()
            .map_err(|error: http::uri::InvalidUri| AgentError::Nonsense(error.into()))
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, AgentError> {
    serde_json::from_slice(body).map_err(|error| AgentError::Nonsense(error.into()))
}

/// A body that is in memory.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The agent's path of a file: its name as one segment.
pub(crate) fn file_path(name: &str) -> String {
    // Two names of dots alone mean a folder to some readers of paths.
    if matches!(name, "." | "..") {
        return format!("/files/{}", name.replace('.', "%2E"));
    }
    format!("/files/{}", crate::engine::escape(name))
}

#[cfg(test)]
mod tests {
    use super::file_path;

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(file_path("a b/../c.txt"), "/files/a%20b%2F..%2Fc.txt");
        assert_eq!(file_path("é"), "/files/%C3%A9");
        assert_eq!(file_path(".."), "/files/%2E%2E");
    }
}
