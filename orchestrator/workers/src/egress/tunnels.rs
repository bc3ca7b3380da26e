//! The tunnels to one agent: a few are always idle, and each becomes one connection of the browser.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use tokio::io::AsyncReadExt as _;
use tokio::time::sleep;
use warmpool_core::panics::keep_running;
use warmpool_protocol::EGRESS_PROTOCOL;

use super::{Shared, connection};
use crate::worker::{AgentStream, Upgrade};

/// Tunnels that wait for the browser. A used one is replaced within a fraction of a millisecond.
const IDLE: usize = 6;
/// Time between two attempts to open one.
const RETRY: Duration = Duration::from_millis(200);

/// Keeps tunnels open until the session's way out is closed.
pub(super) fn open(shared: &Arc<Shared>) {
    for _ in 0..IDLE {
        let shared = Arc::clone(shared);
        let stop = shared.stop.clone();
        let opening = keep_running("keep a tunnel open", async move || keep_open(&shared).await);
        tokio::spawn(stop.run_until_cancelled_owned(opening));
    }
}

async fn keep_open(shared: &Arc<Shared>) {
    loop {
        let Some((mut tunnel, early)) = open_one(shared).await else {
            sleep(RETRY).await;
            continue;
        };
        // This waits for the browser, which speaks first. An agent that hangs up has ended or lost this tunnel.
        let mut begun = BytesMut::from(early);
        if begun.is_empty() && !matches!(tunnel.read_buf(&mut begun).await, Ok(1..)) {
            sleep(RETRY).await;
            continue;
        }
        // This happens here, not in the connection's own task: a silent connection does not count towards
        // `egress.max_connections`, so the number of tunnels bounds them.
        let Some(target) = connection::greet(shared, &mut tunnel, begun).await else { continue };
        let connection = connection::serve(Arc::clone(shared), tunnel, target);
        tokio::spawn(shared.stop.clone().run_until_cancelled_owned(connection));
    }
}

/// Opens one; returns it with the browser's first bytes, if its connection was waiting.
async fn open_one(shared: &Shared) -> Option<(AgentStream, Bytes)> {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(EGRESS_PROTOCOL));
    match shared.worker.agent.upgrade("/egress", headers).await {
        Ok(Upgrade::Switched { stream, early, .. }) => Some((stream, early)),
        Ok(Upgrade::Declined(status)) => {
            tracing::debug!(worker = %shared.worker.id, %status, "the agent opens no tunnel");
            None
        }
        Err(error) => {
            tracing::trace!(worker = %shared.worker.id, %error, "no tunnel to the agent");
            None
        }
    }
}
