//! The daemon's own DevTools connection, which fills a session's log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::book::Book;
use super::reader::{EVENTS, Reader};
use crate::cdp::{Cdp, CdpError};
use crate::session::Session;
use warmpool_core::clock::unix_ms;

/// Events that may wait to be read; further ones are counted and dropped.
const WAITING: usize = 4096;
/// The longest message of the browser that is read, in bytes. A longer one ends the connection, and another begins.
const MAX_MESSAGE: usize = 16 << 20;
/// Pause before another connection.
const PAUSE: Duration = Duration::from_secs(1);
/// The event that tells of a new target.
const ATTACHED: &str = "Target.attachedToTarget";

/// Fills the book until the session ends.
pub(crate) async fn collect(session: Arc<Session>, book: Arc<Book>) {
    let mut reader = Reader::default();
    let work = async {
        loop {
            if let Err(error) = follow(&session, &book, &mut reader).await {
                tracing::debug!(session = %session.id, %error, "a session's log is interrupted");
            }
            reader.reset();
            book.miss(reader.take_missed());
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = work => {}
        _ = session.ended() => {}
    }
    book.close();
}

async fn follow(session: &Session, book: &Book, reader: &mut Reader) -> Result<(), CdpError> {
    if session.worker.ready().await.is_err() {
        return Err(CdpError::Gone);
    }
    let cdp = Cdp::connect_within(session, MAX_MESSAGE).await?;
    let mut events = cdp.listen_to_all(WAITING, |method| method == ATTACHED || EVENTS.contains(&method));
    attach(&cdp, None).await?;
    while let Some((target, event)) = events.next().await {
        book.miss(events.take_missed());
        if event.method == ATTACHED {
            if let Some(attached) = event.params["sessionId"].as_str() {
                listen(&cdp, attached).await?;
            }
            continue;
        }
        if let Some(note) = reader.read(&target, &event.method, &event.params, unix_ms()) {
            book.write(note);
        }
        book.miss(reader.take_missed());
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
