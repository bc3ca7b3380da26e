//! Accepts requests: the attachments are on the disk, and the world is in the store, before the answer.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::Worlds;
use super::attachment;
use super::log::RequestEntry;
use super::patient::{Identity, Patient, PatientRef};
use super::record::{Content, WorldRecord, upload_file};
use super::request::{Source, WorldRequest};
use super::sender::Sender;
use crate::Error;
use warmpool_api::world::Status;
use warmpool_core::cipher::Cipher;
use warmpool_core::clock::unix_ms;
use warmpool_core::error::FieldFault as _;
use warmpool_core::ids::WorldId;
use warmpool_core::secret::Secret;
use warmpool_keys::{IntegrationKey, IntegrationKind, KeyId, shorten};
use warmpool_store::{Batch, Durability, Table, carry_out};

/// The width of a test key's scenes, in pixels, and of the first picture.
const TEST_WIDTH: u32 = 1024;
const TEST_PREVIEW_WIDTH: u32 = 512;
/// Changes when the same request should give another scene than before.
const SCENE_VERSION: &str = "2";
/// How long the daemon believes that the renderers' image is there, or is not.
const IMAGE_BELIEVED: Duration = Duration::from_secs(10);

/// The world that a request gets.
pub struct AcceptedWorld {
    /// Its record, as it is now.
    pub record: WorldRecord,
    /// Whether the same scene was there already.
    pub cached: bool,
}

impl Worlds {
    /// Finds the integration key of a request: the one in its body, or else the one in its header. Returns the secret with it, and
    /// notes its use. A body that nobody has read is empty.
    /// Errors: `MissingApiKey`, `InvalidApiKey`; `InvalidBody` where the body is no JSON object and there is no key.
    pub fn identify(
        &self,
        body: &[u8],
        header: Option<&str>,
        entry: &mut RequestEntry,
    ) -> Result<(IntegrationKey, Secret), Error> {
        // The key comes first, so that the wrong fields of a known client appear in its log.
        let (sender, read) = Sender::read(body);
        entry.row.environment = sender.environment;
        entry.row.counts = read.is_ok().then_some(sender.counts);
        let Some(secret) = sender.secret.as_deref().or(header) else {
            return Err(read.err().unwrap_or_else(|| warmpool_keys::Error::MissingApiKey.into()));
        };
        let found = self.shared.keys.find(secret);
        entry.row.shown = shorten(secret);
        if let Some(key) = &found {
            (entry.row.owner, entry.row.key) = (Some(key.details.owner.clone()), Some(key.id.clone()));
        }
        let key = found.filter(IntegrationKey::is_active).ok_or(warmpool_keys::Error::InvalidApiKey)?;
        entry.prove();
        self.shared.keys.touch(&key.id);
        Ok((key, Secret::new(secret.to_owned())))
    }

    /// Accepts a request: what it attaches is on the disk, and its world in the store, when this returns. Where its client leaves
    /// meanwhile, it does so all the same, holds `memory`, which counts what the pictures take, until then, and logs it.
    /// Errors: `InvalidField` for a picture; `InvalidApiKey` when the key was revoked meanwhile; `NoRenderer` where there is no
    /// image; `WorldQueueFull`, `WorldKeyLimit`, `WorldSizeLimit`, `PatientLimit`; `UnreadablePatient`; when the store refuses.
    pub async fn generate(
        &self,
        key: &IntegrationKey,
        request: WorldRequest,
        entry: &mut RequestEntry,
        memory: impl Send + 'static,
    ) -> Result<AcceptedWorld, Error> {
        let (worlds, key, mut taken) = (self.clone(), key.clone(), std::mem::replace(entry, RequestEntry::begin()));
        let accepting = carry_out(async move {
            let accepted = worlds.accept(&key, &request, &mut taken).await;
            if accepted.is_ok() {
                taken.log_anyway(worlds.log());
            }
            // The pictures are on the disk by now, and the memory that they took may serve others.
            drop((request, memory));
            (taken, accepted)
        });
        let (taken, accepted) = accepting.await;
        *entry = taken;
        accepted
    }

    async fn accept(
        &self,
        key: &IntegrationKey,
        request: &WorldRequest,
        entry: &mut RequestEntry,
    ) -> Result<AcceptedWorld, Error> {
        let row = &mut entry.row;
        let counts = request.counts();
        row.counts = Some(counts);
        let limits = self.picture_limits();
        for item in &request.items {
            if let Source::Data(bytes) = &item.source {
                attachment::inspect(bytes, limits)
                    .map_err(|error| Error::invalid(format!("{}.data", item.field), error.to_string()))?;
            }
        }
        let reference = self.shared.patients.reference(&key.id, &request.patient_id);
        let scene = self.scene_of(key, &reference, request);
        // Before the lock: a container engine that hangs may hold up those alone who want something rendered.
        let has_renderer = self.find_by_scene(&scene).await?.is_some() || self.can_render().await;
        // Before the patient is looked up: a deletion in between would otherwise be undone, with the deleted key.
        let _one = self.shared.accepting.lock().await;
        // Its worlds end under this lock when it is revoked.
        if !self.shared.keys.is_active(&key.id) {
            return Err(warmpool_keys::Error::InvalidApiKey.into());
        }
        let patient = self.shared.patients.find_or_make(&reference).await?;
        let identity = Identity { id: request.patient_id.clone(), name: request.patient_name.clone() };
        row.belongings = (counts.belongings > 0).then(|| patient.cipher.encrypt_json(&request.logged_belongings()));
        if let Some(record) = self.find_by_scene(&scene).await? {
            if patient.identity().as_ref() != Some(&identity) {
                let mut batch = Batch::new();
                patient.put(&identity, &key.details.owner, &mut batch)?;
                self.shared.store.commit(batch, Durability::Power).await?;
                self.count(&patient, &key.details.owner);
            }
            row.patient = Some(reference);
            row.world = Some(record.world_id.clone());
            return Ok(AcceptedWorld { record, cached: true });
        }
        if !has_renderer {
            return Err(Error::NoRenderer { image: self.shared.config.world.image.clone() });
        }
        self.check_queue(&key.details.owner)?;
        let attached = request.attached();
        self.check_room(&key.details.owner, attached)?;
        self.check_patients(&key.details.owner, &patient)?;
        let world_id = WorldId::random();
        let content = match self.store_uploads(&patient.cipher, &world_id, request).await {
            Ok(content) => content,
            Err(error) => {
                let _ = self.shared.files.remove_all(&world_id).await;
                return Err(error);
            }
        };
        let test = key.details.kind == IntegrationKind::Test;
        let settings = &self.shared.config.world;
        let width = if test { settings.width.min(TEST_WIDTH) } else { settings.width };
        let preview_width = if test { settings.preview_width.min(TEST_PREVIEW_WIDTH) } else { settings.preview_width };
        let record = WorldRecord {
            world_id: world_id.clone(),
            key: key.id.clone(),
            owner: key.details.owner.clone(),
            kind: key.details.kind,
            patient: reference.clone(),
            environment: request.environment,
            scene: scene.clone(),
            width,
            preview_width: preview_width.min(width),
            status: Status::Queued,
            preview: false,
            created_ms: unix_ms(),
            ended_ms: None,
            viewer: Some(0),
            viewers: 1,
            failure: None,
            content: patient.cipher.encrypt_json(&content),
        };
        let mut batch = Batch::new();
        batch.put_json(Table::Worlds, world_id.as_str(), &record)?;
        batch.put(Table::Scenes, scene, world_id.as_str());
        batch.put(Table::PatientWorlds, reference.world_row(world_id.as_str()), world_id.as_str());
        patient.put(&identity, &key.details.owner, &mut batch)?;
        self.shared.patients.put_key_check(&mut batch);
        let counted = self.shared.keys.count_world(&key.id, &mut batch).await?;
        if let Err(error) = self.shared.store.commit(batch, Durability::Power).await {
            let _ = self.shared.files.remove_all(&world_id).await;
            return Err(error.into());
        }
        counted.committed();
        self.count(&patient, &key.details.owner);
        row.patient = Some(reference);
        row.world = Some(world_id.clone());
        self.lock().usage.set(&world_id, &key.details.owner, attached);
        self.enqueue(record.clone());
        Ok(AcceptedWorld { record, cached: false })
    }

    /// Checks that one more world of a service key may wait.
    fn check_queue(&self, owner: &KeyId) -> Result<(), Error> {
        let settings = &self.shared.config.world;
        let state = self.lock();
        if state.queue.len() >= settings.queue_length {
            return Err(Error::WorldQueueFull { length: settings.queue_length });
        }
        if settings.max_per_key > 0 && state.queue.count_of(owner) >= settings.max_per_key {
            return Err(Error::WorldKeyLimit { limit: settings.max_per_key });
        }
        Ok(())
    }

    /// Checks that a service key may keep one more world with so many bytes attached.
    fn check_room(&self, owner: &KeyId, attached: u64) -> Result<(), Error> {
        let limit = self.shared.config.world.max_total.bytes();
        let size = self.lock().usage.with(owner, attached);
        if size > limit { Err(Error::WorldSizeLimit { size, limit }) } else { Ok(()) }
    }

    /// Checks that a service key may have this patient: one whom it has already, or one more.
    fn check_patients(&self, owner: &KeyId, patient: &Patient) -> Result<(), Error> {
        let limit = self.shared.config.world.max_patients;
        let is_new = !patient.is_counted() && patient.identity().is_none();
        if is_new && self.lock().usage.patients(owner) >= limit as u64 {
            Err(Error::PatientLimit { limit })
        } else {
            Ok(())
        }
    }

    /// Counts a patient whose row has just been written.
    fn count(&self, patient: &Patient, owner: &KeyId) {
        if !patient.is_counted() {
            self.lock().usage.add_patient(owner);
        }
    }

    /// A hash of all that decides how the scene looks.
    fn scene_of(&self, key: &IntegrationKey, patient: &PatientRef, request: &WorldRequest) -> String {
        let settings = &self.shared.config.world;
        let test = if key.details.kind == IntegrationKind::Test { "test" } else { "live" };
        let size = format!("{} {} {}", settings.width, settings.preview_width, settings.samples);
        let mut parts = vec![
            "scene".to_owned(),
            SCENE_VERSION.to_owned(),
            test.to_owned(),
            size,
            patient.as_str().to_owned(),
            request.environment.as_str().to_owned(),
            request.variation.clone(),
        ];
        for item in &request.items {
            let source = match &item.source {
                Source::None => String::new(),
                Source::Data(bytes) => hex::encode(Sha256::digest(bytes)),
                Source::Url(url) => url.to_string(),
            };
            parts.extend([item.field.clone(), item.label.clone(), source]);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        hex::encode(self.shared.instance.fingerprint(&parts))
    }

    /// The world that has this scene, or will have it.
    async fn find_by_scene(&self, scene: &str) -> Result<Option<WorldRecord>, Error> {
        let Some(id) = self.shared.store.get(Table::Scenes, scene.as_bytes()).await? else { return Ok(None) };
        let record = self.record(&WorldId::from(&*String::from_utf8_lossy(&id))).await?;
        Ok(record.filter(|record| record.status != Status::Failed))
    }

    async fn store_uploads(&self, cipher: &Cipher, world: &WorldId, request: &WorldRequest) -> Result<Content, Error> {
        self.shared.files.create(world).await?;
        for (number, item) in request.items.iter().enumerate() {
            if let Source::Data(bytes) = &item.source {
                self.shared.files.put(cipher, world, &upload_file(number), Bytes::clone(bytes)).await?;
            }
        }
        Ok(request.content())
    }

    /// Whether the image of the renderers is on this host, as far as is known.
    pub async fn can_render(&self) -> bool {
        let known = self.lock().image.filter(|(when, _)| when.elapsed() < IMAGE_BELIEVED);
        if let Some((_, there)) = known {
            return there;
        }
        // A runtime that does not answer now may do so when it is this world's turn.
        let there = self.shared.runtime.has_renderer_image().await.unwrap_or(true);
        self.lock().image = Some((Instant::now(), there));
        there
    }

    /// How many worlds wait for their turn, and how many are being rendered.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.queue.len(), state.live.len().saturating_sub(state.queue.len()))
    }
}
