//! What each step does in the page.

mod branch;
mod capture;
mod field;
mod keyboard;
mod navigate;
mod pointer;
mod viewport;
mod wait;

use std::pin::Pin;
use std::time::Duration;

use super::extract;
use super::outcome::Limits;
use super::stage::{Clock, Stage};
use crate::script::fault::Fault;
use crate::script::step::{Action, Custom, Step};

pub(super) use capture::{downloads, failure_picture};
pub(super) use navigate::open as open_page;
pub(super) use wait::for_element;

/// How long a step may take: what it says itself, else what its recording says, else the usual.
pub(super) fn time_for(step: &Step, recording: Option<Duration>, limits: &Limits) -> Duration {
    let usual = match step.action {
        // What comes over the network takes as long as that takes.
        Action::Navigate { .. } | Action::Custom(Custom::WaitForDownload { .. }) => limits.navigation_timeout,
        // Whether something is there is a question about now.
        Action::Custom(Custom::IfExists { .. }) => return step.timeout.unwrap_or(Duration::from_secs(1)),
        _ => limits.step_timeout,
    };
    step.timeout.or(recording).unwrap_or(usual)
}

/// Carries a step out. Boxed, since a step may hold others.
pub(super) fn perform<'s>(
    stage: &'s mut Stage<'_>,
    step: &'s Step,
    recording: Option<Duration>,
) -> Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + 's>> {
    Box::pin(async move {
        let clock = Clock::of(time_for(step, recording, stage.limits));
        let page = stage.page()?;
        page.patience(clock.time).await?;
        page.enter(step, clock.deadline).await?;
        let watch_for_navigation = !step.asserted.is_empty() && !matches!(step.action, Action::Navigate { .. });
        let before = if watch_for_navigation { Some(page.whereabouts().await?) } else { None };
        act(stage, step, recording, clock).await?;
        match before {
            Some(before) => navigate::happened(stage.page()?, &before, &step.asserted, clock.deadline).await,
            None if step.asserted.is_empty() => Ok(()),
            None => navigate::arrived(stage.page()?, &step.asserted, clock.deadline).await,
        }
    })
}

async fn act(stage: &mut Stage<'_>, step: &Step, recording: Option<Duration>, clock: Clock) -> Result<(), Fault> {
    match &step.action {
        Action::Navigate { url } => navigate::open(stage.page()?, url).await,
        Action::SetViewport(viewport) => viewport::resize(stage, *viewport, clock).await,
        Action::Click(click) => pointer::click(stage.page()?, click, clock).await,
        Action::Hover { selectors } => pointer::hover(stage.page()?, selectors, clock).await,
        Action::Change { selectors, value } => field::change(stage.page()?, selectors, value, clock).await,
        Action::KeyDown { key } => keyboard::press(stage, key, true).await,
        Action::KeyUp { key } => keyboard::press(stage, key, false).await,
        Action::Scroll { selectors, x, y } => wait::scroll(stage.page()?, selectors.as_ref(), (*x, *y), clock).await,
        Action::EmulateNetwork(network) => viewport::slow_down(stage, *network).await,
        Action::Close => stage.page()?.close_window().await,
        Action::WaitForElement(wait) => wait::for_elements(stage.page()?, wait, clock).await,
        Action::WaitForExpression { expression } => wait::for_expression(stage.page()?, expression, clock).await,
        Action::Custom(custom) => match custom {
            Custom::Extract { plan, member } => extract::step(stage, plan, member.as_deref(), clock).await,
            Custom::Screenshot(picture) => capture::screenshot(stage, picture, clock).await,
            Custom::Pdf(paper) => capture::pdf(stage, paper).await,
            Custom::AssertText { selectors, assertion } => {
                wait::for_text(stage.page()?, selectors.as_ref(), assertion, clock).await
            }
            Custom::IfExists { selectors, then, otherwise } => {
                branch::if_exists(stage, selectors, (then, otherwise), recording, clock).await
            }
            Custom::Upload { selectors, files } => field::upload(stage, selectors, files, clock).await,
            Custom::WaitForDownload { name } => {
                capture::for_download(stage.browser, name.as_deref(), clock.deadline).await
            }
            Custom::Sleep(time) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
        },
    }
}
