//! `POST /read`: what a page says, data of it, a picture, and whether its site wants it read at all.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Error;
use crate::perform::{check_shown, left};
use crate::request::screenshot::ScreenshotOptions;
use crate::request::{PageRequest, Source};
use crate::tab::{Tab, TabError};
use warmpool_core::blocking;
use warmpool_core::browser::Engine;
use warmpool_reading::{Reading, robots};

/// How much of a `robots.txt` is read, in characters.
const LONGEST_ROBOTS: usize = 500 << 10;

/// Reads data of an open page, by a language of the caller's own.
pub trait Extract: fmt::Debug + Send + Sync {
    /// The function that reads the page, in JavaScript.
    fn function(&self) -> String;
    /// What it takes; `limit` is the most bytes that are read.
    fn arguments(&self, limit: u64) -> Vec<Value>;
    /// The data, of what the function answered; at most so many bytes, and until then.
    /// Errors: what is wrong, in words.
    fn results(&self, answer: Value, limit: u64, until: Instant) -> BoxFuture<'_, Result<Value, String>>;
}

/// What is wanted of a page beside what it says.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) extract: Option<Box<dyn Extract>>,
    pub(crate) screenshot: bool,
}

/// What `POST /read` answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadAnswer {
    #[serde(flatten)]
    reading: Reading,
    /// What `extract` asks for: an object, or one for each of its `rows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// What is seen, as PNG in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    screenshot: Option<String>,
}

impl Read {
    /// Reads an open page, whose HTML this is.
    pub(crate) async fn answer(
        &self,
        tab: &Tab,
        html: String,
        (limit, elements): (u64, usize),
        until: Instant,
    ) -> Result<ReadAnswer, Error> {
        let status = tab.call("status", &[], left(until)).await;
        let url = status.ok().and_then(|status| status["url"].as_str().map(str::to_owned)).unwrap_or_default();
        let data = match &self.extract {
            Some(extract) => {
                let failed = |error: TabError| error.when("read the page by `extract`", limit);
                let answer =
                    tab.run(&extract.function(), extract.arguments(limit), left(until)).await.map_err(failed)?;
                let unfit = |why| Error::Failed { message: format!("`extract`: {why}") };
                Some(extract.results(answer, limit, until).await.map_err(unfit)?)
            }
            None => None,
        };
        let screenshot = if self.screenshot {
            let plain = ScreenshotOptions::default().checked(None, false, Engine::Chromium)?;
            Some(STANDARD.encode(tab.screenshot(&plain, left(until)).await?))
        } else {
            None
        };
        let reading = Reading::of_html(html, url, elements).await?;
        Ok(ReadAnswer { reading, data, screenshot })
    }
}

/// Opens the `robots.txt` of the site whose page is wanted, and fails where that does not let `reader` read the page.
pub(crate) async fn check_robots(tab: &Tab, request: &PageRequest, reader: &str, until: Instant) -> Result<(), Error> {
    let Source::Url(page) = &request.source else { return Ok(()) };
    if !matches!(page.scheme(), "http" | "https") {
        return Ok(());
    }
    let Ok(file) = page.join("/robots.txt") else { return Ok(()) };
    tab.open(&Source::Url(file), request, left(until)).await?;
    check_shown(tab, left(until)).await?;
    let failed = |error: TabError| error.when("read robots.txt", 0);
    let status = tab.call("status", &[], left(until)).await.map_err(failed)?;
    let said = tab.call("text", &[json!(LONGEST_ROBOTS)], left(until)).await.map_err(failed)?;
    let status = status["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
    let text = said["text"].as_str().unwrap_or_default();
    // A site may have written anything.
    if blocking::in_place(|| robots::allows(status, text, reader, page.as_str())) {
        return Ok(());
    }
    Err(Error::Robots { site: page.origin().ascii_serialization(), reader: reader.to_owned() })
}
