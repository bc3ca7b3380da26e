//! Exports of patients' data: ZIP archives that are made while they are read. Nothing of them is on the disk, where it would stay
//! readable after the patient was deleted, and of worlds and pictures one at a time is in memory.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt as _, once, select, unfold};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{OwnedPermit, Sender, channel};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

use super::files::{PICTURES, found, read};
use super::forget::world_of;
use super::patient::{Identity, PatientRef};
use super::record::{Content, WorldRecord};
use super::{WorldCaller, Worlds};
use crate::Error;
use warmpool_core::blocking::blocking;
use warmpool_core::cipher::Cipher;
use warmpool_core::error::ServiceFault as _;
use warmpool_keys::IntegrationKey;
use warmpool_store::Table;

/// An archive that is being written.
type Zip = ZipWriter<StreamWriter<Untaken>>;

/// Someone of whom an archive tells.
struct Person {
    reference: PatientRef,
    cipher: Cipher,
    identity: Identity,
    key: IntegrationKey,
}

/// Bytes of an archive that nobody has taken yet.
#[derive(Clone, Default)]
struct Untaken(Arc<Mutex<Vec<u8>>>);

impl Untaken {
    /// Gives away what there is.
    fn give(&self, room: OwnedPermit<Bytes>) {
        let bytes = std::mem::take(&mut *self.0.lock());
        if !bytes.is_empty() {
            room.send(bytes.into());
        }
    }
}

impl io::Write for Untaken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An archive on its way.
struct Archive {
    zip: Zip,
    untaken: Untaken,
    pieces: Sender<Bytes>,
}

impl Archive {
    fn begin(pieces: Sender<Bytes>) -> Self {
        let untaken = Untaken::default();
        Self { zip: ZipWriter::new_stream(untaken.clone()), untaken, pieces }
    }

    /// Writes more, which may block, once the piece before is taken.
    /// Errors: `Internal`, when what it writes cannot be read.
    async fn add(mut self, write: impl FnOnce(&mut Zip) -> io::Result<()> + Send + 'static) -> Result<Self, Error> {
        let room = self.pieces.clone().reserve_owned().await.map_err(Error::internal)?;
        let written = blocking(move || write(&mut self.zip).map(|()| self)).await?;
        written.untaken.give(room);
        Ok(written)
    }

    /// Adds to the file that was begun last.
    /// Errors: `Internal`.
    async fn add_text(self, text: String) -> Result<Self, Error> {
        self.add(move |zip| zip.write_all(text.as_bytes())).await
    }

    /// Adds a file as it is, if it is there: a world that is not ready has not all of its pictures.
    /// Errors: `Internal`.
    async fn add_picture(self, name: String, path: PathBuf, cipher: Cipher) -> Result<Self, Error> {
        let copy = move |zip: &mut Zip| {
            let Some(bytes) = found(read(&path, &cipher))? else { return Ok(()) };
            // They are compressed already.
            zip.start_file(name, SimpleFileOptions::default().compression_method(CompressionMethod::Stored))?;
            zip.write_all(&bytes)
        };
        self.add(copy).await
    }

    /// Writes the end.
    /// Errors: `Internal`.
    async fn end(self) -> Result<(), Error> {
        let room = self.pieces.reserve_owned().await.map_err(Error::internal)?;
        self.zip.finish().map_err(Error::internal)?;
        self.untaken.give(room);
        Ok(())
    }
}

impl Worlds {
    /// All that is kept of a patient, as a ZIP archive: `patient.json`, and a folder a world with its pictures and what was
    /// attached. Integrations choose ids by themselves, so one id may be several people's: `patient.json` has an entry for each
    /// integration key that knows it. A service key has one at a time, until it is read or dropped. What cannot be read ends it with an error.
    /// Errors: `UnknownPatient`, `Exporting`; when the store refuses.
    pub async fn export(
        &self,
        patient_id: &str,
        caller: &WorldCaller,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, Error> {
        let place = self.lock().exporting.take(caller.owner().clone(), |exports| match exports.own {
            0 => Ok(1),
            _ => Err(Error::Exporting),
        })?;
        let mut people = Vec::new();
        for (key, reference) in self.references(caller, patient_id) {
            let Some(patient) = self.shared.patients.find(&reference).await? else { continue };
            let Some(identity) = patient.identity() else { continue };
            people.push(Person { reference, cipher: patient.cipher, identity, key });
        }
        if people.is_empty() {
            return Err(Error::UnknownPatient);
        }
        let (pieces, taken) = channel(1);
        let worlds = self.clone();
        let writing = async move {
            let _place = place;
            worlds.write_archive(&people, Archive::begin(pieces)).await
        };
        // They are polled together, so nothing is written once nobody reads.
        let pieces = unfold(taken, async |mut taken| Some((Ok(taken.recv().await?), taken)));
        let failed = once(writing).filter_map(async |written| written.err().map(|error| Err(io::Error::other(error))));
        Ok(select(pieces, failed))
    }

    /// Writes all of an archive: world by world, since a patient may have any number of them.
    async fn write_archive(&self, people: &[Person], archive: Archive) -> Result<(), Error> {
        let mut archive = archive.add(|zip| Ok(zip.start_file("patient.json", SimpleFileOptions::default())?)).await?;
        for (number, person) in people.iter().enumerate() {
            let before = if number == 0 { "{\"patients\":[" } else { "," };
            archive = archive.add_text(format!("{before}\n{}", person.begin())).await?;
            let mut before = "";
            let mut pages = self.shared.store.pages_of(Table::PatientWorlds, person.reference.world_rows());
            while let Some(rows) = pages.next().await? {
                for row in &rows {
                    let Some(record) = self.record(&world_of(&row.value)).await? else { continue };
                    let about = exported(&record, &record.open(&person.cipher));
                    archive = archive.add_text(format!("{before}\n{about}")).await?;
                    before = ",";
                }
            }
            archive = archive.add_text("]}".to_owned()).await?;
        }
        archive = archive.add_text("]}\n".to_owned()).await?;
        for person in people {
            let mut pages = self.shared.store.pages_of(Table::PatientWorlds, person.reference.world_rows());
            while let Some(rows) = pages.next().await? {
                for row in &rows {
                    let world = world_of(&row.value);
                    let Some(record) = self.record(&world).await? else { continue };
                    let attached = record.open(&person.cipher).items.into_iter().filter_map(|item| item.file);
                    for name in PICTURES.iter().map(|(name, _)| (*name).to_owned()).chain(attached) {
                        let path = self.shared.files.path(&world, &name);
                        archive = archive.add_picture(format!("{world}/{name}"), path, person.cipher.clone()).await?;
                    }
                }
            }
        }
        archive.end().await
    }
}

impl Person {
    /// The beginning of the entry in `patient.json`, as far as the worlds.
    fn begin(&self) -> String {
        let (identity, key) = (&self.identity, &self.key);
        let [id, name, key_id, key_name] = [json!(identity.id), json!(identity.name), json!(key.id), json!(key.name)];
        format!(r#"{{"patient_id":{id},"patient_name":{name},"key_id":{key_id},"key_name":{key_name},"worlds":["#)
    }
}

fn exported(record: &WorldRecord, content: &Content) -> Value {
    json!({
        "world_id": record.world_id,
        "status": record.status,
        "environment_type": record.environment,
        "created_at": record.created_ms,
        "ended_at": record.ended_ms,
        "content": content,
    })
}
