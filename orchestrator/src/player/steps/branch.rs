//! Steps that are played only sometimes.

use std::time::Duration;

use super::super::retry::Retry;
use super::super::stage::{Clock, Stage};
use super::{perform, wait};
use crate::script::fault::{FailureCode, Fault};
use crate::script::selector::Selectors;
use crate::script::step::Step;

/// Plays the first of the two lists if the element is there in time, else the second.
pub(super) async fn if_exists(
    stage: &mut Stage<'_>,
    selectors: &Selectors,
    (then, otherwise): (&[Step], &[Step]),
    recording: Option<Duration>,
    clock: Clock,
) -> Result<(), Fault> {
    let mut retry = Retry::until(clock.deadline);
    let page = stage.page()?;
    let found = loop {
        if let Some(result) = retry.attempt(wait::is_there(page, selectors)).await {
            break result;
        }
    };
    let steps = match found {
        Ok(()) => then,
        Err(fault) if matches!(fault.code, FailureCode::NoMatch | FailureCode::Timeout) => otherwise,
        Err(fault) => return Err(fault),
    };
    for step in steps {
        perform(stage, step, recording).await?;
    }
    Ok(())
}
