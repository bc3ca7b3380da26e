//! Extensions of a session, loaded over DevTools.

use std::path::PathBuf;

use serde_json::json;

use crate::cdp::CdpError;
use crate::error::ApiError;
use crate::extensions::not_loaded;

use super::browser::Browser;
use super::{Chromium, gone};

impl Chromium {
    /// Loads the extensions in these folders, into this browser and each that comes later.
    pub(crate) async fn load_extensions(&self, folders: Vec<PathBuf>) -> Result<(), ApiError> {
        load(&*self.browser()?, &folders).await?;
        let _ = self.wanted.extensions.set(folders);
        Ok(())
    }
}

/// Loads the extensions into a browser. Their content scripts are in each page that opens after that.
pub(super) async fn load(browser: &Browser, folders: &[PathBuf]) -> Result<(), ApiError> {
    for (index, folder) in folders.iter().enumerate() {
        // A fresh context of a client's has them as well.
        let params = json!({"path": folder, "enableInIncognito": true});
        match browser.cdp.call(None, "Extensions.loadUnpacked", params).await {
            Ok(_) => {}
            Err(CdpError::Refused(reason)) => return Err(not_loaded(index, folder, &reason)),
            Err(error) => return Err(gone(error)),
        }
    }
    Ok(())
}
