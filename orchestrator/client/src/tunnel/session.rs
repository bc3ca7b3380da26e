//! The session behind a tunnel. A DevTools connection holds it, and each ends with the other.

use std::collections::HashMap;
use std::sync::Arc;

use ::http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use ::http::{HeaderMap, HeaderValue, Method, Response};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::{Message, protocol::Role};
use url::Url;
use warmpool_api::session::CreatedSession;

use super::TunnelArguments;
use crate::error::ClientError;
use crate::http::Caller;
use crate::naming::SetBy;
use crate::output::note;

/// The options of a tunnel, by the fields that they set.
const OPTIONS: &[SetBy] = &[("url", "--page"), ("headless", "--headed"), ("session_timeout", "--session-timeout")];
/// Commands that may wait to be sent.
const QUEUE: usize = 64;

pub(super) struct Session {
    pub(super) id: String,
    pub(super) caller: Arc<Caller>,
    token: String,
    commands: mpsc::Sender<Command>,
}

/// A DevTools command, and where its result goes.
struct Command {
    message: Value,
    reply: oneshot::Sender<Value>,
}

/// The DevTools connection that keeps the session alive.
pub(super) struct SessionConnection {
    socket: WebSocketStream<TokioIo<Upgraded>>,
    commands: mpsc::Receiver<Command>,
}

impl Session {
    pub(super) async fn open(
        caller: Arc<Caller>,
        arguments: &TunnelArguments,
    ) -> Result<(Self, SessionConnection), ClientError> {
        let mut body = json!({"url": arguments.page, "headless": !arguments.headed});
        if let Some(timeout) = arguments.session_timeout {
            body["session_timeout"] = json!(timeout.as_secs());
        }
        let made = caller.json::<CreatedSession>(Method::POST, "/sessions/create", Some(&body)).await;
        let made = made.map_err(|error| error.named(OPTIONS, None))?;
        let odd = || ClientError::Unreachable("the daemon's answer names no websocket".to_owned());
        let url = Url::parse(&made.websocket_url).map_err(|_| odd())?;
        let token = url.query_pairs().find(|(name, _)| name == "token").ok_or_else(odd)?.1.into_owned();
        let (sender, commands) = mpsc::channel(QUEUE);
        let session = Self { id: made.session_id.to_string(), caller, token, commands: sender };
        let headers = HeaderMap::from_iter([
            (CONNECTION, HeaderValue::from_static("Upgrade")),
            (UPGRADE, HeaderValue::from_static("websocket")),
            (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
            (SEC_WEBSOCKET_KEY, HeaderValue::try_from(generate_key()).map_err(|_| odd())?),
        ]);
        let reply = session.websocket("", headers).await?;
        let broken = |error| ClientError::Unreachable(format!("the session's websocket does not open: {error}"));
        let stream = TokioIo::new(hyper::upgrade::on(reply).await.map_err(broken)?);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        Ok((session, SessionConnection { socket, commands }))
    }

    /// Opens a websocket of the session: to the browser, or to a target such as `/page/ID`.
    pub(super) async fn websocket(&self, target: &str, headers: HeaderMap) -> Result<Response<Incoming>, ClientError> {
        let path = format!("/sessions/{}/devtools{target}?token={}", self.id, self.token);
        self.caller.send(Method::GET, &path, headers, None).await
    }

    /// Sends a DevTools command to the browser; `None` where it fails.
    pub(super) async fn command(&self, method: &str, params: Value) -> Option<Value> {
        let (reply, result) = oneshot::channel();
        let message = json!({"method": method, "params": params});
        self.commands.send(Command { message, reply }).await.ok()?;
        result.await.ok().filter(|answer| answer["error"].is_null()).map(|mut answer| answer["result"].take())
    }

    pub(super) async fn end(&self) {
        let ended = self.caller.json::<Value>(Method::DELETE, &format!("/sessions/{}", self.id), None).await;
        if let Err(error) = ended {
            note(format_args!("the session could not be ended: {error}"));
        }
    }
}

impl SessionConnection {
    /// Carries commands out until the session ends. Answers why.
    pub(super) async fn run(mut self) -> String {
        let mut waiting: HashMap<u64, oneshot::Sender<Value>> = HashMap::new();
        let mut last_id = 0;
        loop {
            tokio::select! {
                Some(Command { mut message, reply }) = self.commands.recv() => {
                    last_id += 1;
                    message["id"] = json!(last_id);
                    waiting.insert(last_id, reply);
                    if let Err(error) = self.socket.send(Message::text(message.to_string())).await {
                        return error.to_string();
                    }
                }
                received = self.socket.next() => match received {
                    Some(Ok(Message::Text(text))) => {
                        let message: Value = serde_json::from_str(&text).unwrap_or_default();
                        if let Some(reply) = message["id"].as_u64().and_then(|id| waiting.remove(&id)) {
                            let _ = reply.send(message);
                        }
                    }
                    Some(Ok(Message::Close(Some(frame)))) => return frame.reason.to_string(),
                    Some(Ok(Message::Close(None))) | None => return "its connection was closed".to_owned(),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return error.to_string(),
                },
            }
        }
    }
}
