//! The tunnels to one agent: a few are always idle, and each becomes one connection of the browser.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use tokio::io::AsyncReadExt as _;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use warmpool_core::panics::keep_running;
use warmpool_protocol::EGRESS_PROTOCOL;

use super::socks::Target;
use super::{Shared, connection};
use crate::worker::{AgentStream, Upgrade};

/// Tunnels that wait for the browser. A used one is replaced within a fraction of a millisecond.
const IDLE: usize = 6;
/// Time between two attempts to open one.
const RETRY: Duration = Duration::from_millis(200);
/// How long all but the first wait for a use of that one. A new session's client has its answer to get, and to connect, before its
/// browser has anything to connect to.
const LATER: Duration = Duration::from_millis(100);

/// Keeps tunnels open until the session's way out is closed: one at once, the others as soon as that one is used, or a moment later.
pub(super) fn open(shared: &Arc<Shared>) {
    let used = CancellationToken::new();
    keep(shared, used.clone());
    let (shared, stop) = (Arc::clone(shared), shared.stop.clone());
    let others = async move {
        let _ = timeout(LATER, used.cancelled()).await;
        for _ in 1..IDLE {
            keep(&shared, used.clone());
        }
    };
    tokio::spawn(stop.run_until_cancelled_owned(others));
}

fn keep(shared: &Arc<Shared>, used: CancellationToken) {
    let (shared, stop) = (Arc::clone(shared), shared.stop.clone());
    let opening = keep_running("keep a tunnel open", async move || keep_open(&shared, &used).await);
    tokio::spawn(stop.run_until_cancelled_owned(opening));
}

async fn keep_open(shared: &Arc<Shared>, used: &CancellationToken) {
    loop {
        let Some((tunnel, target)) = next_connection(shared).await else {
            sleep(RETRY).await;
            continue;
        };
        used.cancel();
        let connection = connection::serve(Arc::clone(shared), tunnel, target);
        tokio::spawn(shared.stop.clone().run_until_cancelled_owned(connection));
    }
}

/// Opens a tunnel and waits for the browser's request on it; none if either fails.
async fn next_connection(shared: &Shared) -> Option<(AgentStream, Target)> {
    let (mut tunnel, early) = open_one(shared).await?;
    // This waits for the browser, which speaks first. An agent that hangs up has ended or lost this tunnel.
    let mut begun = BytesMut::from(early);
    if begun.is_empty() && !matches!(tunnel.read_buf(&mut begun).await, Ok(1..)) {
        return None;
    }
    // This happens here, not in the connection's own task: a silent connection does not count towards
    // `egress.max_connections`, so the number of tunnels bounds them.
    let target = connection::greet(shared, &mut tunnel, begun).await?;
    Some((tunnel, target))
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixListener;
    use warmpool_config::{Config, Flags, Host};
    use warmpool_core::browser::{Engine, Mode, PoolKey};
    use warmpool_core::ids::WorkerId;
    use warmpool_dial::Policy;
    use warmpool_protocol::Secret;
    use warmpool_runtime::AgentAddress;

    use super::super::{Egress, EgressContext, WantedRoute};
    use super::*;
    use crate::worker::Worker;

    #[tokio::test]
    async fn tunnels_of_nonsense_are_opened_again_after_a_pause() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
        let secret = Secret::new("secret".to_owned());
        let (worker, _reports) = Worker::found(WorkerId::random(), key, AgentAddress::Unix(socket).into(), &secret);
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, [], &Flags::default(), &host).unwrap();
        let began = Instant::now();
        let context = EgressContext::nowhere();
        let _egress = Egress::open(worker, Policy::default(), &config, &context, WantedRoute::Direct, None);
        // One of the tunnels has been opened three times by the last of these.
        for _ in 0..=2 * IDLE {
            let (mut tunnel, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert!(tunnel.read_buf(&mut head).await.unwrap() > 0);
            }
            let answer = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: egress\r\n\r\nx";
            tunnel.write_all(answer).await.unwrap();
        }
        assert!(began.elapsed() >= 2 * RETRY);
    }
}
