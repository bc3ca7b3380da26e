//! The seam between the agent and the browser engine of its image.
//!
//! Everything outside the engines' own files speaks to a browser through [`Engine`] only. Another
//! engine is another variant and another file beside `chromium`, `firefox` and `webkit`. CONTRIBUTING.md lists what it touches
//! elsewhere.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use serde_json::Value;
use warmpool_protocol::folder::FolderEngine;
use warmpool_protocol::{
    Identity, NewDriverSession, Page, PageAction, PlaywrightLaunch, Settings, Size, StorageQuery, StorageState,
};

use crate::ads::AdRules;
use crate::attach::Endpoint;
use crate::body::Body;
use crate::captchas::Captchas;
use crate::chromium::{Chromium, playwright};
use crate::display::Display;
use crate::error::{ApiError, BootError};
use crate::extensions::ExtensionForm;
use crate::firefox::{self, Firefox};
use crate::ports::LocalPort;
use crate::webkit::Webkit;
use crate::worker::Worker;

/// Refuses capabilities of any other form than `{"alwaysMatch": {…}, "firstMatch": [{…}, …]}`: unchecked members must not
/// reach a driver.
fn check_form(capabilities: &Value) -> Result<(), ApiError> {
    let wrong =
        || ApiError::bad_request("capabilities: alwaysMatch must be an object and firstMatch a list of objects");
    let is_object = |value: &Value| value.is_null() || value.is_object();
    for (name, value) in capabilities.as_object().ok_or_else(wrong)? {
        let holds = match name.as_str() {
            "alwaysMatch" => is_object(value),
            "firstMatch" => value.is_null() || value.as_array().is_some_and(|list| list.iter().all(is_object)),
            _ => false,
        };
        if !holds {
            return Err(wrong());
        }
    }
    Ok(())
}

/// Names the engine an image is made for; set in its Dockerfile.
const VARIABLE: &str = "WARMPOOL_ENGINE";
/// What the agent says of pages that the daemon finds by itself.
const PAGES_BY_DEVTOOLS: &str = "Chromium reports its pages over DevTools";

/// The engine this image is made for.
#[derive(Clone)]
pub(crate) enum Engine {
    /// Chromium with chromedriver.
    Chromium(Arc<Chromium>),
    /// Firefox with geckodriver.
    Firefox(Arc<Firefox>),
    /// WebKitGTK with WebKitWebDriver.
    Webkit(Arc<Webkit>),
}

/// What becomes of a client's command for the driver.
pub(crate) enum CommandVerdict {
    /// The driver gets it.
    Passes,
    /// The driver gets this body in the place of its own.
    Changed(Bytes),
    /// This answer takes the driver's place.
    Answered(Response<Body>),
}

/// The same expression for whichever engine there is.
macro_rules! each {
    ($engine:expr, $it:ident => $does:expr) => {
        match $engine {
            Self::Chromium($it) => $does,
            Self::Firefox($it) => $does,
            Self::Webkit($it) => $does,
        }
    };
}

impl Engine {
    /// The engine of this image, not started yet.
    /// Fails when the image names none that the agent knows.
    pub(crate) fn new(worker: Arc<Worker>) -> Result<Self, ApiError> {
        match std::env::var(VARIABLE).unwrap_or_default().as_str() {
            "chromium" => Ok(Self::Chromium(Arc::new(Chromium::new(worker)))),
            "firefox" => Ok(Self::Firefox(Arc::new(Firefox::new(worker)))),
            "webkit" => Ok(Self::Webkit(Arc::new(Webkit::new(worker)))),
            other => Err(ApiError::internal(format!("{VARIABLE}: no engine is called {other:?}"))),
        }
    }

    /// Starts everything; done when a page can be driven. Ends of the browser go to the status
    /// from then on.
    pub(crate) async fn boot(&self) -> Result<Identity, BootError> {
        each!(self, engine => engine.boot().await)
    }

    /// Makes the settings true in every page there is and in every later one, for a client of that kind.
    /// Returns what holds only in part.
    pub(crate) async fn apply(&self, settings: Settings) -> Result<Vec<String>, ApiError> {
        each!(self, engine => engine.apply(settings).await)
    }

    /// The display, where the browser draws to one.
    pub(crate) fn display(&self) -> Option<&Display> {
        each!(self, engine => engine.display())
    }

    /// Shows pages of that size on a display, without the browser's own bars.
    pub(crate) async fn show_pages_alone(&self, page: Size) -> Result<(), ApiError> {
        match self {
            Self::Chromium(engine) => engine.show_pages_alone(page).await,
            Self::Firefox(engine) => engine.show_pages_alone(page).await,
            // Its windows have no bars, and fill the display.
            Self::Webkit(_) => Ok(()),
        }
    }

    /// Blocks ads in every page there is and in every later one.
    pub(crate) async fn block_ads(&self, rules: AdRules) -> Result<(), ApiError> {
        each!(self, engine => engine.block_ads(rules).await)
    }

    /// The rules of ads as this browser has compiled them, for others of its version: once, since they are large.
    pub(crate) fn compiled_ads(&self) -> Result<Bytes, ApiError> {
        match self {
            Self::Webkit(engine) => engine.compiled_ads(),
            Self::Chromium(_) | Self::Firefox(_) => Err(ApiError::not_found("this engine compiles no rules")),
        }
    }

    /// Reports challenges in every page there is and in every later one.
    pub(crate) async fn watch_captchas(&self, captchas: Arc<Captchas>) -> Result<(), ApiError> {
        each!(self, engine => engine.watch_captchas(captchas).await)
    }

    /// Writes into the worker's log what happens in the browser. Of Chromium the daemon hears that by DevTools.
    pub(crate) async fn keep_log(&self) -> Result<(), ApiError> {
        match self {
            Self::Firefox(engine) => engine.keep_log().await,
            Self::Webkit(engine) => engine.keep_log().await,
            // The daemon listens to it by DevTools.
            Self::Chromium(_) => Ok(()),
        }
    }

    /// Whether the daemon listens to the browser itself for a log.
    pub(crate) const fn is_listened_to(&self) -> bool {
        matches!(self, Self::Chromium(_))
    }

    /// Reads what the browser keeps for sites, as long as no origin has more bytes than `limit`: of all origins, or only of
    /// those that a tab shows.
    pub(crate) async fn read_storage(&self, query: StorageQuery) -> Result<StorageState, ApiError> {
        each!(self, engine => engine.read_storage(query).await)
    }

    /// Puts a state into the browser, before its first page. Returns what was left out, each as a sentence.
    pub(crate) async fn write_storage(&self, state: StorageState) -> Result<Vec<String>, ApiError> {
        each!(self, engine => engine.write_storage(state).await)
    }

    /// How it takes extensions.
    /// Fails for an engine that has none.
    pub(crate) fn extension_form(&self) -> Result<ExtensionForm, ApiError> {
        match self {
            Self::Chromium(_) => Ok(ExtensionForm::Folder),
            Self::Firefox(_) => Ok(ExtensionForm::Archive),
            Self::Webkit(_) => Err(ApiError::not_supported("extension_ids: WebKit loads no extensions")),
        }
    }

    /// Loads extensions, in the form that it takes, into this browser and each that comes later.
    pub(crate) async fn load_extensions(&self, extensions: Vec<PathBuf>) -> Result<(), ApiError> {
        match self {
            Self::Chromium(engine) => engine.load_extensions(extensions).await,
            Self::Firefox(engine) => engine.load_extensions(extensions).await,
            Self::Webkit(_) => self.extension_form().map(drop),
        }
    }

    /// The engine as profile folders name it.
    pub(crate) const fn folder_engine(&self) -> FolderEngine {
        match self {
            Self::Chromium(_) => FolderEngine::Chromium,
            Self::Firefox(_) => FolderEngine::Firefox,
            Self::Webkit(_) => FolderEngine::Webkit,
        }
    }

    /// Makes a new profile, over which a folder can be unpacked.
    pub(crate) fn new_profile(&self) -> Result<PathBuf, ApiError> {
        each!(self, engine => engine.new_profile())
    }

    /// Starts a browser with this profile in place of the warm one.
    pub(crate) async fn open_folder(&self, profile: PathBuf) -> Result<(), ApiError> {
        each!(self, engine => engine.open_folder(profile).await)
    }

    /// Ends the browser so that its files are whole, and gives its profile.
    /// Fails when the browser crashed, or does not end.
    pub(crate) async fn close_browser(&self) -> Result<PathBuf, ApiError> {
        each!(self, engine => engine.close_browser().await)
    }

    /// Clients that attach from now on wait for the first page, until [`Engine::navigate`] is done.
    pub(crate) fn expect_first_page(&self) {
        if let Self::Chromium(engine) = self {
            engine.expect_first_page();
        }
    }

    /// Opens a page in the first tab. Returns why it did not load, if it did not.
    pub(crate) async fn navigate(&self, url: &str) -> Result<Option<String>, ApiError> {
        each!(self, engine => engine.navigate(url).await)
    }

    /// Waits for any sign of life of the browser.
    pub(crate) async fn ping(&self) {
        each!(self, engine => engine.ping().await);
    }

    /// Its pages, the one in front first.
    pub(crate) async fn pages(&self) -> Result<Vec<Page>, ApiError> {
        match self {
            Self::Chromium(_) => Err(ApiError::not_found(PAGES_BY_DEVTOOLS)),
            Self::Firefox(engine) => engine.pages().await,
            Self::Webkit(engine) => engine.pages().await,
        }
    }

    /// Does something to a page; `false` when there is no such page.
    pub(crate) async fn act(&self, page: &str, action: &PageAction) -> Result<bool, ApiError> {
        match self {
            Self::Chromium(_) => Err(ApiError::not_found(PAGES_BY_DEVTOOLS)),
            Self::Firefox(engine) => engine.act(page, action).await,
            Self::Webkit(engine) => engine.act(page, action).await,
        }
    }

    /// The websocket of that path below `/devtools/`, or the one a client attaches to without a path: DevTools of
    /// the browser, WebDriver BiDi, or WebKit's inspector.
    pub(crate) fn devtools(&self, path: Option<&str>) -> Result<Endpoint, ApiError> {
        each!(self, engine => engine.devtools(path))
    }

    /// Fails when this image has no server of that version.
    pub(crate) fn check_playwright(&self, wanted: &PlaywrightLaunch) -> Result<(), ApiError> {
        match self {
            Self::Chromium(_) => playwright::check(wanted),
            Self::Firefox(_) | Self::Webkit(_) => Err(ApiError::not_supported(playwright::OTHER_ENGINE)),
        }
    }

    /// Starts Playwright's own server over the browser.
    pub(crate) async fn start_playwright(&self, wanted: PlaywrightLaunch) -> Result<(), ApiError> {
        match self {
            Self::Chromium(engine) => engine.start_playwright(wanted).await,
            Self::Firefox(_) | Self::Webkit(_) => Err(ApiError::not_supported(playwright::OTHER_ENGINE)),
        }
    }

    /// The websocket of that server.
    /// Fails when none was started.
    pub(crate) fn playwright(&self) -> Result<Endpoint, ApiError> {
        match self {
            Self::Chromium(engine) => engine.playwright(),
            Self::Firefox(_) | Self::Webkit(_) => Err(ApiError::not_found(playwright::OTHER_ENGINE)),
        }
    }

    /// The browser's debugging port.
    pub(crate) fn debugging(&self) -> Result<LocalPort, ApiError> {
        match self {
            Self::Chromium(engine) => engine.debugging(),
            Self::Firefox(_) => Err(ApiError::not_found(firefox::NO_TARGETS)),
            Self::Webkit(engine) => engine.debugging(),
        }
    }

    pub(crate) fn driver(&self) -> Result<LocalPort, ApiError> {
        each!(self, engine => engine.driver())
    }

    /// The driver's websocket of that path and query.
    pub(crate) fn bidi(&self, path: String) -> Result<Endpoint, ApiError> {
        match self {
            Self::Chromium(engine) => engine.bidi(path),
            Self::Firefox(engine) => engine.bidi(path),
            Self::Webkit(_) => Err(ApiError::not_found("WebKitGTK's driver does not speak WebDriver BiDi")),
        }
    }

    /// Called with path and body of a command that passes the agent, which waits until this is done.
    pub(crate) async fn before_command(&self, path: &str, body: &[u8]) -> Result<CommandVerdict, ApiError> {
        match self {
            Self::Chromium(engine) => engine.before_command(path, body).await,
            Self::Firefox(_) => Ok(CommandVerdict::Passes),
            Self::Webkit(engine) => engine.before_command().await.map(|()| CommandVerdict::Passes),
        }
    }

    /// Opens a window in a browser context of its own, which shares nothing with other windows. Returns its WebDriver handle.
    /// There is one such context at a time.
    pub(crate) async fn open_context(&self) -> Result<String, ApiError> {
        match self {
            Self::Chromium(engine) => engine.open_context().await,
            Self::Firefox(engine) => engine.open_context().await,
            Self::Webkit(_) => Err(ApiError::not_found("WebKit has no browser contexts")),
        }
    }

    /// Opens another window in that context.
    pub(crate) async fn open_window(&self) -> Result<String, ApiError> {
        match self {
            Self::Chromium(engine) => engine.open_window().await,
            Self::Firefox(engine) => engine.open_window().await,
            Self::Webkit(_) => Err(ApiError::not_found("WebKit has no browser contexts")),
        }
    }

    /// Closes that context with its windows, and forgets what it kept.
    pub(crate) async fn close_context(&self) -> Result<(), ApiError> {
        match self {
            Self::Chromium(engine) => engine.close_context().await,
            Self::Firefox(engine) => engine.close_context().await,
            Self::Webkit(_) => Ok(()),
        }
    }

    /// Opens a WebDriver session and returns what the driver answers.
    /// Fails when the capabilities have not the form in which the engines look through them, or nothing answers.
    pub(crate) async fn new_session(&self, wanted: NewDriverSession) -> Result<Response<Body>, ApiError> {
        check_form(&wanted.capabilities)?;
        let worker = each!(self, engine => engine.worker());
        if !worker.take_driver() {
            let started = each!(self, engine => engine.start_driver().await);
            started.map_err(|error| ApiError::upstream(error.to_string()))?;
        }
        each!(self, engine => engine.new_session(wanted).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn capabilities_of_another_form_are_refused() {
        for right in [
            json!({}),
            json!({"alwaysMatch": {"a:b": 1}, "firstMatch": [{}, {"a:c": 2}]}),
            json!({"alwaysMatch": null, "firstMatch": null}),
        ] {
            assert!(check_form(&right).is_ok(), "{right}");
        }
        for wrong in [
            json!(null),
            json!([]),
            json!({"alwaysMatch": []}),
            json!({"firstMatch": {}}),
            json!({"firstMatch": [[]]}),
            json!({"desiredCapabilities": {}}),
            json!({"AlwaysMatch": {}}),
        ] {
            assert!(check_form(&wrong).is_err(), "{wrong}");
        }
    }
}
