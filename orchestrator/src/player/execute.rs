//! One task from its first step to its one end.

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::browser::Browser;
use super::extract;
use super::outcome::{Failure, Limits, Outcome, Progress, Watch};
use super::stage::{Clock, Stage};
use super::steps;
use crate::script::fault::{FailureCode, Fault};
use crate::script::recording::Recording;
use crate::script::template::Redactor;
use crate::script::work::{Extract, Values, Work};

/// Carries `work` out. Ends once, also when cancelled, out of time, or when the browser dies; the session is left to
/// the caller, who ends it.
pub(crate) async fn execute(
    work: &Work,
    values: &Values,
    browser: Browser,
    limits: &Limits,
    watch: &dyn Watch,
    cancel: &CancellationToken,
) -> Outcome {
    let redactor = Redactor::new(values);
    let mut stage = Stage::new(&browser, limits, watch);
    let fault = match work.filled(values) {
        Ok(filled) => tokio::select! {
            biased;
            () = cancel.cancelled() => Some(Fault::new(FailureCode::Cancelled, "the task was cancelled")),
            reason = browser.gone() => Some(Fault::new(FailureCode::BrowserDied, format!("the browser ended: {reason}"))),
            () = tokio::time::sleep(limits.task_timeout) => Some(Fault::new(
                FailureCode::TaskTimeout,
                format!("the task did not end within {} ms: raise `timeout`", limits.task_timeout.as_millis()),
            )),
            done = carry_out(&mut stage, &filled) => done.err(),
        },
        Err(fault) => Some(fault),
    };
    let failure = match fault {
        Some(fault) => Some(failure(&mut stage, fault, &redactor, cancel).await),
        None => None,
    };
    let mut artifacts = stage.artifacts;
    for artifact in &mut artifacts {
        artifact.name = redactor.text(&artifact.name);
    }
    Outcome { output: stage.output.into_iter().map(|result| redactor.value(result)).collect(), failure, artifacts }
}

/// Makes a failure of a fault: with the page at that moment, and without secrets.
async fn failure(stage: &mut Stage<'_>, fault: Fault, redactor: &Redactor, cancel: &CancellationToken) -> Failure {
    let is_hopeless = matches!(fault.code, FailureCode::Cancelled | FailureCode::BrowserDied);
    let screenshot = if is_hopeless {
        None
    } else {
        tokio::select! {
            () = cancel.cancelled() => None,
            _ = stage.browser.gone() => None,
            picture = steps::failure_picture(stage) => picture,
        }
    };
    Failure { code: fault.code, message: redactor.text(&fault.message), step: stage.step, screenshot }
}

async fn carry_out(stage: &mut Stage<'_>, work: &Work) -> Result<(), Fault> {
    match work {
        Work::Run(run) => {
            let first = run.recording.steps.first();
            let usual = stage.limits.step_timeout;
            let patience = first.map_or(usual, |step| steps::time_for(step, run.recording.timeout, stage.limits));
            stage.open(patience).await?;
            stage.browser.soil().await;
            play(stage, &run.recording).await?;
        }
        Work::Extract(work) => {
            stage.open(stage.limits.navigation_timeout).await?;
            read(stage, work).await?;
        }
    }
    stage.step = None;
    steps::downloads(stage).await
}

async fn play(stage: &mut Stage<'_>, recording: &Recording) -> Result<(), Fault> {
    let count = recording.steps.len();
    for (number, step) in recording.steps.iter().enumerate() {
        stage.step = Some(number);
        stage.watch.progress(Progress::StepStarted { step: number, steps: count, kind: step.kind.clone() });
        let begun = Instant::now();
        steps::perform(stage, step, recording.timeout).await?;
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        stage.watch.progress(Progress::StepFinished { step: number, ms });
    }
    stage.step = None;
    Ok(())
}

async fn read(stage: &mut Stage<'_>, work: &Extract) -> Result<(), Fault> {
    if let Some(url) = &work.url {
        steps::open_page(stage.page()?, url).await?;
    }
    if !work.recording.steps.is_empty() {
        stage.browser.soil().await;
    }
    play(stage, &work.recording).await?;
    let clock = Clock::of(stage.limits.step_timeout);
    let page = stage.page()?;
    page.leave_frames().await?;
    if let Some(selectors) = &work.wait_for {
        page.patience(clock.time).await?;
        steps::for_element(page, selectors, clock).await?;
    }
    extract::pages(stage, &work.plan, work.next.as_ref()).await
}
