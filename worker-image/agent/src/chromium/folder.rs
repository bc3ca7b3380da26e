//! Chromium with a profile folder: started anew with one, and ended so that its files are whole.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use warmpool_protocol::folder::{MAX_PREFERENCES, PREFERENCES, kept_preferences};

use crate::error::ApiError;
use crate::folder::last_writes;
use crate::plain_file;

use super::browser::Browser;
use super::{Chromium, profile, switches};

/// How long the browser may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// What the kernel calls its processes: one of them writes cookies, and ends after the browser.
const PROCESS: &str = "chromium";
/// Scripts that a folder says are compiled already are compiled again: machine code is nothing that a client may bring.
pub(super) const NO_COMPILED_SCRIPTS: &str = "--v8-cache-options=none";

impl Chromium {
    /// Makes a new profile, over which a folder can be unpacked.
    pub(crate) fn new_profile(&self) -> Result<PathBuf, ApiError> {
        let profile = self.profiles.next();
        profile::make(&profile, &self.worker.files.downloads())?;
        Ok(profile)
    }

    /// Starts a browser like the warm one with this profile, in place of the warm one.
    pub(crate) async fn open_folder(&self, profile: PathBuf) -> Result<(), ApiError> {
        let failed = |e: &dyn std::fmt::Display| ApiError::upstream(e.to_string());
        if let Ok(browser) = self.browser() {
            browser.process.retire().await;
        }
        let mut switches = switches::base(&self.worker.claim);
        switches.push(NO_COMPILED_SCRIPTS.to_owned());
        let browser = Browser::start_in(&self.worker, &switches, &profile, &self.environment()).await;
        let browser = browser.map_err(|e| failed(&e))?;
        browser.prepare(self.window()).await.map_err(|e| failed(&e))?;
        self.profiles.set_current(profile);
        self.profiles.keep_folder();
        self.install(browser).await
    }

    /// Ends the browser, if it has not ended, and gives its profile.
    /// Fails when the browser crashed, or does not end: then its files may be torn.
    pub(crate) async fn close_browser(&self) -> Result<PathBuf, ApiError> {
        let browser = self.browser.lock().clone().ok_or_else(|| ApiError::upstream("no browser was started"))?;
        let close = browser.cdp.call(None, "Browser.close", json!({}));
        browser.process.end_cleanly(close, END_TIMEOUT).await?;
        last_writes(PROCESS).await;
        Ok(self.profiles.current())
    }
}

/// What visitors have allowed sites, as a preference that a driver writes. The browser of the profile has ended.
pub(super) fn allowed_by_visitors(profile: &Path) -> Value {
    let kept = plain_file::read(&profile.join(PREFERENCES), MAX_PREFERENCES);
    let kept = kept.map(|text| kept_preferences(&text)).unwrap_or_default();
    kept["profile"]["content_settings"]["exceptions"].clone()
}
