//! The WebDriver driver in a worker. Its commands pass by the agent, but for the few that the agent has to see.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use http::{Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::OnceCell;
use warmpool_protocol::DriverPort;

use super::agent::{Agent, AgentError, Body, uri};
use super::port::PortStream;

/// The driver of one worker.
pub struct Driver {
    agent: Agent,
    client: Client<Connector, Body>,
    /// Its port; none where the agent is of an earlier release, which passes every command on itself.
    port: OnceCell<Option<u16>>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Driver {
    pub(super) fn new(agent: Agent) -> Self {
        let client = Client::builder(TokioExecutor::new()).build(Connector(agent.clone()));
        Self { agent, client, port: OnceCell::new() }
    }

    /// Passes a command on; `path` is the driver's. The body streams both ways, and refusals are answers.
    pub async fn forward(
        &self,
        path: &str,
        mut request: Request<Body>,
        passes_agent: bool,
    ) -> Result<Response<Incoming>, AgentError> {
        // What is seldom awaited is boxed, here and in what calls this: each command moves the whole future about.
        let port = if passes_agent { None } else { *self.port.get_or_try_init(|| Box::pin(self.find_port())).await? };
        let Some(port) = port else { return Box::pin(self.agent.forward(path, request)).await };
        // The driver takes only hosts that it listens on, and no origin.
        let host = format!("127.0.0.1:{port}");
        *request.uri_mut() = uri(&format!("http://{host}{path}"))?;
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        headers.remove(ORIGIN);
        headers.remove(AUTHORIZATION);
        headers.insert(HOST, HeaderValue::try_from(host).map_err(|error| AgentError::Unreadable(error.into()))?);
        self.client.request(request).await.map_err(|error| {
            if error.is_connect() { AgentError::Connect(error.into()) } else { AgentError::Broken(error.into()) }
        })
    }

    async fn find_port(&self) -> Result<Option<u16>, AgentError> {
        match self.agent.ask::<DriverPort>("/ports/driver").await {
            Ok(DriverPort { port }) => Ok(Some(port)),
            Err(AgentError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Connects to a port in the worker, whatever host is asked for, in the form the pooled client wants.
#[derive(Clone)]
struct Connector(Agent);

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<PortStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let agent = self.0.clone();
        Box::pin(async move {
            let port = uri.port_u16().ok_or(io::ErrorKind::InvalidInput)?;
            agent.connect_port(port).await.map(TokioIo::new)
        })
    }
}
