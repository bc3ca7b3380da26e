//! A world as it is kept, and how a client sees it.

use serde::{Deserialize, Serialize};

use super::cipher::Cipher;
use super::patient::PatientRef;
use warmpool_api::world::{Assets, Environment, Failure, ItemKind, Placement, Scene, Status, World, WorldItem};
use warmpool_core::ids::WorldId;
use warmpool_keys::{IntegrationKeyId, IntegrationKind, KeyId};

/// One item of a world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContentItem {
    pub kind: ItemKind,
    pub label: String,
    /// Its place in the request, as in `images[2]`.
    pub field: String,
    /// Where its picture is to be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The file that has its picture, once it is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where it is in the scene, once that is rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// What a world reveals of its patient: kept encrypted with the patient's own key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub variation: String,
    pub items: Vec<ContentItem>,
    /// Which way the viewer looks at first, in degrees.
    pub initial_yaw: f64,
}

/// A world's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorldRecord {
    pub world_id: WorldId,
    /// The integration key that asked for it.
    pub key: IntegrationKeyId,
    /// The service key of that integration key.
    pub owner: KeyId,
    pub kind: IntegrationKind,
    pub patient: PatientRef,
    pub environment: Environment,
    /// A hash of all that decides how the scene looks.
    pub scene: String,
    pub width: u32,
    pub preview_width: u32,
    pub status: Status,
    /// Whether the first picture is there.
    pub preview: bool,
    pub created_ms: u64,
    pub ended_ms: Option<u64>,
    /// Which viewer URL holds: none where the viewer is closed.
    pub viewer: Option<u32>,
    /// How many viewer URLs there were.
    pub viewers: u32,
    pub failure: Option<Failure>,
    /// [`Content`], encrypted.
    pub content: String,
}

impl WorldRecord {
    /// What reveals the patient.
    pub(super) fn open(&self, cipher: &Cipher) -> Content {
        cipher.decrypt_json(&self.content).unwrap_or_default()
    }

    /// The settings with which it is rendered, as its clients see them.
    pub const fn height(&self) -> u32 {
        self.width / 2
    }
}

/// A world with what a client may know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldView {
    pub record: WorldRecord,
    pub content: Content,
    /// From 0 to 1.
    pub progress: f64,
    /// What the URL of its viewer ends with; none where the viewer is closed.
    pub token: Option<String>,
    /// Whether the request found it made already.
    pub cached: bool,
}

impl WorldView {
    /// As the REST interface shows it; `base` is the address of the service without a slash.
    pub fn rest(&self, base: &str) -> World {
        let record = &self.record;
        let viewer = self.token.as_ref().map(|token| format!("{base}/w/{token}"));
        let asset =
            |name: &str, there: bool| viewer.as_ref().filter(|_| there).map(|viewer| format!("{viewer}/{name}"));
        let ready = record.status == Status::Ready;
        World {
            world_id: record.world_id.clone(),
            status: record.status,
            progress: self.progress,
            environment_type: record.environment,
            variation: self.content.variation.clone(),
            test: record.kind == IntegrationKind::Test,
            cached: self.cached,
            created_at: record.created_ms,
            ended_at: record.ended_ms,
            width: record.width,
            height: record.height(),
            assets: Assets {
                preview_url: asset("preview.jpg", record.preview),
                thumbnail_url: asset("thumbnail.jpg", record.preview),
                panorama_url: asset("panorama.jpg", ready),
                panorama_png_url: asset("panorama.png", ready),
                depth_url: asset("depth.png", ready),
            },
            viewer_url: viewer,
            items: self.items(),
            error: record.failure.clone(),
        }
    }

    /// As the viewer sees it: nothing of who the patient is.
    pub fn scene(&self) -> Scene {
        let record = &self.record;
        Scene {
            status: record.status,
            progress: self.progress,
            environment_type: record.environment,
            preview: record.preview,
            panorama: record.status == Status::Ready,
            width: record.width,
            height: record.height(),
            initial_yaw: self.content.initial_yaw,
            watermark: record.kind == IntegrationKind::Test,
            items: self.items(),
            message: record.failure.as_ref().map(|failure| failure.message.clone()),
        }
    }

    fn items(&self) -> Vec<WorldItem> {
        let item = |item: &ContentItem| WorldItem {
            kind: item.kind,
            label: item.label.clone(),
            placed: item.placement.is_some(),
            placement: item.placement,
        };
        self.content.items.iter().map(item).collect()
    }
}
