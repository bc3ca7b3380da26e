//! What an upload is, and the check of it.

use std::io::{self, Cursor};

use bytes::Bytes;
use warmpool_protocol::extension::crx::{Header, is_crx};
use warmpool_protocol::extension::{ExtensionArchive, ExtensionError, ExtensionLimits, Manifest, check_size};

use crate::Error;
use crate::signature::verify;
use warmpool_api::extension::ExtensionFormat;

/// What a zip begins with: its first file.
const ZIP: &[u8] = b"PK\x03\x04";
/// What Mozilla signs an extension with.
const SIGNED_BY_MOZILLA: &str = "META-INF/mozilla.rsa";

/// An upload that is an extension.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) format: ExtensionFormat,
    pub(crate) manifest: Manifest,
    /// The zip.
    pub(crate) archive: Bytes,
    pub(crate) files: usize,
    /// Files and folders in the archive's list.
    pub(crate) entries: usize,
    /// Bytes of its files, unpacked.
    pub(crate) unpacked: u64,
    /// The id that a store has given it, and whether its signature is good.
    pub(crate) signed: Option<(String, bool)>,
}

impl Upload {
    /// Reads all of an upload. It takes a processor its time.
    /// Errors: `Invalid`, `TooLarge`.
    pub(crate) fn read(file: &Bytes, limits: ExtensionLimits) -> Result<Self, Error> {
        let (mut format, archive, signed) = if is_crx(file) {
            let header = Header::read(file)?;
            let signed = (header.id_text(), verify(&header)?);
            (ExtensionFormat::Crx, file.slice_ref(header.archive), Some(signed))
        } else {
            (ExtensionFormat::Zip, file.clone(), None)
        };
        if !archive.starts_with(ZIP) {
            return Err(ExtensionError::Archive("its first bytes are not those of a zip".to_owned()).into());
        }
        check_size(&archive, limits)?;
        let mut opened = ExtensionArchive::open(Cursor::new(&archive), limits)?;
        let manifest = opened.manifest()?;
        let (files, entries) = (opened.count(), opened.entries());
        let unpacked = opened.each(|path, content| {
            if path == SIGNED_BY_MOZILLA && format == ExtensionFormat::Zip {
                format = ExtensionFormat::Xpi;
            }
            io::copy(content, &mut io::sink())?;
            Ok::<_, ExtensionError>(())
        })?;
        Ok(Self { format, manifest, archive, files, entries, unpacked, signed })
    }
}
