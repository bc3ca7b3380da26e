//! A profile as the store keeps it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::folders::StoredFolder;
use crate::writer::QualifiedName;
use warmpool_api::null_is_default;
use warmpool_api::profile::{ProfileKind, ProfileVersion, ProfileView};
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_core::ids::{ProfileId, SessionId};
use warmpool_keys::KeyId;

/// The longest name, in characters.
const MAX_NAME: usize = 64;

/// What a session does with a profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfileMode {
    /// Its browser begins with the profile, and nothing is saved.
    #[default]
    Read,
    /// What the browser keeps is saved while the session lives and when it ends. One session at a time may.
    Write,
}

/// The profile that a session is to begin with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileChoice {
    /// Its name: letters, digits, `.`, `_` and `-`. One that is to be written need not be there yet.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// What is done with it.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(with = "Option<ProfileMode>")]
    pub mode: ProfileMode,
    /// What it keeps: of one that is there, what it keeps already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProfileKind>,
}

impl ProfileChoice {
    /// Whether the session saves it.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.mode == ProfileMode::Write
    }
}

/// Checks the name of a profile, which stands in paths.
/// Errors: `Field`.
pub fn check_name(field: &str, name: &str) -> Result<(), Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.') {
        return Ok(());
    }
    let rule =
        format!("must have 1 to {MAX_NAME} of the characters A-Z, a-z, 0-9, `.`, `_` and `-`, and no `.` in front");
    Err(Error::invalid(field, rule))
}

/// A version of a profile: one session's last save, or a state that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// Counts up, and is never given twice.
    pub(crate) number: u64,
    /// When it was saved last, in Unix milliseconds.
    pub(crate) saved_ms: u64,
    /// The session whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<SessionId>,
    /// The size in bytes: of a state as JSON, of a folder packed.
    pub(crate) size: u64,
    /// The name of its file. A later save of the same session has another.
    pub(crate) file: String,
    /// SHA-256 of that, in hexadecimal: whether a save changes anything.
    pub(crate) hash: String,
    /// Whose folder it is, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<FolderVersion>,
}

/// Whose folder a version is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderVersion {
    pub(crate) engine: Engine,
    /// The browser that had it last, such as `Firefox/140.3.0`.
    pub(crate) browser: String,
}

/// What is new in a version.
#[derive(Clone)]
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) hash: String,
    pub(crate) folder: Option<FolderVersion>,
}

impl From<StoredFolder> for Content {
    fn from(stored: StoredFolder) -> Self {
        let StoredFolder { manifest, size, hash } = stored;
        Self { size, hash, folder: Some(FolderVersion { engine: manifest.engine.into(), browser: manifest.browser }) }
    }
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Names its folder and its key.
    pub(crate) id: ProfileId,
    /// The key that owns it.
    pub(crate) owner: KeyId,
    /// Its name among those of its key.
    pub(crate) name: String,
    /// What it keeps.
    #[serde(default)]
    pub(crate) kind: ProfileKind,
    /// When it was made, in Unix milliseconds.
    pub(crate) created_ms: u64,
    /// When a session last began with it, in Unix milliseconds; that it was made counts too.
    pub(crate) used_ms: u64,
    /// Its versions, the oldest first.
    #[serde(default)]
    pub(crate) versions: Vec<Version>,
    /// The number of the next version.
    pub(crate) next: u64,
}

impl Record {
    /// Its key in the store.
    pub(crate) fn store_key(&self) -> Vec<u8> {
        QualifiedName::new(&self.owner, &self.name).store_key()
    }

    pub(crate) fn newest(&self) -> Option<&Version> {
        self.versions.last()
    }

    /// The bytes of all versions.
    pub(crate) fn size(&self) -> u64 {
        self.versions.iter().map(|version| version.size).sum()
    }

    /// The engine whose folder it is, once there is a version.
    pub(crate) fn folder_engine(&self) -> Option<Engine> {
        Some(self.newest()?.folder.as_ref()?.engine)
    }

    /// What its owner reads of it.
    pub(crate) fn view(&self, writer: Option<String>) -> ProfileView {
        let versions = self.versions.iter().rev().map(|version| ProfileVersion {
            version: version.number,
            saved: version.saved_ms,
            session_id: version.session.clone(),
            size: version.size,
            browser: version.folder.as_ref().map(|folder| folder.browser.clone()),
        });
        ProfileView {
            name: self.name.clone(),
            kind: self.kind,
            engine: self.folder_engine(),
            key_id: self.owner.clone(),
            created: self.created_ms,
            used: self.used_ms,
            writer,
            versions: versions.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::MAX_VERSIONS;
    use warmpool_store::MAX_VALUE_BYTES;

    #[test]
    fn all_versions_of_a_profile_fit_into_the_store() {
        // The longest that `read_folder` takes, of characters that JSON escapes.
        let folder = FolderVersion { engine: Engine::Chromium, browser: "\"".repeat(100) };
        let version = Version {
            number: u64::from(u32::MAX),
            saved_ms: u64::from(u32::MAX) * 1000,
            session: Some(SessionId::random()),
            size: 1 << 40,
            file: ProfileId::random().to_string(),
            hash: "0".repeat(64),
            folder: Some(folder),
        };
        let record = Record {
            id: ProfileId::random(),
            owner: "0123456789ab".parse().unwrap(),
            name: "n".repeat(MAX_NAME),
            kind: ProfileKind::Folder,
            created_ms: version.saved_ms,
            used_ms: version.saved_ms,
            next: version.number,
            versions: vec![version; MAX_VERSIONS],
        };
        let bytes = serde_json::to_vec(&record).unwrap().len();
        assert!(bytes <= MAX_VALUE_BYTES, "{bytes} bytes");
    }

    #[test]
    fn names_lead_nowhere() {
        for right in ["a", "Shop-1_x.y", &"n".repeat(64)] {
            assert!(check_name("name", right).is_ok(), "{right}");
        }
        for wrong in ["", ".", "..", ".x", "a/b", "a b", "ä", "a\n", &"n".repeat(65)] {
            assert!(check_name("name", wrong).is_err(), "{wrong}");
        }
    }
}
