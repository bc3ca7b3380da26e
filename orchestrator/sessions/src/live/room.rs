//! The viewers of one session: who they are, which of them has control, and the state that they share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::browser::Browser;
use super::message::{Challenge, Notice, ViewState};
use super::screencast::{Screencast, ScreencastSettings, USUAL_SIDE};
use crate::Error;
use crate::session::{Attachment, HeldGate, Session, Share};
use warmpool_core::clock::millis;

/// Pause before connecting to the browser again.
const RETRY: Duration = Duration::from_millis(500);

/// The viewers of one session. The first viewer opens it, and the last one closes it.
pub(super) struct Room {
    pub(super) session: Arc<Session>,
    state: Arc<watch::Sender<ViewState>>,
    browser: Arc<watch::Sender<Option<Browser>>>,
    casts: Mutex<HashMap<String, Weak<Screencast>>>,
    /// The longer side of each viewer's picture, and the longest of all.
    views: Mutex<HashMap<u64, u32>>,
    side: watch::Sender<u32>,
    control: Mutex<Control>,
    last: AtomicU64,
    settings: ScreencastSettings,
    _end: DropGuard,
}

/// What the viewer in control holds.
#[derive(Default)]
struct Control {
    /// A person in control counts as a client, so the session does not end without one.
    attachment: Option<Attachment>,
    pause: Option<HeldGate>,
}

impl Room {
    pub(super) fn new(session: Arc<Session>, settings: ScreencastSettings) -> Self {
        let state = Arc::new(watch::Sender::new(ViewState::default()));
        let browser = Arc::new(watch::Sender::new(None));
        let end = CancellationToken::new();
        let follow = follow(Arc::clone(&session), Arc::clone(&state), Arc::clone(&browser));
        let ended = end.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = follow => {}
                () = ended.cancelled() => {}
            }
        });
        Self {
            session,
            state,
            browser,
            casts: Mutex::default(),
            views: Mutex::default(),
            side: watch::Sender::new(USUAL_SIDE),
            control: Mutex::default(),
            last: AtomicU64::new(0),
            settings,
            _end: end.drop_guard(),
        }
    }

    /// A receiver of the shared state.
    pub(super) fn watch(&self) -> watch::Receiver<ViewState> {
        self.state.subscribe()
    }

    /// The browser, while there is a connection to it.
    pub(super) fn browser(&self) -> Option<Browser> {
        self.browser.borrow().clone()
    }

    /// The tab in front.
    pub(super) fn front(&self) -> Option<String> {
        self.state.borrow().tabs.first().map(|tab| tab.id.clone())
    }

    /// Whether there is such a tab.
    pub(super) fn has(&self, tab: &str) -> bool {
        self.state.borrow().tabs.iter().any(|known| known.id == tab)
    }

    /// The pictures of a tab, which all its viewers share; none if the browser gives none.
    pub(super) fn cast(&self, tab: &str) -> Option<Arc<Screencast>> {
        let devtools = Arc::clone(self.browser()?.devtools().ok()?);
        let mut casts = self.casts.lock();
        casts.retain(|_, cast| cast.strong_count() > 0);
        if let Some(cast) = casts.get(tab).and_then(Weak::upgrade).filter(|cast| cast.runs()) {
            return Some(cast);
        }
        let cast = Screencast::start(devtools, tab.to_owned(), self.settings, self.side.subscribe());
        casts.insert(tab.to_owned(), Arc::downgrade(&cast));
        Some(cast)
    }

    /// Whether `limit` viewers watch already.
    pub(super) fn is_full(&self, limit: usize) -> bool {
        self.state.borrow().viewers >= limit
    }

    /// Records how large a viewer shows the picture, or that the viewer has left. A large screen gets a picture in its own
    /// size, up to the page's. Small screens do not shrink the picture, because a recording may share it.
    pub(super) fn view(&self, viewer: u64, side: Option<u32>) {
        let mut views = self.views.lock();
        match side {
            Some(side) => views.insert(viewer, side),
            None => views.remove(&viewer),
        };
        let longest = views.values().copied().max().unwrap_or_default().max(USUAL_SIDE);
        self.side.send_if_modified(|side| std::mem::replace(side, longest) != longest);
    }

    /// Whether this viewer has control now.
    pub(super) fn is_held_by(&self, viewer: u64) -> bool {
        self.state.borrow().holder == Some(viewer)
    }

    /// Gives control to a viewer and takes it from any other.
    pub(super) fn take(&self, viewer: u64) {
        let mut control = self.control();
        // A pause belongs to one person and does not pass to the next.
        control.pause = None;
        control.attachment.get_or_insert_with(|| self.session.hold());
        self.change(|state| (state.holder, state.paused) = (Some(viewer), false));
    }

    /// Takes control from a viewer, if they have it.
    pub(super) fn give_back(&self, viewer: u64) {
        let mut control = self.control();
        if self.is_held_by(viewer) {
            *control = Control::default();
            self.change(|state| (state.holder, state.paused) = (None, false));
        }
    }

    /// Pauses or resumes the client, if this viewer has control.
    pub(super) fn pause(&self, viewer: u64, on: bool) {
        let mut control = self.control();
        if self.is_held_by(viewer) {
            control.pause = if on { control.pause.take().or_else(|| self.session.gate.shut()) } else { None };
            let paused = control.pause.is_some();
            self.change(|state| state.paused = paused);
        }
    }

    /// The shared state as a message.
    pub(super) fn describe(&self, state: &ViewState) -> String {
        let waiting = self.session.captchas.waiting();
        let captcha = waiting.as_ref().map(|captcha| Challenge { captcha, tab: captcha.page.as_deref() });
        let (status, time_left) = (self.session.status(), millis(self.session.time_left()));
        Notice::State { state, status: status.as_str(), time_left, captcha }.json()
    }

    /// Records a viewer's action, so that the session does not count as idle.
    pub(super) fn touch(&self) {
        if let Some(attachment) = &self.control().attachment {
            attachment.touch();
        }
        self.session.save_soon();
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock()
    }

    fn change(&self, change: impl FnOnce(&mut ViewState)) {
        self.state.send_modify(change);
    }
}

/// What a viewer may do.
#[derive(Debug, Clone)]
pub struct ViewerRights {
    /// Whether they may take control.
    pub may_act: bool,
    /// The share link that they used. The rights end with it.
    pub share: Option<Share>,
}

/// A viewer's place in a room. Dropping it gives up the place, and control with it.
pub(super) struct Membership {
    pub(super) room: Arc<Room>,
    pub(super) viewer: u64,
}

impl Membership {
    /// Takes a place.
    /// Errors: `SocketLimit` when `limit` watch already.
    pub(super) fn take(room: Arc<Room>, limit: usize) -> Result<Self, Error> {
        let entered = room.state.send_if_modified(|state| {
            let room_left = state.viewers < limit;
            state.viewers += usize::from(room_left);
            room_left
        });
        if !entered {
            return Err(Error::SocketLimit { limit });
        }
        let viewer = room.last.fetch_add(1, Ordering::Relaxed) + 1;
        metrics::gauge!("warmpool_live_viewers").increment(1);
        Ok(Self { room, viewer })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.room.give_back(self.viewer);
        self.room.view(self.viewer, None);
        self.room.change(|state| state.viewers = state.viewers.saturating_sub(1));
        metrics::gauge!("warmpool_live_viewers").decrement(1);
    }
}

/// Follows the browser's tabs while somebody watches. Connecting again finds a browser that a driver has started in place
/// of the first one.
async fn follow(session: Arc<Session>, state: Arc<watch::Sender<ViewState>>, to: Arc<watch::Sender<Option<Browser>>>) {
    loop {
        match Browser::connect(Arc::clone(&session)).await {
            Ok((browser, tabs)) => {
                let tell = |tabs| {
                    to.send_if_modified(|to| to.replace(browser.clone()).is_none());
                    state.send_if_modified(|state| {
                        let changed = state.tabs != tabs;
                        state.tabs = tabs;
                        changed
                    });
                };
                let error = tabs.follow(tell).await;
                tracing::debug!(session = %session.id, %error, "the live view lost the browser");
            }
            Err(error) => tracing::debug!(session = %session.id, %error, "the live view cannot ask the browser"),
        }
        to.send_replace(None);
        sleep(RETRY).await;
    }
}
