//! Patients: known by a reference from which nothing can be guessed; their ids and names are kept once, encrypted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::names_key::{NamesKeyError, VARIABLE};
use super::patient_keys;
use crate::Error;
use warmpool_core::cipher::Cipher;
use warmpool_core::ids::{IntegrationKeyId, KeyId, random_bytes};
use warmpool_core::instance::Instance;
use warmpool_store::{Batch, KeyRange, Store, StoreError, Table};

/// A keyed hash of a patient's id and of the integration key that uses it: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PatientRef(String);

impl PatientRef {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The patient of whom a row of [`Table::Patients`] tells, by its key.
    pub(super) fn of_row(key: &[u8]) -> Self {
        Self(String::from_utf8_lossy(key).into_owned())
    }

    /// Where the rows lie that say which worlds the patient has.
    pub(super) fn world_rows(&self) -> KeyRange {
        KeyRange::prefix(self.world_row("").as_bytes())
    }

    /// The key of the row that says the patient has this world.
    pub(super) fn world_row(&self, world: &str) -> String {
        format!("{}/{world}", self.0)
    }
}

/// Who a patient is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub id: String,
    pub name: String,
}

/// A patient's row.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PatientRow {
    /// The identity, encrypted with the patient's own key.
    identity: String,
    /// The service key among whose patients this one counts; none in rows of older releases, which count with the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<KeyId>,
}

/// A patient whose own key is at hand.
pub(super) struct Patient {
    pub reference: PatientRef,
    pub cipher: Cipher,
    /// The patient's own key, encrypted with the operator's.
    key: Vec<u8>,
    row: PatientRow,
}

impl Patient {
    /// Adds the patient's rows to a batch, with this name from now on, as one of this service key's patients.
    pub(super) fn put(&self, identity: &Identity, owner: &KeyId, batch: &mut Batch) -> Result<(), StoreError> {
        let row = PatientRow { identity: self.cipher.encrypt_json(identity), owner: Some(owner.clone()) };
        batch.put(Table::PatientKeys, self.reference.as_str(), self.key.clone());
        batch.put_json(Table::Patients, self.reference.as_str(), &row).map(drop)
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.cipher.decrypt_json(&self.row.identity).ok()
    }

    /// Whether the stored row counts among the patients of a service key.
    pub(super) const fn is_counted(&self) -> bool {
        self.row.owner.is_some()
    }
}

/// Adds to a batch what removes a patient of whom nothing else is kept.
pub(super) fn remove(patient: &PatientRef, batch: &mut Batch) {
    batch.delete(Table::Patients, patient.as_str()).delete(Table::PatientKeys, patient.as_str());
}

/// Adds to a batch what makes all that is kept of a patient unreadable for good, in every backup too.
pub(super) fn forget(patient: &PatientRef, batch: &mut Batch) {
    remove(patient, batch);
    batch.essential().irrevocable();
}

/// All patients. Clones share them.
#[derive(Clone)]
pub(super) struct Patients {
    store: Store,
    instance: Arc<Instance>,
    operator: Cipher,
    /// How many patients had no key that could be read when the daemon started.
    unreadable: usize,
}

impl Patients {
    /// Takes the operator's key, and makes sure that it is the one that was used before. What the instance's key encrypted is encrypted
    /// with the operator's key after this.
    /// Fails when it is another one, or the store does not answer.
    pub(super) async fn open(store: Store, instance: Arc<Instance>, operator: Cipher) -> Result<Self, PatientsError> {
        let unreadable = patient_keys::take_over(&store, &operator, &Cipher::new(&instance.names_key())).await?;
        Ok(Self { store, instance, operator, unreadable })
    }

    /// What was wrong with patients' keys when the daemon started, and the remedy; none where each of them can be read.
    pub(super) fn warning(&self) -> Option<String> {
        (self.unreadable > 0).then(|| {
            format!(
                "patients who cannot be named and whose worlds cannot be shown: {}. The key that theirs are encrypted with is missing: \
                 set `world.names_key_file` or {VARIABLE} to it, or restore a backup with the instance.json and the \
                 backups/patient-keys.jsonl of that time",
                self.unreadable
            )
        })
    }

    pub(super) fn reference(&self, key: &IntegrationKeyId, patient_id: &str) -> PatientRef {
        let hash = self.instance.fingerprint(&["patient", key.as_str(), patient_id]);
        PatientRef(hex::encode(hash))
    }

    /// Whether anything is kept of a patient, readable or not.
    /// Fails when the store does not answer.
    pub(super) async fn is_known(&self, reference: &PatientRef) -> Result<bool, Error> {
        Ok(self.store.get(Table::Patients, reference.as_str().as_bytes()).await?.is_some())
    }

    /// The service key among whose patients this one counts, readable or not.
    /// Fails when the store does not answer.
    pub(super) async fn owner(&self, reference: &PatientRef) -> Result<Option<KeyId>, Error> {
        Ok(self.row(reference).await?.and_then(|row| row.owner))
    }

    /// Calls `each` with the service key of every patient that counts.
    /// Fails when the store does not answer.
    pub(super) async fn count(&self, mut each: impl FnMut(&KeyId)) -> Result<(), StoreError> {
        let mut pages = self.store.pages(Table::Patients);
        while let Some(rows) = pages.next().await? {
            let owners = rows.iter().filter_map(|row| row.json::<PatientRow>(Table::Patients).ok()?.owner);
            owners.for_each(|owner| each(&owner));
        }
        Ok(())
    }

    async fn row(&self, reference: &PatientRef) -> Result<Option<PatientRow>, Error> {
        let row = self.store.get(Table::Patients, reference.as_str().as_bytes()).await?;
        Ok(row.and_then(|row| serde_json::from_slice(&row).ok()))
    }

    /// A patient that is known, and whose key can be read.
    /// Fails when the store does not answer.
    pub(super) async fn find(&self, reference: &PatientRef) -> Result<Option<Patient>, Error> {
        let Some(row) = self.row(reference).await? else { return Ok(None) };
        // A backup that was restored without the file of patients' keys, or without the key that these are encrypted with, has patients
        // whom nobody can name any more.
        let Some(key) = self.key(reference).await? else { return Ok(None) };
        let own = patient_keys::open(&self.operator, &key);
        Ok(own.map(|own| Patient { reference: reference.clone(), cipher: Cipher::new(&own), key, row }))
    }

    /// A patient's own key, encrypted.
    async fn key(&self, reference: &PatientRef) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.store.get(Table::PatientKeys, reference.as_str().as_bytes()).await?)
    }

    /// A patient, known or new. A new one is not in the store before [`Patient::put`] is committed.
    /// Errors: `UnreadablePatient`; when the store does not answer.
    pub(super) async fn find_or_make(&self, reference: &PatientRef) -> Result<Patient, Error> {
        if let Some(patient) = self.find(reference).await? {
            return Ok(patient);
        }
        let known = self.row(reference).await?;
        // The key that opens it may come back, and whatever a new one replaced would be lost by then.
        if known.is_some() && self.key(reference).await?.is_some() {
            return Err(Error::UnreadablePatient);
        }
        let own = random_bytes::<32>();
        let key = self.operator.encrypt(&own).into_bytes();
        // One whose key was lost counts already.
        let row = PatientRow { identity: String::new(), owner: known.and_then(|row| row.owner) };
        Ok(Patient { reference: reference.clone(), cipher: Cipher::new(&own), key, row })
    }

    /// Adds the row that holds later starts to the same operator's key.
    pub(super) fn put_key_check(&self, batch: &mut Batch) {
        patient_keys::put_check(&self.operator, batch);
    }
}

/// Why patients cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PatientsError {
    /// The operator's key.
    #[error(transparent)]
    Key(#[from] NamesKeyError),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_store::{Durability, StoreOptions};

    async fn patients(store: &Store, instance: &Arc<Instance>, key: u8) -> Result<Patients, PatientsError> {
        Patients::open(store.clone(), Arc::clone(instance), Cipher::new(&[key; 32])).await
    }

    #[tokio::test]
    async fn a_patient_is_named_once_and_unreadable_once_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let instance = Arc::new(Instance::load_or_create(dir.path()).unwrap());
        let store = Store::memory();
        let patients = patients(&store, &instance, 1).await.unwrap();
        let (ward, other) = (IntegrationKeyId::random(), IntegrationKeyId::random());
        let reference = patients.reference(&ward, "p-17");
        assert_ne!(reference, patients.reference(&other, "p-17"), "another key's patient is another patient");
        assert!(patients.find(&reference).await.unwrap().is_none());

        let patient = patients.find_or_make(&reference).await.unwrap();
        let identity = Identity { id: "p-17".to_owned(), name: "Ann Lee".to_owned() };
        let mut batch = Batch::new();
        let owner = "0123456789ab".parse().unwrap();
        assert!(!patient.is_counted());
        patient.put(&identity, &owner, &mut batch).unwrap();
        patients.put_key_check(&mut batch);
        store.commit(batch, Durability::Process).await.unwrap();
        let row = store.get(Table::Patients, reference.as_str().as_bytes()).await.unwrap().unwrap();
        let row = String::from_utf8(row).unwrap();
        assert!(!row.contains("Ann") && !row.contains("p-17"), "{row}");

        let found = patients.find(&reference).await.unwrap().unwrap();
        assert_eq!(found.identity(), Some(identity));
        assert!(found.is_counted());
        let mut lost = Batch::new();
        lost.delete(Table::PatientKeys, reference.as_str());
        let key = store.get(Table::PatientKeys, reference.as_str().as_bytes()).await.unwrap().unwrap();
        store.commit(lost, Durability::Process).await.unwrap();
        let unreadable = patients.find_or_make(&reference).await.unwrap();
        assert!(unreadable.is_counted() && unreadable.identity().is_none());
        let mut back = Batch::new();
        back.put(Table::PatientKeys, reference.as_str(), key);
        store.commit(back, Durability::Process).await.unwrap();
        let mut owners = Vec::new();
        patients.count(|owner| owners.push(owner.clone())).await.unwrap();
        assert_eq!(owners, [owner]);
        let log = found.cipher.encrypt(b"teapot");
        assert_eq!(patient.cipher.decrypt(&log).unwrap(), b"teapot");

        let mut batch = Batch::new();
        forget(&reference, &mut batch);
        store.commit(batch, Durability::Process).await.unwrap();
        let again = patients.find_or_make(&reference).await.unwrap();
        assert!(again.cipher.decrypt(&log).is_err(), "the old key is gone with the row");
    }

    #[tokio::test]
    async fn a_deleted_patient_does_not_come_back_with_an_older_state() {
        let dir = tempfile::tempdir().unwrap();
        let instance = Arc::new(Instance::load_or_create(dir.path()).unwrap());
        let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
        let store = Store::open(dir.path(), options.clone()).unwrap().store;
        let named = patients(&store, &instance, 1).await.unwrap();
        let ward = IntegrationKeyId::random();
        let [ann, bob] = ["p-17", "p-18"].map(|id| named.reference(&ward, id));
        for reference in [&ann, &bob] {
            let mut batch = Batch::new();
            let identity = Identity { id: "p".to_owned(), name: "Lee".to_owned() };
            let owner = "0123456789ab".parse().unwrap();
            named.find_or_make(reference).await.unwrap().put(&identity, &owner, &mut batch).unwrap();
            store.commit(batch, Durability::Process).await.unwrap();
        }
        store.backup().await.unwrap();
        let mut batch = Batch::new();
        forget(&ann, &mut batch);
        store.commit(batch, Durability::Power).await.unwrap();
        store.close().await.unwrap();
        warmpool_store::fault::damage(dir.path());
        let opened = Store::open(dir.path(), options).unwrap();
        assert!(opened.recovery.is_some());
        let found = patients(&opened.store, &instance, 1).await.unwrap();
        assert!(found.find(&ann).await.unwrap().is_none());
        assert!(found.find(&bob).await.unwrap().unwrap().identity().is_some(), "the others keep their names");
        opened.store.close().await.unwrap();
    }

    #[tokio::test]
    async fn another_operators_key_is_refused_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let instance = Arc::new(Instance::load_or_create(dir.path()).unwrap());
        let store = Store::memory();
        let first = patients(&store, &instance, 1).await.unwrap();
        assert!(patients(&store, &instance, 2).await.is_ok(), "before anybody is named, any key will do");
        let mut batch = Batch::new();
        first.put_key_check(&mut batch);
        store.commit(batch, Durability::Process).await.unwrap();
        assert!(patients(&store, &instance, 1).await.is_ok());
        assert!(matches!(patients(&store, &instance, 2).await, Err(PatientsError::Key(NamesKeyError::Other))));
    }
}
