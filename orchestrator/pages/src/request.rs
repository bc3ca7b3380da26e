//! What the bodies of the calls may say. [`wire::Fields`] are those that every call has, `check` turns them into a
//! [`PageRequest`]; what belongs to one call stands in `pdf`, `screenshot` and `scrape`.

mod audit;
pub(crate) mod check;
mod code;
pub(crate) mod length;
pub(crate) mod pdf;
mod robots;
pub(crate) mod scrape;
pub(crate) mod screenshot;
pub(crate) mod wire;

use std::time::Duration;

use serde_json::Value;
use url::Url;

pub use audit::PerformanceBody;
pub(crate) use check::PageRequest;
pub use code::CodeBody;
pub(crate) use pdf::Pdf;
pub(crate) use robots::{Robots, checked_reader};
pub(crate) use scrape::Scrape;
pub(crate) use screenshot::Screenshot;
pub use wire::{ContentBody, PdfBody, ReadBody, ScrapeBody, ScreenshotBody};

/// What a page is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// The address of a site.
    Url(Url),
    /// The client's own HTML.
    Html(String),
}

/// A script or a style that is added to a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tag {
    /// `script` or `style`, and where it comes from, as the page's own function takes it.
    pub(crate) value: Value,
    /// The field that names it.
    pub(crate) field: String,
}

/// A time of the client's: none where it left it out, and no end of its own where it is 0.
pub(crate) fn time(given: Option<u64>, otherwise: Duration) -> Option<Duration> {
    match given {
        None => Some(otherwise),
        Some(0) => None,
        Some(millis) => Some(Duration::from_millis(millis)),
    }
}
