//! Chromium and its driver, behind [`crate::engine::Engine`].

mod browser;
mod capabilities;
mod client;
mod context;
mod driver;
mod keeper;
mod overrides;
mod profile;
mod session;
mod switches;
mod user_agent;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::json;
use warmpool_protocol::{Identity, Page, PageAction, Settings};

use crate::cdp::CdpError;
use crate::display::Display;
use crate::endpoint::Endpoint;
use crate::error::{ApiError, BootError};
use crate::ports::LocalPort;
use crate::shim::{self, Reports};
use crate::worker::Worker;

use browser::Browser;
use client::Client;
use driver::Driver;

/// Ends of driver paths by which a client sends a DevTools command through the driver.
const DEVTOOLS_COMMANDS: [&str; 2] = ["/cdp/execute", "/chromium/send_command_and_get_result"];

/// Chromium, its driver and, unless headless, its display.
pub(crate) struct Chromium {
    worker: Arc<Worker>,
    /// The agent's own program, which plays the browser for the driver.
    program: PathBuf,
    display: OnceLock<Display>,
    driver: OnceLock<Driver>,
    browser: Mutex<Option<Arc<Browser>>>,
    /// What the client wants pages to see, for a browser that comes later.
    settings: Mutex<Settings>,
    /// Browsers the driver started. The lock also keeps new sessions apart.
    reports: tokio::sync::Mutex<Option<Reports>>,
    profiles: AtomicU32,
    /// The browser context that the agent has opened, if there is one.
    context: tokio::sync::Mutex<Option<String>>,
}

impl Chromium {
    /// Nothing runs yet.
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        Self {
            worker,
            program: std::env::current_exe().unwrap_or_default(),
            display: OnceLock::new(),
            driver: OnceLock::new(),
            browser: Mutex::default(),
            settings: Mutex::default(),
            reports: tokio::sync::Mutex::default(),
            profiles: AtomicU32::new(0),
            context: tokio::sync::Mutex::default(),
        }
    }

    /// See [`crate::engine::Engine::boot`].
    pub(crate) async fn boot(&self) -> Result<Identity, BootError> {
        let claim = &self.worker.claim;
        if !claim.headless {
            let display = Display::start(&self.worker.processes, claim.display).await?;
            let _ = self.display.set(display);
        }
        let undriveable = |e: &dyn std::fmt::Display| BootError::Undriveable(e.to_string());
        let socket = self.worker.home.join("shim");
        *self.reports.lock().await = Some(Reports::listen(&socket).map_err(|e| undriveable(&e))?);

        let environment = self.environment();
        let mut for_driver = environment.clone();
        for_driver.push((shim::SOCKET, socket.display().to_string()));
        for_driver.push((shim::BROWSER, browser::PROGRAM.to_owned()));
        let switches = switches::base(claim);
        let profile = self.next_profile();
        let (browser, driver) = tokio::try_join!(
            Browser::start(&self.worker, &switches, &profile, &environment),
            Driver::start(&self.worker, &for_driver),
        )?;
        browser.warm_up().await?;
        let version = browser.cdp.call(None, "Browser.getVersion", json!({})).await;
        let version = version.map_err(|e| undriveable(&e))?;
        let text = |field: &str| version[field].as_str().map(str::to_owned);
        let product = text("product").map(|product| product.replace("HeadlessChrome", "Chrome"));
        let identity = Identity {
            browser: product.map(|product| product.replace("Chrome/", "Chromium/")),
            driver: Some(driver.version.clone()),
            user_agent: text("userAgent"),
            headless: claim.headless,
            args: switches,
        };
        let _ = self.driver.set(driver);
        self.install(browser).await.map_err(|e| undriveable(&e))?;
        Ok(identity)
    }

    /// Variables browser and driver need beside those of the image.
    fn environment(&self) -> Vec<(&'static str, String)> {
        self.display.get().map(|display| ("DISPLAY", display.name.clone())).into_iter().collect()
    }

    fn next_profile(&self) -> PathBuf {
        let number = self.profiles.fetch_add(1, Ordering::Relaxed);
        self.worker.home.join(format!("profile-{number}"))
    }

    /// Makes a browser the current one, with the client's settings, and watches it.
    async fn install(&self, browser: Browser) -> Result<(), ApiError> {
        let browser = Arc::new(browser);
        *self.browser.lock() = Some(Arc::clone(&browser));
        self.worker.watch_browser(&browser.process);
        let settings = self.settings.lock().clone();
        if !settings.is_empty() {
            browser.keeper.apply(&browser.cdp, settings).await.map_err(gone)?;
        }
        Ok(())
    }

    fn browser(&self) -> Result<Arc<Browser>, ApiError> {
        let browser = self.browser.lock().clone();
        browser.filter(|browser| browser.process.running()).ok_or_else(|| ApiError::upstream("no browser is running"))
    }

    /// See [`crate::engine::Engine::apply`].
    pub(crate) async fn apply(&self, settings: Settings) -> Result<Vec<String>, ApiError> {
        let browser = self.browser()?;
        *self.settings.lock() = settings.clone();
        let viewport = settings.viewport;
        let warnings = browser.keeper.apply(&browser.cdp, settings).await.map_err(gone)?;
        if let Some(size) = viewport {
            // Pages see the size already; this is for who looks at the window.
            tokio::spawn(async move {
                if let Err(error) = browser.fit_window(size).await {
                    tracing::debug!(%error, "the window keeps its size");
                }
            });
        }
        Ok(warnings)
    }

    /// See [`crate::engine::Engine::navigate`].
    pub(crate) async fn navigate(&self, url: &str) -> Result<(), ApiError> {
        let browser = self.browser()?;
        let Some(page) = browser.first_page().await.map_err(gone)? else { return Ok(()) };
        let params = json!({"url": url});
        // With settings there is a session already, and it stays.
        if let Some(session) = browser.keeper.session_of(&page) {
            let navigated = browser.cdp.call(Some(&session), "Page.navigate", params).await;
            return navigated.map(drop).map_err(gone);
        }
        let session = browser.attach(&page).await.map_err(gone)?;
        let navigated = browser.cdp.call(Some(&session), "Page.navigate", params).await;
        browser.detach(&session).await.map_err(gone)?;
        navigated.map(drop).map_err(gone)
    }

    /// See [`crate::engine::Engine::ping`].
    pub(crate) async fn ping(&self) {
        if let Ok(browser) = self.browser() {
            let _ = browser.cdp.call(None, "Browser.getVersion", json!({})).await;
        }
    }

    /// See [`crate::engine::Engine::devtools`].
    pub(crate) fn devtools(&self, path: Option<&str>) -> Result<Endpoint, ApiError> {
        let browser = self.browser()?;
        let path = path.map_or_else(|| browser.path.clone(), |rest| format!("/devtools/{rest}"));
        Ok(endpoint(&browser, browser.port, path))
    }

    /// See [`crate::engine::Engine::pages`].
    #[expect(clippy::unused_async, reason = "the seam's other engines need it")]
    pub(crate) async fn pages(&self) -> Result<Vec<Page>, ApiError> {
        Err(ApiError::not_found("Chromium tells of its pages over DevTools"))
    }

    /// See [`crate::engine::Engine::act`].
    pub(crate) async fn act(&self, _page: &str, _action: &PageAction) -> Result<bool, ApiError> {
        self.pages().await.map(|_| false)
    }

    /// See [`crate::engine::Engine::debugging`].
    pub(crate) fn debugging(&self) -> Result<LocalPort, ApiError> {
        Ok(self.browser()?.port)
    }

    /// See [`crate::engine::Engine::driver`].
    pub(crate) fn driver(&self) -> Result<LocalPort, ApiError> {
        let driver = self.driver.get().ok_or_else(|| ApiError::upstream("no driver is running"))?;
        Ok(driver.port)
    }

    /// See [`crate::engine::Engine::bidi`].
    pub(crate) fn bidi(&self, path: String) -> Result<Endpoint, ApiError> {
        Ok(endpoint(&*self.browser()?, self.driver()?, path))
    }

    /// See [`crate::engine::Engine::intercepts`].
    pub(crate) fn intercepts(&self, path: &str) -> bool {
        DEVTOOLS_COMMANDS.iter().any(|end| path.ends_with(end))
            && self.browser().is_ok_and(|browser| browser.keeper.has_locale())
    }

    /// See [`crate::engine::Engine::before_command`].
    pub(crate) async fn before_command(&self, body: &[u8]) {
        if !body.windows(client::LOCALE.len()).any(|window| window == client::LOCALE) {
            return;
        }
        if let Ok(browser) = self.browser() {
            browser.keeper.yield_locale(&browser.cdp).await;
        }
    }
}

/// A websocket of the browser or the driver. What a client says of locales, of holding targets and of downloads
/// concerns the agent as well.
fn endpoint(browser: &Browser, port: LocalPort, path: String) -> Endpoint {
    let interceptor = Client::new(Arc::clone(&browser.keeper), browser.cdp.clone());
    Endpoint { port, path, interceptor: Some(Box::new(interceptor)) }
}

fn gone(error: CdpError) -> ApiError {
    ApiError::upstream(error.to_string())
}
