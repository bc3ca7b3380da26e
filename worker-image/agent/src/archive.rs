//! Selenium's remote upload: one file in a zip archive.

use std::io::{Read, copy};
use std::path::Path;

use zip::ZipArchive;

use crate::error::ApiError;
use crate::plain_file;

/// Writes the one file of the archive to `to`. Returns the name the archive has for it, which
/// is not to be trusted, and its size.
///
/// Blocks; meant for a thread of its own.
pub(crate) fn unpack(archive: &Path, to: &Path, limit: u64) -> Result<(String, u64), ApiError> {
    let bad = |e: zip::result::ZipError| ApiError::bad_request(format!("zip: {e}"));
    let mut archive = ZipArchive::new(plain_file::open(archive)?.0).map_err(bad)?;
    let mut found = None;
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(bad)?;
        if file.is_dir() {
            continue;
        }
        let name = file.name().map_err(bad)?.into_owned();
        if found.replace((index, name)).is_some() {
            return Err(ApiError::bad_request("zip: more than one file in it"));
        }
    }
    let (index, name) = found.ok_or_else(|| ApiError::bad_request("zip: no file in it"))?;
    let file = archive.by_index(index).map_err(bad)?;
    // The size in the archive's directory may be a lie, so the bytes themselves are counted.
    let mut bytes = file.take(limit.saturating_add(1));
    let size = copy(&mut bytes, &mut plain_file::create(to)?).map_err(|e| match e.kind() {
        std::io::ErrorKind::StorageFull => ApiError::from(e),
        _ => ApiError::bad_request(format!("zip: {e}")),
    })?;
    if size > limit {
        return Err(ApiError::too_large(limit));
    }
    Ok((name, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use zip::write::{SimpleFileOptions, ZipWriter};

    fn zipped(files: &[(&str, &[u8])], directory: &Path) -> std::path::PathBuf {
        let path = directory.join("archive.zip");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        writer.add_directory("folder/", SimpleFileOptions::default()).unwrap();
        for (name, bytes) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn takes_one_file_within_the_limit() {
        let home = tempfile::tempdir().unwrap();
        let to = home.path().join("to");
        let archive = zipped(&[("folder/cv.pdf", b"12345")], home.path());
        assert_eq!(unpack(&archive, &to, 5).unwrap(), ("folder/cv.pdf".to_owned(), 5));
        assert_eq!(std::fs::read(&to).unwrap(), b"12345");
        assert!(unpack(&archive, &to, 4).is_err());
    }

    #[test]
    fn refuses_none_many_and_nonsense() {
        let home = tempfile::tempdir().unwrap();
        let to = home.path().join("to");
        assert!(unpack(&zipped(&[], home.path()), &to, 9).is_err());
        assert!(unpack(&zipped(&[("a", b"1"), ("b", b"2")], home.path()), &to, 9).is_err());
        let nonsense = home.path().join("nonsense");
        std::fs::write(&nonsense, "not a zip").unwrap();
        assert!(unpack(&nonsense, &to, 9).is_err());
    }
}
