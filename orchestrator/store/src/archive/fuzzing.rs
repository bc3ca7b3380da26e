//! Backups for the fuzzer: whatever the tar says, files get to places of folders that it named before, and nothing of a
//! damaged one is used.

use std::fs::File;
use std::io::{Read, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::{DataPath, DumpTarget, ROWS, SUMS, StoreError, read, sum_line};
use crate::batch::Op;
use crate::dump::fuzzing::{sealed, seeds as dumps};

/// What a backup is read into: it notes what it was told.
#[derive(Default)]
struct Told {
    folders: Vec<String>,
    rows: u64,
    files: u64,
}

impl DumpTarget for Told {
    fn rows(&mut self, ops: Vec<Op>) -> Result<(), StoreError> {
        self.rows += ops.len() as u64;
        Ok(())
    }

    fn folders(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.folders.extend(names.iter().cloned());
        Ok(())
    }

    fn file(&mut self, place: &DataPath, content: &mut dyn Read) -> Result<(), StoreError> {
        let text = place.to_string();
        assert!(self.folders.contains(&place.folder), "{text} is in a folder that nobody named");
        assert!(!text.split('/').any(|part| matches!(part, "" | "." | "..")), "{text} leads elsewhere");
        self.files += 1;
        // Half of it is read, so that the other half is passed over.
        content.read(&mut [0; 2]).map(drop).map_err(StoreError::during("read"))
    }
}

/// The entries behind the dump: tars without their first entry and their checksums, which [`check`] adds.
pub fn seeds() -> Vec<Vec<u8>> {
    let entries = |files: &[(&str, &[u8])]| {
        let mut tar = Builder::new(Vec::new());
        for (name, content) in files {
            let kind = if name.ends_with('/') { EntryType::Directory } else { EntryType::Regular };
            entry(&mut tar, kind, name, content)?;
        }
        tar.into_inner().ok()
    };
    let tars = [
        entries(&[("tasks/", b""), ("tasks/tsk_1/ab", b"abcd"), ("tasks/tsk_1/cd", b""), ("profiles/", b"")]),
        entries(&[("tasks/", b""), ("tasks/../x", b"x"), ("other/a/b", b"y")]),
    ];
    tars.into_iter().flatten().collect()
}

fn entry(tar: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, content: &[u8]) -> Option<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    // As bytes: a tar may say a path that nobody should write.
    let field = header.as_ustar_mut()?.name.get_mut(..name.len())?;
    field.copy_from_slice(name.as_bytes());
    header.set_size(content.len() as u64);
    header.set_cksum();
    tar.append(&header, content).ok()
}

/// Panics when a file gets to another place than it may.
pub fn check(bytes: &[u8]) {
    for backup in [Some(bytes.to_vec()), sealed_tar(bytes)].into_iter().flatten() {
        let Ok((_held, path)) = file(&backup) else { return };
        let mut told = Told::default();
        if let Ok(restored) = read(&path, &mut told) {
            assert_eq!((restored.lines, restored.files), (told.rows, told.files));
        }
    }
}

/// A whole backup around these entries: no fuzzer finds the hashes at its end.
fn sealed_tar(entries: &[u8]) -> Option<Vec<u8>> {
    let rows = sealed(dumps().first()?);
    let mut tar = Builder::new(Vec::new());
    entry(&mut tar, EntryType::Regular, ROWS, &rows)?;
    let mut sums = sum_line(&hex::encode(Sha256::digest(&rows)), ROWS);
    let mut between = tar::Archive::new(entries);
    for found in between.entries().ok()?.raw(true) {
        let mut found = found.ok()?;
        if found.header().entry_type() == EntryType::Regular {
            let name = String::from_utf8_lossy(&found.path_bytes()).into_owned();
            let mut content = Vec::new();
            found.read_to_end(&mut content).ok()?;
            sums += &sum_line(&hex::encode(Sha256::digest(&content)), &name);
        }
    }
    let blocks = entries.strip_suffix(&[0; 1024]).unwrap_or(entries);
    tar.get_mut().extend_from_slice(blocks);
    entry(&mut tar, EntryType::Regular, SUMS, sums.as_bytes())?;
    tar.into_inner().ok()
}

/// A file in memory with this content, and a path at which it can be opened.
fn file(bytes: &[u8]) -> std::io::Result<(File, PathBuf)> {
    let mut file = File::from(memfd_create(c"fuzzing", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    let path = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    Ok((file, path))
}
