//! The operator's key for patients' names: it encrypts the key of each patient and nothing else. Deleting a patient's key
//! makes everything that it encrypted unreadable, also in rows that stay.

use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use warmpool_core::cipher::Cipher;

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
         the key that was used before. Where it is lost, run `warmpool backup FILE` and `warmpool restore FILE`, and start again \
         without these names"
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

/// The operator's cipher: by the file, else by the environment, else by `fallback`.
/// Errors: `Read`, `Short`.
pub(super) fn operators_cipher(file: Option<&Path>, fallback: [u8; 32]) -> Result<(Cipher, KeySource), NamesKeyError> {
    let text = match file {
        Some(path) => Some(
            fs::read_to_string(path)
                .map_err(|source| NamesKeyError::Read { path: path.display().to_string(), source })?,
        ),
        None => std::env::var(VARIABLE).ok(),
    };
    let Some(text) = text else { return Ok((Cipher::new(&fallback), KeySource::Instance)) };
    let text = text.trim();
    if text.len() < MIN_KEY {
        return Err(NamesKeyError::Short);
    }
    Ok((Cipher::new(&Sha256::digest(text.as_bytes()).into()), KeySource::Operator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_key_comes_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert!(matches!(operators_cipher(Some(&path), [0; 32]), Err(NamesKeyError::Read { .. })));
        fs::write(&path, "short").unwrap();
        assert!(matches!(operators_cipher(Some(&path), [0; 32]), Err(NamesKeyError::Short)));
        fs::write(&path, "correct horse battery\n").unwrap();
        let (cipher, source) = operators_cipher(Some(&path), [0; 32]).unwrap();
        assert_eq!(source, KeySource::Operator);
        assert!(Cipher::new(&[0; 32]).decrypt(&cipher.encrypt(b"x")).is_err());
    }
}
