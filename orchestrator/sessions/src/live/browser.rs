//! The browser of a watched session, over DevTools or through the agent.
//!
//! Chromium accepts any number of DevTools connections. The other engines have a single protocol connection, which belongs
//! to the client, so the worker's agent serves them in its own way: it can list tabs and navigate in them, and no more.

use std::sync::Arc;
use warmpool_protocol::{Page, PageAction};

use super::devtools::DevTools;
use super::message::{HistoryStep, Tab};
use crate::cdp::CdpError;
use crate::session::Session;
use warmpool_core::browser::Engine;
use warmpool_workers::worker::{AgentError, Lines};

/// Why a browser cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrowserError {
    /// DevTools.
    #[error(transparent)]
    DevTools(#[from] CdpError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Only DevTools can do this.
    #[error("this engine has no DevTools")]
    NoDevTools,
    /// The agent's list has ended.
    #[error("the list of pages ended")]
    ListEnded,
}

/// A browser that somebody watches. Clones share it.
#[derive(Debug, Clone)]
pub(super) enum Browser {
    DevTools(Arc<DevTools>),
    /// Through the agent.
    Pages(Arc<Session>),
}

/// The source of its list of tabs.
#[derive(Debug)]
pub(super) enum Tabs {
    /// Over DevTools.
    DevTools(Arc<DevTools>),
    /// From the agent.
    Pages(Lines<Vec<Page>>),
}

impl Browser {
    /// Connects, and subscribes to changes of the tabs. This touches no page.
    pub(super) async fn connect(session: Arc<Session>) -> Result<(Self, Tabs), BrowserError> {
        if session.options.engine == Engine::Chromium {
            let devtools = Arc::new(DevTools::connect(session).await?);
            return Ok((Self::DevTools(Arc::clone(&devtools)), Tabs::DevTools(devtools)));
        }
        let pages = session.worker.agent.pages().await?;
        Ok((Self::Pages(session), Tabs::Pages(pages)))
    }

    /// DevTools, for what needs it.
    /// Errors: `NoDevTools` of an engine that the agent asks.
    pub(super) const fn devtools(&self) -> Result<&Arc<DevTools>, BrowserError> {
        match self {
            Self::DevTools(devtools) => Ok(devtools),
            Self::Pages(_) => Err(BrowserError::NoDevTools),
        }
    }

    /// Brings a tab to the front.
    pub(super) async fn show(&self, tab: &str) -> Result<(), BrowserError> {
        match self {
            Self::DevTools(devtools) => Ok(devtools.show(tab).await?),
            Self::Pages(session) => Ok(session.worker.agent.act(tab, &PageAction::Show {}).await?),
        }
    }

    /// Opens an address in a tab. The caller has checked the address.
    pub(super) async fn open(&self, tab: &str, url: &str) -> Result<(), BrowserError> {
        match self {
            Self::DevTools(devtools) => Ok(devtools.open(tab, url).await?),
            Self::Pages(session) => {
                Ok(session.worker.agent.act(tab, &PageAction::Open { url: url.to_owned() }).await?)
            }
        }
    }

    /// Moves a tab one step through its history, if there is such a step.
    pub(super) async fn move_in_history(&self, tab: &str, step: HistoryStep) -> Result<(), BrowserError> {
        match self {
            Self::DevTools(devtools) => Ok(devtools.move_in_history(tab, step).await?),
            Self::Pages(session) => {
                let action = match step {
                    HistoryStep::Back => PageAction::Back {},
                    HistoryStep::Forward => PageAction::Forward {},
                    HistoryStep::Reload => PageAction::Reload {},
                };
                Ok(session.worker.agent.act(tab, &action).await?)
            }
        }
    }
}

impl Tabs {
    /// Calls `tell` with the list, now and whenever it changes, until the browser stops answering.
    pub(super) async fn follow(self, tell: impl Fn(Vec<Tab>)) -> BrowserError {
        match self {
            Self::DevTools(devtools) => devtools.follow(tell).await.into(),
            Self::Pages(mut lines) => {
                while let Some(pages) = lines.next().await {
                    tell(pages.into_iter().map(|Page { id, title, url }| Tab { id, title, url }).collect());
                }
                BrowserError::ListEnded
            }
        }
    }
}
