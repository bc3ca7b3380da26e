//! The agent's life: wait for a claim, boot, wait for a client, end.

mod brought;
mod launch;
mod watch;

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use warmpool_protocol::extension::ExtensionLimits;
use warmpool_protocol::folder::{FolderManifest, FolderQuery};
use warmpool_protocol::{CaptchaAction, Claim, Identity, Settings, WorkerState};

use crate::body::Body;
use crate::captchas::Captchas;
use crate::egress::Egress;
use crate::engine::Engine;
use crate::error::{ApiError, BootError};
use crate::extensions;
use crate::files::Files;
use crate::folder;
use crate::freeze;
use crate::process::Processes;
use crate::status::Status;
use crate::upstream::Upstream;
use crate::worker::Worker;

use brought::Brought;

/// The home directory where the environment names none.
const HOME: &str = "/home/worker";
/// Time a warm browser gets to finish what it does after its start, before it is stopped.
const SETTLE: Duration = Duration::from_secs(2);

/// The agent, claimed or not.
pub(crate) struct Agent {
    processes: Processes,
    egress: Arc<Egress>,
    claimed: OnceLock<Arc<Claimed>>,
    claim: Notify,
}

/// The agent once a daemon has claimed it.
pub(crate) struct Claimed {
    /// What all parts share.
    pub(crate) shared: Arc<Worker>,
    /// The browser.
    pub(crate) engine: Engine,
    /// Whether everything is stopped. The lock also keeps stopping and handing out apart.
    frozen: Mutex<bool>,
    /// The preset's settings once they hold, with what holds only in part.
    preset: OnceLock<(Settings, Vec<String>)>,
    /// What calls bring before the launch.
    pub(crate) brought: Brought,
    /// The challenges of pages, in a session that looks for them.
    captchas: OnceLock<Arc<Captchas>>,
}

impl Agent {
    pub(crate) fn new(processes: Processes, egress: Arc<Egress>) -> Self {
        Self { processes, egress, claimed: OnceLock::new(), claim: Notify::new() }
    }

    /// Fails when the worker has an owner already.
    pub(crate) fn check_unclaimed(&self) -> Result<(), ApiError> {
        match self.claimed.get() {
            Some(_) => Err(ApiError::conflict("claimed", "this worker has been claimed already")),
            None => Ok(()),
        }
    }

    /// `POST /claim`: takes the one claim there can be.
    pub(crate) fn claim(&self, claim: Claim) -> Result<(), ApiError> {
        self.check_unclaimed()?;
        claim.check().map_err(ApiError::bad_request)?;
        let home = env::var_os("HOME").map_or_else(|| PathBuf::from(HOME), PathBuf::from);
        let shared = Arc::new(Worker {
            claim,
            status: Arc::new(Status::new()),
            processes: self.processes.clone(),
            files: Files::new(home.join("files"))?,
            log: Arc::default(),
            home,
            upstream: Upstream::new(),
            egress: Arc::clone(&self.egress),
            driver: Mutex::default(),
        });
        let engine = Engine::new(Arc::clone(&shared))?;
        if self.claimed.set(Arc::new(Claimed::new(shared, engine))).is_err() {
            return self.check_unclaimed();
        }
        self.claim.notify_one();
        Ok(())
    }

    /// The worker, for callers that know its secret.
    pub(crate) fn open(&self, authorization: Option<&[u8]>) -> Result<&Arc<Claimed>, ApiError> {
        self.claimed
            .get()
            .filter(|claimed| authorization.is_some_and(|value| claimed.shared.claim.secret.opens(value)))
            .ok_or_else(|| ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "the worker's secret is required"))
    }

    /// Waits for the claim, boots, and returns once no daemon listens any more.
    pub(crate) async fn run(&self) {
        let claimed = loop {
            if let Some(claimed) = self.claimed.get() {
                break claimed;
            }
            self.claim.notified().await;
        };
        tokio::spawn(Arc::clone(claimed).boot());
        claimed.orphaned().await;
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed.get().is_some()
    }
}

impl Claimed {
    fn new(shared: Arc<Worker>, engine: Engine) -> Self {
        Self {
            shared,
            engine,
            frozen: Mutex::new(false),
            preset: OnceLock::new(),
            brought: Brought::default(),
            captchas: OnceLock::new(),
        }
    }

    async fn boot(self: Arc<Self>) {
        let status = &self.shared.status;
        match self.boot_preset().await {
            Ok(identity) => status.report_warm(identity),
            Err(error) => {
                self.shared.processes.kill_all();
                return status.report_failure(error.to_string());
            }
        }
        if self.shared.claim.freeze {
            sleep(SETTLE).await;
            self.freeze();
        }
    }

    /// Boots the engine, and loads the extensions and applies the settings with which this worker waits.
    async fn boot_preset(&self) -> Result<Identity, BootError> {
        let identity = self.engine.boot().await?;
        if self.waits_with_extensions() {
            let extensions = self.brought.await_extensions(self.shared.claim.extensions.len()).await;
            let loaded = self.engine.load_extensions(extensions).await;
            loaded.map_err(|error| BootError::Undriveable(error.message))?;
        }
        let preset = self.shared.claim.preset.clone();
        preset.check().map_err(|error| BootError::Undriveable(error.to_string()))?;
        if !preset.is_empty() {
            let warnings = self.engine.apply(preset.clone()).await;
            let warnings = warnings.map_err(|error| BootError::Undriveable(error.to_string()))?;
            let _ = self.preset.set((preset, warnings));
        }
        Ok(identity)
    }

    fn waits_with_extensions(&self) -> bool {
        !self.shared.claim.extensions.is_empty()
    }

    /// Stops everything, unless a client has the worker already.
    fn freeze(&self) {
        let mut frozen = self.frozen.lock();
        if self.shared.status.state() == WorkerState::Warm {
            *frozen = freeze::stop();
        }
    }

    /// Lets everything go on that is stopped.
    pub(crate) fn wake(&self) {
        let mut frozen = self.frozen.lock();
        if std::mem::take(&mut *frozen) {
            freeze::resume();
        }
    }

    /// Wakes the browser for a call, where its launch has left it stopped. One that waits for a client stays so.
    pub(crate) fn wake_if_launched(&self) {
        if self.shared.status.state() != WorkerState::Warm {
            self.wake();
        }
    }

    /// `PUT /folder`: the profile of a later launch.
    pub(crate) async fn bring_folder(&self, body: Incoming, query: FolderQuery) -> Result<(), ApiError> {
        let (engine, profile) = (self.engine.folder_engine(), self.engine.new_profile()?);
        folder::unpack(engine, profile.clone(), body, query.limit).await?;
        self.brought.bring_folder(profile);
        Ok(())
    }

    /// `PUT /extensions/{name}`: an extension of a later launch.
    pub(crate) async fn bring_extension(
        &self,
        name: &str,
        body: Incoming,
        limits: ExtensionLimits,
    ) -> Result<(), ApiError> {
        // Those of the claim are every client's of this kind.
        if !self.waits_with_extensions() {
            self.shared.status.touch();
        }
        let kept = extensions::keep(self.engine.extension_form()?, &self.shared.home, name, body, limits).await?;
        self.brought.bring_extension(kept);
        Ok(())
    }

    /// `POST /folder`: ends the browser, and answers with its packed profile.
    pub(crate) async fn give_folder(&self, query: FolderQuery) -> Result<Response<Body>, ApiError> {
        let engine = self.engine.folder_engine();
        let browser = self.shared.status.snapshot().identity.browser.unwrap_or_default();
        let profile = self.engine.close_browser().await?;
        folder::pack(FolderManifest { engine, browser }, profile, query.limit).await
    }

    /// `POST /captchas/{id}`: does something about a challenge. Fails when it is over, or its page cannot take the answer.
    pub(crate) async fn act_on_captcha(&self, id: &str, action: CaptchaAction) -> Result<(), ApiError> {
        let over = || ApiError::not_found("there is no such challenge any more, or its page took no answer");
        let (captchas, id) = (self.captchas.get().ok_or_else(over)?, id.parse().map_err(|_| over())?);
        if captchas.act(id, action).await { Ok(()) } else { Err(over()) }
    }

    /// `POST /context`: a window in a browser context of its own, in place of the previous one.
    pub(crate) async fn open_context(&self) -> Result<String, ApiError> {
        self.close_context().await?;
        self.engine.open_context().await
    }

    /// `DELETE /context`: closes that context, with its files.
    pub(crate) async fn close_context(&self) -> Result<(), ApiError> {
        self.engine.close_context().await?;
        self.shared.files.clear().await
    }

    /// Returns when nobody has listened to the events for the claimed time.
    async fn orphaned(&self) {
        let mut readers = self.shared.status.readers();
        let limit = self.shared.claim.orphan_timeout();
        loop {
            if readers.wait_for(|count| *count == 0).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep(limit) => return tracing::info!("no daemon has listened for too long; the worker ends"),
                _ = readers.wait_for(|count| *count > 0) => {}
            }
        }
    }
}

#[cfg(test)]
impl Agent {
    /// The agent of this worker.
    pub(crate) fn of_tests(claimed: Arc<Claimed>) -> Self {
        let shared = &claimed.shared;
        let agent = Self::new(shared.processes.clone(), Arc::clone(&shared.egress));
        let _ = agent.claimed.set(claimed);
        agent
    }
}

#[cfg(test)]
impl Claimed {
    /// A warm worker with this home, which says that its browser is stopped. There is no browser.
    pub(crate) fn of_tests(home: &std::path::Path) -> Arc<Self> {
        let shared = Worker::of_tests(home);
        let engine = Engine::Chromium(Arc::new(crate::chromium::Chromium::new(Arc::clone(&shared))));
        let claimed = Self::new(shared, engine);
        claimed.shared.status.report_warm(Identity::default());
        claimed.pretend_frozen();
        Arc::new(claimed)
    }

    pub(crate) fn pretend_frozen(&self) {
        *self.frozen.lock() = true;
    }

    pub(crate) fn is_frozen(&self) -> bool {
        *self.frozen.lock()
    }
}
