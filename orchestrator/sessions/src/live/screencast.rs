//! Pictures of one tab of a browser without a display, taken only while somebody watches, and no faster than the fastest
//! viewer accepts them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::devtools::DevTools;
use crate::cdp::CdpError;

/// The longer side of a picture that no viewer wants larger, in pixels; larger pages come scaled down.
pub(super) const USUAL_SIDE: u32 = 1920;
/// The longer side of the largest picture.
const MAX_SIDE: u32 = 3840;
/// When to request pictures again if none has come: a tab whose first page moves it to another process can end the
/// screencast silently.
const CHECKS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];
/// The length of the header before the picture.
const HEADER: usize = 12;

/// One picture in the viewers' format: its number, the page's width and height, and how far the picture lies below the
/// page's top, in CSS pixels; each in big-endian form (4, 2, 2, 4 bytes), then a JPEG.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(super) message: Bytes,
}

impl Frame {
    /// The page's width, in CSS pixels.
    pub(crate) fn width(&self) -> u16 {
        (&self.message[4..]).get_u16()
    }

    /// The page's height, in CSS pixels.
    pub(crate) fn height(&self) -> u16 {
        (&self.message[6..]).get_u16()
    }

    /// The JPEG without the header.
    pub(crate) fn jpeg(&self) -> Bytes {
        self.message.slice(HEADER..)
    }
}

/// The pictures of one tab, for everybody who watches it. They stop when the last viewer drops this.
#[derive(Debug)]
pub(super) struct Screencast {
    frames: watch::Receiver<Option<Frame>>,
    taken: Arc<Notify>,
}

/// What one reader of a screencast has not seen yet.
pub(super) struct Pictures {
    cast: Arc<Screencast>,
    frames: watch::Receiver<Option<Frame>>,
}

impl Pictures {
    /// The newest unseen picture, after which the browser may make another; `None` when no more will come. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            self.frames.changed().await.ok()?;
            let frame = self.frames.borrow_and_update().clone();
            if frame.is_some() {
                self.cast.taken.notify_one();
                return frame;
            }
        }
    }

    /// Whether there is an unseen picture.
    pub(super) fn has_next(&self) -> bool {
        self.frames.has_changed().unwrap_or(false)
    }

    /// Whether more may come.
    pub(super) fn runs(&self) -> bool {
        self.cast.runs()
    }
}

/// The rate and quality of pictures.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScreencastSettings {
    /// Pictures a second, at most.
    pub(super) rate: u32,
    /// JPEG quality, 1 to 100.
    pub(super) quality: u32,
}

impl Screencast {
    /// Starts taking pictures of `tab`.
    pub(super) fn start(
        browser: Arc<DevTools>,
        tab: String,
        settings: ScreencastSettings,
        side: watch::Receiver<u32>,
    ) -> Arc<Self> {
        let (sender, frames) = watch::channel(None);
        let taken = Arc::new(Notify::new());
        let cast = Self { frames, taken: Arc::clone(&taken) };
        tokio::spawn(async move {
            if let Err(error) = run(&browser, &tab, settings, side, &sender, &taken).await {
                tracing::debug!(%error, "the pictures of a tab ended");
            }
            browser.detach(&tab).await;
        });
        Arc::new(cast)
    }

    /// The pictures for one reader, from the newest on that there is.
    pub(super) fn pictures(self: &Arc<Self>) -> Pictures {
        let mut frames = self.frames.clone();
        frames.mark_changed();
        Pictures { cast: Arc::clone(self), frames }
    }

    /// Whether it is still running.
    pub(super) fn runs(&self) -> bool {
        self.frames.has_changed().is_ok()
    }
}

async fn run(
    browser: &DevTools,
    tab: &str,
    settings: ScreencastSettings,
    mut side: watch::Receiver<u32>,
    frames: &watch::Sender<Option<Frame>>,
    taken: &Notify,
) -> Result<(), CdpError> {
    let attached = browser.attach(tab).await?;
    let mut events = browser.listen(&attached);
    let start = async |side: u32| {
        let side = side.min(MAX_SIDE);
        let params = json!({"format": "jpeg", "quality": settings.quality, "maxWidth": side, "maxHeight": side});
        browser.cdp.call(Some(&attached), "Page.startScreencast", params).await
    };
    let wanted = *side.borrow_and_update();
    start(wanted).await?;
    let pause = Duration::from_secs(1) / settings.rate.max(1);
    let mut number = 0;
    let (begun, mut last) = (Instant::now(), Instant::now());
    let mut checks = CHECKS.into_iter();
    let mut check = checks.next();
    loop {
        let event = tokio::select! {
            () = sleep_until(begun + check.unwrap_or_default()), if check.is_some() => {
                check = checks.next();
                if last.elapsed() >= CHECKS[0] {
                    browser.cdp.call(Some(&attached), "Page.stopScreencast", json!({})).await?;
                    let wanted = *side.borrow_and_update();
                    start(wanted).await?;
                }
                continue;
            }
            () = frames.closed() => break,
            () = browser.cdp.closed() => return Err(CdpError::Gone),
            Ok(()) = side.changed() => {
                let wanted = *side.borrow_and_update();
                browser.cdp.call(Some(&attached), "Page.stopScreencast", json!({})).await?;
                start(wanted).await?;
                continue;
            }
            event = events.recv() => event.ok_or(CdpError::Gone)?,
        };
        if event.method != "Page.screencastFrame" {
            continue;
        }
        last = Instant::now();
        let next = last + pause;
        number += 1;
        if let Some(frame) = frame(number, &event.params) {
            frames.send_replace(Some(frame));
        }
        let acknowledge = json!({"sessionId": event.params["sessionId"]});
        // The browser makes the next picture only after this.
        tokio::select! {
            () = frames.closed() => break,
            () = async { taken.notified().await; sleep_until(next).await; } => {}
        }
        browser.cdp.notify(&attached, "Page.screencastFrameAck", acknowledge).await?;
    }
    browser.cdp.notify(&attached, "Page.stopScreencast", json!({})).await
}

fn frame(number: u32, params: &Value) -> Option<Frame> {
    let data = params["data"].as_str()?;
    let metadata = &params["metadata"];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pixels, bounded here")]
    let pixels = |name: &str| metadata[name].as_f64().unwrap_or_default().clamp(0.0, 65_535.0) as u16;
    let mut message = BytesMut::with_capacity(HEADER + data.len() / 4 * 3 + 3);
    message.put_u32(number);
    message.put_u16(pixels("deviceWidth"));
    message.put_u16(pixels("deviceHeight"));
    message.put_u32(u32::from(pixels("offsetTop")));
    let mut picture = message.split_off(HEADER);
    picture.resize(picture.capacity(), 0);
    let length = STANDARD.decode_slice(data, &mut picture).ok()?;
    picture.truncate(length);
    message.unsplit(picture);
    Some(Frame { message: message.freeze() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_carries_its_number_and_the_pages_size() {
        let params =
            json!({"data": "/9j/2Q==", "metadata": {"deviceWidth": 780.0, "deviceHeight": 493, "offsetTop": 0}});
        let frame = frame(7, &params).unwrap();
        assert_eq!(&frame.message[..HEADER], [0, 0, 0, 7, 3, 12, 1, 237, 0, 0, 0, 0]);
        assert_eq!(&frame.message[HEADER..], [0xFF, 0xD8, 0xFF, 0xD9]);
        assert!(super::frame(1, &json!({"data": "no base64!", "metadata": {}})).is_none());
    }
}
