//! Extensions of a session, loaded for as long as a browser runs.

use std::path::PathBuf;

use serde_json::json;

use crate::error::ApiError;
use crate::extensions::not_loaded;

use super::browser::Browser;
use super::control::ControlError;
use super::{Firefox, gone};

impl Firefox {
    /// Loads the extensions in these archives, into this browser and each that comes later.
    pub(crate) async fn load_extensions(&self, archives: Vec<PathBuf>) -> Result<(), ApiError> {
        load(&*self.browser()?, &archives).await?;
        let _ = self.wanted.extensions.set(archives);
        Ok(())
    }
}

/// Loads the extensions into a browser. Their content scripts are in each page that opens after that.
pub(super) async fn load(browser: &Browser, archives: &[PathBuf]) -> Result<(), ApiError> {
    for (index, archive) in archives.iter().enumerate() {
        match browser.control.call("loadExtension", json!({"path": archive})).await {
            Ok(_) => {}
            Err(ControlError::Refused(reason)) => return Err(not_loaded(index, archive, &reason)),
            Err(error) => return Err(gone(error)),
        }
    }
    Ok(())
}
