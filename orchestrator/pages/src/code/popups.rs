//! Windows that the script's own page opens.
//!
//! Puppeteer has each new page wait until it has prepared it, and Chromium has whoever opens a window wait with it, in the middle of
//! `window.open`. Where Puppeteer's own page opens one, that wait would never end: Puppeteer is what waits. So the daemon lets such
//! windows go on.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use warmpool_sessions::cdp::{Cdp, CdpError, CdpEvent};

/// How many events of new windows may wait to be read.
const EVENTS: usize = 1024;

/// What the page opens, and what that opens.
pub(super) struct Popups {
    cdp: Arc<Cdp>,
    events: mpsc::Receiver<CdpEvent>,
    /// The targets whose windows go on.
    ours: BTreeSet<String>,
}

impl Popups {
    /// Follows what the page of this target opens.
    pub(super) async fn follow(cdp: &Arc<Cdp>, target: String) -> Result<Self, CdpError> {
        let browser = cdp.call(None, "Target.attachToBrowserTarget", json!({})).await?;
        let browser = browser["sessionId"].as_str().unwrap_or_default();
        let events = cdp.listen_for(browser, EVENTS, is_popup);
        let attach = json!({
            "autoAttach": true,
            "waitForDebuggerOnStart": false,
            "flatten": true,
            "filter": [{"type": "page"}],
        });
        cdp.call(Some(browser), "Target.setAutoAttach", attach).await?;
        Ok(Self { cdp: Arc::clone(cdp), events, ours: BTreeSet::from([target]) })
    }

    /// Lets windows go on, for as long as it is polled.
    pub(super) async fn release(mut self) -> Infallible {
        while let Some(CdpEvent { params, .. }) = self.events.recv().await {
            let window = &params["targetInfo"];
            let (Some(id), Some(opener), Some(attached)) =
                (window["targetId"].as_str(), window["openerId"].as_str(), params["sessionId"].as_str())
            else {
                continue;
            };
            if !self.ours.contains(opener) {
                continue;
            }
            self.ours.insert(id.to_owned());
            if self.cdp.notify(attached, "Runtime.runIfWaitingForDebugger", json!({})).await.is_err() {
                break;
            }
        }
        // What else goes on with the page says what has become of the browser.
        std::future::pending().await
    }
}

/// A window that another one has opened.
fn is_popup(method: &str, params: &Value) -> bool {
    method == "Target.attachedToTarget" && params["targetInfo"]["openerId"].is_string()
}
