//! An extension as the store keeps it.

use serde::{Deserialize, Serialize};

use crate::upload::Upload;
use warmpool_api::extension::{ExtensionFormat, ExtensionView, StoreId};
use warmpool_core::clock::unix_ms;
use warmpool_core::ids::ExtensionId;
use warmpool_keys::KeyId;

/// An extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: ExtensionId,
    /// The key that uploaded it.
    pub(crate) owner: KeyId,
    /// What its manifest says of it.
    pub(crate) name: String,
    /// What its uploader calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alias: Option<String>,
    pub(crate) version: String,
    pub(crate) manifest_version: u8,
    pub(crate) permissions: Vec<String>,
    pub(crate) hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gecko_id: Option<String>,
    /// As what it was uploaded.
    pub(crate) format: ExtensionFormat,
    /// What its `.crx` says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) store_id: Option<StoreId>,
    /// The bytes of its archive.
    pub(crate) size: u64,
    /// The bytes of its files.
    pub(crate) unpacked: u64,
    pub(crate) files: usize,
    /// Files and folders in the archive's list.
    pub(crate) entries: usize,
    /// SHA-256 of the archive, in hexadecimal.
    pub(crate) hash: String,
    /// When it was uploaded, in Unix milliseconds.
    pub(crate) created_ms: u64,
}

impl Record {
    pub(crate) fn new(owner: KeyId, upload: &Upload, hash: String, alias: Option<String>) -> Self {
        let manifest = upload.manifest.clone();
        Self {
            id: ExtensionId::random(),
            owner,
            name: manifest.name,
            alias,
            version: manifest.version,
            manifest_version: manifest.manifest_version,
            permissions: manifest.permissions,
            hosts: manifest.hosts,
            gecko_id: manifest.gecko_id,
            format: upload.format,
            store_id: upload.signed.clone().map(|(id, is_verified)| StoreId { id, is_verified }),
            size: upload.archive.len() as u64,
            unpacked: upload.unpacked,
            files: upload.files,
            entries: upload.entries,
            hash,
            created_ms: unix_ms(),
        }
    }

    /// What its owner reads of it.
    pub(crate) fn view(&self) -> ExtensionView {
        ExtensionView {
            extension_id: self.id.clone(),
            key_id: self.owner.clone(),
            name: self.name.clone(),
            alias: self.alias.clone(),
            version: self.version.clone(),
            manifest_version: self.manifest_version,
            permissions: self.permissions.clone(),
            hosts: self.hosts.clone(),
            gecko_id: self.gecko_id.clone(),
            format: self.format,
            store_id: self.store_id.clone(),
            size: self.size,
            unpacked: self.unpacked,
            files: self.files,
            sha256: self.hash.clone(),
            created: self.created_ms,
        }
    }
}
