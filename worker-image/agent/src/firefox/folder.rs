//! Firefox with a profile folder: started anew with one, and ended so that its files are whole.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::error::ApiError;

use super::{Firefox, profile};

/// How long the browser may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

impl Firefox {
    /// Makes a new profile, over which a folder can be unpacked.
    pub(crate) fn new_profile(&self) -> Result<PathBuf, ApiError> {
        let profile = self.profiles.next();
        profile::empty(&profile)?;
        Ok(profile)
    }

    /// Starts a browser like the warm one with this profile, in place of the warm one.
    pub(crate) async fn open_folder(&self, profile: PathBuf) -> Result<(), ApiError> {
        if let Ok(browser) = self.browser() {
            browser.process.retire().await;
        }
        self.profiles.keep_folder();
        self.start_in(profile, &[], &[]).await
    }

    /// Ends the browser, if it has not ended, and gives its profile.
    /// Fails when the browser crashed, or does not end: then its files may be torn.
    pub(crate) async fn close_browser(&self) -> Result<PathBuf, ApiError> {
        let browser = self.browser.lock().clone().ok_or_else(|| ApiError::upstream("no browser was started"))?;
        let quit = browser.control.call("quit", Value::Null);
        browser.process.end_cleanly(quit, END_TIMEOUT).await?;
        Ok(self.profiles.current())
    }
}
