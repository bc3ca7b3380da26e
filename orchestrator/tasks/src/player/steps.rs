//! What each step does in the page.

pub(super) mod capture;
pub(super) mod field;
mod keyboard;
pub(super) mod pointer;
pub(super) mod viewport;
mod wait;

use std::pin::Pin;
use std::time::Duration;

use super::extract;
use super::navigation;
use super::outcome::Limits;
use super::playback::{Playback, StepTimeout};
use super::retry::Retry;
use crate::script::selector::Selectors;
use crate::script::step::{Action, Custom, Step};
use crate::script::{FailureCode, StepError};

pub(super) use capture::{downloads, failure_screenshot};
pub(super) use wait::for_element;

/// A step's time limit: its own, otherwise its recording's, otherwise the default.
pub(super) fn time_for(step: &Step, recording: Option<Duration>, limits: &Limits) -> Duration {
    let usual = match step.action {
        // What comes over the network takes as long as that takes.
        Action::Navigate { .. } | Action::Custom(Custom::WaitForDownload { .. }) => limits.navigation_timeout,
        // Whether something is there is a question about now.
        Action::IfExists { .. } => return step.timeout.unwrap_or(Duration::from_secs(1)),
        _ => limits.step_timeout,
    };
    step.timeout.or(recording).unwrap_or(usual)
}

/// Carries a step out. Boxed, since a step may hold others.
pub(super) fn perform<'s>(
    playback: &'s mut Playback<'_>,
    step: &'s Step,
    recording: Option<Duration>,
) -> Pin<Box<dyn Future<Output = Result<(), StepError>> + Send + 's>> {
    Box::pin(async move {
        let timeout = StepTimeout::start(time_for(step, recording, playback.limits));
        let page = playback.page()?;
        page.set_timeouts(timeout.duration).await?;
        page.enter(step, timeout.deadline).await?;
        let watch_for_navigation = !step.asserted.is_empty() && !matches!(step.action, Action::Navigate { .. });
        let before = if watch_for_navigation { Some(page.document_state().await?) } else { None };
        act(playback, step, recording, timeout).await?;
        match before {
            Some(before) => navigation::happened(playback.page()?, &before, &step.asserted, timeout.deadline).await,
            None if step.asserted.is_empty() => Ok(()),
            None => navigation::arrived(playback.page()?, &step.asserted, timeout.deadline).await,
        }
    })
}

async fn act(
    playback: &mut Playback<'_>,
    step: &Step,
    recording: Option<Duration>,
    timeout: StepTimeout,
) -> Result<(), StepError> {
    match &step.action {
        Action::Navigate { url } => navigation::open(playback.page()?, url).await,
        Action::SetViewport(viewport) => viewport::resize(playback, *viewport, timeout).await,
        Action::Click(click) => pointer::click(playback.page()?, click, timeout).await,
        Action::Hover { selectors } => pointer::hover(playback.page()?, selectors, timeout).await,
        Action::Change { selectors, value } => field::change(playback.page()?, selectors, value, timeout).await,
        Action::KeyDown { key } => keyboard::press(playback, key, true).await,
        Action::KeyUp { key } => keyboard::press(playback, key, false).await,
        Action::Scroll { selectors, x, y } => {
            wait::scroll(playback.page()?, selectors.as_ref(), (*x, *y), timeout).await
        }
        Action::EmulateNetwork(network) => viewport::slow_down(playback, *network).await,
        Action::Close => playback.page()?.close_window().await,
        Action::WaitForElement(wait) => wait::for_elements(playback.page()?, wait, timeout).await,
        Action::WaitForExpression { expression } => wait::for_expression(playback.page()?, expression, timeout).await,
        Action::IfExists { selectors, then, otherwise } => {
            if_exists(playback, selectors, (then, otherwise), recording, timeout).await
        }
        Action::Custom(custom) => match custom {
            Custom::Extract { plan, member } => extract::step(playback, plan, member.as_deref(), timeout).await,
            Custom::Screenshot(picture) => capture::screenshot(playback, picture, timeout).await,
            Custom::Pdf(paper) => capture::pdf(playback, paper).await,
            Custom::AssertText { selectors, assertion } => {
                wait::for_text(playback.page()?, selectors.as_ref(), assertion, timeout).await
            }
            Custom::Upload { selectors, files } => field::upload(playback, selectors, files, timeout).await,
            Custom::WaitForDownload { name } => {
                capture::for_download(playback.browser, name.as_deref(), timeout.deadline).await
            }
            Custom::Sleep(time) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
        },
    }
}

/// Plays the first list if the element appears in time, otherwise the second.
async fn if_exists(
    playback: &mut Playback<'_>,
    selectors: &Selectors,
    (then, otherwise): (&[Step], &[Step]),
    recording: Option<Duration>,
    timeout: StepTimeout,
) -> Result<(), StepError> {
    let mut retry = Retry::until(timeout.deadline);
    let page = playback.page()?;
    let found = loop {
        if let Some(result) = retry.attempt(wait::is_there(page, selectors)).await {
            break result;
        }
    };
    let steps = match found {
        Ok(()) => then,
        Err(error) if matches!(error.code, FailureCode::NoMatch | FailureCode::Timeout) => {
            page.check_shown().await?;
            otherwise
        }
        Err(error) => return Err(error),
    };
    for step in steps {
        perform(playback, step, recording).await?;
    }
    Ok(())
}
