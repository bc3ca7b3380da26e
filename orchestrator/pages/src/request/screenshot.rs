//! How a page is pictured: Puppeteer's options of `page.screenshot`.

use schemars::JsonSchema;
use serde::Deserialize;
use warmpool_api::Object;

use super::check::only_chromium;
use super::wire::unwrap;
use crate::Error;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;

/// No picture has a longer side, in pixels: engines cut or repeat what lies beyond.
pub(crate) const LONGEST: f64 = 16_384.0;

/// How a page is pictured.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct ScreenshotOptions {
    /// Whether the picture is made fast rather than small.
    optimize_for_speed: Option<bool>,
    /// The picture's format: `png` where it is left out.
    #[serde(rename = "type")]
    kind: Option<ImageType>,
    /// From 0 to 100, for `jpeg` and `webp`.
    #[schemars(range(max = 100))]
    quality: Option<u8>,
    /// Whether the picture is taken of what is shown, or of the page as it is drawn.
    from_surface: Option<bool>,
    /// Whether the whole page is pictured.
    full_page: Option<bool>,
    /// Whether a page without a background is transparent.
    omit_background: Option<bool>,
    /// The part of the page that is pictured.
    clip: Option<Object<Clip>>,
    /// `base64` makes the answer a text.
    encoding: Option<Encoding>,
    /// Whether a clip may lie outside of what is shown.
    capture_beyond_viewport: Option<bool>,
}

/// The format of a picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ImageType {
    #[default]
    Png,
    Jpeg,
    Webp,
}

impl ImageType {
    /// As DevTools calls it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Webp => "webp",
        }
    }

    /// Its media type.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
        }
    }
}

/// How a picture is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    #[default]
    Binary,
    Base64,
}

/// A part of a page, in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clip {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Pixels of the picture to a pixel of the page.
    pub(crate) scale: Option<f64>,
}

/// What of a page is pictured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CaptureArea {
    /// What is shown.
    Viewport,
    /// All of it.
    FullPage,
    /// A part of it.
    Clip(Clip),
    /// The first element of this selector.
    Element(String),
}

/// How a page is pictured, checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Screenshot {
    pub(crate) part: CaptureArea,
    pub(crate) kind: ImageType,
    pub(crate) quality: Option<u8>,
    pub(crate) optimize_for_speed: bool,
    pub(crate) from_surface: bool,
    pub(crate) omit_background: bool,
    pub(crate) beyond_viewport: bool,
    pub(crate) encoding: Encoding,
    pub(crate) scrolls: bool,
}

impl ScreenshotOptions {
    /// Checks the options for a browser of `engine`.
    /// Errors: `Field`.
    pub(crate) fn checked(self, selector: Option<String>, scrolls: bool, engine: Engine) -> Result<Screenshot, Error> {
        let kind = self.kind.unwrap_or_default();
        let (full_page, clip) = (self.full_page == Some(true), unwrap(self.clip));
        for (field, given) in [
            ("options.type", kind != ImageType::Png),
            ("options.clip", clip.is_some()),
            ("options.omitBackground", self.omit_background == Some(true)),
            ("options.fromSurface", self.from_surface == Some(false)),
            ("options.optimizeForSpeed", self.optimize_for_speed == Some(true)),
        ] {
            only_chromium(field, given, engine)?;
        }
        if let Some(quality) = self.quality {
            if quality > 100 {
                return Err(Error::invalid("options.quality", "must be 0 to 100"));
            }
            if kind == ImageType::Png {
                return Err(Error::invalid("options.quality", "goes with the types jpeg and webp alone"));
            }
        }
        let part = match (full_page, clip, selector) {
            (false, None, None) => CaptureArea::Viewport,
            (true, None, None) => CaptureArea::FullPage,
            (false, Some(clip), None) => CaptureArea::Clip(clip.checked()?),
            (false, None, Some(selector)) => CaptureArea::Element(selector),
            (true, Some(_), _) => {
                return Err(Error::invalid("options.clip", "cannot be given together with `fullPage`"));
            }
            (_, Some(_), Some(_)) => return Err(Error::invalid("selector", "cannot be given together with `clip`")),
            // An element is all of an element, whatever is shown.
            (true, None, Some(selector)) => CaptureArea::Element(selector),
        };
        Ok(Screenshot {
            part,
            kind,
            quality: self.quality,
            optimize_for_speed: self.optimize_for_speed.unwrap_or(false),
            from_surface: self.from_surface.unwrap_or(true),
            omit_background: self.omit_background.unwrap_or(false),
            beyond_viewport: self.capture_beyond_viewport.unwrap_or(true),
            encoding: self.encoding.unwrap_or_default(),
            scrolls,
        })
    }
}

impl Clip {
    fn checked(self) -> Result<Self, Error> {
        let scale = self.scale.unwrap_or(1.0);
        let fits = |side: f64| side > 0.0 && side * scale <= LONGEST;
        for (field, is_right) in [
            ("options.clip.x", self.x.is_finite() && self.x >= 0.0),
            ("options.clip.y", self.y.is_finite() && self.y >= 0.0),
            ("options.clip.scale", scale > 0.0 && scale <= 4.0),
            ("options.clip.width", fits(self.width)),
            ("options.clip.height", fits(self.height)),
        ] {
            if !is_right {
                let problem = match field.ends_with("scale") {
                    true => "must be more than 0 and at most 4".to_owned(),
                    false => format!("must lie in the page, and be at most {LONGEST} pixels"),
                };
                return Err(Error::invalid(field, problem));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use warmpool_core::error::{Fault as _, FieldError, read_json};

    fn check(options: Value, selector: Option<&str>, engine: Engine) -> Result<Screenshot, Error> {
        let options =
            read_json::<ScreenshotOptions, _>(options).map_err(|error: FieldError| error.within("options"))?;
        options.checked(selector.map(str::to_owned), false, engine)
    }

    #[test]
    fn faults_name_their_field() {
        let clip = json!({"x": 0, "y": 0, "width": 10, "height": 10});
        for (options, field) in [
            (json!({"type": "gif"}), "options.type"),
            (json!({"quality": 50}), "options.quality"),
            (json!({"type": "jpeg", "quality": 101}), "options.quality"),
            (json!({"fullPage": true, "clip": clip}), "options.clip"),
            (json!({"clip": {"x": 0, "y": 0, "width": 0, "height": 10}}), "options.clip.width"),
            (json!({"clip": {"x": -1, "y": 0, "width": 1, "height": 10}}), "options.clip.x"),
            (json!({"path": "a.png"}), "options.path"),
            (json!({"encoding": "hex"}), "options.encoding"),
        ] {
            assert_eq!(check(options.clone(), None, Engine::Chromium).unwrap_err().field(), Some(field), "{options}");
        }
        assert_eq!(check(json!({"clip": clip}), Some("p"), Engine::Chromium).unwrap_err().field(), Some("selector"));
        assert_eq!(check(json!({"type": "jpeg"}), None, Engine::Firefox).unwrap_err().field(), Some("options.type"));
    }

    #[test]
    fn a_picture_shows_what_is_shown_unless_more_is_wanted() {
        let part = |options, selector| check(options, selector, Engine::Chromium).unwrap().part;
        assert_eq!(part(json!({}), None), CaptureArea::Viewport);
        assert_eq!(part(json!({"fullPage": true}), None), CaptureArea::FullPage);
        assert_eq!(part(json!({"fullPage": true}), Some("p")), CaptureArea::Element("p".to_owned()));
    }
}
