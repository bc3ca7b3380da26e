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
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    if free_bytes(folder).is_some_and(|free| free < min_free.saturating_add(bytes.len() as u64)) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!("{name}{UNFINISHED}"));
    let mut file = fs::File::create(&unfinished)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&unfinished, path)) {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    fs::File::open(folder)?.sync_all()
}
