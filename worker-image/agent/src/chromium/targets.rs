//! Applies a client's settings to every target.
//!
//! Overrides live as long as the DevTools session that set them, so the agent's own connection
//! stays open for as long as the browser does. Without settings and without WebDriver nothing is attached to any page, until what
//! its origin keeps is read or written. A DevTools session that leaves a page also undoes what other sessions have set there, so
//! the agent's sessions stay with their pages.
//!
//! The client's own overrides win: for the user agent the session attached last counts, for the
//! viewport the last command does. A locale or a time zone belongs to whoever set it first, in each renderer
//! process; so ours is taken back just before a client sets one (see [`Targets::yield_locale`]), and given again to the
//! other pages of a process when the page goes that had it first.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::ads::AdBlocker;
use crate::cdp::{Cdp, CdpError, CdpEvent};
use crate::worker::Worker;
use warmpool_protocol::Settings;

use super::ad_filter;
use super::downloads::Downloads;
use super::first_page::FirstPage;
use super::overrides::{self, Command, Kind};
use super::visited::{Visited, Visits};

/// How long all existing targets may take to accept settings. A page that hangs must not hold up
/// the others.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long after a client's command the agent sets its own locale and time zone again, where the client set none.
const YIELD: Duration = Duration::from_millis(250);

/// How long a new tab waits for a client that asked to resume new targets itself. The first command to resume
/// counts for everybody, so the agent's must not come before the client's.
const HOLD: Duration = Duration::from_secs(2);

/// Held for a client that resumes new targets itself.
pub(super) struct Resumer(Arc<Targets>);

impl Drop for Resumer {
    fn drop(&mut self) {
        self.0.resumers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One of the agent's sessions with a target.
struct Session {
    kind: Kind,
    target: String,
}

/// The agent's view of all targets of one browser.
pub(super) struct Targets {
    settings: Mutex<Settings>,
    /// Whether a WebDriver session has begun.
    driven: AtomicBool,
    /// Counts what the browser's own ad filter blocks, where that is on.
    ad_filter: OnceLock<Arc<AdBlocker>>,
    /// The agent's sessions with targets that have settings.
    sessions: Mutex<HashMap<String, Session>>,
    /// The agent's sessions with targets that have none, each with its target.
    bare: Mutex<HashMap<String, String>>,
    /// Woken when there is another of them.
    joined: Notify,
    /// Browser contexts whose pages have been given permissions.
    contexts: Mutex<HashSet<String>>,
    /// Targets that are receiving their settings.
    busy: watch::Sender<usize>,
    /// Clients that resume new targets themselves.
    resumers: AtomicUsize,
    /// What the browser downloads.
    pub(super) downloads: Downloads,
    /// The first navigation.
    pub(super) first_page: FirstPage,
    /// Where tabs and frames have been.
    pub(super) visited: Visited,
    /// Origins that the agent visits by itself.
    pub(super) visits: Visits,
    /// Calls to `yield_locale`, so that only the last one restores the agent's locale.
    yields: watch::Sender<u64>,
}

impl Targets {
    pub(super) fn new(worker: Arc<Worker>) -> Arc<Self> {
        Arc::new(Self {
            settings: Mutex::default(),
            driven: AtomicBool::new(false),
            ad_filter: OnceLock::new(),
            sessions: Mutex::default(),
            bare: Mutex::default(),
            joined: Notify::new(),
            contexts: Mutex::default(),
            busy: watch::Sender::new(0),
            resumers: AtomicUsize::new(0),
            downloads: Downloads::new(worker),
            first_page: FirstPage::new(),
            visited: Visited::default(),
            visits: Visits::default(),
            yields: watch::Sender::new(0),
        })
    }

    /// Has the browser report targets and downloads, those that are there and later ones.
    pub(super) async fn watch(&self, cdp: &Cdp) -> Result<(), CdpError> {
        self.downloads.watch(cdp).await?;
        // Of workers nobody here wants to know. A page names them, as long as it likes.
        let kinds = ["page", "iframe"].map(|kind| json!({"type": kind}));
        cdp.call(None, "Target.setDiscoverTargets", json!({"discover": true, "filter": kinds})).await.map(drop)
    }

    /// Applies settings to all targets, present and future. Returns a warning for each that holds only in part.
    pub(super) async fn apply(self: &Arc<Self>, cdp: &Cdp, settings: Settings) -> Result<Vec<String>, CdpError> {
        for (method, params) in overrides::permissions(&settings, None) {
            cdp.call(None, method, params).await?;
        }
        *self.settings.lock() = settings;
        // The events for existing targets come before the reply, so all are known by then.
        cdp.call(None, "Target.setAutoAttach", auto_attach()).await?;
        let warning = "a page that does not answer has not taken the settings yet";
        Ok(if self.settled().await { Vec::new() } else { vec![warning.to_owned()] })
    }

    /// Makes `navigator.webdriver` true in all targets and in later ones.
    pub(super) async fn show_automation(&self, cdp: &Cdp) -> Result<(), CdpError> {
        if !self.driven.swap(true, Ordering::AcqRel) {
            self.tell_all(cdp, overrides::automation).await;
            cdp.call(None, "Target.setAutoAttach", auto_attach()).await?;
            self.settled().await;
        }
        Ok(())
    }

    /// Has the browser's own filter block ads in all tabs and in later ones.
    pub(super) async fn filter_ads(&self, cdp: &Cdp, blocker: &Arc<AdBlocker>) -> Result<(), CdpError> {
        if self.ad_filter.set(Arc::clone(blocker)).is_ok() {
            for command in ad_filter::commands(Kind::Page) {
                self.tell_all(cdp, |kind| (kind == Kind::Page).then(|| command.clone())).await;
            }
            let of_frames = |kind| if kind == Kind::Frame { ad_filter::commands(kind).pop() } else { None };
            self.tell_all(cdp, of_frames).await;
            cdp.call(None, "Target.setAutoAttach", auto_attach()).await?;
            self.settled().await;
        }
        Ok(())
    }

    /// Waits until every target has received its settings; `false` when a page does not answer.
    pub(super) async fn settled(&self) -> bool {
        let mut busy = self.busy.subscribe();
        timeout(SETTLE_TIMEOUT, busy.wait_for(|count| *count == 0)).await.is_ok()
    }

    /// Whether new targets wait until they have received something.
    pub(super) fn has_overrides(&self) -> bool {
        !self.settings.lock().is_empty() || self.driven.load(Ordering::Acquire) || self.ad_filter.get().is_some()
    }

    /// Registers a client that resumes new targets itself, until the result is dropped.
    pub(super) fn resumer(self: &Arc<Self>) -> Resumer {
        self.resumers.fetch_add(1, Ordering::AcqRel);
        Resumer(Arc::clone(self))
    }

    /// The agent's session with a target, if that has settings.
    fn session_with_settings(&self, target: &str) -> Option<String> {
        let sessions = self.sessions.lock();
        let (session, _) = sessions.iter().find(|(_, session)| session.target == target)?;
        Some(session.clone())
    }

    /// The agent's session with a target, if there is one.
    pub(super) fn session_of(&self, target: &str) -> Option<String> {
        self.session_with_settings(target).or_else(|| {
            let bare = self.bare.lock();
            let (session, _) = bare.iter().find(|(_, of)| *of == target)?;
            Some(session.clone())
        })
    }

    /// Withdraws the agent's locale and time zone everywhere, because a client is about to set its own, and sets them again a
    /// little later. Where the client's is in force by then, the browser refuses the agent's.
    pub(super) async fn yield_locale(self: &Arc<Self>, cdp: &Cdp) {
        self.yields.send_modify(|count| *count += 1);
        let turn = *self.yields.borrow();
        let (locale, timezone) = self.of_processes();
        self.tell_all(cdp, |_| locale.as_ref().map(|_| overrides::no_locale())).await;
        self.tell_all(cdp, |_| timezone.as_ref().map(|_| overrides::no_timezone())).await;
        let (targets, cdp) = (Arc::clone(self), cdp.clone());
        tokio::spawn(async move {
            sleep(YIELD).await;
            if *targets.yields.borrow() == turn {
                targets.tell_processes(&cdp).await;
            }
        });
    }

    /// The settings that hold for whole processes.
    fn of_processes(&self) -> (Option<Command>, Option<Command>) {
        let settings = self.settings.lock();
        (overrides::locale(&settings), overrides::timezone(&settings))
    }

    async fn tell_processes(&self, cdp: &Cdp) {
        let (locale, timezone) = self.of_processes();
        self.tell_all(cdp, |_| locale.clone()).await;
        self.tell_all(cdp, |_| timezone.clone()).await;
    }

    /// Restores what a client has taken with it that may have set another: viewport, media features and place.
    pub(super) async fn restore_pages(self: &Arc<Self>, cdp: &Cdp) {
        let (viewport, media, place) = {
            let settings = self.settings.lock();
            (overrides::viewport(&settings), overrides::media(&settings), overrides::geolocation(&settings))
        };
        self.tell_all(cdp, |kind| viewport.clone().filter(|_| kind == Kind::Page)).await;
        self.tell_all(cdp, |kind| place.clone().filter(|_| kind == Kind::Page)).await;
        self.tell_all(cdp, |kind| media.clone().filter(|_| matches!(kind, Kind::Page | Kind::Frame))).await;
    }

    async fn tell_all(&self, cdp: &Cdp, command: impl Fn(Kind) -> Option<Command>) {
        let told: Vec<(String, Command)> = self
            .sessions
            .lock()
            .iter()
            .filter_map(|(id, session)| Some((id.clone(), command(session.kind)?)))
            .collect();
        let all = join_all(
            told.into_iter()
                .map(|(session, (method, params))| async move { cdp.call(Some(&session), method, params).await }),
        );
        let _ = timeout(SETTLE_TIMEOUT, all).await;
    }

    /// Handles an event. Never waits: replies come over the same socket.
    pub(super) fn handle(self: &Arc<Self>, cdp: &Cdp, event: CdpEvent) {
        match event.method.as_str() {
            "Target.attachedToTarget" => self.attached(cdp, &event.params),
            "Target.detachedFromTarget" => {
                if let Some(session) = event.params["sessionId"].as_str() {
                    self.sessions.lock().remove(session);
                    self.bare.lock().remove(session);
                    self.visits.end(session);
                }
                if self.of_processes() != (None, None) {
                    let (targets, cdp) = (Arc::clone(self), cdp.clone());
                    tokio::spawn(async move { targets.tell_processes(&cdp).await });
                }
            }
            "Fetch.requestPaused" => {
                let (targets, cdp) = (Arc::clone(self), cdp.clone());
                let session = event.session.unwrap_or_default();
                tokio::spawn(async move {
                    let (method, params) = targets.visits.answer(&session, &event.params);
                    cdp.call(Some(&session), method, params).await
                });
            }
            "Target.targetCreated" => {
                self.visited.saw(&event.params["targetInfo"]);
                self.downloads.target_created(cdp, &event.params);
            }
            "Target.targetInfoChanged" => self.visited.saw(&event.params["targetInfo"]),
            "Page.frameStartedNavigating" => self.tab_navigates(cdp, &event),
            "Log.entryAdded" => {
                if let Some(blocker) = self.ad_filter.get() {
                    ad_filter::count(blocker, &event.params);
                }
            }
            "Browser.downloadWillBegin" | "Browser.downloadProgress" => self.downloads.reported(&event),
            _ => {}
        }
    }

    fn attached(self: &Arc<Self>, cdp: &Cdp, params: &Value) {
        let Some(session) = params["sessionId"].as_str().map(str::to_owned) else { return };
        let text = |field: &str| params["targetInfo"][field].as_str().unwrap_or_default();
        let (kind, target) = (Kind::of(text("type")), text("targetId").to_owned());
        // Otherwise the agent itself attached.
        if !self.has_overrides() {
            self.bare.lock().insert(session, target);
            return;
        }
        let settings = self.settings.lock().clone();
        let mut commands = overrides::commands(&settings, kind);
        if self.driven.load(Ordering::Acquire) {
            commands.extend(overrides::automation(kind));
        }
        if self.ad_filter.get().is_some() {
            commands.extend(ad_filter::commands(kind));
        }
        if kind != Kind::Other {
            commands.insert(0, ("Target.setAutoAttach", auto_attach()));
            self.sessions.lock().insert(session.clone(), Session { kind, target });
            self.joined.notify_waiters();
        }
        let context = text("browserContextId");
        let is_new = !settings.permissions.is_empty() && self.contexts.lock().insert(context.to_owned());
        // The first context has its permissions already, and no id here.
        let granted = if is_new { overrides::permissions(&settings, Some(context)) } else { Vec::new() };
        let resume = ("Runtime.runIfWaitingForDebugger", json!({}));
        let waiting = params["waitingForDebugger"] == true;
        let held =
            waiting && matches!(kind, Kind::Page | Kind::SharedWorker) && self.resumers.load(Ordering::Acquire) > 0;
        if waiting && !held {
            commands.push(resume.clone());
        }
        self.busy.send_modify(|count| *count += 1);
        let (targets, cdp) = (Arc::clone(self), cdp.clone());
        tokio::spawn(async move {
            // All at once and in order: the target is held up for one round trip only.
            let of_browser = granted.into_iter().map(|command| (None, command));
            let of_target = commands.into_iter().map(|command| (Some(session.as_str()), command));
            let calls = of_browser.chain(of_target).map(|(to, (method, params))| cdp.call(to, method, params));
            for refused in join_all(calls).await.into_iter().filter_map(Result::err) {
                tracing::debug!(?kind, error = %refused, "a target did not take a setting");
            }
            targets.busy.send_modify(|count| *count -= 1);
            if held {
                sleep(HOLD).await;
                let _ = cdp.call(Some(&session), resume.0, resume.1).await;
            }
        });
    }

    /// Turns the ad filter of a tab on again that begins to load another page.
    fn tab_navigates(&self, cdp: &Cdp, event: &CdpEvent) {
        let (Some(id), Some(_)) = (event.session.clone(), self.ad_filter.get()) else { return };
        let is_tab = self.sessions.lock().get(&id).is_some_and(|session| event.params["frameId"] == *session.target);
        if is_tab {
            let (cdp, (method, params)) = (cdp.clone(), ad_filter::turn_on());
            tokio::spawn(async move { cdp.call(Some(&id), method, params).await });
        }
    }

    /// Restores what a tab has lost that a DevTools session of the agent's own has left.
    pub(super) async fn left_tab(self: &Arc<Self>, cdp: &Cdp, target: &str) {
        self.restore_pages(cdp).await;
        if self.ad_filter.get().is_some() {
            self.filter_tab(cdp, target).await;
        }
    }

    /// Restores what tabs have lost that sessions of one of the agent's connections have left.
    pub(super) async fn left_tabs(self: &Arc<Self>, cdp: &Cdp) {
        self.restore_pages(cdp).await;
        if self.ad_filter.get().is_some() {
            self.tell_all(cdp, |kind| (kind == Kind::Page).then(ad_filter::turn_on)).await;
        }
    }

    /// Returns once the ad filter of a tab is on. The tab may be one that no event has told of yet.
    pub(super) async fn filter_tab(&self, cdp: &Cdp, target: &str) {
        let session = async {
            loop {
                let joined = self.joined.notified();
                tokio::pin!(joined);
                joined.as_mut().enable();
                if let Some(session) = self.session_with_settings(target) {
                    return session;
                }
                joined.await;
            }
        };
        let (method, params) = ad_filter::turn_on();
        let on = async { cdp.call(Some(&session.await), method, params).await };
        if timeout(SETTLE_TIMEOUT, on).await.is_err() {
            tracing::debug!("a tab begins without its ad filter");
        }
    }
}

fn auto_attach() -> Value {
    // The browser's own pages, such as those behind the address bar, have no settings.
    let kinds = ["browser", "browser_ui", "tab"].map(|kind| json!({"type": kind, "exclude": true}));
    let filter: Vec<Value> = kinds.into_iter().chain([json!({})]).collect();
    json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": filter})
}
