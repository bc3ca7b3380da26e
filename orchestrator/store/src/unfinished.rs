//! A file that gets its name when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

use super::StoreError;
use super::layout::sync_parent;

/// The name of a backup that has not got its own yet begins with that of the backup, and ends so.
pub(super) const SUFFIX: &str = ".tmp";

/// A backup before it has its name. It has none at all where the file system can do that, so that nothing of it is
/// left when the process is killed. Else its name is removed unless it has been renamed, by the next start where it is
/// below the data directory, or by the next backup of the same name.
pub(super) struct Unfinished {
    path: PathBuf,
    name: PathBuf,
    nameless: bool,
    out: BufWriter<File>,
}

impl Unfinished {
    /// Begins the file that will be `path`.
    pub(super) fn create(path: &Path) -> Result<Self, StoreError> {
        let mut name = path.as_os_str().to_owned();
        name.push(SUFFIX);
        let name = PathBuf::from(name);
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let (nameless, file) = match options.clone().custom_flags(nix::libc::O_TMPFILE).open(folder) {
            Ok(file) => (true, file),
            Err(_) => {
                let _ = fs::remove_file(&name);
                (false, options.create_new(true).open(&name).map_err(StoreError::io("create", &name))?)
            }
        };
        Ok(Self { path: path.to_owned(), name, nameless, out: BufWriter::new(file) })
    }

    /// Where it is, or would be.
    pub(super) fn name(&self) -> &Path {
        &self.name
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
        self.out.write(bytes)
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
