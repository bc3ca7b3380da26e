//! Tools that read a page.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::{Regex, RegexBuilder};
use rmcp::model::ContentBlock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::{Reply, ToolError, look_now, shown, told};
use crate::mcp_session::{Browsing, McpSession};
use warmpool_api::Members;
use warmpool_api::log::{Level, LogEvent};
use warmpool_core::blocking;
use warmpool_core::error::FieldError;
use warmpool_reading::Reading;
use warmpool_tasks::control::{PictureFormat, PicturePart};
use warmpool_tasks::extraction::Extraction;

/// The longest time that is waited for, in seconds.
const LONGEST_WAIT: f64 = 30.0;
/// How large a regular expression may become, in bytes.
const FILTER: usize = 64 << 10;
/// The longest regular expression, in bytes: reading one takes a hundred times as much memory.
const LONGEST_FILTER: usize = 10_000;

/// What is shown, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Snapshot {
    /// An element to show alone: a reference of a snapshot, or a selector of one element.
    #[serde(alias = "ref")]
    target: Option<String>,
    /// How many levels to show.
    #[schemars(range(min = 1))]
    depth: Option<usize>,
    /// Whether to add where each element stands, as [box=x,y,width,height].
    boxes: Option<bool>,
}

/// What is pictured.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Screenshot {
    /// What the element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    element: Option<String>,
    /// An element to picture alone: a reference of a snapshot, or a selector of one element.
    #[serde(alias = "ref")]
    target: Option<String>,
    /// How the picture is encoded: as PNG where it is left out.
    #[serde(rename = "type")]
    format: Option<FormatName>,
    /// Whether to picture the whole page.
    full_page: Option<bool>,
    /// The name under which the session's files keep it, too.
    filename: Option<String>,
    /// Accepted for clients that send it: pictures are as large as they are on the screen.
    #[expect(dead_code, reason = "both are the same on such screens")]
    scale: Option<Scale>,
}

/// How a picture is encoded.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum FormatName {
    Png,
    Jpeg,
    Webp,
}

/// What a pixel of a picture is.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Scale {
    Css,
    Device,
}

/// What is waited for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WaitFor {
    /// A time, in seconds, at most 30.
    #[schemars(range(min = 0, max = 30))]
    time: Option<f64>,
    /// A text that is to come.
    text: Option<String>,
    /// A text that is to go.
    text_gone: Option<String>,
}

/// What is run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Evaluate {
    /// What the element is, for people.
    #[expect(dead_code, reason = "it is for those who watch")]
    element: Option<String>,
    /// An element that the function gets: a reference of a snapshot, or a selector of one element.
    #[serde(alias = "ref")]
    target: Option<String>,
    /// `() => { … }`, or `(element) => { … }` where `target` names one.
    function: String,
}

/// Which messages are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConsoleMessages {
    /// The level; worse ones are listed as well. `info` where it is left out.
    level: Option<LevelName>,
    /// Whether to list those of earlier pages, too.
    all: Option<bool>,
}

/// How bad a message is.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum LevelName {
    Error,
    Warning,
    Info,
    Debug,
}

/// Which requests are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkRequests {
    /// Whether to list pictures, fonts, scripts and styles that came, too.
    #[serde(rename = "static")]
    with_static: Option<bool>,
    /// A regular expression that addresses have to match, of 10,000 bytes at most.
    filter: Option<String>,
}

/// Where a document is kept.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PdfSave {
    /// The file's name: `page.pdf` where it is left out.
    filename: Option<String>,
}

/// What is read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// An address to open first.
    url: Option<String>,
    /// Data to read in place of the main content: `schema`, `rows`, `builtins` and `validate` of POST /lam/extract, such as
    /// `{"schema": {"title": "h1"}}`.
    #[schemars(with = "Option<Map<String, Value>>")]
    extract: Option<Members>,
}

pub(super) async fn snapshot(mcp: &Arc<McpSession>, given: Snapshot) -> Reply {
    let mut browsing = mcp.browser().await?;
    let boxes = given.boxes == Some(true);
    let look = browsing.control.look(given.target.as_deref(), given.depth, boxes).await?;
    Ok(vec![ContentBlock::text(told(&mut browsing, &look).await)])
}

pub(super) async fn screenshot(mcp: &Arc<McpSession>, given: Screenshot) -> Reply {
    let part = match (&given.target, given.full_page == Some(true)) {
        (Some(_), true) => {
            let problem = "cannot be given together with `target`: leave one of them out";
            return Err(FieldError::invalid("fullPage", problem).into());
        }
        (Some(target), false) => PicturePart::Element(target),
        (None, true) => PicturePart::Page,
        (None, false) => PicturePart::Viewport,
    };
    let format = match given.format {
        None | Some(FormatName::Png) => PictureFormat::Png,
        Some(FormatName::Jpeg) => PictureFormat::Jpeg,
        Some(FormatName::Webp) => PictureFormat::Webp,
    };
    let mut browsing = mcp.browser().await?;
    let picture = browsing.control.picture(part, format).await?;
    let mut parts = vec![ContentBlock::image(STANDARD.encode(&picture.bytes), picture.format.media_type())];
    if let Some(name) = given.filename {
        parts.push(keep(&mut browsing, &name, picture.bytes).await?);
    }
    Ok(parts)
}

pub(super) async fn wait_for(mcp: &Arc<McpSession>, given: WaitFor) -> Reply {
    if given.time.is_none() && given.text.is_none() && given.text_gone.is_none() {
        return Err(ToolError::failed("nothing to wait for: give `text`, `textGone` or `time`"));
    }
    let time = given.time.unwrap_or_default();
    if !(0.0..=LONGEST_WAIT).contains(&time) {
        return Err(FieldError::invalid("time", format!("must be from 0 to {LONGEST_WAIT} seconds")).into());
    }
    let mut browsing = mcp.browser().await?;
    sleep(Duration::from_secs_f64(time)).await;
    for (text, wants) in [(given.text_gone, false), (given.text, true)] {
        if let Some(text) = text {
            browsing.control.wait_for(&text, wants).await?;
        }
    }
    shown(&mut browsing, "The wait is over.").await
}

pub(super) async fn evaluate(mcp: &Arc<McpSession>, given: Evaluate) -> Reply {
    let mut browsing = mcp.browser().await?;
    let value = browsing.control.evaluate(&given.function, given.target.as_deref()).await?;
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    bounded(mcp, text)
}

pub(super) async fn console_messages(mcp: &Arc<McpSession>, given: ConsoleMessages) -> Reply {
    let level = match given.level {
        Some(LevelName::Error) => Level::Error,
        Some(LevelName::Warning) => Level::Warning,
        None | Some(LevelName::Info) => Level::Info,
        Some(LevelName::Debug) => Level::Debug,
    };
    let mut browsing = mcp.browser().await?;
    let tab = look_now(&mut browsing).await;
    let mut lines = Vec::new();
    for entry in browsing.log.entries(&tab, given.all == Some(true)) {
        let (how_bad, name, text, url, line) = match entry.event {
            LogEvent::Console { level, text, url, line } => (level, level_name(level), text, url, line),
            LogEvent::PageError { text, url, line } => (Level::Error, "error", text, url, line),
            LogEvent::Request { .. } | LogEvent::Download { .. } => continue,
        };
        if how_bad > level {
            continue;
        }
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        let at = url.map_or_else(String::new, |url| format!(" @ {url}{line}"));
        lines.push(format!("[{name}] {}{at}", Value::from(text)));
    }
    let lines = browsing.log.latest(lines);
    let mut text = format!("Messages: {}", lines.len());
    for line in lines {
        let _ = write!(text, "\n{line}");
    }
    bounded(mcp, text)
}

const fn level_name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Info => "info",
        Level::Debug => "debug",
    }
}

pub(super) async fn network_requests(mcp: &Arc<McpSession>, given: NetworkRequests) -> Reply {
    let filter = given.filter.as_deref().map(expression).transpose()?;
    let mut browsing = mcp.browser().await?;
    let tab = look_now(&mut browsing).await;
    let mut lines = Vec::new();
    let is_static = |kind: &str| matches!(kind, "Image" | "Font" | "Script" | "Stylesheet" | "Media" | "Manifest");
    let requests = browsing.log.entries(&tab, false).into_iter().filter_map(|entry| match entry.event {
        LogEvent::Request { method, url, resource, status, failure, .. } => {
            Some((method, url, resource, status, failure))
        }
        _ => None,
    });
    blocking::in_place(|| {
        for (at, (method, url, resource, status, failure)) in requests.enumerate() {
            let came = failure.is_none() && status.is_none_or(|status| status < 400);
            let is_left_out = came && is_static(&resource) && given.with_static != Some(true);
            if is_left_out || filter.as_ref().is_some_and(|filter| !filter.is_match(&url)) {
                continue;
            }
            let outcome = failure.or_else(|| status.map(|status| status.to_string())).unwrap_or_default();
            lines.push(format!("{}. [{method}] {url} => {outcome}", at + 1));
        }
    });
    if lines.is_empty() {
        lines.push("There are no such requests.".to_owned());
    }
    bounded(mcp, browsing.log.latest(lines).join("\n"))
}

/// The regular expression that addresses have to match.
fn expression(filter: &str) -> Result<Regex, FieldError> {
    if filter.len() > LONGEST_FILTER {
        return Err(FieldError::invalid("filter", format!("may have {LONGEST_FILTER} bytes at most")));
    }
    let built = RegexBuilder::new(filter).size_limit(FILTER).build();
    built.map_err(|error| FieldError::invalid("filter", format!("is no regular expression: {error}")))
}

pub(super) async fn pdf_save(mcp: &Arc<McpSession>, given: PdfSave) -> Reply {
    let mut browsing = mcp.browser().await?;
    let document = browsing.control.pdf().await?;
    let name = given.filename.unwrap_or_else(|| "page.pdf".to_owned());
    Ok(vec![keep(&mut browsing, &name, document).await?])
}

pub(super) async fn read(mcp: &Arc<McpSession>, given: Read) -> Reply {
    let parse = |members| blocking::in_place(|| Extraction::parse("extract", members));
    let extraction = given.extract.map(parse).transpose()?;
    let mut browsing = mcp.browser().await?;
    if let Some(url) = &given.url {
        browsing.control.navigate(url).await?;
    }
    let max_elements = mcp.inner.config.pages.max_elements;
    if let Some(extraction) = extraction {
        return bounded(mcp, browsing.control.extract(&extraction, max_elements).await?.to_string());
    }
    let (url, html) = browsing.control.html().await?;
    let reading = Reading::of_html(html, url, max_elements).await?;
    let mut text = reading.markdown;
    // The rest is short, and follows as data.
    let rest = json!({
        "url": reading.url,
        "title": reading.title,
        "byline": reading.byline,
        "language": reading.language,
        "links": reading.links,
        "metadata": reading.metadata,
    });
    if text.trim().is_empty() {
        text = "The page has no text.".to_owned();
    }
    let mut parts = bounded(mcp, text)?;
    parts.extend(bounded(mcp, rest.to_string())?);
    Ok(parts)
}

/// Keeps a file with those of the session, and says where it is.
async fn keep(browsing: &mut Browsing, name: &str, bytes: Vec<u8>) -> Result<ContentBlock, ToolError> {
    let size = bytes.len();
    browsing.control.keep_file(name, bytes).await?;
    let id = &browsing.session.id;
    let told = format!(
        "The file {name:?} has {size} bytes. GET /sessions/{id}/files/NAME has it for as long as the browser lives."
    );
    Ok(ContentBlock::text(told))
}

/// A text that is not too long.
fn bounded(mcp: &Arc<McpSession>, text: String) -> Reply {
    let most = mcp.inner.config.mcp.max_answer.bytes();
    if text.len() as u64 > most {
        return Err(ToolError::failed(format!(
            "the answer would be longer than {most} bytes: ask for less, or raise `mcp.max_answer`"
        )));
    }
    Ok(vec![ContentBlock::text(text)])
}
