//! What fills a session's log: the daemon's own DevTools connection, or what the agent tells.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::buffer::LogBuffer;
use super::reader::{EVENTS, Reader};
use super::told;
use crate::cdp::{Cdp, CdpError};
use crate::session::Session;
use warmpool_core::browser::Engine;
use warmpool_core::clock::unix_ms;

/// Events that may wait to be read; further ones are counted and dropped.
const WAITING: usize = 4096;
/// The longest message of the browser that is read whole, in bytes. A page may have a longer one sent; its strings are cut.
const MAX_MESSAGE: usize = 16 << 20;
/// Pause before another connection.
const PAUSE: Duration = Duration::from_secs(1);
/// The event that tells of a new target.
const ATTACHED: &str = "Target.attachedToTarget";

/// Fills the buffer until the session ends.
pub(crate) async fn collect(session: Arc<Session>, buffer: Arc<LogBuffer>) {
    let work = async {
        if session.options.engine == Engine::Chromium {
            read_devtools(&session, &buffer).await
        } else {
            read_agent(&session, &buffer).await
        }
    };
    tokio::select! {
        () = work => {}
        _ = session.ended() => {}
    }
    buffer.close();
}

/// Reads what the agent tells, for engines whose one protocol session is the client's. The agent keeps what happens while
/// nobody reads it.
async fn read_agent(session: &Session, buffer: &LogBuffer) {
    loop {
        if session.worker.ready().await.is_ok() {
            match session.worker.agent.log().await {
                Ok(mut lines) => {
                    while let Some(line) = lines.next().await {
                        told::write(buffer, line);
                    }
                }
                Err(error) => tracing::debug!(session = %session.id, %error, "the agent tells no log"),
            }
        }
        sleep(PAUSE).await;
    }
}

/// Reads what Chromium tells by DevTools.
async fn read_devtools(session: &Session, buffer: &LogBuffer) {
    let mut reader = Reader::new(buffer.max_bytes());
    loop {
        if let Err(error) = follow(session, buffer, &mut reader).await {
            tracing::debug!(session = %session.id, %error, "a session's log is interrupted");
        }
        reader.reset();
        buffer.miss(reader.take_missed());
        sleep(PAUSE).await;
    }
}

async fn follow(session: &Session, buffer: &LogBuffer, reader: &mut Reader) -> Result<(), CdpError> {
    if session.worker.ready().await.is_err() {
        return Err(CdpError::Gone);
    }
    let cdp = Cdp::connect_cutting(session, MAX_MESSAGE).await?;
    let mut events = cdp.listen_to_all(WAITING, |method| method == ATTACHED || EVENTS.contains(&method));
    attach(&cdp, None).await?;
    let mut has_begun = false;
    while let Some((target, event)) = events.next().await {
        buffer.miss(events.take_missed());
        if event.method == ATTACHED {
            if let Some(attached) = event.params["sessionId"].as_str() {
                listen(&cdp, attached).await?;
                if event.params["targetInfo"]["type"] == "page" && !std::mem::replace(&mut has_begun, true) {
                    // Its answer comes once all before it is done.
                    cdp.call(Some(attached), "Page.enable", json!({})).await?;
                    let _ = session.worker.agent.begin_log().await;
                }
            }
            continue;
        }
        if let Some(note) = reader.read(&target, &event.method, &event.params, unix_ms()) {
            buffer.write(note);
        }
        buffer.miss(reader.take_missed());
    }
    Err(CdpError::Gone)
}

/// Attaches to the targets of the browser, or to those within one, as they come.
async fn attach(cdp: &Cdp, within: Option<&str>) -> Result<(), CdpError> {
    let params = json!({"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true});
    match within {
        None => cdp.call(None, "Target.setAutoAttach", params).await.map(drop),
        Some(target) => cdp.notify(target, "Target.setAutoAttach", params).await,
    }
}

/// Has a target tell what happens in it. Those that cannot tell something refuse, which changes nothing.
async fn listen(cdp: &Cdp, target: &str) -> Result<(), CdpError> {
    for (method, params) in [
        // The browser keeps no bodies for it.
        ("Network.enable", json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})),
        ("Runtime.enable", json!({})),
        ("Log.enable", json!({})),
        ("Page.enable", json!({})),
    ] {
        cdp.notify(target, method, params).await?;
    }
    attach(cdp, Some(target)).await
}
