//! Encryption with one key: ChaCha20-Poly1305, each text with a nonce of its own.

mod file;
mod stream;

pub use file::SealedFile;
pub use stream::{OpeningReader, SealingWriter};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::random_bytes;

/// Encrypts and decrypts with one key.
#[derive(Clone)]
pub struct Cipher(LessSafeKey);

/// What a cipher cannot read: another key made it, or it is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text was encrypted with another key, or is damaged")]
pub struct DecryptError;

impl Cipher {
    /// A cipher with this key.
    pub fn new(key: &[u8; 32]) -> Self {
        #[expect(clippy::expect_used, reason = "the algorithm takes every key of 32 bytes")]
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("the algorithm takes every key of 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts bytes: the nonce, then the encrypted bytes and their tag.
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
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
    pub fn open(&self, mut sealed: Vec<u8>) -> Result<Vec<u8>, DecryptError> {
        let (nonce, text) = sealed.split_first_chunk_mut::<NONCE_LEN>().ok_or(DecryptError)?;
        let plain = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), text);
        let length = plain.map_err(|_| DecryptError)?.len();
        sealed.truncate(NONCE_LEN + length);
        sealed.drain(..NONCE_LEN);
        Ok(sealed)
    }

    /// Encrypts bytes to text: base64 of what [`Cipher::seal`] makes.
    pub fn encrypt(&self, plain: &[u8]) -> String {
        STANDARD_NO_PAD.encode(self.seal(plain))
    }

    /// Decrypts what [`Cipher::encrypt`] made.
    /// Errors: [`DecryptError`].
    pub fn decrypt(&self, text: &str) -> Result<Vec<u8>, DecryptError> {
        self.open(STANDARD_NO_PAD.decode(text).map_err(|_| DecryptError)?)
    }

    /// Encrypts a value, as JSON.
    pub fn encrypt_json(&self, value: &impl Serialize) -> String {
        self.encrypt(&serde_json::to_vec(value).unwrap_or_default())
    }

    /// Decrypts what [`Cipher::encrypt_json`] made.
    /// Errors: [`DecryptError`].
    pub fn decrypt_json<T: DeserializeOwned>(&self, text: &str) -> Result<T, DecryptError> {
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
}
