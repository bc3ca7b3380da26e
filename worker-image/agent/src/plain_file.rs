//! Files that the browser's user may replace at any moment: by a pipe that nobody writes to, by a link, by a device without end.
//!
//! What a name stands for is therefore looked at once it is open, and opening it waits for nobody.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;

/// Opens a file for reading.
/// Fails as if there were none where something else has its name, or it is none of the worker's user.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if is_own(&metadata) { Ok((file, metadata)) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Whether this is a file of the worker's user.
pub(crate) fn is_own(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.uid() == geteuid().as_raw()
}

/// The bytes of a file of at most `most`.
/// Fails like [`open`], and when the file has more.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.0.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

/// The same, on a thread that may wait for a disk.
pub(crate) async fn read_async(path: PathBuf, most: u64) -> io::Result<Vec<u8>> {
    tokio::task::spawn_blocking(move || read(&path, most)).await?
}

/// Makes a new file, in place of whatever has its name.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().write(true).create_new(true).open(path),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn only_files_are_opened_and_nothing_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        for name in ["pipe", "link", "zero", "missing", "."] {
            assert!(open(&at(name)).is_err(), "{name}");
        }
        assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
        assert_eq!(read(&at("file"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(open(Path::new("/dev/zero")).is_err());
        for name in ["pipe", "link", "missing"] {
            create(&at(name)).unwrap().write_all(b"new").unwrap();
            assert_eq!(read(&at(name), 3).unwrap(), b"new", "{name}");
        }
        assert_eq!(read(&at("file"), 5).unwrap(), b"12345", "nothing was written through the link");
    }
}
