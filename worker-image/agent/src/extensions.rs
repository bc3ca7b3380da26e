//! Browser extensions: kept before a launch, and loaded into each browser of the session.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio_util::io::{StreamReader, SyncIoBridge};
use warmpool_protocol::extension::{ExtensionArchive, ExtensionError, ExtensionLimits, STORES_OWN, is_name};

use crate::error::ApiError;
use crate::plain_file;

/// The folder of all extensions, in the home directory.
const FOLDER: &str = "extensions";
/// The most that an archive has beside its files' content, for each file, in bytes.
const OVERHEAD: u64 = 2 << 10;

/// How an engine takes an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtensionForm {
    /// As a folder.
    Folder,
    /// As the archive.
    Archive,
}

/// Keeps an extension's archive in this form. Returns where.
/// Fails when it is not what it should be.
pub(crate) async fn keep(
    form: ExtensionForm,
    home: &Path,
    name: &str,
    body: Incoming,
    limits: ExtensionLimits,
) -> Result<PathBuf, ApiError> {
    if !is_name(name) {
        return Err(ApiError::bad_request("name: letters, digits, `_` and `-` wanted"));
    }
    let root = home.join(FOLDER);
    let (archive, folder) = (root.join(format!("{name}.xpi")), root.join(name));
    let stream = body.into_data_stream().map_err(io::Error::other);
    let reader = SyncIoBridge::new(StreamReader::new(stream));
    let kept = tokio::task::spawn_blocking(move || {
        fs::create_dir_all(&root)?;
        receive(reader, &archive, limits)?;
        let mut opened = ExtensionArchive::open(plain_file::open(&archive)?.0, limits).map_err(wrong)?;
        if form == ExtensionForm::Archive {
            return Ok(archive);
        }
        unpack(&mut opened, &folder)?;
        fs::remove_file(&archive)?;
        Ok(folder)
    });
    kept.await.map_err(|error| ApiError::internal(error.to_string()))?
}

fn receive(from: impl io::Read, archive: &Path, limits: ExtensionLimits) -> Result<(), ApiError> {
    let most = limits.unpacked.saturating_add(OVERHEAD.saturating_mul(limits.files as u64));
    let size = io::copy(&mut from.take(most.saturating_add(1)), &mut plain_file::create(archive)?)?;
    if size > most { Err(ApiError::too_large(most)) } else { Ok(()) }
}

/// Unpacks an archive as Chromium takes a folder: without what stores have added.
fn unpack(archive: &mut ExtensionArchive<File>, folder: &Path) -> Result<(), ApiError> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let unpacked = archive.each(|path, content| {
        if path.starts_with(STORES_OWN) {
            return Ok(());
        }
        let place = folder.join(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        io::copy(content, &mut File::create(place)?)?;
        Ok::<_, ExtensionError>(())
    });
    unpacked.map(drop).map_err(wrong)
}

fn wrong(error: ExtensionError) -> ApiError {
    match error {
        ExtensionError::Io(error) => error.into(),
        error => ApiError::bad_request(error.to_string()),
    }
}

/// Why a browser has not loaded the extension at that place of the list. What the browser says may name the place in the worker.
pub(crate) fn not_loaded(index: usize, place: &Path, reason: &str) -> ApiError {
    let reason = reason.replace(&*place.to_string_lossy(), "the extension");
    ApiError::not_supported(format!("extension_ids[{index}]: is not loaded by the browser: {}", reason.trim()))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    #[test]
    fn a_folder_has_what_the_archive_has_but_for_what_stores_added() {
        let home = tempfile::tempdir().unwrap();
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["manifest.json", "js/deep/a.js", "_metadata/verified_contents.json"] {
            writer.start_file(name, SimpleFileOptions::default()).unwrap();
            writer.write_all(name.as_bytes()).unwrap();
        }
        let bytes = writer.finish().unwrap().into_inner();
        let limits = ExtensionLimits { unpacked: 100, files: 3 };
        let (archive, folder) = (home.path().join("a.xpi"), home.path().join("a"));
        receive(bytes.as_slice(), &archive, limits).unwrap();
        let mut opened = ExtensionArchive::open(File::open(&archive).unwrap(), limits).unwrap();
        for _ in 0..2 {
            unpack(&mut opened, &folder).unwrap();
        }
        assert_eq!(fs::read_to_string(folder.join("js/deep/a.js")).unwrap(), "js/deep/a.js");
        assert!(folder.join("manifest.json").exists() && !folder.join("_metadata").exists());
        let short = ExtensionLimits { unpacked: 0, files: 0 };
        assert_eq!(receive(bytes.as_slice(), &archive, short).unwrap_err().code, "too_large");
    }

    #[test]
    fn what_a_browser_says_is_told_without_places() {
        let error =
            not_loaded(1, Path::new("/home/worker/extensions/a"), "Could not load /home/worker/extensions/a: no\n");
        assert_eq!(error.message, "extension_ids[1]: is not loaded by the browser: Could not load the extension: no");
    }
}
