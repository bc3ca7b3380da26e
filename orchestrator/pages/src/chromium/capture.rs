//! Pictures of a tab of Chromium.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::ChromiumTab;
use crate::Error;
use crate::perform::{PageArea, place};
use crate::request::Screenshot;
use crate::request::screenshot::{CaptureArea, LONGEST};
use crate::tab::{Tab, TabError};
use warmpool_core::error::FieldFault as _;

/// What a page without a background is drawn on where that is to be seen through.
const CLEAR: [(&str, u8); 4] = [("r", 0), ("g", 0), ("b", 0), ("a", 0)];

impl ChromiumTab {
    /// Makes the background of a page without one transparent.
    pub(super) async fn clear_background(&self) -> Result<(), TabError> {
        let color: Value = CLEAR
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        self.command("Emulation.setDefaultBackgroundColorOverride", json!({"color": color})).await.map(drop)
    }

    /// The size of the whole page, in CSS pixels, and the pixels of the screen to one of them.
    pub(super) async fn whole(&self, limit: Duration) -> Result<(f64, f64, f64), TabError> {
        let metrics = self.cdp.call_within(limit, Some(&self.id), "Page.getLayoutMetrics", json!({})).await?;
        let size = &metrics["cssContentSize"];
        let of = |name: &str| size[name].as_f64().unwrap_or_default();
        let ratio = self.call("size", &[], limit).await?["ratio"].as_f64().unwrap_or(1.0);
        Ok((of("width"), of("height"), ratio))
    }
}

/// Takes a picture.
pub(crate) async fn screenshot(
    tab: &Tab,
    own: &ChromiumTab,
    wanted: &Screenshot,
    limit: Duration,
) -> Result<Bytes, Error> {
    let failed = |error: TabError| error.when("picture the page", own.limit());
    let mut params = json!({
        "format": wanted.kind.as_str(),
        "fromSurface": wanted.from_surface,
        "optimizeForSpeed": wanted.optimize_for_speed,
        "captureBeyondViewport": false,
    });
    if let Some(quality) = wanted.quality {
        params["quality"] = json!(quality);
    }
    let (clip, field) = match &wanted.part {
        CaptureArea::Viewport => (None, ""),
        CaptureArea::FullPage => {
            let (width, height, ratio) = own.whole(limit).await.map_err(failed)?;
            (Some((PageArea { x: 0.0, y: 0.0, width, height }, 1.0, ratio)), "options.fullPage")
        }
        CaptureArea::Clip(clip) => {
            let place = PageArea { x: clip.x, y: clip.y, width: clip.width, height: clip.height };
            (Some((place, clip.scale.unwrap_or(1.0), 1.0)), "options.clip")
        }
        CaptureArea::Element(selector) => {
            let ratio = own.whole(limit).await.map_err(failed)?.2;
            (Some((place(tab, selector, limit).await?, 1.0, ratio)), "selector")
        }
    };
    if let Some((at, scale, ratio)) = clip {
        let (width, height) = (at.width * scale * ratio, at.height * scale * ratio);
        if width > LONGEST || height > LONGEST {
            let problem = format!(
                "would be a picture of {width:.0} by {height:.0} pixels, and no side may have more than {LONGEST}: take parts by `options.clip`"
            );
            return Err(Error::invalid(field, problem));
        }
        params["clip"] = json!({"x": at.x, "y": at.y, "width": at.width, "height": at.height, "scale": scale});
        params["captureBeyondViewport"] = json!(wanted.beyond_viewport);
    }
    if wanted.omit_background {
        own.clear_background().await.map_err(failed)?;
    }
    let answer = own.cdp.call_within(limit, Some(&own.id), "Page.captureScreenshot", params).await;
    let answer = answer.map_err(|error| failed(error.into()))?;
    let picture = STANDARD.decode(answer["data"].as_str().unwrap_or_default());
    let picture = picture.map_err(|_| failed(TabError::Refused("its answer is no picture".to_owned())))?;
    if picture.len() as u64 > own.limit() {
        return Err(failed(TabError::TooLarge));
    }
    Ok(picture.into())
}
