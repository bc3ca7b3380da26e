//! What a task leaves behind as files.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::super::browser::{Browser, DriverCommand};
use super::super::navigation::matches_pattern;
use super::super::page::{Page, Readiness};
use super::super::playback::{Playback, StepTimeout};
use super::super::retry::Retry;
use crate::script::step::{Pdf, Screenshot};
use crate::script::{FailureCode, StepError};
use warmpool_core::browser::Engine;

/// How long the picture of a failure may take.
const FAILURE_SCREENSHOT: Duration = Duration::from_secs(5);

/// No picture of a whole page is higher, in CSS pixels: engines cut or refuse more.
const HIGHEST: f64 = 16_000.0;

/// Takes a picture into the artifacts.
pub(super) async fn screenshot(
    playback: &mut Playback<'_>,
    options: &Screenshot,
    timeout: StepTimeout,
) -> Result<(), StepError> {
    let page = playback.page()?;
    page.check_shown().await?;
    let bytes = match &options.selectors {
        Some(selectors) => {
            let found = page.find(selectors, Readiness::Visible, None, timeout.deadline).await?;
            found.element.screenshot().await?
        }
        None if options.full_page => whole_page(page).await?,
        None => page.client.screenshot().await?,
    };
    playback.add_artifact(options.name.as_deref().unwrap_or("screenshot"), ".png", "image/png", bytes)?;
    Ok(())
}

/// Drivers that can capture a whole page have their own commands for it; for WebKit, the window grows to the page's height.
pub(in crate::player) async fn whole_page(page: &Page) -> Result<Vec<u8>, StepError> {
    #[derive(Deserialize)]
    struct Size {
        width: f64,
        height: f64,
    }
    let answer = match page.engine {
        Engine::Chromium => {
            let size: Size = page.call("all_of_it", Vec::new()).await?;
            let clip = json!({"x": 0, "y": 0, "width": size.width, "height": size.height.min(HIGHEST), "scale": 1});
            let parameters = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
            let answer = page.client.issue_cmd(DriverCommand::devtools("Page.captureScreenshot", parameters)).await?;
            answer["data"].clone()
        }
        Engine::Firefox => page.client.issue_cmd(DriverCommand::get("moz/screenshot/full")).await?,
        Engine::Webkit => {
            let size: Size = page.call("all_of_it", Vec::new()).await?;
            let before = page.client.get_window_size().await?;
            let resize = |width: f64, height: f64| {
                page.client.issue_cmd(DriverCommand::post("window/rect", json!({"width": width, "height": height})))
            };
            #[expect(clippy::cast_precision_loss, reason = "no window is that large")]
            let (width, height) = (before.0 as f64, before.1 as f64);
            resize(size.width.max(width).ceil(), size.height.max(height).min(HIGHEST).ceil()).await?;
            let taken = page.client.screenshot().await;
            resize(width, height).await?;
            return Ok(taken?);
        }
    };
    decode(&answer)
}

pub(in crate::player) fn decode(answer: &Value) -> Result<Vec<u8>, StepError> {
    let text = answer.as_str().unwrap_or_default();
    STANDARD.decode(text).map_err(|error| StepError::internal(&error))
}

/// Prints the page into the artifacts.
pub(super) async fn pdf(playback: &mut Playback<'_>, options: &Pdf) -> Result<(), StepError> {
    let margin = options.margin.unwrap_or(1.0);
    let body = json!({
        "orientation": if options.landscape { "landscape" } else { "portrait" },
        "scale": options.scale.unwrap_or(1.0),
        "background": options.background,
        "page": {"width": options.width.unwrap_or(21.0), "height": options.height.unwrap_or(29.7)},
        "margin": {"top": margin, "bottom": margin, "left": margin, "right": margin},
    });
    let page = playback.page()?;
    page.check_shown().await?;
    let bytes = print(page, body).await?;
    playback.add_artifact(options.name.as_deref().unwrap_or("page"), ".pdf", "application/pdf", bytes)?;
    Ok(())
}

/// Prints the page as the driver takes the options.
pub(in crate::player) async fn print(page: &Page, body: Value) -> Result<Vec<u8>, StepError> {
    let printed =
        page.client.issue_cmd(DriverCommand::post("print", body)).await.map_err(StepError::from).map_err(|error| {
            if error.code == FailureCode::NotSupported {
                StepError::new(
                    error.code,
                    format!("the driver of {} cannot print: run this on chromium or firefox", page.engine),
                )
            } else {
                error
            }
        })?;
    decode(&printed)
}

/// The page at the moment of a failure, if the browser can still show it. Returns the artifact's place.
pub(crate) async fn failure_screenshot(playback: &mut Playback<'_>) -> Option<usize> {
    let page = playback.opened()?;
    let taken = timeout(FAILURE_SCREENSHOT, page.client.screenshot()).await;
    let bytes = taken.ok()?.ok()?;
    let name = playback.step.map_or_else(|| "failure".to_owned(), |step| format!("failure-step-{step}"));
    playback.add_artifact(&name, ".png", "image/png", bytes).ok()
}

/// Waits until a file is there that the browser has downloaded, all of it.
pub(super) async fn for_download(browser: &Browser, name: Option<&str>, deadline: Instant) -> Result<(), StepError> {
    let mut retry = Retry::until(deadline);
    loop {
        let attempt = async {
            let entries = browser.downloads().await?;
            let mut wanted = entries.iter().filter(|entry| matches_pattern(name.unwrap_or("*"), &entry.name));
            if wanted.any(|entry| entry.complete) {
                return Ok(());
            }
            let what = name.map_or_else(|| "nothing".to_owned(), |name| format!("no `{name}`"));
            Err(StepError::passing(FailureCode::Timeout, format!("{what} was downloaded in time")))
        };
        if let Some(result) = retry.attempt(attempt).await {
            return result;
        }
    }
}

/// Adds the browser's downloads to the artifacts, and waits for unfinished ones.
pub(crate) async fn downloads(playback: &mut Playback<'_>) -> Result<(), StepError> {
    let mut retry = Retry::until(Instant::now() + playback.limits.navigation_timeout);
    let browser = playback.browser;
    let entries = loop {
        let attempt = async {
            let entries = browser.downloads().await?;
            match entries.iter().find(|entry| !entry.complete) {
                None => Ok(entries),
                Some(entry) => Err(StepError::passing(
                    FailureCode::Timeout,
                    format!("the download `{}` did not end in time", entry.name),
                )),
            }
        };
        if let Some(entries) = retry.attempt(attempt).await {
            break entries?;
        }
    };
    for entry in entries {
        let room = playback.artifact_room()?;
        if entry.size > room {
            return Err(StepError::new(
                FailureCode::TooLarge,
                format!("the download `{}` is too large for an artifact", entry.name),
            ));
        }
        let bytes = browser.fetch_file(&entry.name, room.max(1)).await?;
        playback.add_artifact(&entry.name, "", "application/octet-stream", bytes)?;
    }
    Ok(())
}
