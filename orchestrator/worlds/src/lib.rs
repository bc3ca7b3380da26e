//! Worlds: 360-degree scenes for patients, and the log of the requests for them.
//!
//! | module        | what it holds |
//! |---------------|---------------|
//! | `request`     | what a request may say, checked |
//! | `sender`      | whose a request is, whatever else is wrong with it |
//! | `accept`      | taking a request on |
//! | `patient`     | patients' ids and names, encrypted; `cipher` does that, with the operator's key of `names_key`; `patient_keys` looks at a start whose keys it opens |
//! | `record`      | a world as it is kept, and as clients see it |
//! | `attachment`  | pictures, decoded within limits and re-encoded; `fetch` brings those that are elsewhere |
//! | `files`       | the files of worlds, encrypted |
//! | `follow`      | following a world until its end |
//! | `rendering`   | renders worlds in turn, and writes their ends; `queue` says which is next |
//! | `usage`       | how much the worlds of each service key take on the disk, and how many patients it has |
//! | `render`      | one world, from its attachments to its pictures; `scene` speaks to its renderer, `render_clock` limits its time, and `render_error` says why it failed |
//! | `wait`        | waiting for the store and for room on the disk |
//! | `log`         | the log of requests; its `index` says which rows match a query |
//! | `viewer`      | the URLs of viewers |
//! | `forget`      | deleting worlds and patients, and limits of time; `export` gives a patient's data away |
//! | `error`       | what can go wrong with worlds and integration keys |
//!
//! The crate may use `warmpool-runtime`, `-dial`, `-keys`, `-store`, `-config`, `-api` and `-core`. It needs no worker and no
//! session: a renderer is a container of its own kind.
//!
//! - *Accepted is on the disk.* A request's pictures are checked by their headers alone and written as they came. Then one
//!   batch stores the world, its patient and the integration key's count, and the client gets its answer. What an earlier
//!   process left unfinished is in the store, and is rendered again.
//! - *Service keys take turns, and so do the integration keys of each*: more integration keys give nobody more turns. Each one's
//!   worlds are in the order of its requests. `world.renderers` of them are
//!   rendered at a time. What is deleted or revoked leaves queue and renderer at once.
//! - *A renderer shares neither a folder nor a network with anybody.* It gets one job on its standard input, answers on its
//!   standard output, and ends with the connection. Attachments are decoded within limits and re-encoded without camera
//!   metadata before. `worker-image/scene/README.md` has the protocol. Blender is under the GPL, so it stays in a process
//!   and an image of its own.
//! - *Each patient has a key of their own*, which the operator's key encrypts. It encrypts the name and id, which stand in
//!   one row, and the labels of worlds and of log rows. Deleting a patient deletes that key, so rows that stay become
//!   anonymous. A patient of whom neither a world nor a row of the log is left is removed. A patient is known by a keyed hash of
//!   the id and the integration key; hashes of that seed the scene. The renderer learns neither.
//! - *Attachments elsewhere are fetched by `warmpool-dial`*, at each redirect anew, under the key's policy and the daemon's
//!   rules. Rules only deny there; networks of `world.attachment_networks` alone open what is not public. All failures are
//!   one error, since whoever may name an attachment need not learn what there is in the daemon's network.

mod accept;
mod attachment;
mod error;
mod export;
mod fetch;
mod files;
mod follow;
mod forget;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod log;
mod names_key;
mod patient;
mod patient_keys;
mod queue;
mod record;
mod render;
mod render_clock;
mod render_error;
mod rendering;
mod request;
mod scene;
mod sender;
#[cfg(test)]
mod tests;
mod usage;
mod viewer;
mod wait;

pub use error::Error;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use attachment::PictureLimits;
use fetch::Fetcher;
use files::Files;
use names_key::{KeySource, VARIABLE, operators_cipher};
use patient::Patients;
use queue::WorldQueue;
use record::Content;
use usage::Usage;
use warmpool_api::world::Status;
use warmpool_config::Config;
use warmpool_core::drain::Drain;
use warmpool_core::ids::WorldId;
use warmpool_core::instance::Instance;
use warmpool_core::tally::Tally;
use warmpool_keys::{IntegrationKey, IntegrationKeys, KeyId};
use warmpool_runtime::Runtime;
use warmpool_store::{Batch, Durability, Store, Table};

pub use accept::AcceptedWorld;
pub use fetch::AttachmentSources;
use files::PICTURES;
pub use files::{FOLDER, StoredFile};
pub use log::{RequestEntry, RequestLog, RequestQuery};
pub use patient::PatientRef;
pub use patient::PatientsError;
pub use record::{WorldRecord, WorldView};
pub use request::{GenerateRequest, Limits, WorldRequest};

/// All worlds. Clones share them.
#[derive(Clone)]
pub struct Worlds {
    shared: Arc<Shared>,
}

struct Shared {
    config: Arc<Config>,
    instance: Arc<Instance>,
    keys: IntegrationKeys,
    patients: Patients,
    store: Store,
    files: Files,
    fetcher: Fetcher,
    runtime: Runtime,
    drain: Drain,
    log: RequestLog,
    /// Held from looking for a scene to having written its world, so that none is made twice.
    accepting: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// Held while a picture is decoded.
    decoding: Arc<tokio::sync::Mutex<()>>,
    /// There is something to render.
    work: Notify,
    /// Changes each time a viewer's URL stops working.
    viewers: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Worlds that are not ready yet.
    live: HashMap<WorldId, Arc<LiveWorld>>,
    /// Those of them that wait.
    queue: WorldQueue,
    /// The exports of each service key that are on their way.
    exporting: Tally<KeyId>,
    /// How much the worlds of each service key take on the disk, and how many patients it has.
    usage: Usage,
    /// When the image was looked for, and whether it was there.
    image: Option<(Instant, bool)>,
}

/// A world that is not ready yet.
pub(crate) struct LiveWorld {
    state: watch::Sender<(WorldRecord, f64)>,
    /// Held from reading its record to having written its successor.
    writing: tokio::sync::Mutex<()>,
    cancel: CancellationToken,
    /// Cancelled once nobody renders it any more, of a world that somebody rendered.
    released: CancellationToken,
}

impl LiveWorld {
    fn new(record: WorldRecord) -> Self {
        let (cancel, released) = (CancellationToken::new(), CancellationToken::new());
        let (state, writing) = (watch::Sender::new((record, 0.0)), tokio::sync::Mutex::default());
        Self { state, writing, cancel, released }
    }

    fn record(&self) -> WorldRecord {
        self.state.borrow().0.clone()
    }

    fn progress(&self, fraction: f64) {
        self.state.send_modify(|(_, progress)| *progress = progress.max(fraction));
    }

    fn change(&self, change: impl FnOnce(&mut WorldRecord)) -> WorldRecord {
        self.state.send_modify(|(record, _)| change(record));
        self.record()
    }
}

/// The caller of a route for existing worlds.
#[derive(Debug, Clone)]
pub enum WorldCaller {
    /// The holder of an integration key, who sees the worlds that it asked for.
    Integration(Box<IntegrationKey>),
    /// The holder of a service key, to whom integration keys belong.
    Operator(KeyId),
}

impl WorldCaller {
    /// The service key in whose name they call.
    const fn owner(&self) -> &KeyId {
        match self {
            Self::Integration(key) => &key.details.owner,
            Self::Operator(owner) => owner,
        }
    }

    fn may_see(&self, record: &WorldRecord) -> bool {
        match self {
            Self::Integration(key) => record.key == key.id,
            Self::Operator(owner) => record.owner == *owner,
        }
    }
}

impl Worlds {
    /// Opens what earlier processes kept.
    /// Fails when the store cannot be read, or the operator's key is not the one that was used before.
    pub async fn open(
        config: Arc<Config>,
        instance: Arc<Instance>,
        keys: IntegrationKeys,
        store: Store,
        runtime: Runtime,
        drain: Drain,
        sources: AttachmentSources,
    ) -> Result<Self, PatientsError> {
        let settings = &config.world;
        let (operator, source) = operators_cipher(settings.names_key_file.as_deref(), instance.names_key())?;
        let patients = Patients::open(store.clone(), Arc::clone(&instance), operator).await?;
        if let Some(warning) = patients.warning() {
            tracing::error!("{warning}");
        }
        if source == KeySource::Instance && !keys.list().is_empty() {
            tracing::warn!(
                "patients' names are encrypted with a key that lies beside them: set world.names_key_file or {}, and the next start \
                 encrypts them with that",
                VARIABLE
            );
        }
        let fetcher = Fetcher::new(&config, sources);
        let log = RequestLog::open(store.clone(), patients.clone(), settings.keep_unproven).await?;
        let files = Files::below(&config.store.data_dir, config.store.min_free.bytes());
        let state = Mutex::default();
        let accepting = tokio::sync::Mutex::default();
        let (work, viewers) = (Notify::new(), watch::Sender::default());
        let shared = Shared {
            config,
            instance,
            keys,
            patients,
            store,
            files,
            fetcher,
            runtime,
            drain,
            log,
            accepting,
            state,
            decoding: Arc::default(),
            work,
            viewers,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The integration keys.
    pub fn keys(&self) -> &IntegrationKeys {
        &self.shared.keys
    }

    /// What was wrong with what is kept of patients when the daemon started, and the remedy.
    pub fn warning(&self) -> Option<String> {
        self.shared.patients.warning()
    }

    /// The log of requests.
    pub fn log(&self) -> &RequestLog {
        &self.shared.log
    }

    /// What one request may have.
    pub fn limits(&self) -> Limits {
        let settings = &self.shared.config.world;
        Limits { images: settings.max_images, videos: settings.max_videos, belongings: settings.max_belongings }
    }

    /// How large a picture may be.
    fn picture_limits(&self) -> PictureLimits {
        let settings = &self.shared.config.world;
        PictureLimits { pixels: settings.max_pixels as u64, memory: settings.decode_memory.bytes() }
    }

    /// The patients that a service key's integrations may mean by this id.
    pub fn patients_of(&self, owner: &KeyId, patient_id: &str) -> Vec<PatientRef> {
        let keys = self.shared.keys.list_of(owner);
        keys.iter().map(|key| self.shared.patients.reference(&key.id, patient_id)).collect()
    }

    /// A world by its id, for one who may see it.
    /// Errors: `UnknownWorld`; when the store does not answer.
    pub async fn find(&self, id: &str, caller: &WorldCaller) -> Result<WorldRecord, Error> {
        let unknown = || Error::UnknownWorld { id: id.chars().take(64).collect() };
        let record = self.record(&WorldId::from(id)).await?.ok_or_else(unknown)?;
        if caller.may_see(&record) { Ok(record) } else { Err(unknown()) }
    }

    /// How far worlds are; nothing of those that were deleted.
    /// Errors: when the store does not answer.
    pub async fn statuses(&self, ids: &[WorldId]) -> Result<HashMap<WorldId, Status>, Error> {
        let keys = ids.iter().map(|id| id.as_str().as_bytes().to_vec()).collect();
        let rows = self.shared.store.get_many(Table::Worlds, keys).await?.into_iter().flatten();
        let stored = rows.filter_map(|row| serde_json::from_slice::<WorldRecord>(&row).ok());
        let mut statuses: HashMap<_, _> = stored.map(|record| (record.world_id, record.status)).collect();
        // What is being made may be further than the store knows.
        statuses.extend(ids.iter().filter_map(|id| Some((id.clone(), self.live(id)?.record().status))));
        Ok(statuses)
    }

    /// A world as clients see it.
    /// Fails when the store does not answer.
    pub async fn view(&self, record: WorldRecord, cached: bool) -> Result<WorldView, Error> {
        let patient = self.shared.patients.find(&record.patient).await?;
        let content = patient.map(|patient| record.open(&patient.cipher)).unwrap_or_default();
        let token = self.token(&record);
        let progress = match record.status {
            Status::Ready => 1.0,
            _ => self.live(&record.world_id).map_or(0.0, |live| live.state.borrow().1),
        };
        Ok(WorldView { record, content, progress, token, cached })
    }

    /// A picture of a world or of one of its items, if it is there, and its media type.
    /// Errors: when store or disk do not answer.
    pub async fn picture(&self, record: &WorldRecord, name: &str) -> Result<Option<(StoredFile, &'static str)>, Error> {
        let cipher = self.patient(record).await?.cipher;
        let attached =
            || record.open(&cipher).pictures().any(|file| file == Some(name)).then_some((name, "image/jpeg"));
        let Some((name, media_type)) = PICTURES.iter().copied().find(|(known, _)| *known == name).or_else(attached)
        else {
            return Ok(None);
        };
        let file = self.shared.files.find(&cipher, &record.world_id, name).await?;
        Ok(file.map(|file| (file, media_type)))
    }

    async fn record(&self, id: &WorldId) -> Result<Option<WorldRecord>, Error> {
        if let Some(live) = self.live(id) {
            return Ok(Some(live.record()));
        }
        let row = self.shared.store.get(Table::Worlds, id.as_str().as_bytes()).await?;
        Ok(row.and_then(|row| serde_json::from_slice(&row).ok()))
    }

    async fn write(&self, record: &WorldRecord, durability: Durability) -> Result<(), Error> {
        let mut batch = Batch::new();
        batch.put_json(Table::Worlds, record.world_id.as_str(), record)?;
        batch.essential();
        Ok(self.shared.store.commit(batch, durability).await?)
    }

    /// Stores the present content of a world.
    async fn keep_content(&self, live: &LiveWorld, content: &Content) -> Result<(), Error> {
        let patient = self.shared.patients.find(&live.record().patient).await?;
        if let Some(patient) = patient {
            let text = patient.cipher.encrypt_json(content);
            let _alone = live.writing.lock().await;
            let record = live.change(|record| record.content = text);
            self.write(&record, Durability::Process).await?;
        }
        Ok(())
    }

    fn live(&self, id: &WorldId) -> Option<Arc<LiveWorld>> {
        self.lock().live.get(id).cloned()
    }

    /// How many worlds are not ready yet.
    pub fn unready(&self) -> usize {
        self.lock().live.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }
}
