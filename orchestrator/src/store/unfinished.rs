//! A dump that is being written.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

use super::StoreError;

/// The name of a dump that has not got its own yet, which begins with that of the dump.
pub(super) const SUFFIX: &str = ".tmp";

/// A dump's file before it has its name. It has none at all where the file system can do that, so that nothing of it is
/// left when the process is killed. Else its name is removed unless it has been renamed, by the next start where it is
/// below the data directory, or by the next dump of the same name.
pub(super) struct Unfinished {
    name: PathBuf,
    nameless: bool,
}

impl Unfinished {
    /// Begins the dump that will be `path`.
    pub(super) fn create(path: &Path) -> Result<(Self, File), StoreError> {
        let mut name = path.as_os_str().to_owned();
        name.push(SUFFIX);
        let name = PathBuf::from(name);
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        if let Ok(file) = options.clone().custom_flags(nix::libc::O_TMPFILE).open(folder) {
            return Ok((Self { name, nameless: true }, file));
        }
        let _ = fs::remove_file(&name);
        let file = options.create_new(true).open(&name).map_err(StoreError::io("create", &name))?;
        Ok((Self { name, nameless: false }, file))
    }

    /// Where it is, or would be.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Gives a whole file the name `path`, in place of what has it.
    pub(super) fn finish(&self, file: &File, path: &Path) -> Result<(), StoreError> {
        if self.nameless {
            let _ = fs::remove_file(&self.name);
            let open = format!("/proc/self/fd/{}", file.as_raw_fd());
            // Only a rename can replace a file, so it needs a name before.
            linkat(AT_FDCWD, open.as_str(), AT_FDCWD, &self.name, AtFlags::AT_SYMLINK_FOLLOW)
                .map_err(|errno| StoreError::io("name", &self.name)(errno.into()))?;
        }
        fs::rename(&self.name, path).map_err(StoreError::io("rename", &self.name))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.nameless {
            let _ = fs::remove_file(&self.name);
        }
    }
}
