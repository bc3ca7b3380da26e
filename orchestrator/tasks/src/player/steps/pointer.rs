//! Clicks and hovering, as the driver's own pointer.

use std::time::Duration;

use fantoccini::actions::{ActionSequence, InputSource as _, MouseActions, PenActions, PointerAction, TouchActions};
use fantoccini::error::{CmdError, ErrorStatus};

use super::super::page::{Found, Page, Readiness};
use super::super::playback::StepTimeout;
use crate::script::StepError;
use crate::script::selector::Selectors;
use crate::script::step::{Click, Device};
use warmpool_core::browser::Engine;

/// Clicks once or twice.
pub(in crate::player) async fn click(page: &mut Page, click: &Click, timeout: StepTimeout) -> Result<(), StepError> {
    let found = page.find(&click.selectors, Readiness::Enabled, click.offset, timeout.deadline).await?;
    let pushes = || pushes(click, move_to(page, &found));
    let device = available(click.device, page.engine);
    match page.client.perform_actions(sequence(device, pushes())).await {
        // A driver without pens and fingers has a mouse, which is what the Recorder's own player uses for all three.
        Err(error) if device != Device::Mouse && refuses_device(&error) => {
            page.client.perform_actions(sequence(Device::Mouse, pushes())).await?;
        }
        done => done?,
    }
    Ok(())
}

/// The device that stands for the recorded one. Firefox's driver knows the name of pens, and then says of their first movement that
/// something unknown went wrong.
const fn available(recorded: Device, engine: Engine) -> Device {
    match (recorded, engine) {
        (Device::Pen, Engine::Firefox) => Device::Mouse,
        (device, _) => device,
    }
}

/// Whether a driver has no such device, which it says before it does anything. After any other error, such as that of a page that does
/// not load in time, the click may have been made, and a second one would be one too many.
const fn refuses_device(error: &CmdError) -> bool {
    match error {
        CmdError::Standard(error) => {
            matches!(error.error, ErrorStatus::InvalidArgument | ErrorStatus::UnsupportedOperation)
        }
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use fantoccini::error::WebDriver;

    use super::*;

    fn refuses(status: ErrorStatus) -> bool {
        refuses_device(&CmdError::Standard(WebDriver::new(status, "")))
    }

    #[test]
    fn a_click_that_may_have_been_made_is_not_repeated() {
        assert!(refuses(ErrorStatus::InvalidArgument) && refuses(ErrorStatus::UnsupportedOperation));
        for status in [
            ErrorStatus::Timeout,
            ErrorStatus::ScriptTimeout,
            ErrorStatus::UnknownError,
            ErrorStatus::UnexpectedAlertOpen,
            ErrorStatus::NoSuchWindow,
            ErrorStatus::StaleElementReference,
            ErrorStatus::JavascriptError,
            ErrorStatus::InvalidSessionId,
        ] {
            let name = status.to_string();
            assert!(!refuses(status), "{name}");
        }
        let broken = std::io::ErrorKind::ConnectionReset;
        assert!(!refuses_device(&CmdError::Lost(broken.into())), "nobody knows what came of it");
    }

    #[test]
    fn a_pen_is_a_mouse_in_firefox() {
        for (device, engine, stands_for_it) in [
            (Device::Pen, Engine::Firefox, Device::Mouse),
            (Device::Pen, Engine::Chromium, Device::Pen),
            (Device::Touch, Engine::Firefox, Device::Touch),
        ] {
            assert_eq!(available(device, engine), stands_for_it);
        }
    }
}
