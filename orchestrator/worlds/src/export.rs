//! Exports of patients' data: ZIP archives that are made while they are read. Nothing of them is on the disk, where it would stay
//! readable after the patient was deleted, and of the pictures one at a time is in memory.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use futures_util::stream::{Stream, try_unfold};
use parking_lot::Mutex;
use serde_json::{Value, json};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

use super::files::{PICTURES, found, read};
use super::record::{Content, WorldRecord};
use super::{WorldCaller, Worlds};
use crate::Error;
use warmpool_core::blocking::blocking;
use warmpool_core::cipher::Cipher;
use warmpool_keys::KeyId;

/// A file of an archive: its name there, where it lies, and what decrypts it.
type Entry = (String, PathBuf, Cipher);

/// The one export of a service key, until it is dropped.
struct Place {
    worlds: Worlds,
    owner: KeyId,
}

impl Place {
    /// Errors: `Exporting`.
    fn take(worlds: &Worlds, owner: &KeyId) -> Result<Self, Error> {
        let is_free = worlds.lock().exporting.insert(owner.clone());
        is_free.then(|| Self { worlds: worlds.clone(), owner: owner.clone() }).ok_or(Error::Exporting)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.worlds.lock().exporting.remove(&self.owner);
    }
}

/// Bytes of an archive that nobody has taken yet.
#[derive(Clone, Default)]
struct Untaken(Arc<Mutex<Vec<u8>>>);

impl Untaken {
    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.0.lock()).into()
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
    zip: ZipWriter<StreamWriter<Untaken>>,
    untaken: Untaken,
    files: IntoIter<Entry>,
    _place: Place,
}

impl Archive {
    /// Errors: none that memory gives.
    fn begin(about: &Value, files: Vec<Entry>, _place: Place) -> io::Result<Self> {
        let untaken = Untaken::default();
        let mut zip = ZipWriter::new_stream(untaken.clone());
        zip.start_file("patient.json", SimpleFileOptions::default())?;
        zip.write_all(serde_json::to_string_pretty(about)?.as_bytes())?;
        Ok(Self { zip, untaken, files: files.into_iter(), _place })
    }

    /// The next piece, and what comes after it. It may block.
    /// Errors: a file cannot be read.
    fn next(mut self) -> io::Result<(Bytes, Option<Self>)> {
        let Some((name, path, cipher)) = self.files.next() else {
            self.zip.finish()?;
            return Ok((self.untaken.take(), None));
        };
        // A world that is not ready has not all of its pictures.
        if let Some(bytes) = found(read(&path, &cipher))? {
            // They are compressed already.
            let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
            self.zip.start_file(name.as_str(), stored)?;
            self.zip.write_all(&bytes)?;
        }
        Ok((self.untaken.take(), Some(self)))
    }
}

impl Worlds {
    /// All that is kept of a patient, as a ZIP archive: `patient.json`, and a folder a world with its pictures and what was
    /// attached. Integrations choose ids by themselves, so one id may be several people's: `patient.json` has an entry for each
    /// integration key that knows it. A service key has one at a time, until it is read or dropped. A file that cannot be read ends it with an error.
    /// Errors: `UnknownPatient`, `Exporting`; when the store refuses.
    pub async fn export(
        &self,
        patient_id: &str,
        caller: &WorldCaller,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, Error> {
        let place = Place::take(self, caller.owner())?;
        let mut patients = Vec::new();
        let mut files = Vec::new();
        for (key, reference) in self.references(caller, patient_id) {
            let Some(patient) = self.shared.patients.find(&reference).await? else { continue };
            let Some(identity) = patient.identity() else { continue };
            let mut worlds = Vec::new();
            for record in self.worlds_of(&reference).await? {
                let content = record.open(&patient.cipher);
                worlds.push(exported(&record, &content));
                let attached = content.items.iter().filter_map(|item| item.file.clone());
                let names = PICTURES.iter().map(|(name, _)| (*name).to_owned()).chain(attached);
                for name in names {
                    let path = self.shared.files.path(&record.world_id, &name);
                    files.push((format!("{}/{name}", record.world_id), path, patient.cipher.clone()));
                }
            }
            patients.push(json!({
                "patient_id": identity.id,
                "patient_name": identity.name,
                "key_id": key.id,
                "key_name": key.name,
                "worlds": worlds,
            }));
        }
        if patients.is_empty() {
            return Err(Error::UnknownPatient);
        }
        let about = json!({"patients": patients});
        let archive = Archive::begin(&about, files, place).map_err(warmpool_core::error::ServiceError::internal)?;
        Ok(try_unfold(Some(archive), async |archive: Option<Archive>| match archive {
            Some(archive) => blocking(move || archive.next()).await.map(Some).map_err(io::Error::other),
            None => Ok(None),
        }))
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
