//! Firefox and its driver, behind [`crate::engine::Engine`].

mod ads;
mod bidi;
mod browser;
mod captchas;
mod context;
mod control;
mod driver;
mod extensions;
mod folder;
mod options;
mod profile;
mod session;
mod storage;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Value, json};
use warmpool_protocol::{ColorScheme, Identity, MAX_PAGES, MAX_TEXT, Page, PageAction, ReducedMotion, Settings, Size};

use crate::ads::{AdBlocker, AdRules};
use crate::attach::Endpoint;
use crate::captchas::Captchas;
use crate::display::Display;
use crate::error::{ApiError, BootError};
use crate::files::Unfinished;
use crate::ports::LocalPort;
use crate::profile_folders::ProfileFolders;
use crate::wanted::Wanted;
use crate::worker::Worker;

use browser::{Browser, Start};
use control::ControlError;
use driver::Driver;

/// What the agent says to who wants Firefox to have DevTools.
pub(crate) const NO_TARGETS: &str = "Firefox speaks WebDriver BiDi and has no DevTools targets";
/// Where Firefox takes WebDriver BiDi clients.
const BIDI: &str = "/session";

/// Firefox, its driver and its display.
pub(crate) struct Firefox {
    worker: Arc<Worker>,
    display: OnceLock<Display>,
    driver: OnceLock<Driver>,
    browser: Mutex<Option<Arc<Browser>>>,
    wanted: Wanted<Arc<AdBlocker>>,
    /// One state after another goes through the file.
    storage_file: tokio::sync::Mutex<()>,
    /// Keeps new sessions of the driver apart.
    sessions: tokio::sync::Mutex<()>,
    profiles: ProfileFolders,
}

impl Firefox {
    /// Nothing runs yet.
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        Self {
            profiles: ProfileFolders::new(worker.home.clone()),
            worker,
            display: OnceLock::new(),
            driver: OnceLock::new(),
            browser: Mutex::default(),
            wanted: Wanted::default(),
            storage_file: tokio::sync::Mutex::default(),
            sessions: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn worker(&self) -> &Worker {
        &self.worker
    }

    pub(crate) fn display(&self) -> Option<&Display> {
        self.display.get()
    }

    pub(crate) async fn boot(&self) -> Result<Identity, BootError> {
        let claim = &self.worker.claim;
        let undriveable = |e: &dyn std::fmt::Display| BootError::Undriveable(e.to_string());
        // Headless too: only on a display can it be watched without taking the client's one BiDi session.
        let size = browser::window(claim.page);
        let display = Display::start(&self.worker.processes, size).await?;
        let _ = self.display.set(display);
        self.worker.files.tell_unfinished(Unfinished::Hidden);
        let profile = self.profiles.next();
        self.profiles.set_current(profile.clone());
        profile::empty(&profile).map_err(|e| undriveable(&e))?;
        let display = self.display.get().map(|display| display.name.as_str());
        let how = Start { profile: &profile, args: &[], environment: &[], display };
        let (browser, driver) = tokio::try_join!(Browser::start(&self.worker, how), Driver::start(&self.worker))?;
        if claim.rehearse {
            browser.warm_up().await?;
            driver.rehearse(&self.worker).await.map_err(|e| undriveable(&e))?;
        } else {
            browser.prepare().await?;
        }
        let identity = Identity {
            browser: Some(format!("Firefox/{}", browser.hello.version)),
            driver: Some(driver.version.clone()),
            user_agent: Some(browser.hello.user_agent.clone()),
            headless: claim.headless,
            args: browser::base_args(size),
        };
        let _ = self.driver.set(driver);
        self.install(Arc::new(browser)).await.map_err(|e| undriveable(&e))?;
        Ok(identity)
    }

    /// Makes a browser the current one, with the client's settings, and watches it.
    /// Returns what holds only in part.
    async fn install(&self, browser: Arc<Browser>) -> Result<Vec<String>, ApiError> {
        *self.browser.lock() = Some(Arc::clone(&browser));
        self.worker.watch_browser(&browser.process);
        let certificates = &self.worker.claim.ca_certificates;
        if !certificates.is_empty() {
            browser.control.call("trust", json!({"certificates": certificates})).await.map_err(gone)?;
        }
        if let Some(archives) = self.wanted.extensions.get() {
            extensions::load(&browser, archives).await?;
        }
        if let Some(blocker) = self.wanted.ad_blocker.get() {
            browser.control.block_ads(Arc::clone(blocker)).await.map_err(gone)?;
        }
        if let Some(captchas) = self.wanted.captchas.get() {
            browser.control.watch_captchas(Arc::clone(captchas)).await.map_err(gone)?;
        }
        if self.worker.log.has_begun() {
            browser.control.call("keepLog", Value::Null).await.map_err(gone)?;
        }
        if let Some(state) = self.wanted.storage.get() {
            self.give_storage(&browser, state).await?;
        }
        let settings = self.wanted.settings.lock().clone();
        if settings.is_empty() { Ok(Vec::new()) } else { apply(&browser, &settings).await }
    }

    fn browser(&self) -> Result<Arc<Browser>, ApiError> {
        let browser = self.browser.lock().clone();
        browser.filter(|browser| browser.process.running()).ok_or_else(|| ApiError::upstream("no browser is running"))
    }

    pub(crate) async fn apply(&self, settings: Settings) -> Result<Vec<String>, ApiError> {
        let browser = self.browser()?;
        *self.wanted.settings.lock() = settings.clone();
        apply(&browser, &settings).await
    }

    pub(crate) async fn show_pages_alone(&self, page: Size) -> Result<(), ApiError> {
        match self.display.get() {
            Some(display) => display.show_pages_alone(page, browser::BARS).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn block_ads(&self, rules: AdRules) -> Result<(), ApiError> {
        let blocker = AdBlocker::new(&rules, &self.worker.status)?;
        self.browser()?.control.block_ads(Arc::clone(&blocker)).await.map_err(gone)?;
        let _ = self.wanted.ad_blocker.set(blocker);
        Ok(())
    }

    pub(crate) async fn watch_captchas(&self, captchas: Arc<Captchas>) -> Result<(), ApiError> {
        self.browser()?.control.watch_captchas(Arc::clone(&captchas)).await.map_err(gone)?;
        let _ = self.wanted.captchas.set(captchas);
        Ok(())
    }

    pub(crate) async fn keep_log(&self) -> Result<(), ApiError> {
        self.browser()?.control.call("keepLog", Value::Null).await.map(drop).map_err(gone)
    }

    pub(crate) async fn navigate(&self, url: &str) -> Result<Option<String>, ApiError> {
        let failure = self.browser()?.control.call("navigate", json!({"url": url})).await.map_err(gone)?;
        Ok(failure.as_str().map(str::to_owned))
    }

    pub(crate) async fn ping(&self) {
        if let Ok(browser) = self.browser() {
            let _ = browser.control.call("ping", Value::Null).await;
        }
    }

    pub(crate) async fn pages(&self) -> Result<Vec<Page>, ApiError> {
        let params = json!({"most": MAX_PAGES, "longest": MAX_TEXT});
        let pages = self.browser()?.control.call("pages", params).await.map_err(gone)?;
        serde_json::from_value(pages).map_err(|e| ApiError::upstream(e.to_string()))
    }

    pub(crate) async fn act(&self, page: &str, action: &PageAction) -> Result<bool, ApiError> {
        let (verb, url) = action.parts();
        let done = self.browser()?.control.call("act", json!({"page": page, "act": verb, "url": url})).await;
        done.map(|done| done == Value::Bool(true)).map_err(gone)
    }

    pub(crate) fn devtools(&self, path: Option<&str>) -> Result<Endpoint, ApiError> {
        let port = self.browser()?.port;
        match path {
            None => Ok(Endpoint { port, path: BIDI.to_owned(), listener: None }),
            Some(_) => Err(ApiError::not_found(NO_TARGETS)),
        }
    }

    /// Starts the driver anew, in place of one that has ended.
    pub(crate) async fn start_driver(&self) -> Result<(), BootError> {
        Driver::start(&self.worker).await.map(drop)
    }

    pub(crate) fn driver(&self) -> Result<LocalPort, ApiError> {
        let driver = self.driver.get().ok_or_else(|| ApiError::upstream("no driver is running"))?;
        Ok(driver.port)
    }

    pub(crate) fn bidi(&self, path: String) -> Result<Endpoint, ApiError> {
        // A driver's session has its websocket in the browser itself.
        Ok(Endpoint { port: self.browser()?.port, path, listener: None })
    }
}

async fn apply(browser: &Browser, settings: &Settings) -> Result<Vec<String>, ApiError> {
    let size = settings.viewport.map(|size| json!({"width": size.width, "height": size.height}));
    let params = json!({
        "locales": settings.locales, "userAgent": settings.user_agent, "viewport": size, "timezone": settings.timezone,
        "isDark": settings.color_scheme.map(ColorScheme::is_dark),
        "isReduced": settings.reduced_motion.map(ReducedMotion::is_reduced),
        "geolocation": settings.geolocation, "permissions": settings.permissions,
    });
    let warnings = browser.control.call("settings", params).await.map_err(gone)?;
    serde_json::from_value(warnings).map_err(|e| ApiError::upstream(e.to_string()))
}

fn gone(error: ControlError) -> ApiError {
    ApiError::upstream(error.to_string())
}
