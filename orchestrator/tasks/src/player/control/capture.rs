//! What is read from a page: pictures, documents, its HTML, and its size.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Control, ControlError};
use crate::player::browser::DriverCommand;
use crate::player::extract::{Extraction, Limit};
use crate::player::page::Readiness;
use crate::player::steps::{capture, viewport};
use crate::script::StepError;
use warmpool_core::browser::Engine;

/// What is pictured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PicturePart<'a> {
    /// What a person would see.
    Viewport,
    /// All of the page.
    Page,
    /// An element, by a reference or a selector.
    Element(&'a str),
}

/// How a picture is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
}

impl PictureFormat {
    /// The name of its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Webp => "webp",
        }
    }
}

/// A picture.
#[derive(Debug, Clone)]
pub struct Picture {
    /// How it is encoded.
    pub format: PictureFormat,
    /// The file.
    pub bytes: Vec<u8>,
}

impl Control {
    /// Takes a picture.
    pub async fn picture(&mut self, part: PicturePart<'_>, format: PictureFormat) -> Result<Picture, ControlError> {
        self.ready().await?;
        if format != PictureFormat::Png && (self.page.engine != Engine::Chromium || part != PicturePart::Viewport) {
            let what = format.name();
            return Err(ControlError::failed(format!(
                "only Chromium makes pictures as {what}, and of what is seen alone: leave `type` out for a PNG"
            )));
        }
        let target = match part {
            PicturePart::Element(target) => Some(self.resolve(target).await?),
            PicturePart::Viewport | PicturePart::Page => None,
        };
        let deadline = self.timeout().deadline;
        let taken = async {
            self.page.check_shown().await?;
            match (part, target) {
                (_, Some(target)) => {
                    let found = self.page.find(&target.selectors, Readiness::Visible, None, deadline).await?;
                    Ok(found.element.screenshot().await?)
                }
                (PicturePart::Page, _) => capture::whole_page(&self.page).await,
                _ if format == PictureFormat::Png => Ok(self.page.client.screenshot().await?),
                _ => {
                    let options = json!({"format": format.name(), "quality": 80});
                    let answer = self.command(DriverCommand::devtools("Page.captureScreenshot", options)).await?;
                    capture::decode(&answer["data"])
                }
            }
        }
        .await;
        match taken {
            Ok(bytes) => self.bounded(bytes).map(|bytes| Picture { format, bytes }),
            Err(error) => Err(self.why(error).await),
        }
    }

    /// Prints the page on A4.
    pub async fn pdf(&mut self) -> Result<Vec<u8>, ControlError> {
        self.ready().await?;
        let done = async {
            self.page.check_shown().await?;
            let page = json!({"width": 21.0, "height": 29.7});
            capture::print(&self.page, json!({"background": true, "page": page})).await
        }
        .await;
        match done {
            Ok(bytes) => self.bounded(bytes),
            Err(error) => Err(self.why(error).await),
        }
    }

    /// The page's address and its HTML.
    pub async fn html(&mut self) -> Result<(String, String), ControlError> {
        #[derive(Deserialize)]
        struct Html {
            html: String,
            url: String,
        }
        self.ready().await?;
        let read = async {
            self.page.document_state().await?;
            self.call::<Html>("html", vec![json!(self.limits.max_answer)]).await
        }
        .await;
        match read {
            Ok(Html { html, url }) => Ok((url, html)),
            Err(error) => Err(self.why(error).await),
        }
    }

    /// Data of the page as it is now. `elements` are the most of a page whose main content is wanted.
    pub async fn extract(&mut self, extraction: &Extraction, elements: usize) -> Result<Value, ControlError> {
        self.ready().await?;
        let limit = Limit { bytes: self.limits.max_answer, elements, until: self.timeout().deadline };
        match extraction.read(&self.page, limit).await {
            Ok(data) => Ok(data),
            Err(error) => Err(self.why(error).await),
        }
    }

    /// Makes the page this large, in CSS pixels.
    pub async fn resize(&mut self, width: f64, height: f64) -> Result<(), ControlError> {
        if ![width, height].iter().all(|side| (1.0..=10_000.0).contains(side)) {
            return Err(ControlError::failed("width and height must be from 1 to 10000 pixels"));
        }
        self.ready().await?;
        let timeout = self.timeout();
        let done: Result<(), StepError> =
            viewport::fit_or_emulate(&self.page, (width.round(), height.round()), timeout).await;
        self.acted(done).await
    }

    /// Puts a file into the session, from where its owner can fetch it; returns its path there.
    pub async fn keep_file(&self, name: &str, bytes: Vec<u8>) -> Result<String, ControlError> {
        Ok(self.browser.put_file(name, bytes).await?)
    }

    /// The path in the session of a file that it has, by its name.
    /// Errors: `Failed` when there is none.
    pub async fn file_path(&self, name: &str) -> Result<String, ControlError> {
        let name = name.rsplit('/').next().unwrap_or_default();
        let bytes = self.browser.fetch_file(name, self.limits.max_answer).await.map_err(|error| {
            ControlError::failed(format!(
                "the session has no file {name:?} that could be handed over ({}): send it by PUT /sessions/ID/files/NAME, or its content as `files`",
                error.text()
            ))
        })?;
        self.keep_file(name, bytes).await
    }

    fn bounded(&self, bytes: Vec<u8>) -> Result<Vec<u8>, ControlError> {
        let most = self.limits.max_answer;
        if bytes.len() as u64 > most {
            return Err(ControlError::failed(format!(
                "the answer would be longer than {most} bytes: take a part of the page, or raise `mcp.max_answer`"
            )));
        }
        Ok(bytes)
    }
}
