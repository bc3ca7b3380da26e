//! Files beside the database that are whole or not there.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::disk::free_bytes;

/// What the name of a file ends with as long as it is being written.
const UNFINISHED: &str = ".new";

/// After so many bytes of a file, the free space is looked at again: other files grow at the same time.
pub(super) const LOOK_EVERY: u64 = 1 << 20;

/// Whether a file of this name is finished.
#[must_use]
pub fn is_whole(name: &str) -> bool {
    !name.ends_with(UNFINISHED)
}

/// A file that is being written. It takes nothing more once the disk has less free space than must stay.
#[derive(Debug)]
pub struct UnfinishedFile {
    file: fs::File,
    folder: PathBuf,
    min_free: u64,
    /// How much was written since the free space was looked at.
    unlooked: u64,
}

impl UnfinishedFile {
    fn create(path: &Path, folder: &Path, min_free: u64) -> io::Result<Self> {
        check_free(folder, min_free)?;
        Ok(Self { file: fs::File::create(path)?, folder: folder.to_owned(), min_free, unlooked: 0 })
    }
}

impl Write for UnfinishedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unlooked >= LOOK_EVERY {
            check_free(&self.folder, self.min_free)?;
            self.unlooked = 0;
        }
        let count = self.file.write(bytes)?;
        self.unlooked += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn check_free(folder: &Path, min_free: u64) -> io::Result<()> {
    match free_bytes(folder) {
        Some(free) if free < min_free => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    }
}

/// Writes a file so that it is whole or not there, also after loss of power. Its folder has to be there.
/// Errors: `StorageFull` where fewer than `min_free` bytes would stay free; those of the system.
pub fn write_whole(path: &Path, bytes: &[u8], min_free: u64) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    check_free(folder, min_free.saturating_add(bytes.len() as u64))?;
    write_whole_with(path, min_free, |file| file.write_all(bytes))
}

/// Writes a file by `write` so that it is whole or not there, also after loss of power. Its folder has to be there.
/// Errors: `StorageFull` where fewer than `min_free` bytes are free before it, or while it grows; those of `write`, and of the
/// system.
pub fn write_whole_with<T>(
    path: &Path,
    min_free: u64,
    write: impl FnOnce(&mut UnfinishedFile) -> io::Result<T>,
) -> io::Result<T> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!("{name}{UNFINISHED}"));
    let mut file = UnfinishedFile::create(&unfinished, folder, min_free)?;
    let written = write(&mut file).and_then(|written| file.file.sync_all().map(|()| written));
    match written.and_then(|written| fs::rename(&unfinished, path).map(|()| written)) {
        Ok(written) => fs::File::open(folder)?.sync_all().map(|()| written),
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stops_growing_where_space_becomes_scarce() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let grown = write_whole_with(&path, 0, |file| {
            file.write_all(&[0; 4096])?;
            // As if others had taken all meanwhile.
            file.min_free = u64::MAX;
            (0..=LOOK_EVERY / 4096).try_for_each(|_| file.write_all(&[0; 4096]))
        });
        assert_eq!(grown.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of it");
    }
}
