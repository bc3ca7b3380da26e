//! The agent's life: wait for a claim, boot, wait for a client, end.

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
use warmpool_protocol::{CaptchaAction, Claim, Identity, Launch, Launched, Settings, StorageState, WorkerState};

use crate::ads::AdRules;
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

/// The home directory where the environment names none.
const HOME: &str = "/home/worker";
/// What the first tab of a warm browser shows.
const BLANK_PAGE: &str = "about:blank";
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
    /// The rules that `PUT /ads` brought.
    ad_rules: Mutex<Option<AdRules>>,
    /// The state that `PUT /storage` brought.
    storage: Mutex<Option<StorageState>>,
    /// The profile that `PUT /folder` brought.
    folder: Mutex<Option<PathBuf>>,
    /// The extensions that `PUT /extensions/{name}` brought, in their order.
    extensions: Mutex<Vec<PathBuf>>,
    /// Told of each.
    extension_came: Notify,
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
        let claimed = Claimed {
            shared,
            engine,
            frozen: Mutex::new(false),
            preset: OnceLock::new(),
            ad_rules: Mutex::default(),
            storage: Mutex::default(),
            folder: Mutex::default(),
            extensions: Mutex::default(),
            extension_came: Notify::new(),
            captchas: OnceLock::new(),
        };
        let claimed = Arc::new(claimed);
        if self.claimed.set(claimed).is_err() {
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
            let extensions = self.awaited_extensions().await;
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

    /// Waits until every extension of the claim is there.
    async fn awaited_extensions(&self) -> Vec<PathBuf> {
        loop {
            {
                let mut brought = self.extensions.lock();
                if brought.len() >= self.shared.claim.extensions.len() {
                    return std::mem::take(&mut *brought);
                }
            }
            self.extension_came.notified().await;
        }
    }

    fn freeze(&self) {
        let mut frozen = self.frozen.lock();
        if self.shared.status.state() == WorkerState::Warm {
            *frozen = freeze::stop();
        }
    }

    /// `POST /launch`: hands the worker to a client.
    pub(crate) async fn launch(self: &Arc<Self>, launch: Launch) -> Result<Launched, ApiError> {
        let Launch { url, settings, block_ads, captchas, kiosk, folder, extensions, log, storage, playwright } = launch;
        settings.check().map_err(|error| ApiError::bad_request(error.to_string()))?;
        if let Some(playwright) = &playwright {
            self.engine.check_playwright(playwright)?;
        }
        let ad_rules = self.ad_rules.lock().take();
        let ad_rules = if block_ads {
            Some(ad_rules.ok_or_else(|| ApiError::bad_request("block_ads: PUT /ads brings the rules first"))?)
        } else {
            None
        };
        let profile = self.folder.lock().take();
        let profile = if folder {
            Some(profile.ok_or_else(|| ApiError::bad_request("folder: PUT /folder brings the profile first"))?)
        } else {
            None
        };
        let brought = std::mem::take(&mut *self.extensions.lock());
        // Those of the claim are loaded already.
        let extensions = extensions && !self.waits_with_extensions();
        if extensions && brought.is_empty() {
            return Err(ApiError::bad_request("extensions: PUT /extensions/{name} brings them first"));
        }
        let state = self.storage.lock().take();
        let state = if storage {
            Some(state.ok_or_else(|| ApiError::bad_request("storage: PUT /storage brings the state first"))?)
        } else {
            None
        };
        let was_frozen = {
            let mut frozen = self.frozen.lock();
            if !self.shared.status.activate() {
                return Err(ApiError::conflict("not_warm", "only a warm worker can be launched"));
            }
            std::mem::take(&mut *frozen)
        };
        let preset = self.preset.get();
        let mut warnings = preset.map(|(_, warnings)| warnings.clone()).unwrap_or_default();
        // The settings of the preset hold already.
        let holds = preset.map_or_else(|| settings.is_empty(), |(preset, _)| *preset == settings);
        let begins_with_more = extensions || profile.is_some() || state.is_some() || playwright.is_some();
        let resume_first = !holds || ad_rules.is_some() || captchas.is_some() || kiosk || log || begins_with_more;
        if was_frozen && resume_first {
            freeze::resume();
        }
        if log {
            // Whatever browser comes instead tells as well.
            self.shared.log.begin();
        }
        if let Some(profile) = profile {
            self.engine.open_folder(profile).await?;
        }
        if extensions {
            self.engine.load_extensions(brought).await?;
        }
        if kiosk {
            self.engine.show_pages_alone(settings.viewport.unwrap_or(self.shared.claim.page)).await?;
        }
        if !holds {
            warnings = self.engine.apply(settings).await?;
        }
        if let Some(rules) = ad_rules {
            self.engine.block_ads(rules).await?;
        }
        if let Some(solver) = captchas {
            let captchas = Arc::new(Captchas::new(solver, Arc::clone(&self.shared.status)));
            self.engine.watch_captchas(Arc::clone(&captchas)).await?;
            let _ = self.captchas.set(captchas);
        }
        if log {
            self.engine.keep_log().await?;
        }
        if let Some(state) = state {
            warnings.extend(self.engine.write_storage(state).await?);
        }
        if let Some(playwright) = playwright {
            self.engine.start_playwright(playwright).await?;
        }
        if was_frozen && !resume_first {
            // A dozen processes wake up and compete for the processor, so the answer goes first.
            tokio::spawn(async {
                tokio::task::yield_now().await;
                freeze::resume();
            });
        }
        tokio::spawn(Arc::clone(self).watch_for_hangs());
        tokio::spawn(Arc::clone(self).watch_memory());
        // The first tab shows the blank page already.
        if let Some(url) = url.filter(|url| url != BLANK_PAGE) {
            let worker = Arc::clone(self);
            worker.engine.expect_first_page();
            tokio::spawn(async move {
                if log && worker.engine.is_listened_to() {
                    worker.shared.log.wait_for_daemon().await;
                }
                let failure = worker.engine.navigate(&url).await.unwrap_or_else(|error| Some(error.to_string()));
                if let Some(reason) = failure {
                    tracing::info!(reason, "the first page did not load");
                    worker.shared.status.report_page_failure(reason);
                }
            });
        }
        Ok(Launched { warnings })
    }

    /// `PUT /ads`: the rules by which a launch may block ads, as the daemon made them for this engine.
    pub(crate) fn take_ad_rules(&self, rules: AdRules) {
        *self.ad_rules.lock() = Some(rules);
    }

    /// Wakes the browser for a launch that will need it awake, while what that needs arrives.
    pub(crate) fn wake(&self) {
        if std::mem::take(&mut *self.frozen.lock()) {
            freeze::resume();
        }
    }

    /// `PUT /storage`: what the browser of a later launch begins with.
    pub(crate) fn take_storage(&self, state: StorageState) {
        *self.storage.lock() = Some(state);
    }

    /// `PUT /folder`: the profile of a later launch.
    pub(crate) async fn take_folder(&self, body: Incoming, query: FolderQuery) -> Result<(), ApiError> {
        let (engine, profile) = (self.engine.folder_engine(), self.engine.new_profile()?);
        folder::unpack(engine, profile.clone(), body, query.limit).await?;
        *self.folder.lock() = Some(profile);
        Ok(())
    }

    /// `PUT /extensions/{name}`: an extension of a later launch.
    pub(crate) async fn take_extension(
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
        let mut all = self.extensions.lock();
        // A daemon whose call was broken off sends it again.
        all.retain(|place| *place != kept);
        all.push(kept);
        self.extension_came.notify_one();
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
