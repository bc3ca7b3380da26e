//! Follows what happens in a tab: how far its page has come, what the site answered, dialogs, and requests that wait for
//! the daemon's word.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::EVENTS;
use super::interception::{Reply, Rules};
use crate::Error;
use crate::request::wire::LifecycleEvent;
use crate::response::PageResponse;
use warmpool_core::blocking;
use warmpool_sessions::cdp::{Cdp, CdpEvent};

/// The tab that is followed.
pub(super) struct Watched {
    pub(super) cdp: Arc<Cdp>,
    /// The attachment to it.
    pub(super) tab: String,
    /// Its top frame.
    pub(super) frame: String,
}

/// How far a page has come.
#[derive(Debug, Default)]
struct State {
    /// The document that is there; none before the first one of a navigation.
    document: Option<String>,
    reached: HashSet<LifecycleEvent>,
    response: PageResponse,
    /// Why nothing more will come.
    end: Option<&'static str>,
}

/// How far the page has come, for those who wait.
pub(super) struct Progress {
    state: watch::Sender<State>,
    interceptor: Option<String>,
}

/// Begins to follow a tab. The second value is the work.
pub(super) fn follow(watched: Watched, rules: Option<(String, Rules)>) -> (Progress, impl Future<Output = ()> + Send) {
    let frame = watched.frame.clone();
    let wanted = move |method: &str, params: &Value| match method {
        "Page.lifecycleEvent" => params["frameId"] == frame.as_str(),
        "Network.responseReceived" => params["type"] == "Document" && params["frameId"] == frame.as_str(),
        "Page.javascriptDialogOpening" | "Inspector.targetCrashed" => true,
        _ => false,
    };
    let mut events = watched.cdp.listen_for(&watched.tab, EVENTS, wanted);
    let requests = |method: &str, _: &Value| matches!(method, "Fetch.requestPaused" | "Fetch.authRequired");
    let (browser, rules) = rules.unzip();
    let mut paused = browser.as_deref().map(|browser| watched.cdp.listen_for(browser, EVENTS, requests));
    let (state, _) = watch::channel(State::default());
    let (progress, interceptor) = (Progress { state: state.clone(), interceptor: browser.clone() }, browser);
    let work = async move {
        let mut rules = rules;
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => see(&watched, &state, event).await,
                    None => break end(&state, "the page does more at once than the daemon can follow"),
                },
                event = next(&mut paused) => match (event, &mut rules, &interceptor) {
                    (Some(event), Some(rules), Some(browser)) => {
                        let reply = || rules.reply(&event.method, &event.params);
                        let Reply { method, params } = blocking::in_place(reply);
                        if watched.cdp.notify(browser, method, params).await.is_err() {
                            break end(&state, "the browser was lost");
                        }
                    }
                    _ => break end(&state, "the page sends more requests at once than the daemon can follow"),
                },
            }
        }
    };
    (progress, work)
}

/// The next request that waits for the daemon's word; for ever none where none waits.
async fn next(paused: &mut Option<tokio::sync::mpsc::Receiver<CdpEvent>>) -> Option<CdpEvent> {
    match paused {
        Some(paused) => paused.recv().await,
        None => std::future::pending().await,
    }
}

fn end(state: &watch::Sender<State>, why: &'static str) {
    state.send_modify(|state| state.end = Some(why));
}

async fn see(watched: &Watched, state: &watch::Sender<State>, event: CdpEvent) {
    let CdpEvent { method, params, .. } = event;
    match method.as_str() {
        "Page.lifecycleEvent" => state.send_modify(|state| state.step(&params)),
        "Network.responseReceived" => state.send_modify(|state| state.response = response(&params["response"])),
        "Page.javascriptDialogOpening" => {
            // A page that is left may go; nobody is there to answer anything else.
            let accept = params["type"] == "beforeunload";
            let _ = watched.cdp.notify(&watched.tab, "Page.handleJavaScriptDialog", json!({"accept": accept})).await;
        }
        _ => end(state, "the page crashed"),
    }
}

impl State {
    /// A moment in the life of the page.
    fn step(&mut self, params: &Value) {
        let document = params["loaderId"].as_str().unwrap_or_default();
        let moment = match params["name"].as_str().unwrap_or_default() {
            "init" => {
                self.document = Some(document.to_owned());
                self.reached.clear();
                return;
            }
            "load" => LifecycleEvent::Load,
            "DOMContentLoaded" => LifecycleEvent::DomContentLoaded,
            "networkIdle" => LifecycleEvent::NetworkIdle0,
            "networkAlmostIdle" => LifecycleEvent::NetworkIdle2,
            _ => return,
        };
        if self.document.as_deref() == Some(document) {
            self.reached.insert(moment);
        }
    }
}

fn response(response: &Value) -> PageResponse {
    let text = |name: &str| response[name].as_str().map(str::to_owned);
    PageResponse {
        code: response["status"].as_u64().and_then(|status| u16::try_from(status).ok()),
        status: text("statusText"),
        url: text("url"),
        ..PageResponse::default()
    }
}

impl Progress {
    /// A document begins, or is written anew: what comes of the one before counts no more.
    pub(super) fn begin(&self) {
        self.state.send_modify(|state| {
            state.document = None;
            state.reached.clear();
            state.response = PageResponse::default();
        });
    }

    /// Waits until the page has come to all of these moments.
    pub(super) async fn reached(&self, moments: &[LifecycleEvent]) -> Result<(), Error> {
        let mut state = self.state.subscribe();
        let there = |state: &State| {
            state.end.is_some() || (state.document.is_some() && moments.iter().all(|it| state.reached.contains(it)))
        };
        let end = match state.wait_for(there).await {
            Ok(state) => state.end,
            Err(_) => Some("the browser was lost"),
        };
        end.map_or(Ok(()), |why| Err(Error::NotOpened { reason: why.to_owned() }))
    }

    /// What the site answered for the page that is there.
    pub(super) fn response(&self) -> PageResponse {
        self.state.borrow().response.clone()
    }

    /// The attachment at which requests wait for the daemon's word.
    pub(super) fn interceptor(&self) -> Option<&str> {
        self.interceptor.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(state: &mut State, name: &str, document: &str) {
        state.step(&json!({"name": name, "loaderId": document}));
    }

    #[test]
    fn what_comes_of_another_document_does_not_count() {
        let mut state = State::default();
        step(&mut state, "load", "old");
        assert!(state.reached.is_empty());
        step(&mut state, "init", "new");
        step(&mut state, "networkIdle", "old");
        step(&mut state, "load", "new");
        assert_eq!(state.reached, HashSet::from([LifecycleEvent::Load]));
        step(&mut state, "init", "newer");
        assert!(state.reached.is_empty(), "the page has led to another");
    }
}
