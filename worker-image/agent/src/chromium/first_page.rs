//! The session's first navigation, and clients that connect meanwhile.
//!
//! From the moment at which a new document is ready until it is there, Chromium lists the tab without an address, and a
//! client that connects just then overlooks the tab. So clients that come meanwhile wait until the page is there. Those
//! that come while a slow server has not answered are let in after a while, and then the document waits until they
//! know the tab. The same holds for what the first document itself leads on to at once, by a script or by `meta`.
//!
//! Chromium pauses a document together with all that was posted for it. So that goes over a connection of its own: whatever ends it,
//! Chromium lets the document go on, and the settings stay.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::DropGuard;

use crate::cdp::{Cdp, CdpError, CdpEvent};

use super::browser::{Browser, POLL_INTERVAL};

/// How long a client waits for a server that does not answer.
const CLIENT_LIMIT: Duration = Duration::from_millis(500);
/// How long a document that is ready may take to be there.
const COMMIT_LIMIT: Duration = Duration::from_secs(3);
/// How long the first document may take to lead on to another, and each of those after it.
const AFTERMATH: Duration = Duration::from_secs(1);
/// How long all of them together may take.
const AFTERMATH_LIMIT: Duration = Duration::from_secs(6);
/// How long a client may take from its first message until it knows the tab.
const CONNECT_TIME: Duration = Duration::from_millis(400);
/// How long a client that is still connecting, on a busy machine, is silent at most between two of its messages.
const PAUSE: Duration = Duration::from_millis(150);
/// How long a document waits for clients in all, however many of them come and whatever they send.
const CLIENTS_LIMIT: Duration = Duration::from_secs(2);

/// How far the first navigation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is none.
    Settled,
    /// Its document is not ready.
    Loading,
    /// Its document is about to be the tab's.
    Committing,
    /// Its document is the tab's, and may lead on to another.
    There,
}

/// The first tab's navigation.
pub(super) struct FirstPage {
    phase: watch::Sender<Phase>,
    /// Held while the phase changes for a reason found here.
    counts: Mutex<Counts>,
    /// The tab, whose frames have other documents.
    tab: OnceLock<String>,
    /// Holds the connection open over which it was opened, in a tab with settings: a DevTools session that leaves takes some along.
    kept: Mutex<Option<DropGuard>>,
}

#[derive(Default)]
struct Counts {
    /// Until when the clients that were let in before the page was there may be connecting.
    connecting: Option<Instant>,
    /// How many documents the tab was about to have. Each may lead on to the next before it is seen to be there.
    documents: usize,
}

impl FirstPage {
    pub(super) fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Settled),
            counts: Mutex::default(),
            tab: OnceLock::new(),
            kept: Mutex::default(),
        }
    }

    /// A navigation is about to begin.
    pub(super) fn expect(&self) {
        self.phase.send_replace(Phase::Loading);
    }

    /// Whether there is a navigation, of which clients are to be heard.
    pub(super) fn is_on_its_way(&self) -> bool {
        *self.phase.borrow() != Phase::Settled
    }

    /// A navigation begins; it is over when the result is dropped.
    pub(super) fn begin(&self) -> Loading<'_> {
        self.expect();
        Loading(self)
    }

    /// Waits until a client may connect.
    pub(super) async fn admit(&self) {
        let mut phase = self.phase.subscribe();
        let _ = timeout(CLIENT_LIMIT, phase.wait_for(|phase| matches!(phase, Phase::Settled | Phase::There))).await;
        loop {
            {
                let mut counts = self.counts.lock();
                if *phase.borrow_and_update() != Phase::Committing {
                    counts.connecting = Some(Instant::now() + CONNECT_TIME);
                    return;
                }
            }
            if timeout(COMMIT_LIMIT, phase.wait_for(|phase| *phase != Phase::Committing)).await.is_err() {
                return;
            }
        }
    }

    /// A client that was let in has sent a message.
    pub(super) fn heard(&self) {
        if self.is_on_its_way() {
            let mut counts = self.counts.lock();
            counts.connecting = counts.connecting.max(Some(Instant::now() + PAUSE));
        }
    }

    /// A client navigates: it knows the tab, and its own pages are not waited for.
    pub(super) fn client_navigates(&self) {
        self.phase.send_if_modified(|phase| std::mem::replace(phase, Phase::Settled) != Phase::Settled);
    }

    /// Waits until no client is connecting, and keeps others from it.
    async fn commit(&self) {
        let latest = Instant::now() + CLIENTS_LIMIT;
        loop {
            let connected = {
                let counts = self.counts.lock();
                let connected = counts.connecting.map(|at| at.min(latest)).filter(|at| *at > Instant::now());
                if connected.is_none() {
                    self.phase.send_if_modified(|phase| {
                        let is_coming = matches!(phase, Phase::Loading | Phase::There);
                        if is_coming {
                            *phase = Phase::Committing;
                        }
                        is_coming
                    });
                }
                connected
            };
            let mut phase = self.phase.subscribe();
            match connected {
                Some(at) => {
                    let _ = timeout_at(at, phase.wait_for(|phase| *phase == Phase::Settled)).await;
                }
                None => return,
            }
            if *phase.borrow() == Phase::Settled {
                return;
            }
        }
    }

    /// Lets an answer that Chromium has paused go on, once its document may take the tab.
    async fn answered(&self, cdp: &Cdp, session: &str, paused: &Value) {
        let is_redirect = paused["responseStatusCode"].as_u64().is_some_and(|code| (300..400).contains(&code));
        let go_on = async || {
            let params = json!({"requestId": paused["requestId"]});
            let _ = cdp.call(Some(session), "Fetch.continueRequest", params).await;
        };
        let tab = self.tab.get().filter(|tab| paused["frameId"] == **tab && !is_redirect);
        let Some(tab) = tab.filter(|_| *self.phase.borrow() != Phase::Settled) else { return go_on().await };
        let number = self.next_document();
        let before = address(cdp, tab).await.unwrap_or_default();
        self.commit().await;
        go_on().await;
        let _ = timeout(AFTERMATH, arrival(cdp, tab, &before)).await;
        self.is_there(number);
    }

    fn next_document(&self) -> usize {
        let mut counts = self.counts.lock();
        counts.documents += 1;
        counts.documents
    }

    /// This document is the tab's, unless the next one is on its way already.
    fn is_there(&self, number: usize) {
        let counts = self.counts.lock();
        if counts.documents == number {
            self.phase.send_if_modified(|phase| {
                let is_new = matches!(phase, Phase::Loading | Phase::Committing);
                if is_new {
                    *phase = Phase::There;
                }
                is_new
            });
        }
    }
}

/// A navigation under way.
pub(super) struct Loading<'a>(&'a FirstPage);

impl Loading<'_> {
    /// Opens the page in a tab of the browser. Returns the reason when it did not load.
    pub(super) async fn open(&self, browser: &Browser, target: &str, url: &str) -> Result<Option<String>, CdpError> {
        let _ = self.0.tab.set(target.to_owned());
        let targets = Arc::clone(&browser.targets);
        let handle = move |cdp: &Cdp, event: CdpEvent| {
            if event.method == "Fetch.requestPaused" {
                let (targets, cdp) = (Arc::clone(&targets), cdp.clone());
                tokio::spawn(async move {
                    let session = event.session.unwrap_or_default();
                    targets.first_page.answered(&cdp, &session, &event.params).await;
                });
            }
        };
        let cdp = Cdp::connect(browser.port, &browser.path, handle).await?;
        let closes = cdp.close_on_drop();
        let attach = json!({"targetId": target, "flatten": true});
        let attached = cdp.call(None, "Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str().unwrap_or_default();
        let call = |method, params| cdp.call(Some(session), method, params);
        let documents = json!({"patterns": [{"resourceType": "Document", "requestStage": "Response"}]});
        call("Fetch.enable", documents).await?;
        let navigated = call("Page.navigate", json!({"url": url})).await?;
        let there = timeout(COMMIT_LIMIT, async {
            while address(&browser.cdp, target).await?.is_empty() {
                sleep(POLL_INTERVAL).await;
            }
            Ok::<_, CdpError>(())
        });
        there.await.unwrap_or(Ok(()))?;
        if navigated["errorText"].is_null() {
            // What came without an answer was not paused.
            self.0.is_there(0);
            self.aftermath().await;
        }
        let was_cut = call("Fetch.disable", json!({})).await.is_err();
        if !browser.targets.has_overrides() {
            // It fails at once where the connection has ended.
            let _ = cdp.call(None, "Target.detachFromTarget", json!({"sessionId": session})).await;
        } else if was_cut {
            browser.targets.left_tab(&browser.cdp, target).await;
        } else {
            *self.0.kept.lock() = Some(closes);
        }
        // A download, and what a client opens instead, abort it.
        let failure = navigated["errorText"].as_str().filter(|error| *error != "net::ERR_ABORTED");
        Ok(failure.map(str::to_owned))
    }

    /// Waits until the document leads on to no other, or a client navigates.
    async fn aftermath(&self) {
        let mut phase = self.0.phase.subscribe();
        let all = async {
            while *phase.borrow_and_update() != Phase::Settled {
                if timeout(AFTERMATH, phase.changed()).await.is_err() {
                    break;
                }
            }
        };
        let _ = timeout(AFTERMATH_LIMIT, all).await;
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Settled);
    }
}

/// What the tab shows; nothing while a document is about to be there.
async fn address(cdp: &Cdp, target: &str) -> Result<String, CdpError> {
    let info = cdp.call(None, "Target.getTargetInfo", json!({"targetId": target})).await?;
    Ok(info["targetInfo"]["url"].as_str().unwrap_or_default().to_owned())
}

/// Waits until the tab has another document than before.
async fn arrival(cdp: &Cdp, target: &str, before: &str) -> Result<(), CdpError> {
    let mut was_away = false;
    loop {
        let now = address(cdp, target).await?;
        if !now.is_empty() && (was_away || now != before) {
            return Ok(());
        }
        was_away |= now.is_empty();
        sleep(POLL_INTERVAL).await;
    }
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
    async fn clients_come_in_once_the_page_is_there() {
        let page = FirstPage::new();
        let _loading = page.begin();
        page.commit().await;
        page.is_there(0);
        let begun = Instant::now();
        page.admit().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // What the document leads on to waits for them.
        page.commit().await;
        assert!(begun.elapsed() >= CONNECT_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_navigates_waits_for_nothing() {
        let page = FirstPage::new();
        let loading = page.begin();
        page.admit().await;
        page.client_navigates();
        let begun = Instant::now();
        page.commit().await;
        loading.aftermath().await;
        assert_eq!((begun.elapsed(), *page.phase.borrow()), (Duration::ZERO, Phase::Settled));
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_is_not_there_while_the_next_one_comes() {
        let page = FirstPage::new();
        let _loading = page.begin();
        let first = page.next_document();
        page.commit().await;
        let second = page.next_document();
        page.is_there(first);
        assert_eq!(*page.phase.borrow(), Phase::Committing);
        page.is_there(second);
        assert_eq!(*page.phase.borrow(), Phase::There);
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_waits_while_a_client_goes_on_but_not_for_ever() {
        let page = FirstPage::new();
        let _loading = page.begin();
        page.admit().await;
        let begun = Instant::now();
        let talks = async {
            while begun.elapsed() < CONNECT_TIME * 2 {
                page.heard();
                sleep(PAUSE / 2).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = page.commit() => assert!(begun.elapsed() >= CONNECT_TIME * 2 && begun.elapsed() < CLIENTS_LIMIT),
            () = talks => {}
        }
        page.is_there(0);
        page.admit().await;
        let begun = Instant::now();
        let comes_again = async {
            loop {
                page.admit().await;
                sleep(CONNECT_TIME / 2).await;
            }
        };
        tokio::select! {
            () = page.commit() => assert_eq!(begun.elapsed(), CLIENTS_LIMIT),
            () = comes_again => {}
        }
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
