//! Browser extensions as their owners read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_core::ids::{ExtensionId, KeyId};

/// As what an extension was uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExtensionFormat {
    /// A zip.
    Zip,
    /// A zip with the header of Chromium's stores.
    Crx,
    /// A zip that Mozilla has signed.
    Xpi,
}

/// What the header of a `.crx` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreId {
    /// The extension's id in its store.
    pub id: String,
    /// Whether the developer's signature was checked. It is not where their key is shorter than 2048 bits.
    pub is_verified: bool,
}

/// A browser extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Extension")]
pub struct ExtensionView {
    /// Its id here: `ext_` and 128 random bits.
    pub extension_id: ExtensionId,
    /// The key that uploaded it, which alone can use it.
    pub key_id: KeyId,
    /// Its name, in its default language.
    pub name: String,
    /// What its uploader calls it, where they say so; no two of a key have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Its version.
    pub version: String,
    /// The version of its manifest's form. Chromium loads 3 alone, Firefox both.
    #[schemars(range(min = 2, max = 3))]
    pub manifest_version: u8,
    /// What it may do.
    pub permissions: Vec<String>,
    /// Which sites it may reach or change: of its host permissions and content scripts.
    pub hosts: Vec<String>,
    /// Its id in Firefox, where its manifest names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gecko_id: Option<String>,
    /// As what it was uploaded.
    pub format: ExtensionFormat,
    /// What its `.crx` says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_id: Option<StoreId>,
    /// The bytes of its archive.
    pub size: u64,
    /// The bytes of its files, unpacked.
    pub unpacked: u64,
    /// How many files it has.
    pub files: usize,
    /// SHA-256 of the archive, in hexadecimal; of a `.crx`, of the zip in it.
    pub sha256: String,
    /// When it was uploaded, in Unix milliseconds.
    pub created: u64,
}

/// The extensions of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExtensionList {
    /// The newest first.
    pub extensions: Vec<ExtensionView>,
}
