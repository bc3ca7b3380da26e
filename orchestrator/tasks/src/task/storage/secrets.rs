//! Secrets of waiting tasks. They are encrypted on the disk, each task's with a key of its own that is nowhere on the disk.

use crate::Error;
use crate::task::secrets::TaskSecrets;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::TaskId;
use warmpool_core::ids::random_bytes;
use warmpool_core::instance::Instance;

fn key(instance: &Instance, task: TaskId) -> Result<LessSafeKey, Error> {
    let bytes = instance.task_key(&task.to_string());
    let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| Error::internal("the key of a task"))?;
    Ok(LessSafeKey::new(key))
}

/// Encrypts the secrets of a task: the nonce, then the text and its tag.
pub(super) fn encrypt(instance: &Instance, task: TaskId, secrets: &TaskSecrets) -> Result<Vec<u8>, Error> {
    let nonce = random_bytes::<NONCE_LEN>();
    let mut text = secrets.to_json()?;
    let encrypted =
        key(instance, task)?.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut text);
    encrypted.map_err(|_| Error::internal("secrets could not be encrypted"))?;
    Ok([&nonce[..], &text].concat())
}

/// Decrypts what [`encrypt`] encrypted for the same task.
pub(super) fn decrypt(instance: &Instance, task: TaskId, encrypted: &[u8]) -> Result<TaskSecrets, Error> {
    let broken = || Error::internal("the secrets of a task cannot be read");
    let (nonce, text) = encrypted.split_first_chunk::<NONCE_LEN>().ok_or_else(broken)?;
    let mut text = text.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let text = key(instance, task)?.open_in_place(nonce, Aad::empty(), &mut text).map_err(|_| broken())?;
    TaskSecrets::from_json(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use warmpool_core::ids::TaskIds;

    #[test]
    fn secrets_are_decrypted_for_their_own_task_only() {
        let dir = tempfile::tempdir().unwrap();
        let instance = Instance::load_or_create(dir.path()).unwrap();
        let mut ids = TaskIds::default();
        let (task, other) = (ids.next(1), ids.next(1));
        let values = json!({"password": "correct horse"}).as_object().unwrap().clone();
        let secrets = TaskSecrets { values: values.clone(), state: None };
        let encrypted = encrypt(&instance, task, &secrets).unwrap();
        assert!(!String::from_utf8_lossy(&encrypted).contains("horse"));
        assert_eq!(decrypt(&instance, task, &encrypted).unwrap().values, values);
        assert!(decrypt(&instance, other, &encrypted).is_err());
        for at in 0..encrypted.len() {
            let mut damaged = encrypted.clone();
            damaged[at] ^= 1;
            assert!(decrypt(&instance, task, &damaged).is_err(), "byte {at}");
        }
        assert!(decrypt(&instance, task, b"short").is_err());
    }
}
