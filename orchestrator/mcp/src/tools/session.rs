//! Tools for tabs, dialogs, files and the browser itself.

use std::fmt::Write as _;
use std::sync::Arc;

use rmcp::model::ContentBlock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::page::Nothing;
use super::{Reply, shown};
use crate::mcp_session::McpSession;
use warmpool_core::error::FieldError;

/// What is done with tabs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tabs {
    /// What to do.
    action: TabAction,
    /// The tab to choose or to close, counted from 0.
    index: Option<usize>,
    /// The address to open in a new tab.
    url: Option<String>,
}

/// What is done with tabs.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum TabAction {
    List,
    New,
    Close,
    Select,
}

/// The answer to a dialog.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct HandleDialog {
    /// Whether to accept it.
    accept: bool,
    /// The text for a prompt.
    prompt_text: Option<String>,
}

/// Files for a page.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileUpload {
    /// The names of files of the session, as PUT /sessions/ID/files/NAME put them there or the browser downloaded them.
    paths: Option<Vec<String>>,
    /// Files with their content, in place of such names.
    files: Option<Vec<GivenFile>>,
    /// The file input, where none was clicked: a reference of a snapshot, or a selector of one element.
    #[serde(alias = "ref")]
    target: Option<String>,
}

/// A file with its content.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct GivenFile {
    /// Its name, without a folder.
    name: String,
    /// Its content, as text.
    text: String,
}

/// A size.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resize {
    /// In CSS pixels.
    #[schemars(range(min = 1, max = 10000))]
    width: f64,
    /// In CSS pixels.
    #[schemars(range(min = 1, max = 10000))]
    height: f64,
}

/// A link to a live view.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveViewUrl {
    /// Whether who has the link may take the browser over.
    enable_actions: Option<bool>,
}

/// A profile.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveProfile {
    /// Its name. A profile of this name gets a new version.
    name: String,
}

pub(super) async fn tabs(mcp: &Arc<McpSession>, given: Tabs) -> Reply {
    let mut browsing = mcp.browser().await?;
    let control = &mut browsing.control;
    match given.action {
        TabAction::List => {
            let mut text = String::new();
            for (at, tab) in control.tabs().await?.into_iter().enumerate() {
                let mark = if tab.is_current { " (current)" } else { "" };
                let _ = writeln!(text, "- {at}:{mark} {} {}", Value::from(tab.title), tab.url);
            }
            return Ok(vec![ContentBlock::text(text)]);
        }
        TabAction::New => {
            control.open_tab().await?;
            if let Some(url) = &given.url {
                control.navigate(url).await?;
            }
        }
        TabAction::Close => control.close_tab(given.index).await?,
        TabAction::Select => {
            let missing = || FieldError::invalid("index", "is missing: name the tab, as browser_tabs lists them");
            control.select_tab(given.index.ok_or_else(missing)?).await?;
        }
    }
    shown(&mut browsing, "This tab is current.").await
}

pub(super) async fn handle_dialog(mcp: &Arc<McpSession>, given: HandleDialog) -> Reply {
    let mut browsing = mcp.browser().await?;
    browsing.control.answer_dialog(given.accept, given.prompt_text.as_deref()).await?;
    shown(&mut browsing, "The dialog was answered.").await
}

pub(super) async fn file_upload(mcp: &Arc<McpSession>, given: FileUpload) -> Reply {
    let mut browsing = mcp.browser().await?;
    let mut paths = Vec::new();
    for file in given.files.unwrap_or_default() {
        paths.push(browsing.control.keep_file(&file.name, file.text.into_bytes()).await?);
    }
    for name in given.paths.unwrap_or_default() {
        paths.push(browsing.control.file_path(&name).await?);
    }
    let said = if paths.is_empty() { "No file was chosen." } else { "The files were handed over." };
    browsing.control.upload(&paths, given.target.as_deref()).await?;
    shown(&mut browsing, said).await
}

pub(super) async fn resize(mcp: &Arc<McpSession>, given: Resize) -> Reply {
    let mut browsing = mcp.browser().await?;
    browsing.control.resize(given.width, given.height).await?;
    shown(&mut browsing, "The page has this size.").await
}

pub(super) async fn close(mcp: &Arc<McpSession>, _: Nothing) -> Reply {
    let said = if mcp.close_browser().await { "The browser was given back." } else { "There was no browser." };
    Ok(vec![ContentBlock::text(said)])
}

pub(super) async fn live_view_url(mcp: &Arc<McpSession>, given: LiveViewUrl) -> Reply {
    let browsing = mcp.browser().await?;
    let session = &browsing.session;
    let limit = mcp.inner.config.live.max_shares;
    let (may_act, ttl) = (given.enable_actions == Some(true), session.time_left());
    let share = mcp.inner.sessions.make_share(session, may_act, ttl, limit).await?;
    Ok(vec![ContentBlock::text((mcp.share_url)(session, &share))])
}

pub(super) async fn save_profile(mcp: &Arc<McpSession>, given: SaveProfile) -> Reply {
    let browsing = mcp.browser().await?;
    let _busy = browsing.session.busy();
    let name = given.name;
    let left_out = browsing.session.save_as(&mcp.inner.profiles, &mcp.key, &name).await?;
    let mut told = format!("The profile {name:?} has what sites kept here: begin later sessions with it.");
    if let Some(left_out) = left_out {
        told += &format!(" Not all of it: {left_out}");
    }
    Ok(vec![ContentBlock::text(told)])
}
