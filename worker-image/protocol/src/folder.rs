//! A browser's own profile folder, packed: a tar in zstd whose first entry says whose it is.
//!
//! A profile folder is more than data. Chromium takes proxies, download folders and the rights of extensions from its
//! preferences, and Firefox takes programs from `handlers.json` and libraries from `pkcs11.txt`. So each engine has a list of
//! what may be packed and unpacked (`list`): what sites have stored, and what their visitor allowed them. Of Chromium's
//! preferences there is that alone (`preferences`). An archive with anything else is refused, as a whole.
//!
//! An archive is as hostile as whoever sent it: the daemon checks it when it comes, and the agent once more when it unpacks it.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod list;
mod pack;
mod preferences;
mod read;
#[cfg(test)]
mod tests;

use std::io;

use serde::{Deserialize, Serialize};

pub use pack::PackingList;
pub use preferences::{MAX_PREFERENCES, PREFERENCES, kept_preferences};
pub use read::read_folder;

/// The name of the first entry.
const MANIFEST: &str = "warmpool.json";
/// Its longest text, in bytes.
const MAX_MANIFEST: u64 = 4 << 10;
/// The most files of a folder.
pub const MAX_FILES: usize = 20_000;
/// The longest path in a folder, in bytes.
const MAX_PATH: usize = 1024;
/// The media type of a packed folder.
pub const FOLDER_TYPE: &str = "application/zstd";

/// An engine whose profile folder can be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FolderEngine {
    /// Chromium.
    Chromium,
    /// Firefox.
    Firefox,
    /// WebKit, in the shell of its image.
    Webkit,
}

impl FolderEngine {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
            Self::Webkit => "webkit",
        }
    }

    /// Whether a file of this path, from the folder's root, may be in a packed folder.
    #[must_use]
    pub fn has(self, path: &str) -> bool {
        list::has(self, path)
    }
}

/// Query of `PUT /folder` and `POST /folder`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderQuery {
    /// The most bytes of its files.
    pub limit: u64,
}

impl FolderQuery {
    /// As the query of an address.
    #[must_use]
    pub fn query(self) -> String {
        format!("limit={}", self.limit)
    }

    /// Reads such a query.
    #[must_use]
    pub fn from_query(query: &str) -> Option<Self> {
        Some(Self { limit: query.strip_prefix("limit=")?.parse().ok()? })
    }
}

/// Whose a folder is: the first entry of its archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderManifest {
    /// The engine, which alone can open it.
    pub engine: FolderEngine,
    /// The browser that had it last, such as `Firefox/140.3.0`.
    pub browser: String,
}

impl FolderManifest {
    /// Whether it is from a newer browser than `browser`, by the number that counts releases, which is the first of a version,
    /// and of WebKitGTK the second: an older one would lose what it does not understand.
    #[must_use]
    pub fn is_newer_than(&self, browser: &str) -> bool {
        let counting = match self.engine {
            FolderEngine::Chromium | FolderEngine::Firefox => 1,
            FolderEngine::Webkit => 2,
        };
        let release = |text: &str| -> Option<Vec<u32>> {
            let version = text.rsplit('/').next()?;
            version.split('.').take(counting).map(|number| number.parse().ok()).collect()
        };
        match (release(&self.browser), release(browser)) {
            (Some(had), Some(has)) => had > has,
            _ => false,
        }
    }
}

/// Why a folder cannot be packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is no tar in zstd.
    #[error("it is no tar in zstd: {0}")]
    Archive(io::Error),
    /// The first entry is missing, or says something else.
    #[error("its first entry must be {MANIFEST}, with `engine` and `browser`: {0}")]
    Manifest(String),
    /// It is another engine's.
    #[error("it is of {found}, and not of {wanted}")]
    Engine {
        /// Whose it is.
        found: &'static str,
        /// Whose it should be.
        wanted: &'static str,
    },
    /// An entry is a link, a folder or a device.
    #[error("{0:?} is no plain file")]
    NoFile(String),
    /// An entry is not in the engine's list.
    #[error("{0:?} is not among the files that a profile may have")]
    Unlisted(String),
    /// Two entries have one path.
    #[error("{0:?} is in it twice")]
    Twice(String),
    /// There are too many files.
    #[error("it has more than {MAX_FILES} files")]
    TooMany,
    /// The files are too large together.
    #[error("its files have more than the {limit} bytes allowed")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The folder cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}
