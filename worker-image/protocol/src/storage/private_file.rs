//! Private files of an origin (OPFS), in the shape of Playwright's `storageState`.

use serde::{Deserialize, Serialize};

use super::{Wrong, wrong};

/// A file or a directory in an origin's private file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrivateFile {
    /// Where it is, below the root: names with `/` between them.
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: PrivateFileKind,
    /// A file's bytes, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// What something in a private file system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PrivateFileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl PrivateFile {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['\\', '\0']);
        if !self.path.split('/').all(is_name) {
            return wrong("path", "must be names with `/` between them, none of them empty, `.` or `..`");
        }
        match (self.kind, &self.base64) {
            (PrivateFileKind::File, Some(text)) if is_base64(text) => Ok(()),
            (PrivateFileKind::File, _) => wrong("base64", "must be the file's bytes in base64"),
            (PrivateFileKind::Directory, None) => Ok(()),
            (PrivateFileKind::Directory, Some(_)) => wrong("base64", "must be left out: a directory has no bytes"),
        }
    }
}

/// Whether a text is base64 with its padding, which it may lack altogether.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let whole = padding == 0 || (padding <= 2 && text.len().is_multiple_of(4));
    whole && digits.len() % 4 != 1 && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}
