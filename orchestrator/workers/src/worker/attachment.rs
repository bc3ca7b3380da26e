//! A client's websocket to the browser: the daemon shakes hands with the browser itself, and lets the agent hear of the few
//! messages that concern it.

use std::io;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, SEC_WEBSOCKET_EXTENSIONS, UPGRADE};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::codec::{Framed, FramedParts, LinesCodec};
use tokio_util::either::Either;
use warmpool_protocol::{
    ATTACH_PROTOCOL, Attached, ClientMessage, LONGEST_LINE, ListenRules, ListenVerdict, PORT_PROTOCOL,
};

use super::agent::{Agent, AgentError, CALL_TIMEOUT, within};
use super::connected::Connected;
use super::connection::AgentStream;
use super::port::{HandedSocket, PortStream};
use super::upgrade::{Upgrade, upgrade};

/// What became of a client's websocket.
#[derive(Debug)]
pub enum BrowserSide {
    /// The browser speaks websocket from here.
    Open {
        /// The headers of the browser's reply.
        headers: HeaderMap,
        /// The connection.
        stream: PortStream,
        /// The first bytes on it, which came with the reply.
        early: Bytes,
        /// The agent, where it has to hear of the client's messages.
        listener: Option<Box<AgentListener>>,
    },
    /// The browser or the agent answered with this status instead.
    Declined(StatusCode),
}

impl Agent {
    /// Opens the websocket at `path` of the agent, below `/devtools` or `/bidi`, with the client's own handshake headers.
    pub async fn attach(&self, path: &str, headers: HeaderMap) -> Result<BrowserSide, AgentError> {
        within(CALL_TIMEOUT, self.attach_in_time(path, headers)).await
    }

    async fn attach_in_time(&self, path: &str, mut headers: HeaderMap) -> Result<BrowserSide, AgentError> {
        let (stream, early) = match self.upgrade(&format!("/attach{path}"), protocol(ATTACH_PROTOCOL)).await? {
            Upgrade::Switched { stream, early, .. } => (stream, early),
            // An agent of an earlier release carries the messages itself.
            Upgrade::Declined(StatusCode::NOT_FOUND) => return self.attach_carried(path, headers).await,
            Upgrade::Declined(status) => return Ok(BrowserSide::Declined(status)),
        };
        let mut lines = AgentLines::new(stream, &early);
        let Attached { port, path, listen_rules } = lines.next().await?;
        if listen_rules.is_some() {
            // What is read of the messages must not be compressed.
            headers.remove(SEC_WEBSOCKET_EXTENSIONS);
        }
        let listener =
            listen_rules.map(|listen_rules| Box::new(AgentListener { lines, listen_rules, is_asking: false }));
        // The browser takes only hosts that it listens on.
        let host = HeaderValue::try_from(format!("127.0.0.1:{port}"));
        headers.insert(HOST, host.map_err(|error| AgentError::Unreadable(error.into()))?);
        let stream = self.connect_port(port).await.map_err(|error| AgentError::Connect(error.into()))?;
        Ok(match upgrade(stream, &path, headers).await? {
            Upgrade::Switched { headers, stream, early } => BrowserSide::Open { headers, stream, early, listener },
            Upgrade::Declined(status) => BrowserSide::Declined(status),
        })
    }

    async fn attach_carried(&self, path: &str, headers: HeaderMap) -> Result<BrowserSide, AgentError> {
        Ok(match self.upgrade(path, headers).await? {
            Upgrade::Switched { headers, stream, early } => {
                BrowserSide::Open { headers, stream: Connected(Either::Right(stream)), early, listener: None }
            }
            Upgrade::Declined(status) => BrowserSide::Declined(status),
        })
    }

    /// Connects to a port in the worker.
    pub(super) async fn connect_port(&self, port: u16) -> io::Result<PortStream> {
        let upgraded = self.upgrade(&format!("/ports/{port}"), protocol(PORT_PROTOCOL)).await;
        match upgraded.map_err(io::Error::other)? {
            Upgrade::Switched { stream, .. } => match stream.into_unix() {
                Ok(unix) => Ok(Connected(Either::Left(HandedSocket::receive(unix).await?))),
                Err(stream) => Ok(Connected(Either::Right(stream))),
            },
            Upgrade::Declined(status) => Err(io::Error::other(format!("the agent answered {status}"))),
        }
    }
}

fn protocol(name: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(name));
    headers
}

/// Lines of JSON on a connection to the agent.
#[derive(Debug)]
struct AgentLines(Framed<AgentStream, LinesCodec>);

impl AgentLines {
    fn new(stream: AgentStream, early: &[u8]) -> Self {
        // What takes a command's place may be longer than the command.
        let mut parts = FramedParts::new::<String>(stream, LinesCodec::new_with_max_length(2 * LONGEST_LINE));
        parts.read_buf.extend_from_slice(early);
        Self(Framed::from_parts(parts))
    }

    async fn next<T: DeserializeOwned>(&mut self) -> Result<T, AgentError> {
        let line = self.0.next().await.ok_or_else(|| AgentError::Broken("it hung up".into()))?;
        let line = line.map_err(|error| AgentError::Broken(error.into()))?;
        serde_json::from_str(&line).map_err(|error| AgentError::of_answer(&error))
    }

    async fn send(&mut self, value: &impl Serialize) -> Result<(), AgentError> {
        let line = serde_json::to_string(value).map_err(|error| AgentError::Unreadable(error.into()))?;
        self.0.send(line).await.map_err(|error| AgentError::Broken(error.into()))
    }
}

/// The agent, as it hears of one client's messages. Dropping this tells it that the client has gone.
#[derive(Debug)]
pub struct AgentListener {
    lines: AgentLines,
    listen_rules: ListenRules,
    /// A call was begun, and not finished if there is another.
    is_asking: bool,
}

impl AgentListener {
    /// What it has to hear now, beside commands that name something of the client's machine or network.
    #[must_use]
    pub const fn listen_rules(&self) -> ListenRules {
        self.listen_rules
    }

    /// Tells the agent of a message. Once this is done the browser may have it, or what is returned in its place; or the client has its
    /// answer.
    /// Errors: those of a call to the agent, also after a call that was dropped half-way.
    pub async fn tell(&mut self, said: &ClientMessage) -> Result<ListenVerdict, AgentError> {
        if std::mem::replace(&mut self.is_asking, true) {
            return Err(AgentError::Broken("an answer is missing".into()));
        }
        let asked = async {
            self.lines.send(said).await?;
            self.lines.next().await
        };
        let verdict: ListenVerdict =
            timeout(CALL_TIMEOUT, asked).await.unwrap_or(Err(AgentError::Timeout(CALL_TIMEOUT)))?;
        self.listen_rules.first_page = verdict.first_page;
        self.is_asking = false;
        Ok(verdict)
    }
}

#[cfg(any(test, feature = "testing"))]
impl AgentListener {
    /// An agent at the other end of this socket.
    #[must_use]
    pub fn at(socket: tokio::net::UnixStream, listen_rules: ListenRules) -> Self {
        Self { lines: AgentLines::new(AgentStream::over(socket), &[]), listen_rules, is_asking: false }
    }
}
