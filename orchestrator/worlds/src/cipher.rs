//! Encryption of what names a patient: ChaCha20-Poly1305 under one key of the operator's, and under one key a patient.
//!
//! The operator's key encrypts the key of each patient and nothing else. Deleting a patient's key makes everything
//! that it encrypted unreadable, also in rows that stay.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use warmpool_core::ids::random_bytes;

/// The environment variable that may hold the operator's key.
pub(super) const VARIABLE: &str = "WARMPOOL_WORLD_NAMES_KEY";
/// The shortest key, in bytes: shorter ones can be guessed.
const MIN_KEY: usize = 16;

/// Why the operator's key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NamesKeyError {
    /// The file cannot be read.
    #[error("`world.names_key_file` {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The key is too short.
    #[error(
        "the key of `world.names_key_file` or {VARIABLE} has fewer than {MIN_KEY} characters: make one with `openssl rand -base64 32`"
    )]
    Short,
    /// The names in the store were encrypted with another key.
    #[error(
        "the patients' names in the store were encrypted with another key: set `world.names_key_file` or {VARIABLE} to \
         the key that was used before"
    )]
    Other,
}

/// Where the operator's key came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// A file or the environment.
    Operator,
    /// Nowhere: the daemon uses a key of its own, which lies beside the data.
    Instance,
}

/// Encrypts and decrypts with one key.
#[derive(Clone)]
pub(super) struct Cipher(LessSafeKey);

/// What a cipher cannot read: another key made it, or it is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text was encrypted with another key, or is damaged")]
pub(super) struct DecryptError;

impl Cipher {
    /// The operator's cipher: by the file, else by the environment, else by `fallback`.
    /// Errors: `Read`, `Short`.
    pub(super) fn for_operator(file: Option<&Path>, fallback: [u8; 32]) -> Result<(Self, KeySource), NamesKeyError> {
        let text = match file {
            Some(path) => Some(
                fs::read_to_string(path)
                    .map_err(|source| NamesKeyError::Read { path: path.display().to_string(), source })?,
            ),
            None => std::env::var(VARIABLE).ok(),
        };
        let Some(text) = text else { return Ok((Self::new(&fallback), KeySource::Instance)) };
        let text = text.trim();
        if text.len() < MIN_KEY {
            return Err(NamesKeyError::Short);
        }
        Ok((Self::new(&Sha256::digest(text.as_bytes()).into()), KeySource::Operator))
    }

    /// A cipher with this key.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        #[expect(clippy::expect_used, reason = "the algorithm takes every key of 32 bytes")]
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("the algorithm takes every key of 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts bytes: the nonce, then the encrypted bytes and their tag.
    pub(super) fn seal(&self, plain: &[u8]) -> Vec<u8> {
        let nonce = random_bytes::<NONCE_LEN>();
        let mut sealed = Vec::with_capacity(NONCE_LEN + plain.len() + CHACHA20_POLY1305.tag_len());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        #[expect(clippy::expect_used, reason = "only texts of 256 GiB are refused")]
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed[NONCE_LEN..])
            .expect("only texts of 256 GiB are refused");
        sealed.extend_from_slice(tag.as_ref());
        sealed
    }

    /// Decrypts what [`Cipher::seal`] made, in place.
    /// Errors: [`DecryptError`].
    pub(super) fn open(&self, mut sealed: Vec<u8>) -> Result<Vec<u8>, DecryptError> {
        let (nonce, text) = sealed.split_first_chunk_mut::<NONCE_LEN>().ok_or(DecryptError)?;
        let plain = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), text);
        let length = plain.map_err(|_| DecryptError)?.len();
        sealed.truncate(NONCE_LEN + length);
        sealed.drain(..NONCE_LEN);
        Ok(sealed)
    }

    /// Encrypts bytes to text: base64 of what [`Cipher::seal`] makes.
    pub(super) fn encrypt(&self, plain: &[u8]) -> String {
        STANDARD_NO_PAD.encode(self.seal(plain))
    }

    /// Decrypts what [`Cipher::encrypt`] made.
    /// Errors: [`DecryptError`].
    pub(super) fn decrypt(&self, text: &str) -> Result<Vec<u8>, DecryptError> {
        self.open(STANDARD_NO_PAD.decode(text).map_err(|_| DecryptError)?)
    }

    pub(super) fn encrypt_json(&self, value: &impl Serialize) -> String {
        self.encrypt(&serde_json::to_vec(value).unwrap_or_default())
    }

    /// Decrypts what [`Cipher::encrypt_json`] made.
    /// Errors: [`DecryptError`].
    pub(super) fn decrypt_json<T: DeserializeOwned>(&self, text: &str) -> Result<T, DecryptError> {
        serde_json::from_slice(&self.decrypt(text)?).map_err(|_| DecryptError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_reads_a_text() {
        let (one, other) = (Cipher::new(&[1; 32]), Cipher::new(&[2; 32]));
        let text = one.encrypt(b"Ann Lee");
        assert!(!text.contains("Ann"));
        assert_eq!(one.decrypt(&text).unwrap(), b"Ann Lee");
        assert_eq!(other.decrypt(&text), Err(DecryptError));
        assert_ne!(one.encrypt(b"Ann Lee"), text, "each time with another nonce");
        for broken in ["", "AA", "no base64!", &text[1..], &text[..text.len() - 2]] {
            assert_eq!(one.decrypt(broken), Err(DecryptError), "{broken}");
        }
    }

    #[test]
    fn the_operators_key_comes_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert!(matches!(Cipher::for_operator(Some(&path), [0; 32]), Err(NamesKeyError::Read { .. })));
        fs::write(&path, "short").unwrap();
        assert!(matches!(Cipher::for_operator(Some(&path), [0; 32]), Err(NamesKeyError::Short)));
        fs::write(&path, "correct horse battery\n").unwrap();
        let (cipher, source) = Cipher::for_operator(Some(&path), [0; 32]).unwrap();
        assert_eq!(source, KeySource::Operator);
        assert!(Cipher::new(&[0; 32]).decrypt(&cipher.encrypt(b"x")).is_err());
    }
}
