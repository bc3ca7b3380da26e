//! Tabs and dialogs.

use fantoccini::wd::WindowHandle;

use super::{Control, ControlError, PageLocation};
use crate::script::StepError;

/// A tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabEntry {
    /// Its title.
    pub title: String,
    /// The address of its page.
    pub url: String,
    /// Whether actions reach it.
    pub is_current: bool,
}

impl Control {
    /// Goes on in another tab where the page has closed the one that was chosen.
    pub(super) async fn find_window(&mut self) -> Result<(), StepError> {
        let windows = self.page.windows().await?;
        if !windows.contains(&self.window)
            && let Some(last) = windows.last()
        {
            self.choose(last.clone()).await?;
        }
        Ok(())
    }

    async fn choose(&mut self, window: WindowHandle) -> Result<(), StepError> {
        self.page.switch_to(window.clone()).await?;
        self.window = window;
        self.chooser = None;
        Ok(())
    }

    /// The name by which DevTools and the driver know the chosen tab.
    pub fn tab_id(&self) -> String {
        let handle: String = self.window.clone().into();
        handle.strip_prefix("CDwindow-").map_or(handle.clone(), str::to_owned)
    }

    /// How many tabs there are.
    pub async fn count_tabs(&self) -> usize {
        self.page.windows().await.map_or(1, |windows| windows.len())
    }

    /// All tabs, in the order in which they were opened.
    pub async fn tabs(&mut self) -> Result<Vec<TabEntry>, ControlError> {
        self.find_window().await?;
        let mut tabs = Vec::new();
        for window in self.page.windows().await? {
            self.page.switch_to(window.clone()).await?;
            let PageLocation { url, title, .. } = self.place().await;
            tabs.push(TabEntry { title, url, is_current: window == self.window });
        }
        self.page.switch_to(self.window.clone()).await?;
        Ok(tabs)
    }

    /// Opens an empty tab and goes on in it.
    pub async fn open_tab(&mut self) -> Result<(), ControlError> {
        self.find_window().await?;
        let opened = self.page.client.new_window(true).await.map_err(StepError::from)?;
        self.choose(opened.handle).await?;
        Ok(())
    }

    /// Goes on in another tab.
    pub async fn select_tab(&mut self, index: usize) -> Result<(), ControlError> {
        let window = self.tab_at(index).await?;
        self.choose(window).await?;
        Ok(())
    }

    /// Closes a tab: the chosen one where none is named. In place of the last one there is an empty one.
    pub async fn close_tab(&mut self, index: Option<usize>) -> Result<(), ControlError> {
        self.find_window().await?;
        let closed = match index {
            Some(index) => self.tab_at(index).await?,
            None => self.window.clone(),
        };
        let mut others = self.page.windows().await?.into_iter().filter(|window| *window != closed);
        let next = match others.next_back() {
            Some(_) if closed != self.window => self.window.clone(),
            Some(other) => other,
            None => self.page.client.new_window(true).await.map_err(StepError::from)?.handle,
        };
        self.page.switch_to(closed).await?;
        self.page.client.close_window().await.map_err(StepError::from)?;
        self.choose(next).await?;
        Ok(())
    }

    async fn tab_at(&self, index: usize) -> Result<WindowHandle, ControlError> {
        let windows = self.page.windows().await?;
        let count = windows.len();
        windows.into_iter().nth(index).ok_or_else(|| {
            ControlError::failed(format!("there is no tab {index}, since there are {count}: list them by browser_tabs"))
        })
    }

    /// Answers the dialog that the page shows.
    /// Errors: `Failed` when there is none.
    pub async fn answer_dialog(&mut self, accept: bool, text: Option<&str>) -> Result<(), ControlError> {
        self.find_window().await?;
        if self.dialog().await.is_none() {
            return Err(ControlError::failed("the page shows no dialog: look at it by browser_snapshot"));
        }
        let done = async {
            let client = &self.page.client;
            if let Some(text) = text.filter(|_| accept) {
                client.send_alert_text(text).await?;
            }
            if accept {
                client.accept_alert().await?
            } else {
                client.dismiss_alert().await?
            }
            Ok(())
        }
        .await;
        self.acted(done).await
    }
}
