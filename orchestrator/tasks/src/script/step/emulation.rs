//! What a step lets the browser pretend: the size of its page, and the speed of its network.

use serde::Deserialize;
use serde_json::Value;

use super::super::fields::{join, read, wrong};
use crate::Error;
use warmpool_api::null_is_default;

/// The sides of a viewport, in CSS pixels.
const SIDES: std::ops::RangeInclusive<f64> = 1.0..=10_000.0;

/// The page's size, and what a device would say of itself.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Viewport {
    /// In CSS pixels.
    pub(crate) width: f64,
    /// In CSS pixels.
    pub(crate) height: f64,
    /// Device pixels for each CSS pixel.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) device_scale_factor: f64,
    /// Whether the page is laid out as on a phone.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) is_mobile: bool,
    /// Whether the page may expect touches.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) has_touch: bool,
    /// Whether a phone lies on its side.
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) is_landscape: bool,
}

impl Viewport {
    /// A page of this size on an ordinary screen.
    pub(crate) const fn plain((width, height): (f64, f64)) -> Self {
        Self { width, height, device_scale_factor: 1.0, is_mobile: false, has_touch: false, is_landscape: false }
    }
}

/// The speed of the network.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Network {
    /// Bytes a second.
    pub(crate) download: f64,
    /// Bytes a second.
    pub(crate) upload: f64,
    /// Milliseconds.
    pub(crate) latency: f64,
}

impl Network {
    /// Whether nothing comes through at all.
    pub(crate) fn is_offline(self) -> bool {
        self.download == 0.0 && self.upload == 0.0
    }
}

pub(super) fn viewport(at: &str, value: &Value) -> Result<Viewport, Error> {
    let mut viewport: Viewport = read(at, value)?;
    for (name, side) in [("width", viewport.width), ("height", viewport.height)] {
        if !SIDES.contains(&side) {
            return Err(wrong(&join(at, name), "must be from 1 to 10000 pixels"));
        }
    }
    if viewport.device_scale_factor == 0.0 {
        viewport.device_scale_factor = 1.0;
    }
    if !(0.1..=10.0).contains(&viewport.device_scale_factor) {
        return Err(wrong(&join(at, "deviceScaleFactor"), "must be from 0.1 to 10"));
    }
    Ok(viewport)
}
