//! What Firefox keeps for sites, by a module of the browser's own side. Files carry it, since the channel has short lines.

use std::io::Write as _;

use serde_json::json;
use tokio::fs;
use warmpool_protocol::{StorageQuery, StorageState, longest_state};

use crate::error::ApiError;
use crate::plain_file;
use crate::storage::PAGE_SCRIPT;

use super::browser::Browser;
use super::{Firefox, gone};

/// The name of the file in the home directory.
const FILE: &str = "storage.json";

impl Firefox {
    /// Firefox reads all origins without visiting one.
    pub(crate) async fn read_storage(&self, query: StorageQuery) -> Result<StorageState, ApiError> {
        let StorageQuery { limit, time_ms, .. } = query;
        let _turn = self.storage_file.lock().await;
        let path = self.worker.home.join(FILE);
        let params = json!({"script": PAGE_SCRIPT.trim_end(), "limit": limit, "time": time_ms, "path": path});
        self.browser()?.control.call("readStorage", params).await.map_err(gone)?;
        let text = plain_file::read_async(path.clone(), longest_state(limit)).await;
        fs::remove_file(&path).await?;
        let text = text?;
        let unreadable = |error| ApiError::upstream(format!("what the browser keeps cannot be read: {error}"));
        serde_json::from_slice(&text).map_err(unreadable)
    }

    /// Puts a state into the browser, and into one that comes later. Returns what was left out.
    pub(crate) async fn write_storage(&self, state: StorageState) -> Result<Vec<String>, ApiError> {
        let left_out = self.give_storage(&*self.browser()?, &state).await?;
        let _ = self.wanted.storage.set(state);
        Ok(left_out)
    }

    pub(super) async fn give_storage(&self, browser: &Browser, state: &StorageState) -> Result<Vec<String>, ApiError> {
        let _turn = self.storage_file.lock().await;
        let path = self.worker.home.join(FILE);
        let text = serde_json::to_vec(state).map_err(|error| ApiError::internal(error.to_string()))?;
        plain_file::create(&path)?.write_all(&text)?;
        let params = json!({"script": PAGE_SCRIPT.trim_end(), "path": path});
        let done = browser.control.call("writeStorage", params).await;
        fs::remove_file(&path).await?;
        serde_json::from_value(done.map_err(gone)?).map_err(|error| ApiError::upstream(error.to_string()))
    }
}
