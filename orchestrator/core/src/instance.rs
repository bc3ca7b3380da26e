//! This daemon's identity: an id for the labels of its containers, and a secret from which others are derived.
//!
//! It stands in a file of its own, so that running containers can be found and spoken to again even when the
//! store has been lost.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::ids::random_bytes;
use crate::signature;

/// The file's name in the data directory.
const FILE: &str = "instance.json";
const SECRET_BYTES: usize = 32;
const TOKEN_BYTES: usize = 16;

/// Why the daemon has no identity.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The file cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not what the daemon wrote. Another identity would orphan the running containers, and could not read what this
    /// one encrypted.
    #[error(
        "{} is damaged: put a copy of it back, for profiles, extensions, patients and the secrets of unfinished tasks need it. \
         Only where there is none, delete it: the next start says how to go on without it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// Others than its owner may read the file.
    #[error("{} may be read by others: run chmod 600 on it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
}

/// The daemon's identity.
pub struct Instance {
    id: String,
    secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    id: String,
    secret: String,
}

impl Instance {
    /// Reads the identity in the data directory, or makes one on the first start. Blocks.
    /// Errors: every [`InstanceError`]; a damaged file is never replaced.
    pub fn load_or_create(dir: &Path) -> Result<Self, InstanceError> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => Self::read(&path, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self { id: hex::encode(random_bytes::<6>()), secret: random_bytes() }.write(dir, &path)?;
                // Of two first starts at once both must use what was written first.
                let bytes = fs::read(&path).map_err(io_error("read", &path))?;
                Self::read(&path, &bytes)
            }
            Err(source) => Err(io_error("read", &path)(source)),
        }
    }

    /// Reads the identity in the data directory; none where no daemon has made one yet. Blocks.
    /// Errors: every [`InstanceError`].
    pub fn find(dir: &Path) -> Result<Option<Self>, InstanceError> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => Self::read(&path, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error("read", &path)(source)),
        }
    }

    fn read(path: &Path, bytes: &[u8]) -> Result<Self, InstanceError> {
        let damaged = || InstanceError::Damaged { path: path.to_owned() };
        let metadata = fs::metadata(path).map_err(io_error("inspect", path))?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(InstanceError::Exposed { path: path.to_owned() });
        }
        let stored: Stored = serde_json::from_slice(bytes).map_err(|_| damaged())?;
        let hex_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let whole = stored.version == 1 && stored.id.len() == 12 && stored.id.bytes().all(hex_digit);
        let secret = URL_SAFE_NO_PAD
            .decode(&stored.secret)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .filter(|_| whole)
            .ok_or_else(damaged)?;
        Ok(Self { id: stored.id, secret })
    }

    /// Writes the file whole or not at all, and never over another.
    fn write(&self, dir: &Path, path: &Path) -> Result<(), InstanceError> {
        let stored = Stored { version: 1, id: self.id.clone(), secret: URL_SAFE_NO_PAD.encode(self.secret) };
        let mut text = serde_json::to_vec_pretty(&stored).map_err(|error| io_error("write", path)(error.into()))?;
        text.push(b'\n');
        let unfinished = dir.join(format!("{FILE}.{}.tmp", self.id));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(io_error("create", &unfinished))?;
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        // Unlike a rename, a link does not replace what is there.
        let linked = written.and_then(|()| match fs::hard_link(&unfinished, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        });
        let _ = fs::remove_file(&unfinished);
        linked.and_then(|()| File::open(dir)?.sync_all()).map_err(io_error("write", path))
    }

    /// Twelve hexadecimal digits that name this instance, for labels and logs.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The secret that the agent of one worker asks for: 64 hexadecimal digits. The same after a restart.
    pub fn worker_secret(&self, worker_id: &str) -> String {
        hex::encode(self.derive(&["worker", worker_id]))
    }

    /// The token that opens one session for one purpose, as part of a URL: 128 bits in 22 characters of
    /// base64url. The same after a restart. Compare it in constant time.
    pub fn session_token(&self, session_id: &str, purpose: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.session_secret(session_id, purpose))
    }

    /// The same in bytes, for a token that has a form of its own.
    pub fn session_secret(&self, session_id: &str, purpose: &str) -> [u8; TOKEN_BYTES] {
        let mac = self.derive(&["session", session_id, purpose]);
        std::array::from_fn(|at| mac[at])
    }

    /// The key that encrypts the secrets of one session. The same after a restart.
    pub fn session_key(&self, session_id: &str) -> [u8; 32] {
        self.derive(&["session secrets", session_id])
    }

    /// The key that encrypts the secrets of one task. The same after a restart.
    pub fn task_key(&self, task_id: &str) -> [u8; 32] {
        self.derive(&["task secrets", task_id])
    }

    /// A fingerprint of what a client sent, from which nothing of it can be guessed.
    pub fn fingerprint(&self, parts: &[&str]) -> [u8; 32] {
        let parts: Vec<&str> = std::iter::once("fingerprint").chain(parts.iter().copied()).collect();
        self.derive(&parts)
    }

    /// The token that opens the viewer of one world, as it was made for the `generation`th time.
    pub fn world_token(&self, world_id: &str, generation: u32) -> String {
        let mac = self.derive(&["world", world_id, &generation.to_string()]);
        URL_SAFE_NO_PAD.encode(&mac[..TOKEN_BYTES])
    }

    /// The key that encrypts patients' names where the operator gives none.
    pub fn names_key(&self) -> [u8; 32] {
        self.derive(&["patients' names"])
    }

    /// The secret that signs messages to the addresses that a key's clients name.
    pub fn webhook_secret(&self, key_id: &str) -> String {
        format!("{}{}", signature::ENCODED, STANDARD.encode(self.derive(&["webhooks", key_id])))
    }

    /// The key that encrypts the keys of profiles.
    pub fn profiles_key(&self) -> [u8; 32] {
        self.derive(&["profiles' keys"])
    }

    /// The key that encrypts the keys of browser extensions.
    pub fn extensions_key(&self) -> [u8; 32] {
        self.derive(&["extensions' keys"])
    }

    /// HMAC-SHA256 of the parts, each with its length, so that no two lists of parts read the same.
    fn derive(&self, parts: &[&str]) -> [u8; 32] {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.secret).expect("HMAC takes keys of every length");
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> InstanceError + use<> {
    let path = path.to_owned();
    move |source| InstanceError::Io { doing, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = Instance::load_or_create(dir.path()).unwrap();
        let second = Instance::load_or_create(dir.path()).unwrap();
        assert_eq!(first.id(), second.id());
        assert_eq!(first.id().len(), 12);
        assert_eq!(first.worker_secret("w1"), second.worker_secret("w1"));
        assert_eq!(first.worker_secret("w1").len(), 64);
        assert_eq!(first.session_token("s", "devtools"), second.session_token("s", "devtools"));
        assert_eq!(first.session_token("s", "devtools").len(), 22);
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file stays: {left:?}");
    }

    #[test]
    fn who_only_looks_makes_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Instance::find(dir.path()).unwrap().is_none());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let made = Instance::load_or_create(dir.path()).unwrap();
        assert_eq!(Instance::find(dir.path()).unwrap().unwrap().id(), made.id());
    }

    #[test]
    fn derived_secrets_differ() {
        let dir = tempfile::tempdir().unwrap();
        let instance = Instance::load_or_create(dir.path()).unwrap();
        assert_ne!(instance.worker_secret("a"), instance.worker_secret("b"));
        assert_ne!(instance.webhook_secret("a"), instance.webhook_secret("b"));
        assert_ne!(instance.session_token("ab", "c"), instance.session_token("a", "bc"));
        assert_ne!(instance.session_token("a", "stream"), instance.session_token("a", "devtools"));
        let other = tempfile::tempdir().unwrap();
        let other = Instance::load_or_create(other.path()).unwrap();
        assert_ne!(instance.worker_secret("a"), other.worker_secret("a"));
    }

    #[test]
    fn the_derivation_is_hmac_sha256() {
        // Computed by another implementation of HMAC. It must never change: running
        // workers have the old values.
        let instance = Instance { id: "000000000000".into(), secret: [7; SECRET_BYTES] };
        assert_eq!(instance.worker_secret("w1"), "6c3fb215764a6e1cf2c0edeefc5a51e715f37ae2eb3d36e4048438c0e1b51a48");
    }

    #[test]
    fn a_damaged_or_exposed_file_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let instance = Instance::load_or_create(dir.path()).unwrap();
        let good = fs::read(&path).unwrap();
        for bad in [&b"{}"[..], b"", &good[..good.len() / 2]] {
            fs::write(&path, bad).unwrap();
            assert!(matches!(Instance::load_or_create(dir.path()), Err(InstanceError::Damaged { .. })));
            assert_eq!(fs::read(&path).unwrap(), bad);
        }
        fs::write(&path, &good).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Instance::load_or_create(dir.path()), Err(InstanceError::Exposed { .. })));
        assert!(!format!("{instance:?}").contains(&URL_SAFE_NO_PAD.encode(instance.secret)));
    }
}
