//! What a session wants of its browser, for one that comes later: a driver may start another in its place.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use warmpool_protocol::{Settings, StorageState};

use crate::captchas::Captchas;

/// What each browser of a session gets. `B` is that by which its engine blocks ads.
pub(crate) struct Wanted<B> {
    /// What pages see.
    pub(crate) settings: Mutex<Settings>,
    /// By what ads are blocked.
    pub(crate) ad_blocker: OnceLock<B>,
    /// The challenges of pages.
    pub(crate) captchas: OnceLock<Arc<Captchas>>,
    /// Where its extensions are, in the form that the engine takes.
    pub(crate) extensions: OnceLock<Vec<PathBuf>>,
    /// What the session began with.
    pub(crate) storage: OnceLock<StorageState>,
}

impl<B> Default for Wanted<B> {
    fn default() -> Self {
        Self {
            settings: Mutex::default(),
            ad_blocker: OnceLock::new(),
            captchas: OnceLock::new(),
            extensions: OnceLock::new(),
            storage: OnceLock::new(),
        }
    }
}
