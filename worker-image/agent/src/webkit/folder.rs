//! WebKit with a profile folder: started anew with one, and ended so that its files are whole.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::ApiError;
use crate::folder::last_writes;

use super::shell::Shell;
use super::{Webkit, inspect};

/// How long the browser may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// What the kernel calls the process that writes what sites store. It ends after the browser.
const NETWORK_PROCESS: &str = "WebKitNetworkPr";

impl Webkit {
    /// Makes a new profile, over which a folder can be unpacked.
    pub(crate) fn new_profile(&self) -> Result<PathBuf, ApiError> {
        let profile = self.worker.home.join("webkit-folder");
        fs::create_dir_all(&profile)?;
        Ok(profile)
    }

    /// Starts a browser like the warm one with this profile, in place of the warm one.
    pub(crate) async fn open_folder(&self, profile: PathBuf) -> Result<(), ApiError> {
        let failed = |e: &dyn std::fmt::Display| ApiError::upstream(e.to_string());
        let running = self.running()?;
        self.shell()?.program.process.retire().await;
        let shell = Shell::start(&self.worker, &running.display, &profile).map_err(|e| failed(&e))?;
        shell.warm_up().await.map_err(|e| failed(&e))?;
        *self.profile.lock() = profile;
        let inspector = inspect().await.map_err(|e| failed(&e))?;
        self.install(shell, inspector).await.map_err(|e| failed(&e))
    }

    /// Ends the browser, if it has not ended, and gives its profile.
    /// Fails when the browser crashed, or does not end: then its files may be torn.
    pub(crate) async fn close_browser(&self) -> Result<PathBuf, ApiError> {
        let shell = self.shell.lock().clone().ok_or_else(|| ApiError::upstream("no browser was started"))?;
        shell.program.process.end_cleanly(shell.commands.quit(), END_TIMEOUT).await?;
        last_writes(NETWORK_PROCESS).await;
        Ok(self.profile.lock().clone())
    }
}
