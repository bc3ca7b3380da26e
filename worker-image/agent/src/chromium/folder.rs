//! Chromium with a profile folder: started anew with one, and ended so that its files are whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use warmpool_protocol::folder::{PREFERENCES, kept_preferences};

use crate::error::ApiError;

use super::browser::{Browser, POLL_INTERVAL};
use super::{Chromium, profile, switches};

/// How long the browser may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long its other processes may take after it: one of them writes cookies.
const LAST_WRITES: Duration = Duration::from_secs(3);
/// What the kernel calls its processes.
const PROCESS: &str = "chromium";
/// Scripts that a folder says are compiled already are compiled again: machine code is nothing that a client may bring.
pub(super) const NO_COMPILED_SCRIPTS: &str = "--v8-cache-options=none";

impl Chromium {
    /// Makes a new profile, over which a folder can be unpacked.
    pub(crate) fn new_profile(&self) -> Result<PathBuf, ApiError> {
        let profile = self.next_profile();
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
        *self.profile.lock() = profile;
        self.has_folder.store(true, Ordering::Relaxed);
        self.install(browser).await
    }

    /// Ends the browser, if it has not ended, and gives its profile.
    /// Fails when the browser crashed, or does not end: then its files may be torn.
    pub(crate) async fn close_browser(&self) -> Result<PathBuf, ApiError> {
        let browser = self.browser.lock().clone().ok_or_else(|| ApiError::upstream("no browser was started"))?;
        let close = browser.cdp.call(None, "Browser.close", json!({}));
        browser.process.end_cleanly(close, END_TIMEOUT).await?;
        let until = Instant::now() + LAST_WRITES;
        while Instant::now() < until && has_processes() {
            sleep(POLL_INTERVAL).await;
        }
        Ok(self.profile.lock().clone())
    }
}

/// What visitors have allowed sites, as a preference that a driver writes. The browser of the profile has ended.
pub(super) fn allowed_by_visitors(profile: &Path) -> Value {
    let kept = fs::read(profile.join(PREFERENCES)).map(|text| kept_preferences(&text)).unwrap_or_default();
    kept["profile"]["content_settings"]["exceptions"].clone()
}

/// Whether a process of some browser still runs.
fn has_processes() -> bool {
    let runs = |folder: &Path| {
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
        name.is_some_and(|(name, state)| name == PROCESS && !state.trim_start().starts_with(['Z', 'X']))
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| runs(&entry.path()))
}
