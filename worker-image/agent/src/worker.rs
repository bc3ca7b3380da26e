//! What every part of a claimed worker shares.

use std::path::PathBuf;
use std::sync::Arc;

use warmpool_protocol::{Claim, Event};

use crate::files::Files;
use crate::oom;
use crate::process::{Process, Processes};
use crate::status::Status;
use crate::upstream::Upstream;

/// A claimed worker.
pub(crate) struct Worker {
    /// What the daemon asked for.
    pub(crate) claim: Claim,
    /// State and events.
    pub(crate) status: Arc<Status>,
    /// Child processes.
    pub(crate) processes: Processes,
    /// Uploads and downloads.
    pub(crate) files: Files,
    /// The home directory; profiles go below it.
    pub(crate) home: PathBuf,
    /// The client for browser and driver.
    pub(crate) upstream: Upstream,
}

impl Worker {
    /// Tells the daemon when the browser ends by itself.
    pub(crate) fn watch_browser(&self, process: &Process) {
        let (status, process, kills) = (Arc::clone(&self.status), process.clone(), oom::kills());
        tokio::spawn(async move {
            if let Some(exit) = process.ended_by_itself().await {
                status.exited(exit, oom::kills() > kills);
            }
        });
    }

    /// Tells the daemon when the driver ends.
    pub(crate) fn watch_driver(&self, process: &Process) {
        let (status, process) = (Arc::clone(&self.status), process.clone());
        tokio::spawn(async move {
            let exit = process.exited().await;
            tracing::warn!(code = exit.code, signal = exit.signal, "the driver has ended");
            status.publish(&Event::DriverExited);
        });
    }
}
