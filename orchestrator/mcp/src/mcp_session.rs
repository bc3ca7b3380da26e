//! One MCP session: its browser, its tool calls one after the other, and its end.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{MappedMutexGuard, Mutex as AsyncMutex, MutexGuard};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::endpoint::{Client, Inner, ShareUrl};
use crate::page_log::PageLog;
use crate::places::Place;
use crate::tools::ToolError;
use warmpool_core::drain::Phase;
use warmpool_keys::KeyId;
use warmpool_sessions::session::{Ending, Options, Session, SessionKind, UnconfirmedSession};
use warmpool_tasks::control::{Control, ControlLimits};

/// How much longer than the MCP session its browser may be idle, in seconds: its own end is for a daemon that died.
const AFTER: u64 = 5;

/// One MCP session.
pub(crate) struct McpSession {
    pub(crate) inner: Arc<Inner>,
    pub(crate) key: KeyId,
    options: Options,
    pub(crate) share_url: Box<ShareUrl>,
    _place: Place,
    /// The browser, once a tool has needed it. Whoever holds it carries out a tool.
    browser: AsyncMutex<Option<Browsing>>,
    /// The session of that browser, to be ended while a tool holds it.
    session: Mutex<Option<Arc<Session>>>,
    last_used: Mutex<Instant>,
    calls: AtomicUsize,
    ended: CancellationToken,
}

impl fmt::Debug for McpSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpSession").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A browser in use. Dropping it ends its session.
pub(crate) struct Browsing {
    pub(crate) control: Control,
    pub(crate) log: PageLog,
    pub(crate) session: Arc<Session>,
    _unconfirmed: UnconfirmedSession,
}

/// A tool call under way, which keeps its MCP session from being idle.
pub(crate) struct Call<'a>(&'a McpSession);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

impl McpSession {
    pub(crate) fn new(inner: Arc<Inner>, client: Client, place: Place) -> Arc<Self> {
        let Client { key, options, share_url } = client;
        let idle = inner.config.mcp.idle_timeout.as_secs() + AFTER;
        let options = Options {
            kind: SessionKind::WebDriver,
            idle_timeout: Some(idle),
            keep_alive: false,
            logs: true,
            ..options
        };
        Arc::new(Self {
            inner,
            key,
            options,
            share_url,
            _place: place,
            browser: AsyncMutex::default(),
            session: Mutex::default(),
            last_used: Mutex::new(Instant::now()),
            calls: AtomicUsize::new(0),
            ended: CancellationToken::new(),
        })
    }

    /// The client is there.
    pub(crate) fn touch(&self) {
        *self.last_used.lock() = Instant::now();
    }

    /// Begins a tool call.
    pub(crate) fn begin_call(&self) -> Call<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call(self)
    }

    /// Ends the MCP session: what runs in it stops, and its browser ends.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        self.end_browser();
    }

    /// Waits until the MCP session has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Waits until an MCP session is to end: somebody has ended it, it is idle, its key is gone, or the daemon goes down.
    pub(crate) async fn wait_for_end(inner: &Inner, mcp: &Weak<Self>) {
        let Some((ended, key)) = mcp.upgrade().map(|mcp| (mcp.ended.clone(), mcp.key.clone())) else { return };
        tokio::select! {
            () = ended.cancelled() => {}
            () = Self::idle(inner, mcp) => tracing::debug!(%key, "an MCP session was idle"),
            () = inner.keys.revoked(&key) => {}
            () = inner.drain.reached(Phase::Draining) => {}
        }
    }

    async fn idle(inner: &Inner, mcp: &Weak<Self>) {
        let limit = inner.config.mcp.idle_timeout;
        loop {
            let Some(until) = mcp.upgrade().map(|mcp| *mcp.last_used.lock() + limit) else { return };
            sleep_until(until).await;
            let Some(mcp) = mcp.upgrade() else { return };
            if mcp.calls.load(Ordering::Relaxed) > 0 {
                drop(mcp);
                sleep(limit).await;
            } else if *mcp.last_used.lock() + limit <= Instant::now() {
                return;
            }
        }
    }

    fn end_browser(&self) -> bool {
        let session = self.session.lock().take();
        session.inspect(|session| session.end(Ending::ClientFinished)).is_some()
    }

    /// Gives the browser back. False when there is none.
    pub(crate) async fn close_browser(&self) -> bool {
        let was_there = self.end_browser();
        self.browser.lock().await.take();
        was_there
    }

    /// The browser, taken from the pool if there is none yet.
    /// Errors: why there is none, and `Gone` once for one that has ended.
    pub(crate) async fn browser(&self) -> Result<MappedMutexGuard<'_, Browsing>, ToolError> {
        let mut browser = self.browser.lock().await;
        if let Some(ending) = browser.as_ref().and_then(|browsing| browsing.session.ending()) {
            browser.take();
            self.session.lock().take();
            return Err(ToolError::Ended { message: ending.message() });
        }
        if browser.is_none() {
            *browser = Some(self.take_browser().await?);
        }
        // There is one now.
        let browsing = MutexGuard::try_map(browser, Option::as_mut);
        let mut browsing = browsing.map_err(|_| ToolError::Ended { message: "it was lost".to_owned() })?;
        // A call that was cancelled may have left it anywhere.
        browsing.control.regain().await?;
        Ok(browsing)
    }

    async fn take_browser(&self) -> Result<Browsing, ToolError> {
        let Inner { config, sessions, .. } = &*self.inner;
        let unconfirmed = sessions.create(self.key.clone(), self.options.clone()).await?;
        let session = Arc::clone(unconfirmed.session()?);
        if self.ended.is_cancelled() {
            return Err(ToolError::Ended { message: "the MCP session has ended".to_owned() });
        }
        *self.session.lock() = Some(Arc::clone(&session));
        let limits = ControlLimits {
            action: config.mcp.action_timeout,
            navigation: config.mcp.navigation_timeout,
            max_answer: config.mcp.max_answer.bytes(),
            max_elements: config.mcp.max_elements,
        };
        let control = Control::open(sessions, &session, config, limits).await?;
        let log = PageLog::new(sessions.find_log(session.id.as_str(), &self.key)?.buffer, config.mcp.max_log);
        Ok(Browsing { control, log, session, _unconfirmed: unconfirmed })
    }
}
