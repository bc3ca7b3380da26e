//! What the agent hears of a client that attaches to the browser.
//!
//! The client's messages go from the daemon to the browser; the few that concern the agent wait until it has heard of them.

use std::future::Future;
use std::pin::Pin;

use futures_util::{SinkExt as _, StreamExt as _};
use http::{Request, Response};
use hyper::body::Incoming;
use serde::Serialize;
use tokio_util::codec::{Framed, LinesCodec};
use warmpool_protocol::{ATTACH_PROTOCOL, Attached, ClientMessage, LONGEST_LINE, ListenRules, ListenVerdict};

use crate::body::Body;
use crate::error::ApiError;
use crate::listener::Connection;
use crate::ports::LocalPort;
use crate::tunnel::{bare, switch};

/// Where a websocket of a client leads.
pub(crate) struct Endpoint {
    pub(crate) port: LocalPort,
    /// Path and query.
    pub(crate) path: String,
    /// Who hears of the client's messages; none where nobody needs to.
    pub(crate) listener: Option<Box<dyn ClientListener>>,
}

/// Hears of a client's messages before the browser has them. It lives as long as the client's websocket.
pub(crate) trait ClientListener: Send {
    /// What it has to hear.
    fn listen_rules(&self) -> ListenRules;

    /// Called with each message; the browser has it once this is done.
    fn hear(&mut self, said: ClientMessage) -> Pin<Box<dyn Future<Output = ListenVerdict> + Send + '_>>;
}

/// `GET /attach/…`: a client attaches to this endpoint.
pub(crate) fn open(request: Request<Incoming>, to: Endpoint) -> Result<Response<Body>, ApiError> {
    switch(request, ATTACH_PROTOCOL, async move |daemon| {
        if let Ok((daemon, _)) = bare(daemon) {
            let _ = serve(daemon, to).await;
        }
    })
}

/// Serves until the client has gone, for which the daemon closes the connection.
async fn serve(daemon: Connection, to: Endpoint) -> Option<()> {
    let mut lines = Framed::new(daemon, LinesCodec::new_with_max_length(LONGEST_LINE));
    let Endpoint { port, path, mut listener } = to;
    let listen_rules = listener.as_ref().map(|listener| listener.listen_rules());
    lines.send(line(&Attached { port: port.number(), path, listen_rules })?).await.ok()?;
    loop {
        let said = lines.next().await?.ok()?;
        let said = serde_json::from_str(&said).ok()?;
        let heeded = match &mut listener {
            Some(listener) => listener.hear(said).await,
            None => ListenVerdict::default(),
        };
        lines.send(line(&heeded)?).await.ok()?;
    }
}

fn line(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}
