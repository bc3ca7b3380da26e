//! Packs a folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use tar::{Builder, EntryType, Header};

use super::preferences::MAX_PREFERENCES;
use super::{FolderError, FolderManifest, MANIFEST, MAX_FILES, PREFERENCES, kept_preferences};

/// Fast: the worker has a browser's share of a processor, and its client waits.
const LEVEL: i32 = 1;

/// What is to be packed of a folder.
pub struct PackingList {
    manifest: FolderManifest,
    root: PathBuf,
    /// Paths from the root, with sizes.
    files: Vec<(String, u64)>,
}

impl PackingList {
    /// Looks through a folder whose browser has ended, for at most `limit` bytes.
    /// Errors: `TooLarge`, `TooMany`, `Io`.
    pub fn of(manifest: FolderManifest, root: PathBuf, limit: u64) -> Result<Self, FolderError> {
        let mut list = Self { manifest, files: Vec::new(), root };
        list.look(&list.root.clone(), "")?;
        list.files.sort();
        let size: u64 = list.files.iter().map(|(_, size)| size).sum();
        if size > limit { Err(FolderError::TooLarge { limit }) } else { Ok(list) }
    }

    fn look(&mut self, folder: &Path, prefix: &str) -> Result<(), FolderError> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let (path, kind) = (format!("{prefix}{name}"), entry.file_type()?);
            if kind.is_dir() {
                self.look(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() && self.manifest.engine.has(&path) {
                if self.files.len() >= MAX_FILES {
                    return Err(FolderError::TooMany);
                }
                self.files.push((path, entry.metadata()?.len()));
            }
        }
        Ok(())
    }

    /// Writes the archive.
    /// Errors: `Io`, also when a file has changed meanwhile.
    pub fn write(&self, to: impl Write) -> Result<(), FolderError> {
        let mut archive = Builder::new(zstd::Encoder::new(to, LEVEL)?);
        let manifest = serde_json::to_vec(&self.manifest).map_err(io::Error::from)?;
        archive.append_data(&mut header(manifest.len() as u64), MANIFEST, manifest.as_slice())?;
        for (path, size) in &self.files {
            let mut file = open(&self.root.join(path))?;
            if path == PREFERENCES {
                let mut text = Vec::new();
                file.take(MAX_PREFERENCES).read_to_end(&mut text)?;
                let kept = kept_preferences(&text).to_string();
                archive.append_data(&mut header(kept.len() as u64), path, kept.as_bytes())?;
                continue;
            }
            // Each entry has the size that its header says, or the archive ends here.
            let content = (&mut file).take(*size);
            archive.append_data(&mut header(*size), path, Exactly { content, left: *size })?;
        }
        archive.into_inner()?.finish()?.flush()?;
        Ok(())
    }
}

/// Opens a file of a worker's user, who may have put something else in its place meanwhile: nothing is waited for, and no link
/// followed.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("a file has become something else")) }
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(size);
    header
}

/// Content that fails rather than end early.
struct Exactly<R> {
    content: R,
    left: u64,
}

impl<R: io::Read> io::Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.left = self.left.saturating_sub(count as u64);
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }
}
