//! Patients' own keys, as a start finds them: which key they are encrypted with, and how many of them nobody can read.

use warmpool_core::cipher::Cipher;
use warmpool_store::{Batch, Durability, NAMES_KEY_CHECK, Store, Table};

use super::names_key::NamesKeyError;
use super::patient::PatientsError;

const CHECK_TEXT: &[u8] = b"warmpool";

/// Adds the row that holds later starts to the same operator's key.
pub(super) fn put_check(operator: &Cipher, batch: &mut Batch) {
    batch.put(Table::Meta, NAMES_KEY_CHECK, operator.encrypt(CHECK_TEXT).into_bytes());
}

/// A patient's own key, if this cipher encrypted it.
pub(super) fn open(cipher: &Cipher, key: &[u8]) -> Option<[u8; 32]> {
    cipher.decrypt(&String::from_utf8_lossy(key)).ok()?.try_into().ok()
}

/// Makes sure that the operator's key is the one that was used before, and encrypts anew with it what the instance's key encrypted: the
/// operator had no key then. Returns how many patients have no key that can be read. Where that is every one, no start is held to the
/// operator's key, as it may be the wrong one.
/// Errors: [`NamesKeyError::Other`]; when the store does not answer.
pub(super) async fn take_over(store: &Store, operator: &Cipher, instance: &Cipher) -> Result<usize, PatientsError> {
    let check = store.get(Table::Meta, NAMES_KEY_CHECK.as_bytes()).await?;
    let opens = |cipher: &Cipher| check.as_ref().map(|row| cipher.decrypt(&String::from_utf8_lossy(row)).is_ok());
    let is_the_same = opens(operator);
    if is_the_same == Some(false) && opens(instance) == Some(false) {
        return Err(NamesKeyError::Other.into());
    }
    let (mut unreadable, mut moved, mut last) = (0, 0, None);
    let mut pages = store.pages(Table::Patients);
    while let Some(patients) = pages.next().await? {
        let patients: Vec<Vec<u8>> = patients.into_iter().map(|row| row.key).collect();
        let keys = store.get_many(Table::PatientKeys, patients.clone()).await?;
        let mut batch = Batch::new();
        for (patient, key) in patients.into_iter().zip(keys) {
            let own = |cipher: &Cipher| key.as_deref().and_then(|key| open(cipher, key));
            if own(operator).is_none() {
                let Some(own) = own(instance) else {
                    unreadable += 1;
                    continue;
                };
                batch.put(Table::PatientKeys, patient.as_slice(), operator.encrypt(&own).into_bytes());
            }
            last = Some(patient);
        }
        if !batch.is_empty() {
            moved += batch.len();
            batch.essential();
            store.commit(batch, Durability::Power).await?;
        }
    }
    if let Some(patient) = last.filter(|_| moved > 0 || is_the_same != Some(true)) {
        let mut batch = Batch::new();
        put_check(operator, &mut batch);
        if let Some(key) = store.get(Table::PatientKeys, &patient).await? {
            // A deletion has the store forget what such rows held before, in its log and in the file of these keys.
            batch.delete(Table::PatientKeys, patient.as_slice()).put(Table::PatientKeys, patient, key);
        }
        batch.essential();
        store.commit(batch, Durability::Power).await?;
    }
    if moved > 0 {
        tracing::info!(patients = moved, "patients' names are encrypted with the operator's key from now on");
    }
    Ok(unreadable)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::super::patient::{Identity, PatientRef, Patients, forget};
    use super::*;
    use crate::Error;
    use warmpool_core::ids::IntegrationKeyId;
    use warmpool_core::instance::Instance;
    use warmpool_store::{KeyRange, StoreOptions, restore};

    /// More than one page.
    const MANY: usize = 300;

    fn instance() -> Arc<Instance> {
        Arc::new(Instance::load_or_create(tempfile::tempdir().unwrap().path()).unwrap())
    }

    fn sled(dir: &Path) -> Store {
        Store::open(dir, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() }).unwrap().store
    }

    async fn without_key(store: &Store, instance: &Arc<Instance>) -> Result<Patients, PatientsError> {
        Patients::open(store.clone(), Arc::clone(instance), Cipher::new(&instance.names_key())).await
    }

    async fn with_key(store: &Store, instance: &Arc<Instance>, key: u8) -> Result<Patients, PatientsError> {
        Patients::open(store.clone(), Arc::clone(instance), Cipher::new(&[key; 32])).await
    }

    /// What a request for this patient's world stores of the patient.
    async fn add(patients: &Patients, store: &Store, ward: &IntegrationKeyId, id: &str) -> Result<PatientRef, Error> {
        let reference = patients.reference(ward, id);
        let identity = Identity { id: id.to_owned(), name: id.to_uppercase() };
        let mut batch = Batch::new();
        let patient = patients.find_or_make(&reference).await?;
        patient.put(&identity, &"0123456789ab".parse().unwrap(), &mut batch).unwrap();
        patients.put_key_check(&mut batch);
        store.commit(batch, Durability::Process).await.unwrap();
        Ok(reference)
    }

    async fn name(patients: &Patients, patient: &PatientRef) -> Option<String> {
        patients.find(patient).await.unwrap()?.identity().map(|identity| identity.name)
    }

    async fn key(store: &Store, patient: &PatientRef) -> Vec<u8> {
        store.get(Table::PatientKeys, patient.as_str().as_bytes()).await.unwrap().unwrap()
    }

    fn is_refused(opened: &Result<Patients, PatientsError>) -> bool {
        matches!(opened, Err(PatientsError::Key(NamesKeyError::Other)))
    }

    #[tokio::test]
    async fn a_key_that_is_set_later_takes_the_names_over() {
        let dir = tempfile::tempdir().unwrap();
        let (instance, store, ward) = (instance(), sled(dir.path()), IntegrationKeyId::random());
        let patients = without_key(&store, &instance).await.unwrap();
        let ann = add(&patients, &store, &ward, "ann").await.unwrap();
        for number in 0..MANY {
            add(&patients, &store, &ward, &format!("p-{number}")).await.unwrap();
        }
        store.backup().await.unwrap();
        let beside = || fs::read_to_string(dir.path().join("backups/patient-keys.jsonl")).unwrap();
        let before = STANDARD.encode(key(&store, &ann).await);
        assert!(beside().contains(&before));

        let patients = with_key(&store, &instance, 1).await.unwrap();
        assert_eq!(name(&patients, &ann).await.as_deref(), Some("ANN"));
        assert_eq!(patients.warning(), None);
        let keys = store.scan(Table::PatientKeys, KeyRange::all(), usize::MAX).await.unwrap();
        assert_eq!(keys.len(), MANY + 1);
        assert!(keys.iter().all(|row| open(&Cipher::new(&[1; 32]), &row.value).is_some()));
        let now = STANDARD.encode(key(&store, &ann).await);
        assert!(beside().contains(&now) && !beside().contains(&before), "nor does the file of keys keep the old one");
        assert!(with_key(&store, &instance, 1).await.is_ok());
        assert_eq!(STANDARD.encode(key(&store, &ann).await), now, "once is enough");
        assert!(is_refused(&without_key(&store, &instance).await), "the names need the operator's key from now on");
        store.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_start_goes_on_where_the_one_before_was_cut_off() {
        let (instance, store, ward) = (instance(), Store::memory(), IntegrationKeyId::random());
        let patients = without_key(&store, &instance).await.unwrap();
        let ann = add(&patients, &store, &ward, "ann").await.unwrap();
        let bob = add(&patients, &store, &ward, "bob").await.unwrap();
        let own = open(&Cipher::new(&instance.names_key()), &key(&store, &ann).await).unwrap();
        let mut batch = Batch::new();
        batch.put(Table::PatientKeys, ann.as_str(), Cipher::new(&[1; 32]).encrypt(&own).into_bytes());
        store.commit(batch, Durability::Process).await.unwrap();

        let patients = with_key(&store, &instance, 1).await.unwrap();
        assert_eq!(name(&patients, &ann).await.as_deref(), Some("ANN"));
        assert_eq!(name(&patients, &bob).await.as_deref(), Some("BOB"));
        assert!(is_refused(&without_key(&store, &instance).await));
    }

    #[tokio::test]
    async fn a_daemon_whose_instance_is_lost_names_nobody_and_takes_new_patients() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (lost, store, ward) = (instance(), sled(dir.path()), IntegrationKeyId::random());
        let patients = without_key(&store, &lost).await.unwrap();
        let ann = add(&patients, &store, &ward, "ann").await.unwrap();
        let file = dir.path().join("dump");
        store.dump(&file, &[]).await.unwrap();
        store.close().await.unwrap();
        // Once with the file of patients' keys, and once without.
        for dir in [dir.path(), elsewhere.path()] {
            restore(dir, &file, &[]).unwrap();
            let (instance, store) = (instance(), sled(dir));
            let patients = without_key(&store, &instance).await.unwrap();
            let warning = patients.warning().unwrap();
            assert!(warning.contains("cannot be shown: 1.") && warning.contains("instance.json"), "{warning}");
            assert_eq!(name(&patients, &ann).await, None);
            let bob = add(&patients, &store, &ward, "bob").await.unwrap();
            assert_eq!(name(&patients, &bob).await.as_deref(), Some("BOB"));
            let patients = with_key(&store, &instance, 1).await.unwrap();
            assert_eq!(name(&patients, &bob).await.as_deref(), Some("BOB"), "a key may be set after that");
            assert!(patients.warning().is_some());
            store.close().await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_wrong_key_after_a_restore_destroys_nothing() {
        let (instance, store, ward) = (instance(), Store::memory(), IntegrationKeyId::random());
        let patients = with_key(&store, &instance, 1).await.unwrap();
        let ann = add(&patients, &store, &ward, "ann").await.unwrap();
        let mut batch = Batch::new();
        batch.delete(Table::Meta, NAMES_KEY_CHECK);
        store.commit(batch, Durability::Process).await.unwrap();

        let wrong = with_key(&store, &instance, 2).await.unwrap();
        assert!(wrong.warning().is_some());
        assert!(matches!(add(&wrong, &store, &ward, "ann").await, Err(Error::UnreadablePatient)));
        let right = with_key(&store, &instance, 1).await.unwrap();
        assert_eq!((right.warning(), name(&right, &ann).await.as_deref()), (None, Some("ANN")));
        assert!(is_refused(&with_key(&store, &instance, 2).await), "the right key holds later starts");

        let mut batch = Batch::new();
        forget(&ann, &mut batch);
        store.commit(batch, Durability::Process).await.unwrap();
        add(&wrong, &store, &ward, "ann").await.unwrap();
        assert_eq!(name(&wrong, &ann).await.as_deref(), Some("ANN"), "once deleted, the patient may come back");
    }
}
