//! The session's first navigation, and clients that connect meanwhile.
//!
//! From the moment at which a new document is ready until it is there, Chromium lists the tab without an address, and a
//! client that connects just then overlooks the tab. So clients that come meanwhile wait until the page is there. Those
//! that come while a slow server has not answered are let in after a while, and then the document waits until they
//! know the tab.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cdp::{Cdp, CdpError};

use super::browser::POLL_INTERVAL;

/// How long a client waits for a server that does not answer.
const CLIENT_LIMIT: Duration = Duration::from_millis(500);
/// How long a document that is ready may take to be there.
const COMMIT_LIMIT: Duration = Duration::from_secs(3);
/// How long a client may take from its first message until it knows the tab.
const CONNECT_TIME: Duration = Duration::from_millis(400);

/// How far the first navigation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is none.
    Settled,
    /// Its document is not ready.
    Loading,
    /// Its document is about to be the tab's.
    Committing,
}

/// The first tab's navigation.
pub(super) struct FirstPage {
    phase: watch::Sender<Phase>,
    /// When the last client was let in before the page was there.
    admitted: Mutex<Option<Instant>>,
}

impl FirstPage {
    pub(super) fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Settled), admitted: Mutex::default() }
    }

    /// A navigation begins; it is over when the result is dropped.
    pub(super) fn begin(&self) -> Loading<'_> {
        self.phase.send_replace(Phase::Loading);
        Loading(self)
    }

    /// Waits until a client may connect.
    pub(super) async fn admit(&self) {
        let mut phase = self.phase.subscribe();
        if timeout(CLIENT_LIMIT, phase.wait_for(|phase| *phase == Phase::Settled)).await.is_ok() {
            return;
        }
        loop {
            {
                let mut admitted = self.admitted.lock();
                if *phase.borrow_and_update() != Phase::Committing {
                    *admitted = Some(Instant::now());
                    return;
                }
            }
            if timeout(COMMIT_LIMIT, phase.wait_for(|phase| *phase != Phase::Committing)).await.is_err() {
                return;
            }
        }
    }

    /// Waits until no client is connecting, and keeps others from it.
    async fn commit(&self) {
        loop {
            let connected = {
                let admitted = self.admitted.lock();
                let connected = admitted.map(|at| at + CONNECT_TIME).filter(|at| *at > Instant::now());
                if connected.is_none() {
                    self.phase.send_if_modified(|phase| {
                        let is_loading = *phase == Phase::Loading;
                        if is_loading {
                            *phase = Phase::Committing;
                        }
                        is_loading
                    });
                }
                connected
            };
            match connected {
                Some(at) => sleep_until(at).await,
                None => return,
            }
        }
    }

    /// Lets an answer that Chromium has paused go on, once its document may take the tab.
    pub(super) async fn answered(&self, cdp: &Cdp, session: &str, paused: &Value) {
        let is_redirect = paused["responseStatusCode"].as_u64().is_some_and(|code| (300..400).contains(&code));
        if !is_redirect {
            self.commit().await;
        }
        let params = json!({"requestId": paused["requestId"]});
        let _ = cdp.call(Some(session), "Fetch.continueRequest", params).await;
    }
}

/// A navigation under way.
pub(super) struct Loading<'a>(&'a FirstPage);

impl Loading<'_> {
    /// Opens the page in a target that `session` is attached to. Gives the reason when it did not load.
    pub(super) async fn open(
        &self,
        cdp: &Cdp,
        session: &str,
        target: &str,
        url: &str,
    ) -> Result<Option<String>, CdpError> {
        let call = |method, params| cdp.call(Some(session), method, params);
        let documents = json!({"patterns": [{"resourceType": "Document", "requestStage": "Response"}]});
        call("Fetch.enable", documents).await?;
        let navigated = call("Page.navigate", json!({"url": url})).await?;
        let there = timeout(COMMIT_LIMIT, async {
            while !has_address(cdp, target).await? {
                sleep(POLL_INTERVAL).await;
            }
            Ok::<_, CdpError>(())
        });
        there.await.unwrap_or(Ok(()))?;
        call("Fetch.disable", json!({})).await?;
        // A download, and what a client opens instead, abort it.
        let failure = navigated["errorText"].as_str().filter(|error| *error != "net::ERR_ABORTED");
        Ok(failure.map(str::to_owned))
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Settled);
    }
}

async fn has_address(cdp: &Cdp, target: &str) -> Result<bool, CdpError> {
    let info = cdp.call(None, "Target.getTargetInfo", json!({"targetId": target})).await?;
    Ok(info["targetInfo"]["url"].as_str().is_some_and(|url| !url.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clients_wait_for_the_page() {
        let page = FirstPage::new();
        page.admit().await;
        let loading = page.begin();
        page.commit().await;
        let client = page.admit();
        tokio::pin!(client);
        assert!(timeout(CLIENT_LIMIT * 2, &mut client).await.is_err(), "its document is about to be there");
        drop(loading);
        client.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_waits_for_clients_that_did_not_wait_for_its_server() {
        let page = FirstPage::new();
        let _loading = page.begin();
        page.admit().await;
        assert!(timeout(CONNECT_TIME / 2, page.commit()).await.is_err());
        page.commit().await;
        assert_eq!(*page.phase.borrow(), Phase::Committing);
    }
}
