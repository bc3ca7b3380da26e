//! What the daemon and a renderer say to each other: one job as a line of JSON, and events as lines of JSON.
//! `worker-image/scene/README.md` describes both ends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use warmpool_api::world::{Environment, ItemKind, Placement};

/// The longest line of a renderer, in bytes: a PNG of 4096 x 2048 pixels in base64, and room.
const MAX_LINE: usize = 96 << 20;

/// A scene to render. Nothing of it says who the patient is; the seed is a keyed hash.
#[derive(Debug, Serialize)]
pub(super) struct Job<'a> {
    pub id: &'a str,
    pub seed: &'a str,
    pub environment: Environment,
    pub variation: &'a str,
    pub images: Vec<JobPicture<'a>>,
    pub videos: Vec<JobPicture<'a>>,
    pub belongings: Vec<JobBelonging<'a>>,
    pub preview: JobQuality,
    pub full: JobQuality,
    pub watermark: bool,
}

/// How large and how fine a picture is to be.
#[derive(Debug, Serialize)]
pub(super) struct JobQuality {
    pub width: u32,
    /// None leaves it to the renderer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u32>,
}

/// An image of a job, or the poster of a video; `data` is base64.
#[derive(Debug, Serialize)]
pub(super) struct JobPicture<'a> {
    pub label: &'a str,
    pub data: String,
}

#[derive(Debug, Serialize)]
pub(super) struct JobBelonging<'a> {
    pub label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// What a renderer says.
#[derive(Debug, PartialEq)]
pub(super) enum SceneEvent {
    /// It can take a job.
    Ready,
    /// How far it is, from 0 to 1.
    Progress(f64),
    /// A picture.
    File { name: String, bytes: Bytes },
    /// Where things are.
    Hotspots(Hotspots),
    /// Everything has been sent.
    Done,
    /// It refused the job, or failed.
    Error(String),
}

/// Where things are in a scene.
#[derive(Debug, Default, PartialEq, Deserialize)]
pub(super) struct Hotspots {
    pub initial_view: InitialView,
    pub items: Vec<Hotspot>,
}

/// Which way one looks at first, in degrees.
#[derive(Debug, Default, PartialEq, Deserialize)]
pub(super) struct InitialView {
    pub yaw: f64,
}

/// Where one thing is.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Hotspot {
    pub kind: ItemKind,
    /// Its place in the job's list of its kind.
    pub index: usize,
    #[serde(flatten)]
    pub placement: Placement,
    /// Yaw and pitch of its picture's corners, from the upper left one clockwise, if all of it is to be seen.
    pub corners: Option<[[f64; 2]; 4]>,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    Ready {},
    Progress {
        #[serde(default)]
        stage: String,
        fraction: f64,
    },
    File {
        name: String,
        data: String,
    },
    Unplaced {},
    Done {},
    Error {
        message: String,
    },
}

/// Why a renderer's output cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum SceneError {
    /// A line is longer than any that makes sense.
    #[error("the renderer wrote a line of more than {MAX_LINE} bytes")]
    TooLong,
    /// A line is no event.
    #[error("the renderer wrote what is no event")]
    NoEvent,
}

/// Takes a renderer's output apart into events.
#[derive(Default)]
pub(super) struct SceneEvents {
    pending: BytesMut,
    /// How much of `pending` has no end of a line.
    searched: usize,
}

impl SceneEvents {
    /// Adds what was read.
    /// Errors: `TooLong`.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), SceneError> {
        if self.pending.len() + bytes.len() > MAX_LINE {
            return Err(SceneError::TooLong);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole event.
    /// Errors: `NoEvent`.
    pub(super) fn next(&mut self) -> Result<Option<SceneEvent>, SceneError> {
        let Some(end) = self.pending[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.pending.len();
            return Ok(None);
        };
        let line = self.pending.split_to(self.searched + end + 1);
        self.searched = 0;
        event(&line).map(Some)
    }
}

fn event(line: &[u8]) -> Result<SceneEvent, SceneError> {
    let line: Line = serde_json::from_slice(line).map_err(|_| SceneError::NoEvent)?;
    Ok(match line {
        // An item without a place is known by its absence from the hotspots.
        Line::Unplaced {} => SceneEvent::Progress(0.0),
        Line::Ready {} => SceneEvent::Ready,
        // The preview is a tenth of the work.
        Line::Progress { stage, fraction } => {
            let fraction = fraction.clamp(0.0, 1.0);
            SceneEvent::Progress(match stage.as_str() {
                "build" => 0.02 * fraction,
                "preview" => 0.02 + 0.08 * fraction,
                _ => 0.1 + 0.9 * fraction,
            })
        }
        Line::File { name, data } => {
            let bytes = STANDARD.decode(data).map_err(|_| SceneError::NoEvent)?;
            if name == "hotspots.json" {
                SceneEvent::Hotspots(serde_json::from_slice(&bytes).map_err(|_| SceneError::NoEvent)?)
            } else {
                SceneEvent::File { name, bytes: bytes.into() }
            }
        }
        Line::Done {} => SceneEvent::Done,
        Line::Error { message } => SceneEvent::Error(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_the_output_is_cut() {
        let hotspots = r#"{"initial_view": {"yaw": -12.5, "pitch": 0, "hfov": 90}, "items": [{"kind": "image", "index": 0, "label": "x", "yaw": 1.0, "pitch": 2.0, "width": 3.0, "height": 4.0, "corners": [[0, 3], [2, 3], [2, 1], [0, 1]]}]}"#;
        let text = format!(
            "{{\"event\":\"ready\"}}\n{{\"event\":\"progress\",\"stage\":\"preview\",\"fraction\":0.5}}\n\
             {{\"event\":\"progress\",\"stage\":\"full\",\"fraction\":7}}\n{{\"event\":\"file\",\"name\":\"preview.jpg\",\"data\":\"AAAA\"}}\n\
             {{\"event\":\"file\",\"name\":\"hotspots.json\",\"data\":\"{}\"}}\n{{\"event\":\"done\"}}\n",
            STANDARD.encode(hotspots)
        );
        for step in [1, 7, 64, text.len()] {
            let mut events = SceneEvents::default();
            let mut found = Vec::new();
            for part in text.as_bytes().chunks(step) {
                events.add(part).unwrap();
                while let Some(event) = events.next().unwrap() {
                    found.push(event);
                }
            }
            assert_eq!(found.len(), 6, "{step}");
            assert_eq!(found[1], SceneEvent::Progress(0.02 + 0.08 * 0.5));
            assert_eq!(found[2], SceneEvent::Progress(1.0));
            assert_eq!(
                found[3],
                SceneEvent::File { name: "preview.jpg".to_owned(), bytes: Bytes::from_static(&[0; 3]) }
            );
            let SceneEvent::Hotspots(hotspots) = &found[4] else { panic!("{:?}", found[4]) };
            assert_eq!(hotspots.items[0].placement.yaw, 1.0);
            assert_eq!(hotspots.items[0].corners.unwrap()[2], [2.0, 1.0]);
            assert_eq!(found[5], SceneEvent::Done);
        }
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for text in ["hello\n", "{\"event\":\"other\"}\n", "{\"event\":\"file\",\"name\":\"a\",\"data\":\"!\"}\n", "\n"]
        {
            let mut events = SceneEvents::default();
            events.add(text.as_bytes()).unwrap();
            assert_eq!(events.next(), Err(SceneError::NoEvent), "{text}");
        }
        let mut events = SceneEvents::default();
        events.add(&vec![b'x'; MAX_LINE]).unwrap();
        assert_eq!(events.add(b"x"), Err(SceneError::TooLong));
    }
}
