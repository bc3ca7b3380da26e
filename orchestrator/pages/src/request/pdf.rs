//! How a page is printed: Puppeteer's options of `page.pdf`, and `fullPage`.

use schemars::JsonSchema;
use serde::Deserialize;
use warmpool_api::Object;

use super::check::only_chromium;
use super::length::{Length, MILLIMETRES};
use super::wire::unwrap;
use crate::Error;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;

/// How a page is printed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct PdfOptions {
    /// How large the page is drawn.
    #[schemars(range(min = 0.1, max = 2))]
    scale: Option<f64>,
    /// Whether sheets have a header and a footer.
    display_header_footer: Option<bool>,
    /// The header's HTML, in which the classes `date`, `title`, `url`, `pageNumber` and `totalPages` are filled in.
    header_template: Option<String>,
    /// The footer's, alike.
    footer_template: Option<String>,
    /// Whether backgrounds are printed.
    print_background: Option<bool>,
    /// Whether sheets lie on their side.
    landscape: Option<bool>,
    /// Which sheets, such as `1-5, 8`.
    page_ranges: Option<String>,
    /// The size of a sheet: `letter`, which is the default, `legal`, `tabloid`, `ledger`, or `a0` to `a6`.
    format: Option<String>,
    /// The width of a sheet, which wins over `format`.
    width: Option<Length>,
    /// The height of a sheet, which wins over `format`.
    height: Option<Length>,
    /// Whether the page's own `@page` size wins over all of these.
    #[serde(rename = "preferCSSPageSize")]
    prefer_css_page_size: Option<bool>,
    /// The margins of a sheet: none where they are left out.
    margin: Option<Object<Margin>>,
    /// Whether a page without a background is transparent.
    omit_background: Option<bool>,
    /// Whether the document is tagged, for readers of screens.
    #[schemars(extend("default" = true))]
    tagged: Option<bool>,
    /// Whether the document has an outline.
    outline: Option<bool>,
    /// How long printing may take, in milliseconds: as long as the call where it is left out.
    timeout: Option<u64>,
    /// Whether fonts are waited for.
    #[schemars(extend("default" = true))]
    wait_for_fonts: Option<bool>,
    /// Whether the whole page becomes one sheet. It goes with neither `height` nor `format`.
    full_page: Option<bool>,
}

/// Margins of a sheet.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Margin {
    pub(crate) top: Option<Length>,
    pub(crate) right: Option<Length>,
    pub(crate) bottom: Option<Length>,
    pub(crate) left: Option<Length>,
}

/// How a page is printed, checked. Lengths are in inches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pdf {
    pub(crate) scale: f64,
    pub(crate) header_footer: Option<(String, String)>,
    pub(crate) background: bool,
    pub(crate) landscape: bool,
    pub(crate) ranges: String,
    /// None where the page is one sheet.
    pub(crate) width: Option<f64>,
    /// None where the page is one sheet.
    pub(crate) height: Option<f64>,
    pub(crate) prefer_css_page_size: bool,
    /// Top, right, bottom, left.
    pub(crate) margin: [f64; 4],
    pub(crate) omit_background: bool,
    pub(crate) tagged: bool,
    pub(crate) outline: bool,
    /// In milliseconds.
    pub(crate) timeout: Option<u64>,
    pub(crate) wait_for_fonts: bool,
}

impl PdfOptions {
    /// Checks the options for a browser of `engine`.
    /// Errors: `Field`.
    pub(crate) fn checked(self, engine: Engine) -> Result<Pdf, Error> {
        if engine == Engine::Webkit {
            return Err(Error::not_supported(
                "browser",
                "is webkit, whose driver cannot print: take chromium or firefox",
            ));
        }
        let full_page = self.full_page == Some(true);
        for (field, given) in [
            ("options.displayHeaderFooter", self.display_header_footer == Some(true)),
            ("options.omitBackground", self.omit_background == Some(true)),
            ("options.outline", self.outline == Some(true)),
            ("options.preferCSSPageSize", self.prefer_css_page_size == Some(true)),
            ("options.fullPage", full_page),
        ] {
            only_chromium(field, given, engine)?;
        }
        let scale = self.scale.unwrap_or(1.0);
        if !(0.1..=2.0).contains(&scale) {
            return Err(Error::invalid("options.scale", "must be 0.1 to 2"));
        }
        for (field, given) in [("options.height", self.height.is_some()), ("options.format", self.format.is_some())] {
            if full_page && given {
                return Err(Error::invalid(field, "cannot be given together with `fullPage`"));
            }
        }
        let sheet = sheet(self.format.as_deref().unwrap_or("letter"))?;
        let ranges = self.page_ranges.unwrap_or_default();
        if !ranges.chars().all(|sign| sign.is_ascii_digit() || matches!(sign, '-' | ',' | ' ')) {
            return Err(Error::invalid("options.pageRanges", "must be ranges such as `1-5, 8`"));
        }
        let margin = unwrap(self.margin).unwrap_or_default();
        let side = |length: Option<Length>| length.map_or(0.0, |Length(inches)| inches);
        let length = |given: Option<Length>, otherwise: f64| {
            let given = given.map(|Length(inches)| inches).filter(|inches| *inches > 0.0);
            if full_page { given } else { Some(given.unwrap_or(otherwise)) }
        };
        Ok(Pdf {
            scale,
            header_footer: (self.display_header_footer == Some(true))
                .then(|| (self.header_template.unwrap_or_default(), self.footer_template.unwrap_or_default())),
            background: self.print_background.unwrap_or(false),
            landscape: self.landscape.unwrap_or(false),
            ranges,
            width: length(self.width, sheet.0),
            height: length(self.height, sheet.1),
            prefer_css_page_size: self.prefer_css_page_size.unwrap_or(false),
            margin: [side(margin.top), side(margin.right), side(margin.bottom), side(margin.left)],
            omit_background: self.omit_background.unwrap_or(false),
            tagged: self.tagged.unwrap_or(true),
            outline: self.outline.unwrap_or(false),
            timeout: self.timeout,
            wait_for_fonts: self.wait_for_fonts.unwrap_or(true),
        })
    }
}

/// The sides of a sheet, in inches.
fn sheet(format: &str) -> Result<(f64, f64), Error> {
    let metric = |width: f64, height: f64| (width / MILLIMETRES, height / MILLIMETRES);
    Ok(match format.to_lowercase().as_str() {
        "letter" => (8.5, 11.0),
        "legal" => (8.5, 14.0),
        "tabloid" => (11.0, 17.0),
        "ledger" => (17.0, 11.0),
        "a0" => metric(841.0, 1189.0),
        "a1" => metric(594.0, 841.0),
        "a2" => metric(420.0, 594.0),
        "a3" => metric(297.0, 420.0),
        "a4" => metric(210.0, 297.0),
        "a5" => metric(148.0, 210.0),
        "a6" => metric(105.0, 148.0),
        _ => return Err(Error::invalid("options.format", "must be letter, legal, tabloid, ledger, or a0 to a6")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use warmpool_core::error::{Fault as _, FieldError, read_json};

    fn check(options: Value, engine: Engine) -> Result<Pdf, Error> {
        let options = read_json::<PdfOptions, _>(options).map_err(|error: FieldError| error.within("options"))?;
        options.checked(engine)
    }

    #[test]
    fn faults_name_their_field() {
        for (options, field) in [
            (json!({"scale": 3}), "options.scale"),
            (json!({"format": "a9"}), "options.format"),
            (json!({"fullPage": true, "height": 3}), "options.height"),
            (json!({"fullPage": true, "format": "A4"}), "options.format"),
            (json!({"pageRanges": "all"}), "options.pageRanges"),
            (json!({"margin": {"top": "wide"}}), "options.margin.top"),
            (json!({"path": "/tmp/a.pdf"}), "options.path"),
        ] {
            assert_eq!(check(options.clone(), Engine::Chromium).unwrap_err().field(), Some(field), "{options}");
        }
        assert_eq!(check(json!({}), Engine::Webkit).unwrap_err().field(), Some("browser"));
        assert_eq!(check(json!({"fullPage": true}), Engine::Firefox).unwrap_err().field(), Some("options.fullPage"));
    }

    #[test]
    fn a_sheet_is_letter_unless_it_is_named() {
        let sides = |options| check(options, Engine::Chromium).map(|pdf| (pdf.width, pdf.height)).unwrap();
        assert_eq!(sides(json!({})), (Some(8.5), Some(11.0)));
        assert_eq!(sides(json!({"format": "A4"})), (Some(210.0 / 25.4), Some(297.0 / 25.4)));
        assert_eq!(sides(json!({"format": "Legal", "width": "96px"})), (Some(1.0), Some(14.0)));
        assert_eq!(sides(json!({"fullPage": true})), (None, None));
    }
}
