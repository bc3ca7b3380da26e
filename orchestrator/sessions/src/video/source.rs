//! Where a recording's pictures come from.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use warmpool_protocol::recording::{FILE_HEADER, MAX_PICTURE, PICTURE_HEADER};

use super::error::RecordingError;
use super::matroska::Codec;
use crate::live::{Frame, FrontTab};
use crate::session::Session;

/// Time between two checks which tab is in front, while no picture comes.
const LOOK: Duration = Duration::from_millis(300);

/// One picture on its way to the file.
pub(super) struct Picture {
    pub(super) time_ms: u64,
    /// Whether it does not depend on earlier pictures.
    pub(super) key: bool,
    pub(super) data: Bytes,
}

/// What kind of pictures follow.
pub(super) struct Format {
    pub(super) codec: Codec,
    pub(super) width: u32,
    pub(super) height: u32,
}

pub(super) enum Source {
    /// The worker's encoder.
    Display {
        body: Incoming,
        buffer: BytesMut,
    },
    Frames {
        front: FrontTab,
        pause: Duration,
        first: Option<Frame>,
        began: Instant,
    },
}

impl Source {
    /// Asks the session's worker for a video of its display.
    pub(super) async fn display(session: &Session, rate: u32) -> Result<Self, RecordingError> {
        let body = session.worker.agent.recording(rate).await?;
        Ok(Self::Display { body, buffer: BytesMut::new() })
    }

    /// Watches the tab in front, as a viewer would.
    pub(super) fn frames(front: FrontTab, rate: u32) -> Self {
        let pause = Duration::from_secs(1) / rate.max(1);
        Self::Frames { front, pause, first: None, began: Instant::now() }
    }

    /// Waits until the format of the pictures is known.
    pub(super) async fn format(&mut self) -> Result<Format, RecordingError> {
        match self {
            Self::Display { body, buffer } => {
                let header = take(body, buffer, FILE_HEADER).await.ok_or(RecordingError::Nothing)?;
                let side = |at: usize| u32::from(u16::from_le_bytes([header[at], header[at + 1]]));
                Ok(Format { codec: Codec::Vp8, width: side(12), height: side(14) })
            }
            Self::Frames { front, first, .. } => loop {
                let mut pictures = front.pictures().await;
                if let Some(frame) = pictures.next().await {
                    let (width, height) = (frame.width().into(), frame.height().into());
                    let format = Format { codec: Codec::Jpeg, width, height };
                    *first = Some(frame);
                    return Ok(format);
                }
            },
        }
    }

    /// Sends pictures until there are no more.
    pub(super) async fn run(&mut self, to: &mpsc::Sender<Picture>) {
        match self {
            Self::Display { body, buffer } => while display(body, buffer, to).await.is_some() {},
            Self::Frames { front, pause, first, began } => {
                let jpeg = |frame: &Frame| Picture {
                    time_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                    key: true,
                    data: frame.jpeg(),
                };
                if let Some(first) = first.take()
                    && to.send(jpeg(&first)).await.is_err()
                {
                    return;
                }
                loop {
                    let mut pictures = front.pictures().await;
                    let tab = front.tab();
                    // Follow the tab in front.
                    while front.tab() == tab {
                        let frame = tokio::select! {
                            frame = pictures.next() => frame,
                            () = sleep(LOOK) => continue,
                        };
                        let Some(frame) = frame else { break };
                        if to.send(jpeg(&frame)).await.is_err() {
                            return;
                        }
                        sleep(*pause).await;
                    }
                }
            }
        }
    }
}

async fn display(body: &mut Incoming, buffer: &mut BytesMut, to: &mpsc::Sender<Picture>) -> Option<()> {
    let mut header = take(body, buffer, PICTURE_HEADER).await?;
    let (length, time_ms) = (header.get_u32_le() as usize, header.get_u64_le());
    if length > MAX_PICTURE {
        return None;
    }
    let data = take(body, buffer, length).await?;
    // The lowest bit of a VP8 picture says whether it needs others (RFC 6386, section 9.1).
    let key = data.first().is_some_and(|first| first & 1 == 0);
    to.send(Picture { time_ms, key, data }).await.ok()
}

/// Reads `count` bytes. `None` at the end.
async fn take(body: &mut Incoming, buffer: &mut BytesMut, count: usize) -> Option<Bytes> {
    while buffer.len() < count {
        if let Ok(data) = body.frame().await?.ok()?.into_data() {
            buffer.extend_from_slice(&data);
        }
    }
    Some(buffer.split_to(count).freeze())
}
