//! Worlds as their clients and viewers read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_core::ids::WorldId;

/// Where a world is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WorldStatus")]
pub enum Status {
    /// It waits for its turn.
    Queued,
    /// It is being rendered.
    Rendering,
    /// All its pictures are there.
    Ready,
    /// It will not be made.
    Failed,
}

impl Status {
    /// Whether nothing more will happen to it.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Ready | Self::Failed)
    }
}

/// Why a world was not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorldFailure")]
pub struct Failure {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}

/// Where an item is in the scene, in degrees: yaw from the middle of the picture to the right, pitch upwards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// From the middle of the picture to the right.
    pub yaw: f64,
    /// Upwards.
    pub pitch: f64,
    /// How wide it is.
    pub width: f64,
    /// How high it is.
    pub height: f64,
}

/// A direction as the viewer sees it, in degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorldDirection")]
pub struct Direction {
    /// From the middle of the picture to the right.
    pub yaw: f64,
    /// Upwards.
    pub pitch: f64,
}

/// A kind of scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// A garden with lawn, trees and flowers.
    Garden,
    /// A sitting room.
    Home,
    /// A porch with a view.
    Porch,
}

impl Environment {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Garden, Self::Home, Self::Porch];

    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Garden => "garden",
            Self::Home => "home",
            Self::Porch => "porch",
        }
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|environment| environment.as_str() == name)
    }
}

/// What an item of a scene is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WorldItemKind")]
pub enum ItemKind {
    /// A picture in a frame.
    Image,
    /// The poster of a video.
    Video,
    /// A thing of the patient's.
    Belonging,
}

/// A world as its clients see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct World {
    /// Its id: `wld_` and 128 random bits.
    pub world_id: WorldId,
    /// How far it is.
    pub status: Status,
    /// From 0 to 1.
    pub progress: f64,
    /// What kind of scene it is.
    pub environment_type: Environment,
    /// Which of such scenes it is.
    pub variation: String,
    /// Whether a test key asked for it: then it is small and has a watermark.
    pub test: bool,
    /// Whether the request found it made already.
    pub cached: bool,
    /// In Unix milliseconds.
    pub created_at: u64,
    /// In Unix milliseconds.
    pub ended_at: Option<u64>,
    /// The width of the whole picture, in pixels.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Anyone holding this URL can see the world; null when the viewer is closed.
    pub viewer_url: Option<String>,
    /// Its pictures.
    pub assets: Assets,
    /// What is in it.
    pub items: Vec<WorldItem>,
    /// Why it was not made.
    pub error: Option<Failure>,
}

/// The pictures of a world; null while they are not there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorldAssets")]
pub struct Assets {
    /// The first picture.
    pub preview_url: Option<String>,
    /// A small picture.
    pub thumbnail_url: Option<String>,
    /// The whole picture as JPEG.
    pub panorama_url: Option<String>,
    /// The whole picture as PNG.
    pub panorama_png_url: Option<String>,
    /// How far away each pixel is.
    pub depth_url: Option<String>,
}

/// One item of a world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorldItem {
    /// What it is.
    pub kind: ItemKind,
    /// What the request calls it.
    pub label: String,
    /// Whether it has a place in the scene.
    pub placed: bool,
    /// Where it is.
    #[serde(flatten)]
    pub placement: Option<Placement>,
    /// Where the corners of its picture are, from the upper left one clockwise; null where none is to be seen whole.
    pub corners: Option<[Direction; 4]>,
    /// Its picture, once it is there. In a viewer's scene this is the name of a file of the viewer.
    pub picture_url: Option<String>,
}

/// A world as its viewer sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scene {
    /// How far it is.
    pub status: Status,
    /// From 0 to 1.
    pub progress: f64,
    /// What kind of scene it is.
    pub environment_type: Environment,
    /// Whether the first picture is there.
    pub preview: bool,
    /// Whether the whole picture is there.
    pub panorama: bool,
    /// The width of the whole picture, in pixels.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Which way the viewer looks at first, in degrees.
    pub initial_yaw: f64,
    /// Whether it has a watermark.
    pub watermark: bool,
    /// What is in it.
    pub items: Vec<WorldItem>,
    /// Why it failed.
    pub message: Option<String>,
}
