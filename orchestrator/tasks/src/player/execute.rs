//! One task from its first step to its one end.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::browser::Browser;
use super::extract;
use super::navigation;
use super::outcome::{Failure, Limits, Outcome, ProgressListener};
use super::playback::{Playback, StepTimeout};
use super::steps;
use crate::script::recording::Recording;
use crate::script::template::Redactor;
use crate::script::work::Extract;
use crate::script::{FailureCode, StepError};
use crate::script::{TaskWork, Values};
use warmpool_api::task::Progress;
use warmpool_core::blocking;

/// Carries `work` out. Ends once, also when cancelled, out of time, or when the browser dies; the session is left to
/// the caller, who ends it.
pub(crate) async fn execute(
    work: &TaskWork,
    values: &Values,
    browser: Browser,
    limits: &Limits,
    listener: &dyn ProgressListener,
    cancel: &CancellationToken,
) -> Outcome {
    let redactor = Arc::new(Redactor::new(values));
    if !redactor.is_empty() {
        browser.hide(Arc::clone(&redactor));
    }
    let mut playback = Playback::new(&browser, limits, listener, &redactor);
    let error = match blocking::in_place(|| work.filled(values, limits.max_work)) {
        Ok(filled) => tokio::select! {
            biased;
            () = cancel.cancelled() => Some(StepError::new(FailureCode::Cancelled, "the task was cancelled")),
            reason = browser.gone() => Some(StepError::new(FailureCode::BrowserDied, format!("the browser ended: {reason}"))),
            () = tokio::time::sleep(limits.task_timeout) => Some(StepError::new(
                FailureCode::TaskTimeout,
                format!("the task did not end within {} ms: raise `timeout`", limits.task_timeout.as_millis()),
            )),
            done = carry_out(&mut playback, &filled) => done.err(),
        },
        Err(error) => Some(error),
    };
    let failure = match error {
        Some(error) => Some(failure(&mut playback, error, &redactor, cancel).await),
        None => None,
    };
    let Playback { output, artifacts, .. } = playback;
    let output = output.into_iter().map(|result| redactor.value(result));
    Outcome { output: blocking::in_place(|| output.collect()), failure, artifacts }
}

/// Makes a failure of an error: with the page at that moment, and without secrets.
async fn failure(
    playback: &mut Playback<'_>,
    error: StepError,
    redactor: &Redactor,
    cancel: &CancellationToken,
) -> Failure {
    let is_gone = matches!(error.code, FailureCode::Cancelled | FailureCode::BrowserDied);
    let screenshot = if is_gone {
        None
    } else {
        tokio::select! {
            () = cancel.cancelled() => None,
            _ = playback.browser.gone() => None,
            picture = steps::failure_screenshot(playback) => picture,
        }
    };
    Failure { code: error.code, message: error.hidden(|text| redactor.text(text)), step: playback.step, screenshot }
}

async fn carry_out(playback: &mut Playback<'_>, work: &TaskWork) -> Result<(), StepError> {
    let done = do_work(playback, work).await;
    match (done, playback.opened()) {
        (Err(error), Some(page)) => Err(page.explained(error).await),
        (done, _) => done,
    }
}

async fn do_work(playback: &mut Playback<'_>, work: &TaskWork) -> Result<(), StepError> {
    match work {
        TaskWork::Run(run) => {
            let first = run.recording.steps.first();
            let usual = playback.limits.step_timeout;
            let timeout = first.map_or(usual, |step| steps::time_for(step, run.recording.timeout, playback.limits));
            playback.open(timeout).await?;
            playback.browser.mark_dirty().await;
            play(playback, &run.recording).await?;
            // The last step may have led to a page that did not come.
            if let Some(last) = run.recording.steps.len().checked_sub(1) {
                playback.step = Some(last);
                playback.page()?.check_shown().await?;
            }
        }
        TaskWork::Extract(work) => {
            playback.open(playback.limits.navigation_timeout).await?;
            read(playback, work).await?;
        }
    }
    playback.step = None;
    steps::downloads(playback).await
}

async fn play(playback: &mut Playback<'_>, recording: &Recording) -> Result<(), StepError> {
    let count = recording.steps.len();
    for (number, step) in recording.steps.iter().enumerate() {
        playback.step = Some(number);
        playback.listener.progress(Progress::StepStarted { step: number, steps: count, kind: step.kind.clone() });
        let begun = Instant::now();
        steps::perform(playback, step, recording.timeout).await?;
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        playback.listener.progress(Progress::StepFinished { step: number, ms });
    }
    playback.step = None;
    Ok(())
}

async fn read(playback: &mut Playback<'_>, work: &Extract) -> Result<(), StepError> {
    if let Some(url) = &work.url {
        navigation::open(playback.page()?, url).await?;
    }
    if !work.recording.steps.is_empty() {
        playback.browser.mark_dirty().await;
    }
    play(playback, &work.recording).await?;
    let timeout = StepTimeout::start(playback.limits.step_timeout);
    let page = playback.page()?;
    page.leave_frames().await?;
    if let Some(selectors) = &work.wait_for {
        page.set_timeouts(timeout.duration).await?;
        steps::for_element(page, selectors, timeout).await?;
    }
    extract::pages(playback, &work.plan, work.next.as_ref()).await
}
