//! Browser contexts, one for each piece of work, and the driver's one session that goes from one to the next.

use fantoccini::Client;
use fantoccini::wd::WindowHandle;

use super::{Browser, DriverCommand, Timeouts};
use crate::script::{FailureCode, StepError};
use warmpool_core::browser::Engine;
use warmpool_workers::worker::AgentError;

/// The driver's session, which goes from one piece of work to the next.
#[derive(Debug, Default)]
pub(super) struct DriverState {
    client: Option<Client>,
    /// The first window of the context that is open.
    window: Option<WindowHandle>,
    /// The windows outside of all contexts.
    others: Vec<WindowHandle>,
    /// Whether earlier work may have left something in the driver's session.
    is_dirty: bool,
}

/// A driver whose current window is the first one of a piece of work.
pub(crate) struct DriverContext {
    /// The driver.
    pub(crate) client: Client,
    /// That window, where it is known.
    pub(crate) main: Option<WindowHandle>,
    /// Windows of other work.
    pub(crate) others: Vec<WindowHandle>,
}

impl Browser {
    /// Opens a fresh context for the next piece of work, if the engine has such.
    pub(crate) async fn open_context(&self) -> Result<(), StepError> {
        let window = self.session.worker.agent.open_context().await.map_err(|error| refused(&error))?;
        self.state.lock().await.window = window.map(handle).transpose()?;
        Ok(())
    }

    /// Whether a context is open.
    pub(crate) async fn has_context(&self) -> bool {
        self.state.lock().await.window.is_some()
    }

    /// Closes the context, with all that it kept.
    pub(crate) async fn close_context(&self) -> Result<(), StepError> {
        self.state.lock().await.window = None;
        self.session.worker.agent.close_context().await.map_err(|error| refused(&error))
    }

    /// Opens another window among those of this work.
    pub(crate) async fn another_window(&self, client: &Client) -> Result<WindowHandle, StepError> {
        // The driver itself would open one outside of the context.
        if self.has_context().await {
            let window = self.session.worker.agent.open_window().await.map_err(|error| refused(&error))?;
            return handle(window);
        }
        Ok(client.new_window(true).await?.handle)
    }

    /// The work leaves something in the driver's session, as pressed keys and a slow network, which are no context's.
    pub(crate) async fn mark_dirty(&self) {
        self.state.lock().await.is_dirty = true;
    }

    /// Switches the driver to the first window of this work, with a session of its own or with the one it had for the
    /// work before.
    pub(crate) async fn drive(&self, timeouts: Timeouts, max_output: u64) -> Result<DriverContext, StepError> {
        let mut state = self.state.lock().await;
        let known = state.client.clone();
        let client = match &known {
            Some(client) => client.clone(),
            None => state.client.insert(self.new_client(timeouts, max_output).await?).clone(),
        };
        let Some(window) = state.window.clone() else {
            return Ok(DriverContext { client, main: None, others: Vec::new() });
        };
        if known.is_none() {
            let mut others = client.windows().await?;
            others.retain(|other| *other != window);
            state.others = others;
        }
        client.switch_to_window(window.clone()).await?;
        if known.is_some() {
            client.issue_cmd(DriverCommand::timeouts(timeouts.value())).await?;
        }
        if std::mem::take(&mut state.is_dirty) {
            client.issue_cmd(DriverCommand::delete("actions")).await?;
            if self.engine() == Engine::Chromium {
                client.issue_cmd(DriverCommand::delete("chromium/network_conditions")).await?;
            }
        }
        Ok(DriverContext { client, main: Some(window), others: state.others.clone() })
    }
}

fn handle(window: String) -> Result<WindowHandle, StepError> {
    WindowHandle::try_from(window).map_err(|error| StepError::internal(&error))
}

fn refused(error: &AgentError) -> StepError {
    tracing::info!(%error, "a browser context could not be opened or closed");
    StepError::new(FailureCode::DriverError, "the browser could not open or close a context")
}
