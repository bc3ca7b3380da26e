//! Files beside the database that are whole or not there.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::disk::free_bytes;

/// What the name of a file ends with as long as it is being written.
const UNFINISHED: &str = ".new";

/// Whether a file of this name is finished.
#[must_use]
pub fn is_whole(name: &str) -> bool {
    !name.ends_with(UNFINISHED)
}

/// Writes a file so that it is whole or not there, also after loss of power. Its folder has to be there.
/// Errors: `StorageFull` where fewer than `min_free` bytes would stay free; those of the system.
pub fn write_whole(path: &Path, bytes: &[u8], min_free: u64) -> io::Result<()> {
    write_whole_with(path, min_free.saturating_add(bytes.len() as u64), |file| file.write_all(bytes))
}

/// Writes a file by `write` so that it is whole or not there, also after loss of power. Its folder has to be there.
/// Errors: `StorageFull` where fewer than `min_free` bytes are free before it; those of `write`, and of the system.
pub fn write_whole_with<T>(
    path: &Path,
    min_free: u64,
    write: impl FnOnce(&mut fs::File) -> io::Result<T>,
) -> io::Result<T> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    if free_bytes(folder).is_some_and(|free| free < min_free) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!("{name}{UNFINISHED}"));
    let mut file = fs::File::create(&unfinished)?;
    let written = write(&mut file).and_then(|written| file.sync_all().map(|()| written));
    match written.and_then(|written| fs::rename(&unfinished, path).map(|()| written)) {
        Ok(written) => fs::File::open(folder)?.sync_all().map(|()| written),
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            Err(error)
        }
    }
}
