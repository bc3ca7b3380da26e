//! The page's size, and the speed of its network.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::browser::DriverCommand;
use super::super::page::Page;
use super::super::playback::{Playback, StepTimeout};
use super::super::retry::Retry;
use crate::script::step::{Network, Viewport};
use crate::script::{FailureCode, StepError};
use warmpool_core::browser::Engine;

#[derive(Debug, Clone, Copy, Deserialize)]
struct Sizes {
    inner: (f64, f64),
    outer: (f64, f64),
}

/// Makes the page as large as the step says, by the size of the window around it.
///
/// What no window can be, a phone above all, Chromium can pretend; the other drivers have no word for it.
pub(super) async fn resize(
    playback: &mut Playback<'_>,
    viewport: Viewport,
    timeout: StepTimeout,
) -> Result<(), StepError> {
    let page = playback.page()?;
    let wanted = (viewport.width.round(), viewport.height.round());
    let is_device = viewport.is_mobile || viewport.has_touch || (viewport.device_scale_factor - 1.0).abs() > 0.001;
    if page.engine == Engine::Chromium && is_device {
        return emulate(page, viewport, wanted).await;
    }
    match fit(page, wanted, timeout).await {
        Ok(()) => {}
        Err(error) if error.code == FailureCode::BrowserDied => return Err(error),
        Err(_) if page.engine == Engine::Chromium => return emulate(page, viewport, wanted).await,
        Err(error) if is_device => {
            playback.warn(&format!("only Chromium can be a phone: {}", error.text()));
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    if is_device {
        playback.warn("only Chromium can be a phone: the page has the size, and not the rest");
    }
    Ok(())
}

/// Makes the page this large, by the window around it or, in Chromium, by pretending.
pub(in crate::player) async fn fit_or_emulate(
    page: &Page,
    wanted: (f64, f64),
    timeout: StepTimeout,
) -> Result<(), StepError> {
    match fit(page, wanted, timeout).await {
        Err(error) if page.engine == Engine::Chromium && error.code != FailureCode::BrowserDied => {
            emulate(page, Viewport::plain(wanted), wanted).await
        }
        done => done,
    }
}

async fn fit(page: &Page, wanted: (f64, f64), timeout: StepTimeout) -> Result<(), StepError> {
    // Half of the time, so that there is some left for another way.
    let mut retry = Retry::until(timeout.deadline - timeout.duration / 2);
    loop {
        if let Some(result) = retry.attempt(fit_now(page, wanted)).await {
            return result;
        }
    }
}

async fn fit_now(page: &Page, wanted: (f64, f64)) -> Result<(), StepError> {
    let is = |sizes: Sizes| (sizes.inner.0 - wanted.0).abs() < 0.5 && (sizes.inner.1 - wanted.1).abs() < 0.5;
    let before: Sizes = page.call("sizes", Vec::new()).await?;
    if is(before) {
        return Ok(());
    }
    let frame = (before.outer.0 - before.inner.0, before.outer.1 - before.inner.1);
    let side = |inner: f64, frame: f64| (inner + frame).clamp(1.0, 20_000.0).round();
    let rect = json!({"width": side(wanted.0, frame.0), "height": side(wanted.1, frame.1)});
    page.client.issue_cmd(DriverCommand::post("window/rect", rect)).await?;
    let after: Sizes = page.call("sizes", Vec::new()).await?;
    if is(after) {
        return Ok(());
    }
    let message = format!(
        "the window's page is {} by {} pixels large and cannot be made {} by {}",
        after.inner.0, after.inner.1, wanted.0, wanted.1
    );
    Err(StepError::passing(FailureCode::NotSupported, message))
}

async fn emulate(page: &Page, viewport: Viewport, (width, height): (f64, f64)) -> Result<(), StepError> {
    let orientation = if viewport.is_landscape {
        json!({"angle": 90, "type": "landscapePrimary"})
    } else {
        json!({"angle": 0, "type": "portraitPrimary"})
    };
    let mut metrics = json!({
        "width": width,
        "height": height,
        "deviceScaleFactor": viewport.device_scale_factor,
        "mobile": viewport.is_mobile,
    });
    if viewport.is_mobile {
        metrics["screenOrientation"] = orientation;
    }
    page.client.issue_cmd(DriverCommand::devtools("Emulation.setDeviceMetricsOverride", metrics)).await?;
    let touch = json!({"enabled": viewport.has_touch});
    page.client.issue_cmd(DriverCommand::devtools("Emulation.setTouchEmulationEnabled", touch)).await?;
    Ok(())
}

/// Slows the network down where the driver can. Elsewhere a slow network stays fast, which changes nothing but time; no
/// network at all would change what pages do.
pub(super) async fn slow_down(playback: &mut Playback<'_>, network: Network) -> Result<(), StepError> {
    let page = playback.page()?;
    if page.engine == Engine::Chromium {
        let conditions: Value = json!({"network_conditions": {
            "offline": network.is_offline(),
            "latency": network.latency.max(0.0),
            "download_throughput": network.download.max(-1.0).trunc(),
            "upload_throughput": network.upload.max(-1.0).trunc(),
        }});
        page.client.issue_cmd(DriverCommand::network(conditions)).await?;
        return Ok(());
    }
    if network.is_offline() {
        let message = format!("the driver of {} cannot take the network away: run this on chromium", page.engine);
        return Err(StepError::new(FailureCode::NotSupported, message));
    }
    playback.warn("only Chromium's driver can slow the network down: it stayed as it was");
    Ok(())
}
