//! Clicks and hovering, as the driver's own pointer.

use std::time::Duration;

use fantoccini::actions::{ActionSequence, InputSource as _, MouseActions, PenActions, PointerAction, TouchActions};

use super::super::page::{Found, Page, Readiness};
use super::super::playback::StepTimeout;
use crate::script::selector::Selectors;
use crate::script::step::{Click, Device};
use crate::script::{FailureCode, StepError};

/// Clicks once or twice.
pub(in crate::player) async fn click(page: &mut Page, click: &Click, timeout: StepTimeout) -> Result<(), StepError> {
    let found = page.find(&click.selectors, Readiness::Enabled, click.offset, timeout.deadline).await?;
    let pushes = || pushes(click, move_to(page, &found));
    let done = page.client.perform_actions(sequence(click.device, pushes())).await.map_err(StepError::from);
    match done {
        // A driver without pens and fingers has a mouse, which is what the Recorder's own player uses for all three.
        Err(error) if click.device != Device::Mouse && error.code != FailureCode::BrowserDied => {
            page.client.perform_actions(sequence(Device::Mouse, pushes())).await?;
        }
        done => done?,
    }
    Ok(())
}

/// Moves the pointer onto an element.
pub(in crate::player) async fn hover(
    page: &mut Page,
    selectors: &Selectors,
    timeout: StepTimeout,
) -> Result<(), StepError> {
    let found = page.find(selectors, Readiness::Visible, None, timeout.deadline).await?;
    page.client.perform_actions(sequence(Device::Mouse, vec![move_to(page, &found)])).await?;
    Ok(())
}

fn pushes(click: &Click, first: PointerAction) -> Vec<PointerAction> {
    let mut actions = vec![first];
    for _ in 0..click.count {
        actions.push(PointerAction::Down { button: click.button });
        if !click.duration.is_zero() {
            actions.push(PointerAction::Pause { duration: click.duration });
        }
        actions.push(PointerAction::Up { button: click.button });
    }
    actions
}

#[expect(clippy::cast_precision_loss, reason = "no viewport is that large")]
fn move_to(page: &Page, found: &Found) -> PointerAction {
    let duration = Some(Duration::ZERO);
    // Two of the three drivers forget a frame's own place when they count from the viewport, and none when they count
    // from an element.
    if page.is_in_frame() {
        let (x, y) = (found.from_center.0 as f64, found.from_center.1 as f64);
        return PointerAction::MoveToElement { element: found.element.clone(), duration, x, y };
    }
    PointerAction::MoveTo { duration, x: found.point.0 as f64, y: found.point.1 as f64 }
}

fn sequence(device: Device, actions: Vec<PointerAction>) -> ActionSequence {
    let actions = actions.into_iter();
    match device {
        Device::Mouse => actions.fold(MouseActions::new("mouse".to_owned()), MouseActions::then).into(),
        Device::Pen => actions.fold(PenActions::new("pen".to_owned()), PenActions::then).into(),
        Device::Touch => actions.fold(TouchActions::new("touch".to_owned()), TouchActions::then).into(),
    }
}
