//! Prints a tab of Chromium. The document stays in the browser and is read piece by piece, as the client takes it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::json;
use tokio::time::Instant;

use super::{COMMAND, ChromiumTab};
use crate::Error;
use crate::request::Pdf;
use crate::request::length::{LONGEST, PIXELS};
use crate::tab::TabError;
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::cdp::Cdp;

/// How much of a document is read at once, in bytes.
const PIECE: usize = 256 << 10;

/// A document that lies in the browser.
pub(crate) struct Printed {
    cdp: Arc<Cdp>,
    tab: String,
    handle: String,
    at_end: bool,
}

impl Printed {
    /// The next piece, or none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, TabError> {
        while !self.at_end {
            let params = json!({"handle": self.handle, "size": PIECE});
            let answer = self.cdp.call_within(COMMAND, Some(&self.tab), "IO.read", params).await?;
            self.at_end = answer["eof"] == true;
            let data = answer["data"].as_str().unwrap_or_default();
            let piece = match answer["base64Encoded"] == true {
                true => STANDARD.decode(data).map_err(|error| TabError::Refused(error.to_string()))?,
                false => data.as_bytes().to_vec(),
            };
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
        }
        Ok(None)
    }
}

impl ChromiumTab {
    /// Prints the page.
    pub(crate) async fn print(&self, pdf: &Pdf, runs_scripts: bool, left: Duration) -> Result<Printed, Error> {
        let own = pdf.timeout.filter(|millis| *millis > 0).map(Duration::from_millis);
        let limit = own.map_or(left, |own| own.min(left));
        let until = Instant::now() + limit;
        let failed = |error: TabError| match (error, own) {
            (TabError::Late, Some(own)) => Error::Late {
                message: format!(
                    "the page was not printed within {} ms: allow more by `options.timeout`",
                    own.as_millis()
                ),
                field: Some("options.timeout".to_owned()),
            },
            (TabError::Refused(reason), _) if reason.contains("ange") && !pdf.ranges.is_empty() => {
                Error::invalid("options.pageRanges", format!("is refused by the browser: {reason}"))
            }
            (error, _) => error.when("print the page", self.limit),
        };
        let rest = || until.saturating_duration_since(Instant::now());
        if pdf.wait_for_fonts && runs_scripts {
            self.call("fonts", &[], rest()).await.map_err(failed)?;
        }
        if pdf.omit_background {
            self.clear_background().await.map_err(failed)?;
        }
        let [top, right, bottom, left] = pdf.margin;
        let (width, height) = match (pdf.width, pdf.height) {
            (Some(width), Some(height)) => (width, height),
            (width, _) => {
                // As wide as it is shown, so that no line breaks elsewhere.
                let (wide, high, _) = self.whole(rest()).await.map_err(failed)?;
                let sheet = |length: f64| length.ceil() * pdf.scale / PIXELS;
                let height = sheet(high) + top + bottom + 1.0 / PIXELS;
                if height > LONGEST {
                    let problem =
                        format!("would be a sheet of {height:.0} inches, and {LONGEST} are the most: leave it out");
                    return Err(Error::invalid("options.fullPage", problem));
                }
                (width.unwrap_or_else(|| sheet(wide) + left + right), height)
            }
        };
        let (header, footer) = pdf.header_footer.clone().unwrap_or_default();
        let params = json!({
            "landscape": pdf.landscape,
            "displayHeaderFooter": pdf.header_footer.is_some(),
            "headerTemplate": header,
            "footerTemplate": footer,
            "printBackground": pdf.background,
            "scale": pdf.scale,
            "paperWidth": width,
            "paperHeight": height,
            "marginTop": top,
            "marginRight": right,
            "marginBottom": bottom,
            "marginLeft": left,
            "pageRanges": pdf.ranges,
            "preferCSSPageSize": pdf.prefer_css_page_size,
            "generateTaggedPDF": pdf.tagged,
            "generateDocumentOutline": pdf.outline,
            "transferMode": "ReturnAsStream",
        });
        let answer = self.cdp.call_within(rest(), Some(&self.id), "Page.printToPDF", params).await;
        let answer = answer.map_err(|error| failed(error.into()))?;
        let Some(handle) = answer["stream"].as_str() else {
            return Err(failed(TabError::Refused("its answer is no document".to_owned())));
        };
        Ok(Printed { cdp: Arc::clone(&self.cdp), tab: self.id.clone(), handle: handle.to_owned(), at_end: false })
    }
}
