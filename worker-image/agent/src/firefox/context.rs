//! A container of its own for each piece of work, which is what Firefox calls a user context.

use serde_json::Value;

use crate::error::ApiError;

use super::{Firefox, gone};

impl Firefox {
    pub(crate) async fn open_context(&self) -> Result<String, ApiError> {
        self.window_by("openContext").await
    }

    pub(crate) async fn open_window(&self) -> Result<String, ApiError> {
        self.window_by("openWindow").await
    }

    pub(crate) async fn close_context(&self) -> Result<(), ApiError> {
        self.browser()?.control.call("closeContext", Value::Null).await.map(drop).map_err(gone)
    }

    async fn window_by(&self, method: &str) -> Result<String, ApiError> {
        match self.browser()?.control.call(method, Value::Null).await.map_err(gone)? {
            Value::String(window) => Ok(window),
            _ => Err(ApiError::upstream("the browser named no window")),
        }
    }
}
