//! Chromium and its driver, behind [`crate::engine::Engine`].

mod ad_filter;
mod ads;
mod browser;
mod bypass;
mod ca_certificates;
mod capabilities;
mod captchas;
mod client;
mod context;
mod context_port;
mod context_proxies;
mod downloads;
mod driver;
mod extensions;
#[cfg(test)]
mod fake;
mod file_input;
mod first_page;
mod folder;
mod overrides;
pub(crate) mod playwright;
mod profile;
mod session;
mod storage;
mod switches;
mod targets;
mod translator;
mod user_agent;
mod visited;
mod visitor;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use memchr::memmem;
use parking_lot::Mutex;
use serde_json::json;
use warmpool_protocol::{DEVTOOLS_COMMANDS, Identity, Settings, Size};

use crate::ads::{AdBlocker, AdRules};
use crate::attach::Endpoint;
use crate::captchas::Captchas;
use crate::cdp::CdpError;
use crate::display::Display;
use crate::engine::CommandVerdict;
use crate::error::{ApiError, BootError};
use crate::files::Unfinished;
use crate::ports::LocalPort;
use crate::profile_folders::ProfileFolders;
use crate::shim::{self, Reports};
use crate::wanted::Wanted;
use crate::worker::Worker;

use ads::FilteredBy;
use browser::Browser;
use client::Client;
use context_proxies::ContextProxies;
use driver::Driver;
use translator::{Translation, Translator};

/// The ends of the names of DevTools' commands that set a locale or a time zone.
const SETS_LOCALE: [&[u8]; 2] = [b"setLocaleOverride", b"setTimezoneOverride"];
/// What is in every command of DevTools that may name something of the client's machine or network.
const TRANSLATED: [&[u8]; 2] = [b"proxyServer", b"setDownloadBehavior"];

/// Chromium, its driver and, unless headless, its display.
pub(crate) struct Chromium {
    worker: Arc<Worker>,
    /// The agent's own program, which plays the browser for the driver.
    program: PathBuf,
    display: OnceLock<Display>,
    driver: OnceLock<Driver>,
    browser: Mutex<Option<Arc<Browser>>>,
    wanted: Wanted<(Arc<AdBlocker>, FilteredBy)>,
    /// Browsers the driver started. The lock also keeps new sessions apart.
    reports: tokio::sync::Mutex<Option<Reports>>,
    profiles: ProfileFolders,
    /// The size of pages, where they are shown without their windows' bars.
    kiosk: OnceLock<Size>,
    /// The proxies that a client gave to its browser contexts.
    context_proxies: Arc<ContextProxies>,
    /// The browser context that the agent has opened, if there is one.
    context: tokio::sync::Mutex<Option<String>>,
    /// Playwright's own server, where a client speaks its protocol.
    playwright: OnceLock<LocalPort>,
}

impl Chromium {
    /// Nothing runs yet.
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        Self {
            context_proxies: Arc::new(ContextProxies::new(Arc::clone(&worker.egress))),
            profiles: ProfileFolders::new(worker.home.clone()),
            worker,
            program: std::env::current_exe().unwrap_or_default(),
            display: OnceLock::new(),
            driver: OnceLock::new(),
            browser: Mutex::default(),
            wanted: Wanted::default(),
            reports: tokio::sync::Mutex::default(),
            kiosk: OnceLock::new(),
            context: tokio::sync::Mutex::default(),
            playwright: OnceLock::new(),
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
        self.worker.files.tell_unfinished(Unfinished::NameEnds(".crdownload"));
        if !claim.headless {
            let display = Display::start(&self.worker.processes, switches::window(claim.page)).await?;
            let _ = self.display.set(display);
        }
        let undriveable = |e: &dyn std::fmt::Display| BootError::Undriveable(e.to_string());
        let socket = self.socket();
        *self.reports.lock().await = Some(Reports::listen(&socket).map_err(|e| undriveable(&e))?);

        ca_certificates::trust(&claim.ca_certificates).map_err(|e| undriveable(&e))?;
        let environment = self.environment();
        let switches = switches::base(claim);
        let profile = self.profiles.next();
        self.profiles.set_current(profile.clone());
        let (browser, driver) =
            tokio::try_join!(Browser::start(&self.worker, &switches, &profile, &environment), self.new_driver())?;
        if claim.rehearse {
            browser.warm_up(self.window()).await?;
        } else {
            browser.prepare(self.window()).await?;
        }
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

    /// Starts the driver anew, in place of one that has ended.
    pub(crate) async fn start_driver(&self) -> Result<(), BootError> {
        self.new_driver().await.map(drop)
    }

    /// Starts the driver. Its browsers report to the agent's socket.
    async fn new_driver(&self) -> Result<Driver, BootError> {
        let mut environment = self.environment();
        environment.push((shim::SOCKET, self.socket().display().to_string()));
        environment.push((shim::BROWSER, browser::PROGRAM.to_owned()));
        Driver::start(&self.worker, &environment).await
    }

    fn socket(&self) -> PathBuf {
        self.worker.home.join("shim")
    }

    /// The size of the first window, where no display has one.
    fn window(&self) -> Option<Size> {
        let claim = &self.worker.claim;
        claim.headless.then(|| switches::window(claim.page))
    }

    /// Variables browser and driver need beside those of the image.
    fn environment(&self) -> Vec<(&'static str, String)> {
        self.display.get().map(|display| ("DISPLAY", display.name.clone())).into_iter().collect()
    }

    /// Makes a browser the current one, with the client's settings, and watches it.
    async fn install(&self, browser: Browser) -> Result<(), ApiError> {
        let browser = Arc::new(browser);
        *self.browser.lock() = Some(Arc::clone(&browser));
        self.worker.watch_browser(&browser.process);
        let settings = self.wanted.settings.lock().clone();
        if !settings.is_empty() {
            browser.targets.apply(&browser.cdp, settings).await.map_err(gone)?;
        }
        if let Some(folders) = self.wanted.extensions.get() {
            extensions::load(&browser, folders).await?;
        }
        if let Some((blocker, filtered_by)) = self.wanted.ad_blocker.get() {
            ads::block(&browser, blocker, *filtered_by).await.map_err(gone)?;
        }
        if let Some(found) = self.wanted.captchas.get() {
            captchas::watch(&browser, found).await.map_err(gone)?;
        }
        if let Some(state) = self.wanted.storage.get() {
            browser.write_storage(state).await.map_err(gone)?;
        }
        Ok(())
    }

    fn browser(&self) -> Result<Arc<Browser>, ApiError> {
        let browser = self.browser.lock().clone();
        browser.filter(|browser| browser.process.running()).ok_or_else(|| ApiError::upstream("no browser is running"))
    }

    pub(crate) async fn apply(&self, settings: Settings) -> Result<Vec<String>, ApiError> {
        let browser = self.browser()?;
        *self.wanted.settings.lock() = settings.clone();
        // A kiosk's display has the size already.
        let viewport = settings.viewport.filter(|_| self.kiosk.get().is_none());
        let warnings = browser.targets.apply(&browser.cdp, settings).await.map_err(gone)?;
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

    pub(crate) async fn show_pages_alone(&self, page: Size) -> Result<(), ApiError> {
        let _ = self.kiosk.set(page);
        self.hide_bars(switches::BARS).await
    }

    /// Shows pages alone in a kiosk whose windows have bars of this height.
    async fn hide_bars(&self, bars: u32) -> Result<(), ApiError> {
        match (self.display.get(), self.kiosk.get()) {
            (Some(display), Some(page)) => display.show_pages_alone(*page, bars).await,
            _ => Ok(()),
        }
    }

    pub(crate) async fn block_ads(&self, rules: AdRules) -> Result<(), ApiError> {
        let filtered_by = match rules {
            AdRules::BuiltIn(_) if ad_filter::is_there() => FilteredBy::Browser,
            _ => FilteredBy::Agent,
        };
        let blocker = AdBlocker::new(&rules, &self.worker.status)?;
        ads::block(&self.browser()?, &blocker, filtered_by).await.map_err(gone)?;
        let _ = self.wanted.ad_blocker.set((blocker, filtered_by));
        Ok(())
    }

    pub(crate) async fn watch_captchas(&self, found: Arc<Captchas>) -> Result<(), ApiError> {
        captchas::watch(&self.browser()?, &found).await.map_err(gone)?;
        let _ = self.wanted.captchas.set(found);
        Ok(())
    }

    pub(crate) fn expect_first_page(&self) {
        if let Ok(browser) = self.browser() {
            browser.targets.first_page.expect();
        }
    }

    pub(crate) async fn navigate(&self, url: &str) -> Result<Option<String>, ApiError> {
        let browser = self.browser()?;
        let loading = browser.targets.first_page.begin();
        let Some(page) = browser.first_page().await.map_err(gone)? else { return Ok(None) };
        let opened = loading.open(&browser, &page, url).await;
        if opened.is_err() {
            browser.targets.left_tab(&browser.cdp, &page).await;
        }
        opened.map_err(gone)
    }

    pub(crate) async fn ping(&self) {
        if let Ok(browser) = self.browser() {
            let _ = browser.cdp.call(None, "Browser.getVersion", json!({})).await;
        }
    }

    pub(crate) fn devtools(&self, path: Option<&str>) -> Result<Endpoint, ApiError> {
        let browser = self.browser()?;
        let path = path.map_or_else(|| browser.path.clone(), |rest| format!("/devtools/{rest}"));
        Ok(self.endpoint(&browser, browser.port, path))
    }

    pub(crate) fn debugging(&self) -> Result<LocalPort, ApiError> {
        Ok(self.browser()?.port)
    }

    pub(crate) fn driver(&self) -> Result<LocalPort, ApiError> {
        let driver = self.driver.get().ok_or_else(|| ApiError::upstream("no driver is running"))?;
        Ok(driver.port)
    }

    pub(crate) fn bidi(&self, path: String) -> Result<Endpoint, ApiError> {
        Ok(self.endpoint(&*self.browser()?, self.driver()?, path))
    }

    /// A websocket of the browser or the driver. What a client says of locales, of holding targets and of downloads
    /// concerns the agent as well.
    fn endpoint(&self, browser: &Browser, port: LocalPort, path: String) -> Endpoint {
        let targets = Arc::clone(&browser.targets);
        let translator = Translator::new(Arc::clone(&targets), Arc::clone(&self.context_proxies));
        let client = Client::new(targets, translator, browser.cdp.clone());
        Endpoint { port, path, listener: Some(Box::new(client)) }
    }

    pub(crate) async fn before_command(&self, path: &str, body: &[u8]) -> Result<CommandVerdict, ApiError> {
        if file_input::sends_keys(path).is_some() {
            let refused = self.refuse_missing_file(path, body).await?;
            return Ok(refused.map_or(CommandVerdict::Passes, CommandVerdict::Answered));
        }
        if !DEVTOOLS_COMMANDS.iter().any(|end| path.ends_with(end)) {
            return Ok(CommandVerdict::Passes);
        }
        let has = |names: &[&[u8]]| names.iter().any(|name| memmem::find(body, name).is_some());
        if has(&SETS_LOCALE) {
            let browser = self.browser()?;
            browser.targets.yield_locale(&browser.cdp).await;
        }
        // Playwright's own server names files that are there.
        if !has(&TRANSLATED) && !has(&[translator::SET_FILES.as_bytes()]) {
            return Ok(CommandVerdict::Passes);
        }
        let translator = Translator::new(Arc::clone(&self.browser()?.targets), Arc::clone(&self.context_proxies));
        Ok(match translator.drivers_command(body).await {
            Translation::Same => CommandVerdict::Passes,
            Translation::Changed(command) => CommandVerdict::Changed(command.into()),
            Translation::NoFile(path) => CommandVerdict::Answered(file_input::not_found(&path)),
        })
    }
}

fn gone(error: CdpError) -> ApiError {
    ApiError::upstream(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fake::FakeBrowser;

    #[tokio::test]
    async fn a_drivers_commands_of_devtools_are_translated() {
        let home = tempfile::tempdir().unwrap();
        let worker = Worker::of_tests(home.path());
        let chromium = Chromium::new(Arc::clone(&worker));
        let (browser, _fake) = FakeBrowser::started(&worker).await;
        *chromium.browser.lock() = Some(Arc::new(browser));
        let body = |folder: &dyn AsRef<std::path::Path>| {
            let params = json!({"behavior": "allow", "downloadPath": folder.as_ref()});
            json!({"cmd": "Page.setDownloadBehavior", "params": params})
        };
        // Nobody can make a folder there.
        let foreign = body(&"/proc/none/Downloads").to_string();
        for path in ["goog/cdp/execute", "chromium/send_command", "chromium/send_command_and_get_result"] {
            let verdict = chromium.before_command(&format!("session/a/{path}"), foreign.as_bytes()).await.unwrap();
            let CommandVerdict::Changed(changed) = verdict else { panic!("{path}: it is not changed") };
            assert_eq!(serde_json::from_slice::<serde_json::Value>(&changed).unwrap(), body(&worker.files.downloads()));
        }
        for (path, said) in [
            ("goog/cdp/execute", r#"{"cmd": "Browser.getVersion", "params": {}}"#),
            ("goog/cdp/execute", "proxyServer"),
            ("execute/sync", foreign.as_str()),
        ] {
            let verdict = chromium.before_command(&format!("session/a/{path}"), said.as_bytes()).await.unwrap();
            assert!(matches!(verdict, CommandVerdict::Passes), "{path} {said}");
        }
    }
}
