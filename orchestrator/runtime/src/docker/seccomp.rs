//! The list of system calls that a container may make, as its engine wants to have it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use parking_lot::RwLock;

use crate::{EngineKind, RuntimeError};

/// The system calls a worker may make: Docker's default list and what Chromium's own sandbox needs on top.
const PROFILE: &str = include_str!("../../../../worker-image/seccomp.json");
/// The file with it, in the data directory.
const FILE: &str = "seccomp.json";

/// The profile, and the file for engines that read one.
#[derive(Debug)]
pub(super) struct Seccomp {
    folder: PathBuf,
    /// The same as the engine knows it. It differs where the daemon itself runs in a container.
    folder_on_host: RwLock<PathBuf>,
}

impl Seccomp {
    /// The profile, with its file in this data directory.
    pub(super) fn below(data_dir: &Path) -> Self {
        let folder = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        Self { folder_on_host: RwLock::new(folder.clone()), folder }
    }

    /// Sets the path by which the engine knows the data directory.
    pub(super) fn known_to_the_engine_below(&self, data_dir: &Path) {
        data_dir.clone_into(&mut self.folder_on_host.write());
    }

    /// The value of the option `seccomp` for this engine, whose file is there and holds this profile.
    /// Errors: [`RuntimeError::Seccomp`].
    pub(super) fn option(&self, kind: EngineKind) -> Result<String, RuntimeError> {
        if !kind.reads_seccomp_file() {
            return Ok(PROFILE.to_owned());
        }
        // Workers that start at once write it one after another.
        let folder_on_host = self.folder_on_host.write();
        self.write().map_err(|error| {
            RuntimeError::Seccomp(format!("{}/{FILE} cannot be written: {error}", self.folder.display()))
        })?;
        Ok(folder_on_host.join(FILE).display().to_string())
    }

    /// Writes the file, unless it holds this very profile. An engine never reads half of one.
    fn write(&self) -> io::Result<()> {
        let file = self.folder.join(FILE);
        if fs::read(&file).is_ok_and(|found| found == PROFILE.as_bytes()) {
            return Ok(());
        }
        let new = self.folder.join(format!("{FILE}.{}.new", std::process::id()));
        let _ = fs::remove_file(&new);
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?.write_all(PROFILE.as_bytes())?;
        fs::rename(new, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_always_holds_the_profile() {
        let data = tempfile::tempdir().unwrap();
        let seccomp = Seccomp::below(data.path());
        assert_eq!(seccomp.option(EngineKind::Docker).unwrap(), PROFILE);
        assert!(!data.path().join(FILE).exists());
        for _ in 0..2 {
            let path = seccomp.option(EngineKind::Podman).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), PROFILE);
            fs::write(path, "{}").unwrap();
        }
        seccomp.known_to_the_engine_below(Path::new("/volumes/pool"));
        assert_eq!(seccomp.option(EngineKind::Podman).unwrap(), "/volumes/pool/seccomp.json");
        let gate = std::sync::Barrier::new(4);
        for _ in 0..50 {
            fs::remove_file(data.path().join(FILE)).unwrap();
            let write = || {
                gate.wait();
                seccomp.option(EngineKind::Podman).unwrap();
            };
            std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(write))));
        }
        let gone = Seccomp::below(&data.path().join("absent")).option(EngineKind::Podman);
        assert!(gone.unwrap_err().to_string().contains("cannot be written"));
    }
}
