//! The browser of a watched session over DevTools: its tabs, their navigation, and their input.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use warmpool_protocol::{MAX_PAGES, MAX_TEXT};

use super::input::Command;
use super::message::{HistoryStep, Tab};
use crate::cdp::{Cdp, CdpError, CdpEvent};
use crate::session::Session;

/// Time between two checks of the tabs without an event, because no event says which tab is in front.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest time between two checks.
const REST: Duration = Duration::from_millis(100);
/// The longest selection to copy, in UTF-16 units.
const MAX_SELECTION: usize = 1 << 20;
/// How long a key takes through a display, at least. Text waits for it, because it reaches the page on another path.
const KEY_ON_ITS_WAY: Duration = Duration::from_millis(50);
/// A key goes through the display's server, the browser and the page.
const KEY_STATIONS: usize = 3;
/// After this time, it has come whatever the machine is doing.
const KEY_HAS_COME: Duration = Duration::from_secs(2);

/// A browser that the daemon watches over its own DevTools connection.
#[derive(Debug)]
pub(super) struct DevTools {
    session: Arc<Session>,
    pub(super) cdp: Cdp,
    attached: tokio::sync::Mutex<HashMap<String, String>>,
}

#[derive(Deserialize)]
struct Target {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
}

impl DevTools {
    /// Connects, and subscribes to changes of the tabs. This touches no page.
    pub(super) async fn connect(session: Arc<Session>) -> Result<Self, CdpError> {
        let cdp = Cdp::connect(&session).await?;
        let pages = json!({"discover": true, "filter": [{"type": "page"}]});
        cdp.call(None, "Target.setDiscoverTargets", pages).await?;
        Ok(Self { session, cdp, attached: tokio::sync::Mutex::default() })
    }

    /// Calls `tell` with the list of tabs, now and whenever it may have changed, until the browser stops answering.
    pub(super) async fn follow(&self, tell: impl Fn(Vec<Tab>)) -> CdpError {
        loop {
            match self.tabs().await {
                Ok(tabs) => tell(tabs),
                Err(error) => return error,
            }
            sleep(REST).await;
            tokio::select! {
                () = self.cdp.closed() => return CdpError::Gone,
                () = self.cdp.targets_changed() => {}
                () = sleep(LOOK) => {}
            }
        }
    }

    /// Its tabs, the front one first: the browser lists them by their last activation.
    pub(super) async fn tabs(&self) -> Result<Vec<Tab>, CdpError> {
        let targets: Vec<Target> = self.session.worker.agent.targets().await?;
        let cut = |text: String| text.chars().take(MAX_TEXT).collect();
        let pages = targets.into_iter().filter(|target| target.kind == "page").take(MAX_PAGES);
        Ok(pages.map(|page| Tab { id: page.id, title: cut(unescaped(&page.title)), url: cut(page.url) }).collect())
    }

    /// Attaches to a tab, or returns the session that is attached already.
    pub(super) async fn attach(&self, tab: &str) -> Result<String, CdpError> {
        let mut attached = self.attached.lock().await;
        if let Some(session) = attached.get(tab) {
            return Ok(session.clone());
        }
        let params = json!({"targetId": tab, "flatten": true});
        let answer = self.cdp.call(None, "Target.attachToTarget", params).await?;
        let session = answer["sessionId"].as_str().ok_or_else(|| CdpError::Refused("no session".to_owned()))?;
        attached.insert(tab.to_owned(), session.to_owned());
        Ok(session.to_owned())
    }

    /// Detaches from a tab.
    pub(super) async fn detach(&self, tab: &str) {
        let session = self.attached.lock().await.remove(tab);
        if let Some(session) = session {
            let _ = self.cdp.call(None, "Target.detachFromTarget", json!({"sessionId": session})).await;
        }
    }

    /// Subscribes to a tab's events.
    pub(super) fn listen(&self, attached: &str) -> tokio::sync::mpsc::Receiver<CdpEvent> {
        self.cdp.listen(attached)
    }

    /// Sends an input to a tab without waiting for an answer.
    pub(super) async fn input(&self, tab: &str, (method, params): Command) -> Result<(), CdpError> {
        let attached = self.attach(tab).await?;
        self.cdp.notify(&attached, method, params).await
    }

    /// Sends an input to a tab and waits until the page has handled it.
    pub(super) async fn finish_input(&self, tab: &str, (method, params): Command) -> Result<(), CdpError> {
        let attached = self.attach(tab).await?;
        self.cdp.call(Some(&attached), method, params).await.map(drop)
    }

    /// Asks a tab for nothing, once for each station of a key that was sent to its display at `last`. On a busy machine both
    /// ways take longer, so the answers on this one tell how long the key may take on the other.
    pub(super) async fn keep_up(&self, tab: &str, last: Instant) {
        if last.elapsed() >= KEY_HAS_COME {
            return;
        }
        sleep_until(last + KEY_ON_ITS_WAY).await;
        let answers = async {
            let attached = self.attach(tab).await?;
            for _ in 0..KEY_STATIONS {
                self.cdp.call(Some(&attached), "Runtime.evaluate", json!({"expression": "0"})).await?;
            }
            Ok::<(), CdpError>(())
        };
        // A page that is held up by a dialog does not answer.
        let _ = timeout_at(last + KEY_HAS_COME, answers).await;
    }

    /// Brings a tab to the front.
    pub(super) async fn show(&self, tab: &str) -> Result<(), CdpError> {
        self.cdp.call(None, "Target.activateTarget", json!({"targetId": tab})).await.map(drop)
    }

    /// Opens an address in a tab.
    pub(super) async fn open(&self, tab: &str, url: &str) -> Result<(), CdpError> {
        let attached = self.attach(tab).await?;
        self.cdp.notify(&attached, "Page.navigate", json!({"url": url})).await
    }

    /// Moves a tab one step through its history, if there is such a step.
    pub(super) async fn move_in_history(&self, tab: &str, step: HistoryStep) -> Result<(), CdpError> {
        let attached = self.attach(tab).await?;
        let by: i64 = match step {
            HistoryStep::Back => -1,
            HistoryStep::Forward => 1,
            HistoryStep::Reload => return self.cdp.notify(&attached, "Page.reload", json!({})).await,
        };
        let history = self.cdp.call(Some(&attached), "Page.getNavigationHistory", json!({})).await?;
        let to = history["currentIndex"].as_i64().and_then(|at| usize::try_from(at + by).ok());
        match to.and_then(|to| history["entries"][to]["id"].as_i64()) {
            Some(id) => self.cdp.notify(&attached, "Page.navigateToHistoryEntry", json!({"entryId": id})).await,
            None => Ok(()),
        }
    }

    /// The text that is selected in a tab.
    pub(super) async fn selection(&self, tab: &str) -> Result<String, CdpError> {
        let attached = self.attach(tab).await?;
        let expression = format!(
            "(() => {{ const at = document.activeElement; \
             const field = at && typeof at.value === 'string' && at.type !== 'password' && at.selectionStart !== null; \
             const text = field ? at.value.slice(at.selectionStart, at.selectionEnd) : String(getSelection()); \
             return text.slice(0, {MAX_SELECTION}); }})()"
        );
        let params = json!({"expression": expression, "returnByValue": true, "silent": true});
        let answer = self.cdp.call(Some(&attached), "Runtime.evaluate", params).await?;
        Ok(answer["result"]["value"].as_str().unwrap_or_default().to_owned())
    }
}

/// Unescapes a title: Chromium's list escapes it for HTML.
fn unescaped(title: &str) -> String {
    let characters = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    characters.iter().fold(title.to_owned(), |title, (escaped, plain)| title.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_pages_own() {
        assert_eq!(unescaped("Tea &amp; Kettle &#39;&lt;b&gt;&#39; &amp;lt;"), "Tea & Kettle '<b>' &lt;");
    }
}
