//! Keeps a client's settings true in every target, and an eye on downloads.
//!
//! Overrides live as long as the DevTools session that set them, so the agent's own connection
//! stays open for as long as the browser does. Without settings nothing is attached to any page.
//!
//! The client's own overrides win: for the user agent the session attached last counts, for the
//! viewport the last command does. A locale belongs to whoever set it first, in each renderer
//! process; so ours is taken back just before a client sets one (see [`Keeper::yield_locale`]).

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::cdp::{Cdp, CdpError, Event};
use crate::worker::Worker;
use warmpool_protocol::Settings;

use super::overrides::{self, Command, Kind};

/// How long all existing targets may take to accept settings. A page that hangs must not hold up
/// the others.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a client's locale command has until ours are set again where the client set none.
const YIELD: Duration = Duration::from_millis(250);

/// How long a new tab waits for a client that asked to let it go itself. Letting go is not
/// counted: whoever does it first lets go for all, so ours must not come before the client's.
const HOLD: Duration = Duration::from_secs(2);

/// Kept by a client that lets new targets go itself.
pub(super) struct Resumer(Arc<Keeper>);

impl Drop for Resumer {
    fn drop(&mut self) {
        self.0.resumers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One of our sessions with a target.
struct Session {
    kind: Kind,
    target: String,
}

/// The agent's view of all targets of one browser.
pub(super) struct Keeper {
    worker: Arc<Worker>,
    settings: Mutex<Settings>,
    /// Our sessions with targets that have settings.
    sessions: Mutex<HashMap<String, Session>>,
    /// Browser contexts whose downloads are reported.
    contexts: Mutex<HashSet<String>>,
    /// Targets that are being told their settings.
    busy: watch::Sender<usize>,
    /// Clients that let new targets go themselves.
    resumers: AtomicUsize,
    /// Whether a client has forbidden downloads, so that it says itself which contexts may have any.
    forbidden: AtomicBool,
    /// Calls to `yield_locale`, so that only the last one sets ours again.
    yields: watch::Sender<u64>,
}

impl Keeper {
    /// A keeper of nothing yet.
    pub(super) fn new(worker: Arc<Worker>) -> Arc<Self> {
        Arc::new(Self {
            worker,
            settings: Mutex::default(),
            sessions: Mutex::default(),
            contexts: Mutex::default(),
            busy: watch::Sender::new(0),
            resumers: AtomicUsize::new(0),
            forbidden: AtomicBool::new(false),
            yields: watch::Sender::new(0),
        })
    }

    /// Has downloads reported, of this context and of those opened later.
    pub(super) async fn watch_downloads(&self, cdp: &Cdp) -> Result<(), CdpError> {
        let behavior = json!({
            "behavior": "allow", "downloadPath": self.worker.files.downloads(), "eventsEnabled": true,
        });
        cdp.call(None, "Browser.setDownloadBehavior", behavior).await?;
        let targets = cdp.call(None, "Target.getTargets", json!({})).await?;
        for target in targets["targetInfos"].as_array().into_iter().flatten() {
            if let Some(context) = target["browserContextId"].as_str() {
                self.contexts.lock().insert(context.to_owned());
            }
        }
        cdp.call(None, "Target.setDiscoverTargets", json!({"discover": true})).await?;
        Ok(())
    }

    /// Makes settings true in all targets and arms them for later ones.
    /// Returns what holds only in part.
    pub(super) async fn apply(self: &Arc<Self>, cdp: &Cdp, settings: Settings) -> Result<Vec<String>, CdpError> {
        *self.settings.lock() = settings;
        // Existing targets are told as events before the reply, hence known when it is here.
        cdp.call(None, "Target.setAutoAttach", auto_attach()).await?;
        let mut busy = self.busy.subscribe();
        let mut warnings = Vec::new();
        if timeout(SETTLE_TIMEOUT, busy.wait_for(|count| *count == 0)).await.is_err() {
            warnings.push("a page that does not answer has not taken the settings yet".to_owned());
        }
        Ok(warnings)
    }

    /// Waits until no target is being told its settings.
    pub(super) async fn settled(&self) {
        let mut busy = self.busy.subscribe();
        let _ = timeout(SETTLE_TIMEOUT, busy.wait_for(|count| *count == 0)).await;
    }

    /// Has the downloads of a context reported that the agent itself has made.
    pub(super) async fn watch_context(&self, cdp: &Cdp, context: &str) -> Result<(), CdpError> {
        self.contexts.lock().insert(context.to_owned());
        cdp.call(None, "Browser.setDownloadBehavior", self.downloads_of(context)).await.map(drop)
    }

    /// A context is gone.
    pub(super) fn forget_context(&self, context: &str) {
        self.contexts.lock().remove(context);
    }

    fn downloads_of(&self, context: &str) -> Value {
        json!({
            "behavior": "allow", "downloadPath": self.worker.files.downloads(),
            "eventsEnabled": true, "browserContextId": context,
        })
    }

    /// Whether anything differs from what the browser does by itself.
    pub(super) fn has_settings(&self) -> bool {
        !self.settings.lock().is_empty()
    }

    /// Notes a client that lets new targets go itself, for as long as it keeps the result.
    pub(super) fn resumer(self: &Arc<Self>) -> Resumer {
        self.resumers.fetch_add(1, Ordering::AcqRel);
        Resumer(Arc::clone(self))
    }

    /// A client is about to forbid downloads somewhere.
    pub(super) fn downloads_forbidden(&self) {
        self.forbidden.store(true, Ordering::Release);
    }

    /// Our session with a target, if it has settings.
    pub(super) fn session_of(&self, target: &str) -> Option<String> {
        let sessions = self.sessions.lock();
        let (session, _) = sessions.iter().find(|(_, session)| session.target == target)?;
        Some(session.clone())
    }

    /// Whether clients may meet a locale of ours.
    pub(super) fn has_locale(&self) -> bool {
        !self.settings.lock().locales.is_empty()
    }

    /// Takes our locale back everywhere, because a client is about to set its own, and sets it
    /// again a little later; where the client's is in force by then the browser refuses ours.
    pub(super) async fn yield_locale(self: &Arc<Self>, cdp: &Cdp) {
        self.yields.send_modify(|count| *count += 1);
        let turn = *self.yields.borrow();
        self.tell_all(cdp, |_| Some(overrides::no_locale())).await;
        let (keeper, cdp) = (Arc::clone(self), cdp.clone());
        tokio::spawn(async move {
            sleep(YIELD).await;
            if *keeper.yields.borrow() == turn {
                let locale = overrides::locale(&keeper.settings.lock());
                keeper.tell_all(&cdp, |_| locale.clone()).await;
            }
        });
    }

    /// Sets our viewport again, after a client that may have set another is gone.
    pub(super) async fn restore_viewport(self: &Arc<Self>, cdp: &Cdp) {
        let viewport = overrides::viewport(&self.settings.lock());
        self.tell_all(cdp, |kind| viewport.clone().filter(|_| kind == Kind::Page)).await;
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
    pub(super) fn handle(self: &Arc<Self>, cdp: &Cdp, event: Event) {
        match event.method.as_str() {
            "Target.attachedToTarget" => self.attached(cdp, &event.params),
            "Target.detachedFromTarget" => {
                if let Some(session) = event.params["sessionId"].as_str() {
                    self.sessions.lock().remove(session);
                }
            }
            "Target.targetCreated" => self.created(cdp, &event.params),
            "Browser.downloadWillBegin" | "Browser.downloadProgress" => self.download(&event),
            _ => {}
        }
    }

    fn attached(self: &Arc<Self>, cdp: &Cdp, params: &Value) {
        let settings = self.settings.lock().clone();
        // Without settings the agent itself attached, for a moment.
        if settings.is_empty() {
            return;
        }
        let Some(session) = params["sessionId"].as_str().map(str::to_owned) else { return };
        let text = |field: &str| params["targetInfo"][field].as_str().unwrap_or_default();
        let (kind, target) = (Kind::of(text("type")), text("targetId").to_owned());
        let mut commands = overrides::commands(&settings, kind);
        if kind != Kind::Other {
            commands.insert(0, ("Target.setAutoAttach", auto_attach()));
            self.sessions.lock().insert(session.clone(), Session { kind, target });
        }
        let resume = ("Runtime.runIfWaitingForDebugger", json!({}));
        let waiting = params["waitingForDebugger"] == true;
        let held =
            waiting && matches!(kind, Kind::Page | Kind::SharedWorker) && self.resumers.load(Ordering::Acquire) > 0;
        if waiting && !held {
            commands.push(resume.clone());
        }
        self.busy.send_modify(|count| *count += 1);
        let (keeper, cdp) = (Arc::clone(self), cdp.clone());
        tokio::spawn(async move {
            // All at once and in order: the target is held up for one round trip only.
            let calls = commands.into_iter().map(|(method, params)| cdp.call(Some(&session), method, params));
            for refused in join_all(calls).await.into_iter().filter_map(Result::err) {
                tracing::debug!(?kind, error = %refused, "a target did not take a setting");
            }
            keeper.busy.send_modify(|count| *count -= 1);
            if held {
                sleep(HOLD).await;
                let _ = cdp.call(Some(&session), resume.0, resume.1).await;
            }
        });
    }

    /// A context opened by a client takes downloads only after it was told to, unless the client wants none.
    fn created(&self, cdp: &Cdp, params: &Value) {
        let Some(context) = params["targetInfo"]["browserContextId"].as_str() else { return };
        if !self.contexts.lock().insert(context.to_owned()) || self.forbidden.load(Ordering::Acquire) {
            return;
        }
        let params = self.downloads_of(context);
        let cdp = cdp.clone();
        tokio::spawn(async move { cdp.call(None, "Browser.setDownloadBehavior", params).await });
    }

    fn download(&self, event: &Event) {
        let text = |field: &str| event.params[field].as_str();
        let Some(guid) = text("guid") else { return };
        let files = &self.worker.files;
        match (event.method.as_str(), text("state")) {
            ("Browser.downloadWillBegin", _) => {
                files.download_began(guid, text("suggestedFilename").unwrap_or_default());
            }
            (_, Some("completed")) => {
                files.download_completed(guid, text("filePath").map(PathBuf::from));
            }
            (_, Some("canceled")) => files.download_canceled(guid),
            _ => {}
        }
    }
}

fn auto_attach() -> Value {
    // The browser's own pages, such as those behind the address bar, have no settings.
    let kinds = ["browser", "browser_ui", "tab"].map(|kind| json!({"type": kind, "exclude": true}));
    let filter: Vec<Value> = kinds.into_iter().chain([json!({})]).collect();
    json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": filter})
}
