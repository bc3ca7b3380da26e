//! The pages of a worker's browser, and what happens in them.

use http::Method;
use warmpool_protocol::{LogLine, Page, PageAction};

use super::{Agent, AgentError, Lines};

/// The maximum length of a list of pages, in bytes.
const PAGES_LIMIT: usize = 1 << 20;
/// The maximum length of a line of a log, in bytes.
const LOG_LIMIT: usize = 2 << 20;

impl Agent {
    /// Opens the list of the browser's pages, the one in front first: a line at once and one at each change. The worker
    /// looks after them for as long as this is open.
    pub async fn pages(&self) -> Result<Lines<Vec<Page>>, AgentError> {
        self.stream("/pages", PAGES_LIMIT).await
    }

    /// Acts on a page. Fails with `Refused` and 404 when the page is gone.
    pub async fn act(&self, page: &str, action: &PageAction) -> Result<(), AgentError> {
        let path = format!("/pages/{}", warmpool_core::address::path_segment(page));
        self.call(Method::POST, &path, Some(action)).await.map(drop)
    }

    /// Opens the log of a session whose launch asked for it: what happened so far that nobody has read, and what happens.
    /// Fails with `Refused` and 404 where there is none.
    pub async fn log(&self) -> Result<Lines<LogLine>, AgentError> {
        self.stream("/log", LOG_LIMIT).await
    }

    /// The daemon listens to the browser for a log: the first page may open.
    pub async fn begin_log(&self) -> Result<(), AgentError> {
        self.call(Method::POST, "/log", None::<&()>).await.map(drop)
    }
}
