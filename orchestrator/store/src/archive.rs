//! Backups with files: a tar of the dump, the files of the store's folders, and their checksums.
//!
//! ```text
//! dump.jsonl             the rows, as `dump` writes them
//! tasks/                 each folder, so that an empty one is known too
//! tasks/<owner>/<name>   its files
//! SHA256SUMS             comes last: the hash of each file before it, as `sha256sum` writes and checks them
//! ```
//!
//! Only regular files and directories are read, at these places alone: a link or a name that leads elsewhere makes the
//! whole backup unusable.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use super::dump::{self, DumpTarget, Restored, Rows, Writer, WrittenDump};
use super::folder::{self, DataPath, Folder};
use super::ledger::CommitPoint;
use super::unfinished::{Room, Unfinished};
use super::{SCHEMA_VERSION, StoreError};

/// The entry that holds the rows.
const ROWS: &str = "dump.jsonl";
/// The entry that holds the checksums.
const SUMS: &str = "SHA256SUMS";
/// Headers and contents are padded to this, in bytes.
const BLOCK: u64 = 512;
/// Where the format's name stands in the first header.
const MAGIC: std::ops::Range<usize> = 257..262;

/// Begins the backup `path`; the dump that it starts with is written next.
pub(super) fn create(path: &Path, room: Room) -> Result<Writer, StoreError> {
    let mut out = Unfinished::create(path, room)?;
    // The header of the dump is written when its size is known.
    out.write_all(&[0; BLOCK as usize]).map_err(StoreError::io("write", out.name()))?;
    Writer::begin(out, SCHEMA_VERSION)
}

/// Completes a backup that [`create`] began with the files of these folders of `data`.
pub(super) fn finish(
    writer: Writer,
    commit_point: CommitPoint,
    data: &Path,
    folders: &[Folder],
) -> Result<WrittenDump, StoreError> {
    let (mut out, rows) = writer.end(commit_point)?;
    let writing = StoreError::io("write", out.name());
    let mut sums = sum_line(&rows.sha256, ROWS);
    let begun = (|| {
        out.write_all(&vec![0; (BLOCK - rows.bytes % BLOCK) as usize % BLOCK as usize])?;
        out.seek(SeekFrom::Start(0))?;
        out.write_all(header(EntryType::Regular, ROWS, rows.bytes, &rows)?.as_bytes())?;
        out.seek(SeekFrom::End(0))
    })();
    begun.map_err(writing)?;
    let mut tar = Builder::new(out);
    let mut files = 0;
    for folder in folders {
        let entry = header(EntryType::Directory, &format!("{}/", folder.name), 0, &rows);
        let added = entry.and_then(|header| tar.append(&header, io::empty()));
        added.map_err(StoreError::during(format!("add {} to the backup", folder.name)))?;
        folder::each_file(data, folder, &mut |place, file, bytes| {
            tar.get_ref().check_room(bytes)?;
            let name = place.to_string();
            let mut content = HashingReader::new(file.take(bytes));
            let entry = header(EntryType::Regular, &name, bytes, &rows);
            let added = entry.and_then(|header| tar.append(&header, &mut content));
            let added = added.and_then(|()| match content.bytes == bytes {
                true => Ok(()),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            });
            added.map_err(StoreError::during(format!("add {place} to the backup")))?;
            sums += &sum_line(&content.finish(), &name);
            files += 1;
            Ok(())
        })?;
    }
    let entry = header(EntryType::Regular, SUMS, sums.len() as u64, &rows);
    let ended = entry.and_then(|header| tar.append(&header, sums.as_bytes())).and_then(|()| tar.into_inner());
    let out = ended.map_err(StoreError::during("write the end of the backup"))?;
    let (path, bytes) = out.finish()?;
    Ok(WrittenDump { path, created_ms: rows.created_ms, lines: rows.lines, files, bytes })
}

fn header(kind: EntryType, path: &str, bytes: u64, rows: &Rows) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_path(path)?;
    header.set_size(bytes);
    header.set_mode(if kind.is_dir() { 0o700 } else { 0o600 });
    header.set_mtime(rows.created_ms / 1000);
    header.set_cksum();
    Ok(header)
}

fn sum_line(sha256: &str, name: &str) -> String {
    format!("{sha256}  {name}\n")
}

/// Checks all of a backup, then hands its content on in order. It may be a dump alone, too.
pub(super) fn read(path: &Path, target: &mut dyn DumpTarget) -> Result<Restored, StoreError> {
    // Two passes, so that nothing of a bad file is ever used and nothing large is held in memory.
    pass(path, &mut dump::DiscardTarget).map_err(|error| unreadable(path, error))?;
    pass(path, target)
}

/// Why a backup could not be checked. That only reads, so the file is to blame, and a bad sector is damage, too. But whoever put a file
/// there that the daemon may not read can mend it, and nothing older is to take its place meanwhile.
fn unreadable(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Io { source, .. } if source.kind() != io::ErrorKind::PermissionDenied => {
            StoreError::Backup { path: path.to_owned(), reason: format!("it cannot be read: {source}") }
        }
        error => error,
    }
}

fn pass(path: &Path, target: &mut dyn DumpTarget) -> Result<Restored, StoreError> {
    let mut file = BufReader::new(File::open(path).map_err(StoreError::io("open", path))?);
    let start = file.fill_buf().map_err(StoreError::io("read", path))?;
    if start.get(MAGIC) == Some(b"ustar") { entries(path, file, target) } else { dump::read(path, file, target) }
}

fn entries(path: &Path, file: BufReader<File>, target: &mut dyn DumpTarget) -> Result<Restored, StoreError> {
    let bad = |reason: String| StoreError::Backup { path: path.to_owned(), reason };
    let unread = |error: io::Error| match error.raw_os_error() {
        Some(_) => StoreError::io("read", path)(error),
        None => bad(format!("it is damaged or cut short: {error}")),
    };
    let mut archive = Archive::new(file);
    let (mut restored, mut folders, mut sums, mut ended) = (None, Vec::new(), Sha256::new(), false);
    // Raw, so that no extension of the format can give an entry another name.
    for entry in archive.entries().map_err(unread)?.raw(true) {
        let entry = entry.map_err(unread)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let (kind, bytes) = (entry.header().entry_type(), entry.size());
        let mut content = HashingReader::new(entry);
        match (&mut restored, kind) {
            _ if ended => return Err(bad("something follows its end".into())),
            (None, EntryType::Regular) if name == ROWS => {
                restored = Some(dump::read(path, BufReader::new(&mut content), target)?);
            }
            (None, _) => return Err(bad(format!("it does not begin with {ROWS}"))),
            (Some(_), EntryType::Directory) => {
                let folder = name.strip_suffix('/').unwrap_or(&name).to_owned();
                target.folders(std::slice::from_ref(&folder))?;
                folders.push(folder);
                continue;
            }
            (Some(_), EntryType::Regular) if name == SUMS => ended = true,
            (Some(restored), EntryType::Regular) => {
                let place = DataPath::parse(&name).filter(|place| folders.contains(&place.folder));
                let place = place.ok_or_else(|| bad(format!("{name:?} in it is a file where none may be")))?;
                target.file(&place, &mut content)?;
                restored.files += 1;
            }
            (Some(_), _) => return Err(bad(format!("{name:?} in it is neither a file nor a folder"))),
        }
        io::copy(&mut content, &mut io::sink()).map_err(unread)?;
        if content.bytes != bytes {
            return Err(bad("it is cut short".into()));
        }
        let sha256 = content.finish();
        if !ended {
            sums.update(sum_line(&sha256, &name));
        } else if sha256 != hex::encode(sums.finalize_reset()) {
            return Err(bad("its checksums do not match".into()));
        }
    }
    restored.filter(|_| ended).ok_or_else(|| bad("it is cut short".into()))
}

/// A reader that counts and hashes what is read of it.
struct HashingReader<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R> HashingReader<R> {
    fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    fn finish(self) -> String {
        hex::encode(self.hash.finalize())
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_disk_does_not_read_is_damaged_and_what_may_not_be_read_is_not() {
        let path = Path::new("backup");
        let told = |error: io::Error| unreadable(path, StoreError::io("read", path)(error));
        // EIO.
        assert!(matches!(told(io::Error::from_raw_os_error(5)), StoreError::Backup { .. }));
        assert!(matches!(told(io::ErrorKind::PermissionDenied.into()), StoreError::Io { .. }));
    }
}
