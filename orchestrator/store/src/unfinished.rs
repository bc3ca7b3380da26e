//! A file that gets its name when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

use super::StoreError;
use super::disk::free_bytes;
use super::layout::sync_parent;
use super::options::essential_min_free;
use super::whole_file::LOOK_EVERY;

/// The name of a backup that has not got its own yet begins with that of the backup, and ends so.
pub(super) const SUFFIX: &str = ".tmp";

/// How much room a backup leaves to others, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// It stops where less than this would stay free.
    pub(super) min_free: u64,
    /// How large it is likely to be: it is not begun where that does not fit.
    pub(super) expected: u64,
}

impl Room {
    /// For what takes something away: like an essential commit, it may use part of the reserve.
    pub(super) const fn essential(min_free: u64) -> Self {
        Self { min_free: essential_min_free(min_free), expected: 0 }
    }

    /// Errors: `DiskNearlyFull`.
    fn check(self, folder: &Path, bytes: u64) -> Result<(), StoreError> {
        let min_free_bytes = self.min_free.saturating_add(bytes);
        match free_bytes(folder) {
            Some(free_bytes) if free_bytes < min_free_bytes => {
                Err(StoreError::DiskNearlyFull { free_bytes, min_free_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// A backup before it has its name. It has none at all where the file system can do that, so that nothing of it is
/// left when the process is killed. Else its name is removed unless it has been renamed, by the next start where it is
/// below the data directory, or by the next backup of the same name. It takes nothing more once the disk has less free space than must
/// stay.
pub(super) struct Unfinished {
    path: PathBuf,
    name: PathBuf,
    nameless: bool,
    out: BufWriter<File>,
    folder: PathBuf,
    room: Room,
    /// How much was written since the free space was looked at.
    unlooked: u64,
}

impl Unfinished {
    /// Begins the file that will be `path`.
    /// Errors: `DiskNearlyFull`, `Io`.
    pub(super) fn create(path: &Path, room: Room) -> Result<Self, StoreError> {
        let mut name = path.as_os_str().to_owned();
        name.push(SUFFIX);
        let name = PathBuf::from(name);
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        room.check(folder, room.expected)?;
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let (nameless, file) = match options.clone().custom_flags(nix::libc::O_TMPFILE).open(folder) {
            Ok(file) => (true, file),
            Err(_) => {
                let _ = fs::remove_file(&name);
                (false, options.create_new(true).open(&name).map_err(StoreError::io("create", &name))?)
            }
        };
        let (path, folder, out) = (path.to_owned(), folder.to_owned(), BufWriter::new(file));
        Ok(Self { path, name, nameless, out, folder, room, unlooked: 0 })
    }

    /// Where it is, or would be.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Whether it may grow by so many bytes.
    /// Errors: `DiskNearlyFull`.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), StoreError> {
        self.room.check(&self.folder, bytes)
    }

    /// Makes it durable and gives it its name, in place of what has that name. Returns its path and size, bytes.
    pub(super) fn finish(mut self) -> Result<(PathBuf, u64), StoreError> {
        let bytes = self.out.seek(SeekFrom::End(0)).map_err(StoreError::io("write", &self.name))?;
        let file = self.out.get_ref();
        file.sync_all().map_err(StoreError::io("sync", &self.name))?;
        if self.nameless {
            let _ = fs::remove_file(&self.name);
            let open = format!("/proc/self/fd/{}", file.as_raw_fd());
            // Only a rename can replace a file, so it needs a name before.
            linkat(AT_FDCWD, open.as_str(), AT_FDCWD, &self.name, AtFlags::AT_SYMLINK_FOLLOW)
                .map_err(|errno| StoreError::io("name", &self.name)(errno.into()))?;
        }
        fs::rename(&self.name, &self.path).map_err(StoreError::io("rename", &self.name))?;
        sync_parent(&self.path)?;
        Ok((self.path.clone(), bytes))
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unlooked >= LOOK_EVERY {
            self.check_room(0).map_err(|full| io::Error::new(io::ErrorKind::StorageFull, full))?;
            self.unlooked = 0;
        }
        let count = self.out.write(bytes)?;
        self.unlooked += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Seek for Unfinished {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.out.seek(to)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.nameless {
            let _ = fs::remove_file(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_stops_growing_where_space_becomes_scarce() {
        let folder = tempfile::tempdir().unwrap();
        let mut out = Unfinished::create(&folder.path().join("backup"), Room::default()).unwrap();
        out.write_all(&[0; 4096]).unwrap();
        // As if others had taken all meanwhile.
        out.room.min_free = u64::MAX;
        let grown = (0..=LOOK_EVERY / 4096).try_for_each(|_| out.write_all(&[0; 4096]));
        let refused = StoreError::io("write", out.name())(grown.unwrap_err());
        assert!(matches!(refused, StoreError::DiskNearlyFull { min_free_bytes: u64::MAX, .. }), "{refused}");
        drop(out);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of it");
    }

    #[test]
    fn a_backup_that_would_not_fit_is_not_begun() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room { min_free: 1, expected: u64::MAX - 1 };
        let refused = Unfinished::create(&folder.path().join("backup"), room).map(drop);
        assert!(matches!(refused, Err(StoreError::DiskNearlyFull { min_free_bytes: u64::MAX, .. })), "{refused:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
