//! A browser that somebody drives step by step, and looks at in between: an agent, above all.
//!
//! It acts on the same page by the same steps as a task. What a task does not need is here: `reference` knows elements
//! again that were shown, `snapshot` shows them, `input` acts on them, `tabs` has tabs and dialogs, `capture` what is read
//! from a page.

mod capture;
mod error;
mod input;
mod reference;
mod snapshot;
mod tabs;

use std::sync::Arc;
use std::time::Duration;

use fantoccini::error::CmdError;
use fantoccini::wd::WindowHandle;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

pub use capture::{Picture, PictureFormat, PicturePart};
pub use error::ControlError;
pub use input::{Button, FieldKind, FormField, Modifier};
pub use snapshot::PageSnapshot;
pub use tabs::TabEntry;

use self::reference::References;
use super::browser::{Browser, DriverCommand, Timeouts};
use super::navigation;
use super::page::{DocumentState, Page, understand};
use super::playback::StepTimeout;
use crate::script::step;
use crate::script::{FailureCode, StepError};
use warmpool_config::Config;
use warmpool_sessions::session::{Session, Sessions};

/// The functions that scripts call, beside those of `page.js`.
const FUNCTIONS: &str = include_str!("control/control.js");
/// How long a page must be quiet after an action, which it may answer late, and after it has come; in milliseconds.
const QUIET: u64 = 120;
const QUIET_OPENED: u64 = 20;
/// How long that is waited for.
const SETTLE: Duration = Duration::from_millis(1500);
/// How long a page that is there may take to load the rest.
const LOAD: Duration = Duration::from_secs(3);
/// Between two looks at a page that changes.
const LOOK: Duration = Duration::from_millis(50);

/// How far the one who drives may go.
#[derive(Debug, Clone, Copy)]
pub struct ControlLimits {
    /// Time for an action on a page.
    pub action: Duration,
    /// Time for a page to come, and for what is waited for.
    pub navigation: Duration,
    /// The most bytes of an answer.
    pub max_answer: u64,
    /// The most elements of a snapshot.
    pub max_elements: usize,
}

/// Where a tab is.
#[derive(Debug, Clone, Default)]
pub struct PageLocation {
    /// The page's address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// When its document began, in Unix milliseconds by the browser's clock. No two in one tab began at the same moment.
    pub origin: f64,
}

impl From<DocumentState> for PageLocation {
    fn from(state: DocumentState) -> Self {
        Self { url: state.href, title: state.title, origin: state.origin }
    }
}

/// A browser under control. Dropping it leaves the session alone.
pub struct Control {
    browser: Browser,
    page: Page,
    limits: ControlLimits,
    window: WindowHandle,
    references: References,
    /// Whether keys may be held down.
    holds_keys: bool,
    /// The file input whose chooser would be open in front of a person, by its reference.
    chooser: Option<Value>,
}

impl Control {
    /// Takes the browser of a session, which nobody else drives.
    /// Errors: `Failed` when its driver makes no session.
    pub async fn open(
        sessions: &Sessions,
        session: &Arc<Session>,
        config: &Arc<Config>,
        limits: ControlLimits,
    ) -> Result<Self, ControlError> {
        let browser = Browser::new(sessions.clone(), Arc::clone(session), Arc::clone(config)).watched();
        let mut page = Page::open(&browser, limits.navigation, limits.max_answer).await?;
        let window = page.window().await?;
        Ok(Self { browser, page, limits, window, references: References::default(), holds_keys: false, chooser: None })
    }

    /// Goes back to the chosen tab, if something that was given up half-way has left the driver elsewhere or keys held down. Whoever
    /// may give up what they do calls it before they do something else.
    pub async fn regain(&mut self) -> Result<(), ControlError> {
        if self.page.here.as_ref() != Some(&self.window) {
            match self.page.switch_to(self.window.clone()).await {
                // The page has closed it.
                Err(error) if error.code == FailureCode::NoMatch => self.find_window().await?,
                switched => switched?,
            }
        }
        // A dialog may be in the way, and then the next call tries again.
        if self.holds_keys && self.command(DriverCommand::delete("actions")).await.is_ok() {
            self.holds_keys = false;
        }
        Ok(())
    }

    /// Opens an address, and waits until the page is there.
    /// Errors: `Failed`, with the reason and its remedy.
    pub async fn navigate(&mut self, url: &str) -> Result<(), ControlError> {
        let url = step::page("url", url.to_owned()).map_err(|error| ControlError::failed(error.to_string()))?;
        self.ready().await?;
        self.chooser = None;
        let opened = navigation::open(&mut self.page, &url).await;
        self.settled(opened, QUIET_OPENED).await
    }

    /// Goes back to the page before.
    pub async fn back(&mut self) -> Result<(), ControlError> {
        self.ready().await?;
        self.chooser = None;
        let gone = self.page.client.back().await.map_err(StepError::from);
        self.settled(gone, QUIET_OPENED).await
    }

    /// Where the page is, as far as it can be asked.
    pub async fn place(&mut self) -> PageLocation {
        self.page.any_document_state().await.map(PageLocation::from).unwrap_or_default()
    }

    /// Waits for a text to come or to go.
    /// Errors: `Failed` when it did not in time.
    pub async fn wait_for(&mut self, text: &str, wants: bool) -> Result<(), ControlError> {
        #[derive(Deserialize)]
        struct Shown {
            shows: bool,
        }
        self.ready().await?;
        let until = Instant::now() + self.limits.navigation;
        loop {
            match self.call::<Shown>("shows", vec![json!(text)]).await {
                Ok(shown) if shown.shows == wants => return Ok(()),
                Err(error) if !error.is_passing || self.dialog().await.is_some() => return Err(self.why(error).await),
                // A page may leave, or be busy, while it is looked at.
                _ => {}
            }
            if Instant::now() >= until {
                let what = if wants { "did not come" } else { "did not go" };
                let after = self.limits.navigation.as_secs();
                return Err(ControlError::failed(format!(
                    "the text {text:?} {what} within {after} s: look at the page by browser_snapshot"
                )));
            }
            sleep(LOOK * 2).await;
        }
    }

    /// The value of a function in the page; it gets the element, where one is named. Longer ones are refused.
    pub async fn evaluate(&mut self, function: &str, target: Option<&str>) -> Result<Value, ControlError> {
        self.ready().await?;
        let element = match target {
            None => Value::Null,
            Some(target) => self.resolve(target).await?.handle,
        };
        let script = format!(
            "const given = arguments[0], done = arguments[arguments.length - 1]; (async () => {{ const it = (\n{function}\n); \
             return typeof it === 'function' ? await it(given ?? undefined) : it; }})()\
             .then((value) => done({{value: value === undefined ? null : value}}), \
             (why) => done({{threw: String(why).slice(0, 600)}}))"
        );
        self.page
            .set_each_timeout(Timeouts { page_load: self.limits.navigation, script: self.limits.navigation })
            .await?;
        let answer = self.page.client.execute_async(&script, vec![element]).await.map_err(StepError::from);
        match answer {
            Ok(mut answer) => match answer["threw"].take() {
                Value::String(words) => Err(ControlError::failed(format!("the function failed: {words}"))),
                _ => Ok(answer["value"].take()),
            },
            Err(error) => Err(self.why(error).await),
        }
    }

    /// Waits until the page has loaded and stands still for `quiet` milliseconds.
    async fn settle(&mut self, quiet: u64) {
        let most = SETTLE + LOAD;
        let until = Instant::now() + most;
        while Instant::now() < until {
            let arguments = vec![json!(quiet), json!(SETTLE.as_millis()), json!(LOAD.as_millis())];
            match timeout(most + LOOK, self.call_async::<Value>("settle", arguments)).await {
                Ok(Err(error)) if error.is_passing && self.dialog().await.is_none() => sleep(LOOK).await,
                _ => return,
            }
        }
    }

    /// Lets commands reach the tab that is chosen, if no dialog is in the way.
    async fn ready(&mut self) -> Result<(), ControlError> {
        let mut asked = self.page.client.get_alert_text().await;
        if asked.as_ref().is_err_and(CmdError::is_no_such_window) {
            self.find_window().await?;
            asked = self.page.client.get_alert_text().await;
        }
        if let Some(message) = dialog_text(asked) {
            return Err(ControlError::Dialog { message });
        }
        self.prepare().await?;
        Ok(())
    }

    /// Leaves all frames, and makes the driver wait as long as each command may take.
    async fn prepare(&mut self) -> Result<(), StepError> {
        self.page.leave_frames().await?;
        let ControlLimits { navigation, action, .. } = self.limits;
        self.page.set_each_timeout(Timeouts { page_load: navigation, script: action }).await
    }

    /// The text of the dialog that the page shows.
    async fn dialog(&self) -> Option<String> {
        dialog_text(self.page.client.get_alert_text().await)
    }

    /// What came of an action. One that led to a dialog is done: it waits for an answer.
    async fn acted(&mut self, done: Result<(), StepError>) -> Result<(), ControlError> {
        self.settled(done, QUIET).await
    }

    /// The same, where the page is to be quiet for so many milliseconds.
    async fn settled(&mut self, done: Result<(), StepError>, quiet: u64) -> Result<(), ControlError> {
        match done {
            Ok(()) => {}
            Err(_) if self.dialog().await.is_some() => return Ok(()),
            Err(error) => return Err(self.why(error).await),
        }
        self.settle(quiet).await;
        Ok(())
    }

    /// Why something failed, in words that say what to do.
    async fn why(&mut self, error: StepError) -> ControlError {
        if error.code == FailureCode::BrowserDied {
            return error.into();
        }
        if let Some(message) = self.dialog().await {
            return ControlError::Dialog { message };
        }
        self.page.explained(error).await.into()
    }

    fn timeout(&self) -> StepTimeout {
        StepTimeout::start(self.limits.action)
    }

    /// Calls a function of `control.js`.
    async fn call<T: DeserializeOwned>(&self, function: &str, arguments: Vec<Value>) -> Result<T, StepError> {
        self.page.script(FUNCTIONS, &format!("return control.{function}(...arguments);"), arguments).await
    }

    /// Calls a function of `control.js` that promises its answer.
    async fn call_async<T: DeserializeOwned>(&self, function: &str, arguments: Vec<Value>) -> Result<T, StepError> {
        let script = format!(
            "{}\n{FUNCTIONS}\nconst done = arguments[arguments.length - 1]; \
             control.{function}(...[...arguments].slice(0, -1)).then(done, () => done({{}}));",
            super::page::FUNCTIONS
        );
        understand(self.page.client.execute_async(&script, arguments).await)
    }

    /// Sends a command of the driver's own.
    async fn command(&self, command: DriverCommand) -> Result<Value, StepError> {
        Ok(self.page.client.issue_cmd(command).await?)
    }
}

/// The text of a dialog, where the driver was asked for it.
fn dialog_text(asked: Result<String, CmdError>) -> Option<String> {
    match asked {
        Ok(text) => Some(text.chars().take(2000).collect()),
        // One without a text is one as well.
        Err(CmdError::NotW3C(_)) => Some(String::new()),
        Err(_) => None,
    }
}
