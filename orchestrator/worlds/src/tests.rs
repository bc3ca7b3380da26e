//! Worlds without a renderer: no engine answers, so what is begun goes on for as long as nobody ends it.

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
        let sources =
            AttachmentSources { keys: Keys::load(store.clone()).await.unwrap(), lookups: Resolver::nowhere().share() };
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
async fn a_deleted_world_frees_its_renderer() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let (first, second) = (service.generate(&key, 0).await.unwrap(), service.generate(&key, 1).await.unwrap());
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    service.reaches(&first, Status::Rendering).await;
    let caller = caller(&key);
    timeout(PATIENCE, service.worlds.delete(first.world_id.as_str(), &caller)).await.unwrap().unwrap();
    assert!(matches!(service.find(&key, &first).await, Err(Error::UnknownWorld { .. })));
    service.reaches(&second, Status::Rendering).await;
    renderer.abort();
}

#[tokio::test]
async fn a_deleted_world_waits_for_no_spare_renderer() {
    let engine = tempfile::tempdir().unwrap();
    let socket = engine.path().join("docker.sock");
    let host = format!("unix://{}", socket.display());
    let service = Service::new(&[
        ("WARMPOOL_DOCKER_HOST", &host),
        ("WARMPOOL_DOCKER_TIMEOUT", "1h"),
        ("WARMPOOL_DOCKER_WORK_TIMEOUT", "1h"),
        ("WARMPOOL_WORLD_WARM", "true"),
    ])
    .await;
    let key = service.key("ward").await;
    let world = service.generate(&key, 0).await.unwrap();
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    service.reaches(&world, Status::Rendering).await;
    // From now on there is an engine, and it answers nothing.
    let _silent = tokio::net::UnixListener::bind(&socket).unwrap();
    timeout(PATIENCE, service.worlds.delete(world.world_id.as_str(), &caller(&key))).await.unwrap().unwrap();
    renderer.abort();
}

#[tokio::test]
async fn a_world_that_failed_keeps_nothing_that_was_uploaded() {
    let service = Service::new(&[]).await;
    let (key, revoked) = (service.key("ward").await, service.key("revoked").await);
    let mut damaged = picture();
    damaged.truncate(damaged.len() / 2);
    let world = service.attach(&key, &damaged).await;
    assert_eq!(service.files(&world), ["upload-0"]);
    let mut changes = service.worlds.changes(&world.world_id).unwrap();
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    reaches(&mut changes, Status::Failed).await;
    renderer.abort();
    assert!(service.files(&world).is_empty());
    let of_revoked = service.attach(&revoked, &picture()).await;
    service.worlds.keys().revoke(&revoked.id).await.unwrap();
    service.worlds.end_revoked().await;
    assert!(service.files(&of_revoked).is_empty());

    // As a kill between the record and the removal leaves it.
    let waits = service.attach(&key, &picture()).await;
    for name in ["upload-0", "upload-3.new", "picture-1.jpg"] {
        std::fs::write(service.worlds.shared.files.path(&world.world_id, name), "x").unwrap();
    }
    assert!(service.tidy().await.is_empty());
    assert_eq!(service.files(&world), ["picture-1.jpg"]);
    assert_eq!(service.files(&waits), ["upload-0"], "what waits keeps it");
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
async fn the_patients_of_an_owner_have_a_limit() {
    let service = Service::new(&[("WARMPOOL_WORLD_MAX_PATIENTS", "2")]).await;
    let (one, two) = (service.key("one").await, service.key("two").await);
    let other = service.key_of("ba9876543210", "other").await;
    let world = service.generate_for(&one, "ann").await.unwrap();
    service.generate_for(&two, "ann").await.unwrap();
    service.worlds.delete(world.world_id.as_str(), &caller(&one)).await.unwrap();
    let is_refused = async |key: &IntegrationKey| {
        let refused = service.generate_for(key, "zoe").await.map(drop);
        let is_refused = matches!(&refused, Err(error @ Error::PatientLimit { limit: 2 })
            if (error.code().as_str(), error.retry_after()) == ("world_limit", None));
        assert!(is_refused || refused.is_ok(), "{refused:?}");
        is_refused
    };
    assert!(is_refused(&one).await && is_refused(&two).await, "a deleted world leaves its patient");
    service.generate_for(&other, "bob").await.unwrap();
    service.generate_for(&one, "ann").await.unwrap();
    service.generate(&other, 0).await.unwrap();
    assert_eq!((service.rows(Table::Patients).await, service.rows(Table::PatientKeys).await), (4, 4));

    // The next start knows whom there is.
    service.worlds.lock().usage = usage::Usage::default();
    service.worlds.load().await.unwrap();
    assert!(is_refused(&one).await && is_refused(&other).await);
    service.worlds.delete_patient("ann", &caller(&two)).await.unwrap();
    assert!(!is_refused(&one).await);
    assert!(is_refused(&two).await);
}

#[tokio::test]
async fn a_patient_goes_with_the_last_that_names_them() {
    let service = Service::new(&[("WARMPOOL_WORLD_MAX_PATIENTS", "2"), ("WARMPOOL_WORLD_KEEP_LOG", "1")]).await;
    let key = service.key("ward").await;
    let ask = async |patient: &str, at_ms: u64| {
        let mut entry = RequestEntry::begin();
        service.worlds.identify(b"{}", Some(service.secret(&key).await.expose()), &mut entry).unwrap();
        let request = WorldRequest { patient_id: patient.to_owned(), ..service.request(0) };
        let world = service.worlds.generate(&key, request, &mut entry, ()).await.unwrap().record;
        entry.row.at_ms = at_ms;
        service.worlds.log().add(entry, 200).await;
        world
    };
    let forget = async || {
        service.worlds.forget_old().await.unwrap();
        let mut range = KeyRange::all();
        service.worlds.forget_unused(&mut range).await.unwrap();
        service.worlds.forget_unused(&mut range).await.unwrap();
        service.rows(Table::Patients).await
    };
    let now = warmpool_core::clock::unix_ms();
    let world = ask("ann", now).await;
    service.worlds.delete(world.world_id.as_str(), &caller(&key)).await.unwrap();
    assert_eq!(forget().await, 1, "the log names her");
    ask("bob", now + 1).await;
    assert_eq!(forget().await, 1, "nothing names her");
    assert_eq!(service.rows(Table::PatientKeys).await, 1);
    service.generate_for(&key, "eve").await.unwrap();
    assert_eq!(forget().await, 2, "his world names him, and hers her");
    assert!(service.generate_for(&key, "ann").await.is_err());
}

#[tokio::test]
async fn others_get_their_turns_while_a_patient_is_deleted() {
    const WORLDS: usize = 40;
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    for variation in 0..WORLDS {
        service.generate(&key, variation).await.unwrap();
    }
    let mut batch = Batch::new();
    let patient = service.worlds.shared.patients.reference(&key.id, "p");
    batch.put(Table::PatientWorlds, patient.world_row("wld_gone"), "wld_gone");
    service.store.commit(batch, Durability::Process).await.unwrap();
    let (worlds, of) = (service.worlds.clone(), caller(&key));
    let deleting = tokio::spawn(async move { worlds.delete_patient("p", &of).await });
    let left = loop {
        let _one = service.worlds.shared.accepting.lock().await;
        let left = service.rows(Table::Worlds).await;
        if left < WORLDS {
            break left;
        }
        tokio::task::yield_now().await;
    };
    assert!(left > 0, "none was left when somebody else had a turn");
    let deleted = timeout(PATIENCE, deleting).await.unwrap().unwrap().unwrap();
    assert_eq!((deleted.worlds, deleted.patients), (WORLDS, 1));
    for table in [Table::Worlds, Table::PatientWorlds, Table::Scenes, Table::Patients, Table::PatientKeys] {
        assert_eq!(service.rows(table).await, 0, "{table}");
    }
    assert_eq!(service.worlds.counts(), (0, 0));
}

#[tokio::test]
async fn a_row_of_the_log_is_short_whatever_is_attached() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let belongings: Vec<_> = (0..24).map(|_| json!({"label": "\u{1f4fb}".repeat(120)})).collect();
    let body = json!({
        "patient_id": "p", "patient_name": "Ann", "environment_type": "garden", "belongings": belongings,
    });
    let request = WorldRequest::check(serde_json::from_value(body).unwrap(), service.worlds.limits()).unwrap();
    let mut entry = RequestEntry::begin();
    service.worlds.generate(&key, request, &mut entry, ()).await.unwrap();
    service.worlds.log().add(entry, 200).await;
    let rows = service.store.scan(Table::WorldRequests, KeyRange::all(), 9).await.unwrap();
    assert!(rows[0].value.len() < 2048, "{} bytes", rows[0].value.len());
    let (rows, _) = service.logged(RequestQuery::default()).await;
    assert!(rows[0].payload.ends_with("\u{1f4fb} and 23 more"), "{}", rows[0].payload);
}

#[tokio::test]
async fn a_revoked_key_keeps_no_world_waiting_or_rendering() {
    let service = Service::new(&[]).await;
    let (revoked, other) = (service.key("revoked").await, service.key("other").await);
    let (rendered, waits) =
        (service.generate(&revoked, 0).await.unwrap(), service.generate(&revoked, 1).await.unwrap());
    let others = service.generate(&other, 0).await.unwrap();
    let worlds = service.worlds.clone();
    let renderer = tokio::spawn(async move { worlds.render_in_turn().await });
    let worlds = service.worlds.clone();
    let following = tokio::spawn(async move { worlds.follow_revocations().await });
    service.reaches(&rendered, Status::Rendering).await;
    let mut changes: Vec<_> = [&rendered, &waits].map(|world| service.worlds.changes(&world.world_id).unwrap()).into();
    service.worlds.keys().revoke(&revoked.id).await.unwrap();
    for changes in &mut changes {
        reaches(changes, Status::Failed).await;
    }
    for world in [&rendered, &waits] {
        let failure = service.find(&revoked, world).await.unwrap().failure.unwrap();
        assert_eq!(failure.code, "key_revoked");
    }
    service.reaches(&others, Status::Rendering).await;
    // A request that was checked before the revocation comes too late as well.
    let late = timeout(PATIENCE, service.generate(&revoked, 2)).await.unwrap();
    assert!(matches!(late, Err(Error::Key(warmpool_keys::Error::InvalidApiKey))));
    assert_eq!(service.worlds.counts(), (0, 1));
    renderer.abort();
    following.abort();
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

#[tokio::test]
async fn requests_without_a_key_that_works_take_no_room_on_the_disk() {
    let service = Service::new(&[("WARMPOOL_WORLD_KEEP_UNPROVEN", "50")]).await;
    let key = service.key("ward").await;
    let revoked =
        service.worlds.keys().create(&key.details.owner, "old", IntegrationKind::Live, 9, |_| true).await.unwrap();
    service.worlds.keys().revoke(&revoked.record.id).await.unwrap();
    let log = service.worlds.log();
    let query = RequestQuery { owner: Some(key.details.owner.clone()), ..RequestQuery::default() };
    let mut followed = std::pin::pin!(log.follow(query.clone()));
    let before = service.faults.calls(FaultPoint::Apply);
    for number in 0..10_000 {
        let sent = [None, Some("wk_live_0123456789abcdef0123456789"), Some(revoked.secret.expose())][number % 3];
        let mut entry = RequestEntry::begin();
        assert!(service.worlds.identify(b"{}", sent, &mut entry).is_err());
        log.add(entry, 401).await;
    }
    assert_eq!(service.faults.calls(FaultPoint::Apply), before, "nothing was written");
    let (rows, total) = service.logged(query.clone()).await;
    assert_eq!((rows.len(), total), (50, 50), "the newest are listed");
    assert!(rows.iter().all(|row| row.status == "401 Unauthorized"));
    assert_eq!(
        rows.iter().filter(|row| row.key_id.as_ref() == Some(&revoked.record.id)).count(),
        17,
        "the log names it"
    );

    // However many they were, nobody who follows misses a request of their own.
    let mut entry = RequestEntry::begin();
    service.worlds.identify(b"{}", Some(service.secret(&key).await.expose()), &mut entry).unwrap();
    log.add(entry, 422).await;
    assert_eq!(followed.next().await.unwrap().unwrap().status, "422 Unprocessable Entity");
    assert_eq!(service.faults.calls(FaultPoint::Apply), before + 2);
    assert_eq!(service.logged(query).await.1, 51);
    assert_eq!(service.store.scan(Table::WorldRequests, KeyRange::all(), 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn old_requests_are_removed_while_the_disk_is_nearly_full() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let mut entry = RequestEntry::begin();
    service.worlds.identify(b"{}", Some(service.secret(&key).await.expose()), &mut entry).unwrap();
    entry.row.at_ms = 1000;
    service.worlds.log().add(entry, 200).await;
    service.worlds.keys().touch(&key.id);
    assert_eq!(service.logged(RequestQuery::default()).await.1, 1);
    service.faults.set_free_bytes(MIN_FREE / 2);
    service.worlds.forget_old().await.unwrap();
    assert_eq!(service.logged(RequestQuery::default()).await.1, 0);
    assert!(service.store.scan(Table::WorldRequests, KeyRange::all(), 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_log_keeps_the_newest_requests_of_each_owner() {
    let service = Service::new(&[("WARMPOOL_WORLD_KEEP_LOG", "3")]).await;
    let (one, other) = (service.key("one").await, service.key_of("ba9876543210", "other").await);
    let (first, second) = (service.secret(&one).await, service.secret(&other).await);
    let log = service.worlds.log();
    let add = async |secret: &str, at_ms: u64| {
        let mut entry = RequestEntry::begin();
        let _ = service.worlds.identify(b"{}", Some(secret), &mut entry);
        entry.row.at_ms = at_ms;
        log.add(entry, 200).await;
    };
    let now = warmpool_core::clock::unix_ms();
    for number in 0..700 {
        add(first.expose(), now + number).await;
    }
    add(second.expose(), now).await;
    add("wk_live_0123456789abcdef0123456789", now).await;
    service.worlds.forget_old().await.unwrap();
    let of =
        |owner: &IntegrationKey| RequestQuery { owner: Some(owner.details.owner.clone()), ..RequestQuery::default() };
    let (rows, total) = service.logged(of(&one)).await;
    let times: Vec<u64> = rows.iter().map(|row| row.timestamp - now).collect();
    assert_eq!((times, total), (vec![699, 698, 697, 0], 4), "the last is nobody's");
    assert_eq!(service.logged(of(&other)).await.1, 2);
    assert_eq!(service.store.scan(Table::WorldRequests, KeyRange::all(), 9).await.unwrap().len(), 4);
}

/// Whether this process has an archive in a file that no folder names.
fn has_unnamed_archive() -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let unnamed = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().ends_with("(deleted)"))
    };
    open.filter(unnamed).any(|path| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"PK")))
}

#[tokio::test]
async fn an_export_is_read_without_a_file_and_one_at_a_time() {
    let service = Service::new(&[]).await;
    let (key, other) = (service.key("ward").await, service.key_of("ba9876543210", "other").await);
    let picture = picture();
    let world = service.attach(&key, &picture).await;
    service.generate(&other, 0).await.unwrap();

    let export = async |key: &IntegrationKey| service.worlds.export("p", &caller(key)).await.map(Box::pin);
    let mut reading = export(&key).await.unwrap();
    let mut bytes = reading.next().await.unwrap().unwrap().to_vec();
    assert!(!has_unnamed_archive(), "nothing of it lies on the disk");
    assert!(matches!(export(&key).await.map(drop), Err(Error::Exporting)));
    assert!(export(&other).await.is_ok(), "another key's does not wait for it");
    while let Some(piece) = reading.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut read = |name: &str| {
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut archive.by_name(name).unwrap(), &mut content).unwrap();
        content
    };
    let about: serde_json::Value = serde_json::from_slice(&read("patient.json")).unwrap();
    let patient = &about["patients"][0];
    assert_eq!((&patient["patient_name"], &patient["worlds"][0]["status"]), (&json!("Ann"), &json!("queued")));
    assert_eq!(read(&format!("{}/upload-0", world.world_id)), picture);
    drop(export(&key).await.unwrap());
    assert!(export(&key).await.is_ok(), "one that is dropped gives its place back");
    let unknown = service.worlds.export("q", &caller(&key)).await.map(drop);
    assert!(matches!(unknown, Err(Error::UnknownPatient)) && export(&key).await.is_ok());
}

#[tokio::test]
async fn an_export_of_many_worlds_has_one_at_a_time_in_memory() {
    const WORLDS: usize = 30;
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    for variation in 0..WORLDS {
        // Nothing that a compression makes short.
        let url = || format!("https://a.example/?{}", hex::encode(warmpool_core::ids::random_bytes::<400>()));
        let images: Vec<_> = (0..12).map(|_| json!({"url": url(), "label": "y"})).collect();
        let belongings: Vec<_> = (0..20).map(|_| json!({"url": url(), "label": "y"})).collect();
        let body = json!({
            "patient_id": "p", "patient_name": "Ann", "environment_type": "garden", "variation": variation,
            "images": images, "belongings": belongings,
        });
        let request = WorldRequest::check(serde_json::from_value(body).unwrap(), service.worlds.limits()).unwrap();
        service.worlds.generate(&key, request, &mut RequestEntry::begin(), ()).await.unwrap();
    }
    let mut reading = Box::pin(service.worlds.export("p", &caller(&key)).await.unwrap());
    let mut bytes = Vec::new();
    while let Some(piece) = reading.next().await {
        let piece = piece.unwrap();
        assert!((1..128 << 10).contains(&piece.len()), "a piece of {} bytes", piece.len());
        bytes.extend_from_slice(&piece);
    }
    assert!(bytes.len() > 256 << 10, "{} bytes are more than one piece", bytes.len());
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let about: serde_json::Value = serde_json::from_reader(archive.by_name("patient.json").unwrap()).unwrap();
    let worlds = about["patients"][0]["worlds"].as_array().unwrap();
    assert_eq!(worlds.len(), WORLDS);
    assert!(worlds.iter().all(|world| world["content"]["items"].as_array().unwrap().len() == 32));
}

#[tokio::test]
async fn an_export_tells_the_people_apart_whom_two_integrations_call_the_same() {
    let service = Service::new(&[]).await;
    let (one, two, other) =
        (service.key("one").await, service.key("two").await, service.key_of("ba9876543210", "other").await);
    let mut worlds = Vec::new();
    for (key, name) in [(&one, "Ann"), (&two, "Bob"), (&other, "Eve")] {
        let request = WorldRequest { patient_name: name.to_owned(), ..service.request(0) };
        let accepted = service.worlds.generate(key, request, &mut RequestEntry::begin(), ()).await.unwrap();
        worlds.push(accepted.record.world_id);
    }
    let patients = async |caller: WorldCaller| {
        let mut reading = Box::pin(service.worlds.export("p", &caller).await.unwrap());
        let mut bytes = Vec::new();
        while let Some(piece) = reading.next().await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
        let about: serde_json::Value = serde_json::from_reader(archive.by_name("patient.json").unwrap()).unwrap();
        let mut patients = about["patients"].as_array().unwrap().clone();
        patients.sort_by_key(|patient| patient["patient_name"].to_string());
        let said = |patient: &serde_json::Value| {
            let worlds = patient["worlds"].as_array().unwrap().iter().map(|world| world["world_id"].clone());
            let text = |member: &str| patient[member].as_str().unwrap().to_owned();
            (text("patient_id"), text("patient_name"), text("key_id"), text("key_name"), worlds.collect::<Vec<_>>())
        };
        patients.iter().map(said).collect::<Vec<_>>()
    };
    let expected = |name: &str, key: &IntegrationKey, world: &WorldId| {
        ("p".to_owned(), name.to_owned(), key.id.to_string(), key.name.clone(), vec![json!(world)])
    };
    let (ann, bob) = (expected("Ann", &one, &worlds[0]), expected("Bob", &two, &worlds[1]));
    assert_eq!(patients(WorldCaller::Operator(one.details.owner.clone())).await, [ann.clone(), bob]);
    assert_eq!(patients(caller(&one)).await, [ann]);
}

#[tokio::test]
async fn a_renderer_that_says_nothing_is_given_up() {
    let service = Service::new(&[]).await;
    let key = service.key("ward").await;
    let record = service.generate(&key, 0).await.unwrap();
    let patient = service.worlds.patient(&record).await.unwrap();
    let live = LiveWorld::new(record.clone());
    // Where it may read, and what it says at first. The second takes no job: its pipe is full after a byte.
    for (room, said) in [(1 << 20, &b""[..]), (1, b""), (1 << 20, b"{\"event\": \"pro")] {
        let renderer = || {
            let (input, unread) = tokio::io::duplex(room);
            let said = futures_util::stream::iter([Ok(said.into())]).chain(futures_util::stream::pending());
            let pipes = RendererPipes { input: Box::pin(input), output: said.boxed() };
            (Renderer::behind(pipes, &service.worlds), unread)
        };
        let (mut starting, _unread) = renderer();
        let (renders, _unread) = renderer();
        let mut content = record.open(&patient.cipher);
        tokio::time::pause();
        let for_ever = Duration::from_secs(7 * 86_400);
        let started = timeout(for_ever, starting.ready()).await.expect("the start ends");
        assert!(matches!(&started, Err(RenderError::Crashed(why)) if why == "did not start"), "{started:?}");
        let rendering = service.worlds.render(&live, &patient.cipher, &mut content, Some(renders));
        let rendered = timeout(for_ever, rendering).await.expect("the scene ends");
        assert!(matches!(rendered, Err(RenderError::Slow(_))), "{rendered:?}");
        tokio::time::resume();
    }
}
