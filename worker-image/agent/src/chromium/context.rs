//! A browser context of its own for each piece of work, over the agent's connection: to Chromium it is another profile,
//! which is never written to the disk.

use serde_json::{Value, json};

use crate::cdp::CdpError;
use crate::error::ApiError;

use super::browser::Browser;
use super::{Chromium, gone};

impl Chromium {
    pub(crate) async fn open_context(&self) -> Result<String, ApiError> {
        let browser = self.browser()?;
        let mut context = self.context.lock().await;
        let made = browser.cdp.call(None, "Target.createBrowserContext", json!({})).await.map_err(gone)?;
        let id = text(&made, "browserContextId").map_err(gone)?;
        // From here on it is closed, whatever comes.
        *context = Some(id.clone());
        browser.targets.downloads.watch_context(&browser.cdp, &id).await.map_err(gone)?;
        browser.open_window(&id).await.map_err(gone)
    }

    pub(crate) async fn open_window(&self) -> Result<String, ApiError> {
        let browser = self.browser()?;
        let context = self.context.lock().await;
        let id = context.as_ref().ok_or_else(|| ApiError::conflict("no_context", "no context is open"))?;
        browser.open_window(id).await.map_err(gone)
    }

    pub(crate) async fn close_context(&self) -> Result<(), ApiError> {
        let mut context = self.context.lock().await;
        let Some(id) = context.clone() else { return Ok(()) };
        let browser = self.browser()?;
        let params = json!({"browserContextId": id});
        browser.cdp.call(None, "Target.disposeBrowserContext", params).await.map_err(gone)?;
        browser.targets.downloads.forget_context(&id);
        *context = None;
        Ok(())
    }
}

impl Browser {
    /// A window in a context, as large as the first one; its id is its handle for the driver.
    async fn open_window(&self, context: &str) -> Result<String, CdpError> {
        let params = json!({"url": "about:blank", "browserContextId": context});
        let window = text(&self.cdp.call(None, "Target.createTarget", params).await?, "targetId")?;
        if let Some(first) = self.first_page().await? {
            let (wanted, is) = tokio::try_join!(self.window_of(&first), self.window_of(&window))?;
            if wanted["bounds"] != is["bounds"] {
                let mut bounds = wanted["bounds"].clone();
                // Browsers refuse a place together with a state.
                if bounds["windowState"] == "maximized" {
                    bounds = json!({"windowState": "maximized"});
                } else if let Some(bounds) = bounds.as_object_mut() {
                    bounds.remove("windowState");
                }
                let params = json!({"windowId": is["windowId"], "bounds": bounds});
                self.cdp.call(None, "Browser.setWindowBounds", params).await?;
            }
        }
        self.targets.settled().await;
        Ok(window)
    }

    async fn window_of(&self, page: &str) -> Result<Value, CdpError> {
        self.cdp.call(None, "Browser.getWindowForTarget", json!({"targetId": page})).await
    }
}

fn text(answer: &Value, field: &str) -> Result<String, CdpError> {
    let text = answer[field].as_str().map(str::to_owned);
    text.ok_or_else(|| CdpError::Refused(format!("no {field} was given")))
}
