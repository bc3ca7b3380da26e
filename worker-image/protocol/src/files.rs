use serde::{Deserialize, Serialize};

/// Longest file name, in bytes: what Linux file systems take.
pub const MAX_FILE_NAME: usize = 255;

/// Whether a text is the name of a file in one directory, and no way to another.
#[must_use]
pub fn is_plain_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.len() <= MAX_FILE_NAME
        && !name.contains(['/', '\\'])
        && !name.chars().any(char::is_control)
}

/// Where a file came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSource {
    /// The browser saved it.
    Download,
    /// The client sent it.
    Upload,
}

/// An entry of `GET /files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its name, one path component.
    pub name: String,
    /// Bytes so far.
    pub size: u64,
    /// Its last change, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Where it came from.
    pub source: FileSource,
    /// Whether all of it is there.
    pub complete: bool,
}

/// Answer to an upload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredFile {
    /// Where a page's file chooser finds it, inside the container.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Its size, in bytes.
    pub size: u64,
}

/// Body of `POST /uploads/<name>`: what is stored for upload gets another name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rename {
    /// Its name from now on.
    pub name: String,
}
