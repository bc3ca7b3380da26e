//! What every part of a claimed worker shares.

use std::path::PathBuf;
use std::sync::Arc;

use warmpool_protocol::Claim;

use crate::board::Board;
use crate::files::Files;
use crate::process::Processes;
use crate::upstream::Upstream;

/// A claimed worker.
pub(crate) struct Worker {
    /// What the daemon asked for.
    pub(crate) claim: Claim,
    /// State and events.
    pub(crate) board: Arc<Board>,
    /// Child processes.
    pub(crate) processes: Processes,
    /// Uploads and downloads.
    pub(crate) files: Files,
    /// The home directory; profiles go below it.
    pub(crate) home: PathBuf,
    /// The client for browser and driver.
    pub(crate) upstream: Upstream,
}
