//! Browser extensions: what a client may upload, and how its archive is read.
//!
//! An extension is a zip with a `manifest.json` at its root. Chromium's `.crx` has a header in front, which [`crx`] reads, and
//! Firefox's `.xpi` is such a zip. The archive is as hostile as whoever sent it: the daemon reads all of it when it comes, and the
//! agent once more when it unpacks it. An archive with anything but plain files at plain paths is refused, as a whole.
//!
//! What an extension does once a browser has loaded it is not judged here. It runs in its worker, behind the worker's fence.

pub mod crx;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod manifest;
mod read;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use zip::result::ZipError;

pub use manifest::Manifest;
pub use read::{ExtensionArchive, check_size};

/// The file that makes an archive an extension.
pub const MANIFEST: &str = "manifest.json";
/// The folder of an extension's texts in several languages.
pub const LOCALES: &str = "_locales";
/// What stores add to an extension, which Chromium does not take in a folder.
pub const STORES_OWN: &str = "_metadata/";
/// The longest path in an archive, in bytes.
const MAX_PATH: usize = 512;
/// The longest name of a file or a folder, in bytes: what file systems take.
const MAX_NAME: usize = 255;

/// How much an archive may hold, and the query of `PUT /extensions/<name>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtensionLimits {
    /// The most bytes of its files, unpacked.
    pub unpacked: u64,
    /// The most files and folders.
    pub files: usize,
}

impl ExtensionLimits {
    /// As the query of an address.
    #[must_use]
    pub fn query(self) -> String {
        format!("unpacked={}&files={}", self.unpacked, self.files)
    }

    /// Reads such a query.
    #[must_use]
    pub fn from_query(query: &str) -> Option<Self> {
        let (unpacked, files) = query.split_once('&')?;
        let unpacked = unpacked.strip_prefix("unpacked=")?.parse().ok()?;
        Some(Self { unpacked, files: files.strip_prefix("files=")?.parse().ok()? })
    }
}

/// Whether an extension may have this name in a worker: that of a folder, and nothing else.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Why an upload is no extension.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// It is not a zip.
    #[error("it is not a zip that can be read: {0}")]
    Archive(String),
    /// The header in front of it is wrong.
    #[error("its CRX header cannot be read: {0}")]
    Header(String),
    /// The manifest is missing, or says something else.
    #[error("{MANIFEST} {0}")]
    Manifest(String),
    /// A path in it could lead out of its folder, or cannot be a file's.
    #[error("{0:?} is no path of an extension's file: it must be relative, in UTF-8, with `/` between names")]
    Path(String),
    /// An entry is a link or a device.
    #[error("{0:?} is no plain file")]
    NoFile(String),
    /// An entry is encrypted.
    #[error("{0:?} is encrypted")]
    Encrypted(String),
    /// Two entries have one path.
    #[error("{0:?} is in it twice")]
    Twice(String),
    /// There are too many files.
    #[error("it has more than the {limit} files and folders allowed")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The files are too large together.
    #[error("its files have more than the {limit} bytes allowed")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<ZipError> for ExtensionError {
    fn from(error: ZipError) -> Self {
        match error {
            ZipError::Io(error) => Self::from_reading(&error),
            error => Self::Archive(error.to_string()),
        }
    }
}

impl ExtensionError {
    /// What went wrong while an entry was read.
    fn from_reading(error: &std::io::Error) -> Self {
        Self::Archive(error.to_string())
    }
}
