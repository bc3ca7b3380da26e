//! Worlds without a renderer: no engine answers, so what is begun goes on for as long as nobody ends it.

mod ends;
mod exports;
mod patients;
mod request_log;
mod scarce;

use std::time::Duration;

use base64::Engine as _;
use futures_util::StreamExt as _;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

use super::render::Renderer;
use super::render_error::RenderError;
use super::*;
use warmpool_api::integration::RequestView;
use warmpool_api::world::{Direction, Placement, Status};
use warmpool_config::{Flags, Host};
use warmpool_core::error::Fault as _;
use warmpool_core::secret::Secret;
use warmpool_dial::Resolver;
use warmpool_keys::{IntegrationKind, Keys};
use warmpool_runtime::RendererPipes;
use warmpool_store::fault::{FaultPoint, Faults, until};
use warmpool_store::{KeyRange, StoreOptions};

/// Free bytes below which the store takes only what must be recorded.
const MIN_FREE: u64 = 1 << 20;
/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

struct Service {
    worlds: Worlds,
    faults: Faults,
    store: Store,
    _folder: TempDir,
}

impl Service {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let own = [("WARMPOOL_STORE_DATA_DIR", path), ("WARMPOOL_DOCKER_HOST", "unix:///nonexistent/docker.sock")];
        let env = own.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Arc::new(Config::resolve(None, env, &Flags::default(), &host).unwrap());
        let instance = Arc::new(Instance::load_or_create(folder.path()).unwrap());
        let faults = Faults::default();
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: MIN_FREE, ..StoreOptions::default() });
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let runtime = Runtime::new(Arc::clone(&config), instance.id().to_owned());
        let sources = AttachmentSources {
            keys: Keys::load(store.clone()).await.unwrap(),
            lookups: Resolver::nowhere().share(),
            tls: warmpool_core::tls::client_config().unwrap(),
        };
        let drain = Drain::default();
        let worlds = Worlds::open(config, instance, keys, store.clone(), runtime, drain, sources).await.unwrap();
        Self { worlds, faults, store, _folder: folder }
    }

    async fn key(&self, name: &str) -> IntegrationKey {
        self.key_of("0123456789ab", name).await
    }

    async fn key_of(&self, owner: &str, name: &str) -> IntegrationKey {
        let keys = self.worlds.keys();
        keys.create(&owner.parse().unwrap(), name, IntegrationKind::Live, 9, |_| true).await.unwrap().record
    }

    async fn generate(&self, key: &IntegrationKey, variation: usize) -> Result<WorldRecord, Error> {
        let request = self.request(variation);
        let accepted = self.worlds.generate(key, request, &mut RequestEntry::begin(), ()).await?;
        Ok(accepted.record)
    }

    fn request(&self, variation: usize) -> WorldRequest {
        let body = json!({
            "patient_id": "p", "patient_name": "Ann", "environment_type": "garden", "variation": variation,
            "belongings": [{"label": "radio"}],
        });
        WorldRequest::check(serde_json::from_value(body).unwrap(), self.worlds.limits()).unwrap()
    }

    /// A request with this picture.
    fn request_with(&self, picture: &[u8]) -> WorldRequest {
        let body = json!({
            "patient_id": "p", "patient_name": "Ann", "environment_type": "garden",
            "images": [{"label": "Our wedding", "data": base64::engine::general_purpose::STANDARD.encode(picture)}],
        });
        WorldRequest::check(serde_json::from_value(body).unwrap(), self.worlds.limits()).unwrap()
    }

    /// Asks for a world for another patient.
    async fn generate_for(&self, key: &IntegrationKey, patient: &str) -> Result<WorldRecord, Error> {
        let request = WorldRequest { patient_id: patient.to_owned(), ..self.request(0) };
        Ok(self.worlds.generate(key, request, &mut RequestEntry::begin(), ()).await?.record)
    }

    async fn tidy(&self) -> Vec<WorldId> {
        self.worlds.tidy_all(self.worlds.shared.files.worlds().await.unwrap()).await
    }

    async fn rows(&self, table: Table) -> usize {
        self.store.scan(table, KeyRange::all(), 1000).await.unwrap().len()
    }

    async fn attach(&self, key: &IntegrationKey, picture: &[u8]) -> WorldRecord {
        let request = self.request_with(picture);
        self.worlds.generate(key, request, &mut RequestEntry::begin(), ()).await.unwrap().record
    }

    /// The names of a world's files.
    fn files(&self, world: &WorldRecord) -> Vec<String> {
        let folder = self.worlds.shared.files.path(&world.world_id, "");
        let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    /// Another secret of a key, which works.
    async fn secret(&self, key: &IntegrationKey) -> Secret {
        self.worlds.keys().rotate(&key.id, Duration::ZERO).await.unwrap().secret
    }

    async fn logged(&self, query: RequestQuery) -> (Vec<RequestView>, usize) {
        self.worlds.log().list(&RequestQuery { page: 1, limit: 100, ..query }).await.unwrap()
    }

    async fn find(&self, key: &IntegrationKey, world: &WorldRecord) -> Result<WorldRecord, Error> {
        self.worlds.find(world.world_id.as_str(), &caller(key)).await
    }

    /// Waits until a world that is not ready yet has this status.
    async fn reaches(&self, world: &WorldRecord, status: Status) {
        reaches(&mut self.worlds.changes(&world.world_id).unwrap(), status).await;
    }
}

fn picture() -> Vec<u8> {
    let mut picture = std::io::Cursor::new(Vec::new());
    let pixels = image::RgbImage::from_fn(64, 64, |x, y| image::Rgb([x, y, x * y].map(|value| (value * 37) as u8)));
    pixels.write_to(&mut picture, image::ImageFormat::Png).unwrap();
    picture.into_inner()
}

async fn reaches(changes: &mut watch::Receiver<(WorldRecord, f64)>, status: Status) {
    let reached = timeout(PATIENCE, changes.wait_for(|(record, _)| record.status == status)).await;
    drop(reached.unwrap_or_else(|_| panic!("no world became {status:?}")).unwrap());
}

fn caller(key: &IntegrationKey) -> WorldCaller {
    WorldCaller::Integration(Box::new(key.clone()))
}

#[tokio::test]
async fn deleted_worlds_take_no_place_in_the_queue() {
    let service = Service::new(&[("WARMPOOL_WORLD_QUEUE_LENGTH", "3")]).await;
    let (one, other) = (service.key("one").await, service.key("other").await);
    for variation in 0..10 {
        let world = service.generate(&one, variation).await.unwrap();
        service.worlds.delete(world.world_id.as_str(), &caller(&one)).await.unwrap();
    }
    assert_eq!(service.worlds.counts(), (0, 0));
    service.generate(&other, 0).await.unwrap();
    service.generate(&one, 0).await.unwrap();
    service.worlds.delete_patient("p", &caller(&one)).await.unwrap();
    assert_eq!(service.worlds.counts(), (1, 0));
}

#[tokio::test]
async fn the_longest_request_fits_into_the_store() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let request = |filler: &str, url: usize| {
        let of = |kind: &str, count: usize| -> Vec<_> {
            let item =
                |at| json!({"url": format!("https://a.example/{kind}{at:02}?{}", filler.repeat(url)), "label": "y"});
            (0..count).map(item).collect()
        };
        let body = json!({
            "patient_id": "p", "patient_name": "Ann", "environment_type": "garden",
            "images": of("i", 12), "videos": of("v", 4), "belongings": of("b", 24),
        });
        WorldRequest::check(serde_json::from_value(body).unwrap(), service.worlds.limits())
    };
    for filler in ["x", "\\"] {
        let longest = (200..1000).take_while(|&url| request(filler, url).is_ok()).last().unwrap();
        assert!(longest < 900, "some are refused");
        let request = request(filler, longest).unwrap();
        let accepted = service.worlds.generate(&key, request, &mut RequestEntry::begin(), ()).await.unwrap();
        // Nor does it become too long when it is rendered.
        let patient = service.worlds.patient(&accepted.record).await.unwrap();
        let mut content = accepted.record.open(&patient.cipher);
        for (number, item) in content.items.iter_mut().enumerate() {
            let [yaw, pitch, width, height] = [-1.234_567_890_123_456_7e-101; 4];
            item.file = Some(format!("picture-{number}.jpg"));
            item.placement = Some(Placement { yaw, pitch, width, height });
            item.corners = Some([Direction { yaw, pitch }; 4]);
        }
        let live = service.worlds.live(&accepted.record.world_id).unwrap();
        service.worlds.keep_content(&live, &content).await.unwrap();
    }
}

#[tokio::test]
async fn one_owner_cannot_take_the_whole_queue_by_many_keys() {
    let service = Service::new(&[("WARMPOOL_WORLD_QUEUE_LENGTH", "3"), ("WARMPOOL_WORLD_MAX_PER_KEY", "2")]).await;
    let (one, two) = (service.key("one").await, service.key("two").await);
    let other = service.key_of("ba9876543210", "other").await;
    service.generate(&one, 0).await.unwrap();
    service.generate(&two, 0).await.unwrap();
    for key in [&one, &two] {
        let refused = service.generate(key, 1).await.unwrap_err();
        assert!(matches!(refused, Error::WorldKeyLimit { limit: 2 }) && refused.retry_after().is_some(), "{refused}");
    }
    service.generate(&other, 0).await.unwrap();
    assert!(matches!(service.generate(&other, 1).await, Err(Error::WorldQueueFull { length: 3 })));
}

#[tokio::test]
async fn the_worlds_of_an_owner_have_a_size_limit() {
    let service = Service::new(&[("WARMPOOL_WORLD_MAX_TOTAL", "1MiB")]).await;
    let (one, two) = (service.key("one").await, service.key("two").await);
    let other = service.key_of("ba9876543210", "other").await;
    let mut worlds = Vec::new();
    for variation in 0..8 {
        worlds.push(service.generate(&one, variation).await.unwrap());
        worlds.push(service.generate(&two, variation).await.unwrap());
    }
    for key in [&one, &two] {
        let refused = service.generate(key, 8).await.unwrap_err();
        assert!(matches!(refused, Error::WorldSizeLimit { limit, .. } if limit == 1 << 20), "{refused}");
        assert_eq!((refused.code().as_str(), refused.retry_after()), ("world_limit", None));
    }
    service.generate(&one, 0).await.unwrap();
    service.generate(&other, 8).await.unwrap();
    service.worlds.delete(worlds[0].world_id.as_str(), &caller(&one)).await.unwrap();
    let request = service.request_with(&picture());
    let refused = service.worlds.generate(&one, request, &mut RequestEntry::begin(), ()).await.map(drop);
    assert!(matches!(refused, Err(Error::WorldSizeLimit { .. })), "its picture comes on top: {refused:?}");
    service.generate(&one, 8).await.unwrap();

    // The next start knows what there is.
    service.worlds.lock().usage = usage::Usage::default();
    service.worlds.load().await.unwrap();
    assert!(matches!(service.generate(&two, 9).await, Err(Error::WorldSizeLimit { .. })));
    service.worlds.delete(worlds[1].world_id.as_str(), &caller(&two)).await.unwrap();
    std::fs::write(service.worlds.shared.files.path(&worlds[2].world_id, "picture-0.jpg"), "x").unwrap();
    assert!(service.tidy().await.is_empty());
    assert!(matches!(service.generate(&two, 9).await, Err(Error::WorldSizeLimit { .. })), "by a byte");
}

#[tokio::test]
async fn what_cannot_be_tidied_keeps_no_other_world_from_it() {
    let service = Service::new(&[("WARMPOOL_WORLD_MAX_TOTAL", "1MiB")]).await;
    let key = service.key("ward").await;
    let worlds = [service.generate(&key, 0).await.unwrap(), service.generate(&key, 1).await.unwrap()];
    let folder = service.worlds.shared.files.path(&worlds[0].world_id, "..");
    std::fs::create_dir(folder.join("lost+found")).unwrap();
    std::fs::write(folder.join("note.txt"), "not the daemon's").unwrap();
    let odd: Vec<WorldId> = ["wld_0", "wld_zzzzzzzzzzzzzzzzzzzzzz"].map(WorldId::from).into();
    for odd in &odd {
        std::fs::write(folder.join(odd.as_str()), "no folder").unwrap();
    }
    for world in &worlds {
        std::fs::write(service.worlds.shared.files.path(&world.world_id, "picture-0.jpg"), [0; 512 << 10]).unwrap();
    }
    let mut untidy = service.tidy().await;
    untidy.sort_unstable();
    assert_eq!(untidy, odd, "those that are named for a world are tried again");
    assert!(folder.join("lost+found").exists() && folder.join("note.txt").exists());
    let refused = service.generate(&key, 2).await;
    assert!(matches!(refused, Err(Error::WorldSizeLimit { .. })), "all worlds are measured: {refused:?}");
    std::fs::remove_file(folder.join(odd[0].as_str())).unwrap();
    assert_eq!(service.worlds.tidy_all(untidy).await, odd[1..]);
}

#[tokio::test]
async fn a_world_whose_row_is_lost_is_set_aside() {
    let service = Service::new(&[]).await;
    let world = service.generate(&service.key("ward").await, 0).await.unwrap();
    let files = &service.worlds.shared.files;
    let lost = WorldId::random();
    files.create(&lost).await.unwrap();
    service.store.suppose_it_went_back().await;
    service.worlds.load().await.unwrap();
    assert_eq!(files.worlds().await.unwrap(), std::slice::from_ref(&world.world_id));
    let root = files.path(&world.world_id, "..");
    let mut left = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let aside = left.find(|path| path.display().to_string().contains("/lost-")).unwrap();
    assert!(aside.join(lost.as_str()).exists());
}

#[tokio::test]
async fn a_world_is_made_and_logged_although_its_client_left() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let (worlds, of, request) = (service.worlds.clone(), key.clone(), service.request(0));
    let asked = async move { worlds.generate(&of, request, &mut RequestEntry::begin(), ()).await };
    service.faults.abandon(asked).await;
    until("it waits for its renderer", || service.worlds.counts() == (1, 0)).await;
    assert_eq!(service.worlds.keys().get(&key.id).unwrap().details.worlds, 1, "it is counted");
    let mut rows = Vec::new();
    while rows.is_empty() {
        tokio::task::yield_now().await;
        rows = service.logged(RequestQuery::default()).await.0;
    }
    let id = rows[0].world_id.clone().unwrap();
    assert_eq!((rows[0].status.as_str(), rows.len()), ("200 OK", 1));

    let mut viewers = service.worlds.viewer_changes();
    let (worlds, of, world) = (service.worlds.clone(), caller(&key), id.clone());
    service.faults.abandon(async move { worlds.renew_viewer(world.as_str(), &of, false).await }).await;
    timeout(PATIENCE, viewers.changed()).await.expect("who looks hears that the URL is closed").unwrap();
    let (worlds, of, world) = (service.worlds.clone(), caller(&key), id.clone());
    service.faults.abandon(async move { worlds.delete(world.as_str(), &of).await }).await;
    timeout(PATIENCE, viewers.changed()).await.expect("who looks hears that the world is gone").unwrap();
    assert!(matches!(service.worlds.find(id.as_str(), &caller(&key)).await, Err(Error::UnknownWorld { .. })));
    assert_eq!(service.worlds.counts(), (0, 0));
}
