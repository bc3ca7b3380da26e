//! A world as it is kept, and how a client sees it.

use serde::{Deserialize, Serialize};

use super::patient::PatientRef;
use warmpool_api::world::{
    Assets, Direction, Environment, Failure, ItemKind, Placement, Scene, Status, World, WorldItem,
};
use warmpool_core::cipher::Cipher;
use warmpool_core::ids::WorldId;
use warmpool_keys::{IntegrationKeyId, IntegrationKind, KeyId};

/// One item of a world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContentItem {
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
    /// Where the corners of its picture are, once that is rendered and if all of it is to be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corners: Option<[Direction; 4]>,
}

/// The name of the file that has the picture of a content's item, written anew.
pub(super) fn picture_file(number: usize) -> String {
    format!("picture-{number}.jpg")
}

/// What the names of files begin with that have pictures as they were sent.
pub(super) const UPLOADS: &str = "upload-";

/// The name of the file that has the picture as it was sent.
pub(super) fn upload_file(number: usize) -> String {
    format!("{UPLOADS}{number}")
}

/// What a world reveals of its patient: kept encrypted with the patient's own key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub variation: String,
    pub items: Vec<ContentItem>,
    /// Which way the viewer looks at first, in degrees.
    pub initial_yaw: f64,
}

impl Content {
    /// The pictures of its items that may be shown: those that have been written anew.
    pub(super) fn pictures(&self) -> impl Iterator<Item = Option<&str>> {
        let items = self.items.iter().enumerate();
        items.map(|(number, item)| item.file.as_deref().filter(|file| *file == picture_file(number)))
    }
}

/// A world's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorldRecord {
    /// Its id: `wld_` and 128 random bits.
    pub world_id: WorldId,
    /// The integration key that asked for it.
    pub(crate) key: IntegrationKeyId,
    /// The service key of that integration key.
    pub(crate) owner: KeyId,
    pub(crate) kind: IntegrationKind,
    pub(crate) patient: PatientRef,
    pub(crate) environment: Environment,
    /// A hash of all that decides how the scene looks.
    pub(crate) scene: String,
    pub(crate) width: u32,
    pub(crate) preview_width: u32,
    pub(crate) status: Status,
    /// Whether the first picture is there.
    pub(crate) preview: bool,
    pub(crate) created_ms: u64,
    pub(crate) ended_ms: Option<u64>,
    /// Which viewer URL holds: none where the viewer is closed.
    pub(crate) viewer: Option<u32>,
    /// How many viewer URLs there were.
    pub(crate) viewers: u32,
    pub(crate) failure: Option<Failure>,
    /// [`Content`], encrypted.
    pub(crate) content: String,
}

impl WorldRecord {
    /// What reveals the patient.
    pub(super) fn open(&self, cipher: &Cipher) -> Content {
        cipher.decrypt_json(&self.content).unwrap_or_default()
    }

    /// How high its pictures are, in pixels.
    const fn height(&self) -> u32 {
        self.width / 2
    }
}

/// A world with what a client may know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct WorldView {
    pub(crate) record: WorldRecord,
    pub(crate) content: Content,
    /// From 0 to 1.
    pub(crate) progress: f64,
    /// What the URL of its viewer ends with; none where the viewer is closed.
    pub(crate) token: Option<String>,
    /// Whether the request found it made already.
    pub(crate) cached: bool,
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
            items: self.items(|file| viewer.as_ref().map(|viewer| format!("{viewer}/{file}"))),
            viewer_url: viewer,
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
            items: self.items(|file| Some(file.to_owned())),
            message: record.failure.as_ref().map(|failure| failure.message.clone()),
        }
    }

    /// Its items; `address` says where one finds a file.
    fn items(&self, address: impl Fn(&str) -> Option<String>) -> Vec<WorldItem> {
        let item = |(item, file): (&ContentItem, Option<&str>)| WorldItem {
            kind: item.kind,
            label: item.label.clone(),
            placed: item.placement.is_some(),
            placement: item.placement,
            corners: item.corners,
            picture_url: file.and_then(&address),
        };
        self.content.items.iter().zip(self.content.pictures()).map(item).collect()
    }
}
