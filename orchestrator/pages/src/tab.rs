//! The tab in which a call happens, over whatever protocol its browser speaks.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::Error;
use crate::chromium::{ChromiumTab, Printed, capture};
use crate::driver::DriverTab;
use crate::request::{PageRequest, Pdf, Screenshot, Source};
use crate::response::PageResponse;
use warmpool_workers::egress::NoConnection;

/// What a call asks of a page: one function, which calls others by their names.
pub(crate) const FUNCTIONS: &str = include_str!("page.js");

/// The arguments of a call of one of [`FUNCTIONS`].
pub(crate) fn named(name: &str, arguments: &[Value]) -> Vec<Value> {
    std::iter::once(json!(name)).chain(arguments.iter().cloned()).collect()
}

/// Why a tab did not do something.
#[derive(Debug, Clone)]
pub(crate) enum TabError {
    /// It took too long.
    Late,
    /// The browser refused, in its own words; a page that leaves in mid-call may be the reason.
    Refused(String),
    /// The client's code threw this.
    Threw(String),
    /// The browser or its connection is gone.
    Gone,
    /// The answer is too large.
    TooLarge,
}

impl TabError {
    /// The same as the error of a call, which was to do this.
    pub(crate) fn when(self, what: &str, limit: u64) -> Error {
        match self {
            Self::Late => Error::Late { message: format!("the browser did not {what} in time"), field: None },
            Self::Refused(reason) | Self::Threw(reason) => {
                Error::Failed { message: format!("the browser did not {what}: {reason}") }
            }
            Self::Gone => Error::Failed { message: format!("the browser was lost and did not {what}") },
            Self::TooLarge => Error::TooLarge { limit },
        }
    }
}

/// A printed page.
pub(crate) enum Document {
    /// It is in the daemon's memory.
    Whole(Bytes),
    /// It lies in the browser.
    Pieces(Printed),
}

/// The tab of a call.
pub(crate) enum Tab {
    /// Of Chromium, over DevTools.
    Chromium(ChromiumTab),
    /// Of Firefox or WebKit, over WebDriver.
    Driver(DriverTab),
}

impl Tab {
    /// Prepares the tab for what the call asks, before it opens the page.
    pub(crate) async fn prepare(&self, request: &PageRequest) -> Result<(), Error> {
        match self {
            Self::Chromium(tab) => tab.prepare(request).await,
            // All that a driver can do is there from the beginning.
            Self::Driver(_) => Ok(()),
        }
    }

    /// Opens the page and waits until it counts as open. `limit` is the time that it has.
    pub(crate) async fn open(&self, source: &Source, request: &PageRequest, limit: Duration) -> Result<(), Error> {
        match self {
            Self::Chromium(tab) => tab.open(source, request, limit).await,
            Self::Driver(tab) => tab.open(source, request, limit).await,
        }
    }

    /// Calls a function of the page's own file with these arguments.
    pub(crate) async fn call(&self, name: &str, arguments: &[Value], limit: Duration) -> Result<Value, TabError> {
        self.run(FUNCTIONS, named(name, arguments), limit).await
    }

    /// Calls a function of the daemon's own, in JavaScript, with these arguments. What it promises is waited for.
    pub(crate) async fn run(&self, function: &str, given: Vec<Value>, limit: Duration) -> Result<Value, TabError> {
        match self {
            Self::Chromium(tab) => tab.run(function, given, limit).await,
            Self::Driver(tab) => tab.run(function, given, limit).await,
        }
    }

    /// The value of the client's own code: of a function, what it returns.
    pub(crate) async fn evaluate(&self, code: &str, limit: Duration) -> Result<Value, TabError> {
        match self {
            Self::Chromium(tab) => tab.evaluate(code, limit).await,
            Self::Driver(tab) => tab.evaluate(code, limit).await,
        }
    }

    /// Prints the page.
    pub(crate) async fn print(&self, pdf: &Pdf, runs_scripts: bool, limit: Duration) -> Result<Document, Error> {
        match self {
            Self::Chromium(tab) => tab.print(pdf, runs_scripts, limit).await.map(Document::Pieces),
            Self::Driver(tab) => tab.print(pdf, limit).await.map(Document::Whole),
        }
    }

    /// Takes a picture.
    pub(crate) async fn screenshot(&self, wanted: &Screenshot, limit: Duration) -> Result<Bytes, Error> {
        match self {
            Self::Chromium(tab) => capture::screenshot(self, tab, wanted, limit).await,
            Self::Driver(tab) => tab.screenshot(wanted, limit).await,
        }
    }

    /// The cookies that the page has.
    pub(crate) async fn cookies(&self, limit: Duration) -> Result<Value, TabError> {
        match self {
            Self::Chromium(tab) => tab.cookies().await,
            Self::Driver(tab) => tab.cookies(limit).await,
        }
    }

    /// What a page stands for that carries this mark, if the daemon made it.
    pub(crate) fn refusal(&self, mark: &str) -> Option<NoConnection> {
        match self {
            Self::Chromium(tab) => tab.session().egress.outcomes().shown_with(mark),
            Self::Driver(tab) => tab.session().egress.outcomes().shown_with(mark),
        }
    }

    /// What the site answered, as far as that is known.
    pub(crate) async fn response(&self, limit: Duration) -> PageResponse {
        match self {
            Self::Chromium(tab) => tab.response(),
            Self::Driver(tab) => tab.response(limit).await,
        }
    }
}
