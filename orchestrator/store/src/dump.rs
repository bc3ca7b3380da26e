//! Dumps: every row of the store as JSON lines.
//!
//! A dump is a header line, one line a change, one that says which state this is, and a trailer with counts and a SHA-256
//! of all bytes before it. A change with a value sets a key, one without deletes it; they apply in order. A dump of a store
//! in use holds the rows as they were passed by, then every change made meanwhile, which together give the state at the end.
//!
//! Earlier releases wrote files into a dump, too (format 2): their folders stand in its header, and after the changes each
//! file has a line with its place and size, which its content and a line's end follow. Such dumps are read, and no longer
//! written: see `archive`.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::change::Change;
use super::folder::DataPath;
use super::ledger::{CommitPoint, is_ledger};
use super::unfinished::{Room, Unfinished};
use super::{KeyRange, SCHEMA_VERSION, StoreError, Table, record, schema};
use warmpool_core::clock::unix_ms;

/// The format of a dump of rows alone, which every release reads.
const ROWS: u32 = 1;
/// The format of a dump with files, of earlier releases.
const ROWS_AND_FILES: u32 = 2;
/// Rows read at a time.
const PAGE: usize = 256;
/// No line of ours is longer: a value, a key and their base64.
const MAX_LINE_BYTES: u64 = 256 * 1024;

/// Describes a dump that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrittenDump {
    /// The file.
    pub path: PathBuf,
    /// When it was begun, Unix milliseconds.
    pub created_ms: u64,
    /// How many changes it holds.
    pub lines: u64,
    /// How many files it holds.
    pub files: u64,
    /// Its size, bytes.
    pub bytes: u64,
}

/// A dump that was read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The file.
    pub path: PathBuf,
    /// When it was begun, Unix milliseconds: what came later is lost.
    pub created_ms: u64,
    /// How many changes it held.
    pub lines: u64,
    /// How many files it held.
    #[serde(default)]
    pub files: u64,
    /// Which state it held; none when an earlier release wrote it.
    #[serde(default)]
    pub commit_point: Option<CommitPoint>,
}

/// Where the content of a backup goes when it is read back.
pub(super) trait DumpTarget {
    /// Folders whose files follow.
    fn folders(&mut self, _names: &[String]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Changes, in their order.
    fn rows(&mut self, _ops: Vec<Op>) -> Result<(), StoreError> {
        Ok(())
    }

    /// A file. What is not read of its content is passed over.
    fn file(&mut self, _place: &DataPath, _content: &mut dyn Read) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Takes nothing: for a pass that only checks.
pub(super) struct DiscardTarget;

impl DumpTarget for DiscardTarget {}

#[derive(Serialize, Deserialize)]
struct Header {
    warmpool_dump: u32,
    schema: u32,
    created_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    folders: Vec<String>,
}

/// Comes before the content of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLine {
    file: String,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    lines: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "is_none")]
    files: u64,
    sha256: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Writes a dump, whose file gets its name at the end.
pub(super) struct Writer {
    out: Unfinished,
    hash: Sha256,
    bytes: u64,
    created_ms: u64,
    lines: BTreeMap<String, u64>,
}

/// What a dump that was written holds.
pub(super) struct Rows {
    pub(super) created_ms: u64,
    pub(super) lines: u64,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Writer {
    /// Begins a dump of data of this schema.
    pub(super) fn create(path: &Path, schema: u32, room: Room) -> Result<Self, StoreError> {
        Self::begin(Unfinished::create(path, room)?, schema)
    }

    /// Begins a dump within a file.
    pub(super) fn begin(out: Unfinished, schema: u32) -> Result<Self, StoreError> {
        let created_ms = unix_ms();
        let mut writer = Self { out, hash: Sha256::new(), bytes: 0, created_ms, lines: BTreeMap::new() };
        writer.line(&Header { warmpool_dump: ROWS, schema, created_ms, folders: Vec::new() })?;
        Ok(writer)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let mut bytes = serde_json::to_vec(line).map_err(StoreError::during("write a line of the dump"))?;
        bytes.push(b'\n');
        self.hash.update(&bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(&bytes).map_err(StoreError::io("write", self.out.name()))
    }

    pub(super) fn change(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        *self.lines.entry(table.name().to_owned()).or_default() += 1;
        self.line(&Change::new(table, key, value))
    }

    /// Ends the dump, which holds the state of this moment, but not the file.
    pub(super) fn end(mut self, commit_point: CommitPoint) -> Result<(Unfinished, Rows), StoreError> {
        self.line(&commit_point)?;
        let sha256 = hex::encode(self.hash.clone().finalize());
        self.line(&Trailer { lines: self.lines.clone(), files: 0, sha256 })?;
        let (created_ms, lines) = (self.created_ms, self.lines.values().sum());
        let sha256 = hex::encode(self.hash.finalize());
        Ok((self.out, Rows { created_ms, lines, bytes: self.bytes, sha256 }))
    }

    pub(super) fn finish(self, commit_point: CommitPoint) -> Result<WrittenDump, StoreError> {
        let (out, Rows { created_ms, lines, .. }) = self.end(commit_point)?;
        let (path, bytes) = out.finish()?;
        Ok(WrittenDump { path, created_ms, lines, files: 0, bytes })
    }
}

/// Dumps a database that is open but not in use: some of its tables. It may use what is kept free otherwise: nothing else is written yet,
/// and without it the store does not open.
pub(super) fn dump_backend(
    backend: &dyn Backend,
    path: &Path,
    commit_point: CommitPoint,
    tables: impl Fn(Table) -> bool,
) -> Result<WrittenDump, StoreError> {
    let refused = |error: BackendError| StoreError::during("read the database")(io::Error::other(error));
    let schema = schema::version(backend).map_err(refused)?.unwrap_or(SCHEMA_VERSION);
    let mut writer = Writer::create(path, schema, Room::default())?;
    for table in Table::ALL.into_iter().filter(|table| tables(*table)) {
        let mut range = KeyRange::all();
        loop {
            let rows = backend.scan(table, &range, PAGE).map_err(refused)?;
            let Some((last, _)) = rows.last() else { break };
            range = range.after(last);
            for (key, sealed) in rows.iter().filter(|(key, _)| !is_ledger(table, key)) {
                let value = record::open(table, key, sealed)
                    .map_err(|error| refused(BackendError::Damaged(error.to_string())))?;
                writer.change(table, key, Some(value))?;
            }
        }
    }
    writer.finish(commit_point)
}

/// The moment of a dump that lies alone in its file, unchecked.
pub(super) fn moment_of(path: &Path) -> Option<CommitPoint> {
    end(path)?.0
}

/// The version of the data in a dump, unchecked.
pub(super) fn schema_of(path: &Path) -> Option<u32> {
    let mut line = Vec::new();
    BufReader::new(File::open(path).ok()?.take(MAX_LINE_BYTES)).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice::<Header>(&line).ok().map(|header| header.schema)
}

/// Whether a dump has rows of a table, unchecked.
pub(super) fn has_rows(path: &Path, table: Table) -> bool {
    end(path).is_some_and(|(_, trailer)| trailer.lines.contains_key(table.name()))
}

/// The last two lines of a dump; the first of them is another one in those of earlier releases.
fn end(path: &Path) -> Option<(Option<CommitPoint>, Trailer)> {
    const LONGEST: u64 = 8 * 1024;
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LONGEST))).ok()?;
    let mut end = Vec::new();
    file.read_to_end(&mut end).ok()?;
    let mut lines = end.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n');
    let trailer = serde_json::from_slice(lines.next()?).ok()?;
    Some((lines.next().and_then(|line| serde_json::from_slice(line).ok()), trailer))
}

/// Hands the content of a dump on, and checks it meanwhile: what it handed on counts only when it succeeds.
pub(super) fn read(path: &Path, from: impl BufRead, target: &mut dyn DumpTarget) -> Result<Restored, StoreError> {
    let bad = |reason: String| StoreError::Backup { path: path.to_owned(), reason };
    let mut input = Input { path, from, hash: Sha256::new() };
    let first = input.line()?;
    let header: Header = serde_json::from_slice(&first).map_err(|_| bad("it does not begin as a dump does".into()))?;
    if !matches!(header.warmpool_dump, ROWS | ROWS_AND_FILES) {
        return Err(bad(format!("its format {} is unknown: install the newer release", header.warmpool_dump)));
    }
    if header.schema > SCHEMA_VERSION {
        return Err(StoreError::NewerSchema { found: header.schema, supported: SCHEMA_VERSION });
    }
    if !header.folders.is_empty() {
        target.folders(&header.folders)?;
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut files = 0;
    let mut ops = Vec::new();
    let (mut commit_point, mut newer) = (None, None);
    loop {
        // The trailer's hash is of what comes before it.
        let hash = input.hash.clone();
        let bytes = input.line()?;
        if bytes.last() != Some(&b'\n') {
            return Err(bad("it is cut short".into()));
        }
        if let Ok(trailer) = serde_json::from_slice::<Trailer>(&bytes) {
            if trailer.sha256 != hex::encode(hash.finalize()) {
                return Err(bad("its hash does not match".into()));
            }
            if trailer.lines != counts || trailer.files != files {
                return Err(bad("its counts do not match".into()));
            }
            if !input.line()?.is_empty() {
                return Err(bad("something follows its end".into()));
            }
            break;
        }
        if let Ok(found) = serde_json::from_slice::<CommitPoint>(&bytes) {
            commit_point = Some(found);
            continue;
        }
        let number = counts.values().sum::<u64>() + files + 2;
        if let Ok(line) = serde_json::from_slice::<FileLine>(&bytes) {
            let place = DataPath::parse(&line.file).filter(|place| header.folders.contains(&place.folder));
            let place = place.ok_or_else(|| bad(format!("entry {number} is a file where none may be")))?;
            let mut content = Content { input: &mut input, left: line.bytes };
            target.file(&place, &mut content)?;
            if !content.pass_over()? || input.line()? != b"\n" {
                return Err(bad(format!("entry {number}, the file {place}, is not whole")));
            }
            files += 1;
            continue;
        }
        let unread = || bad(format!("entry {number} cannot be read"));
        let line: Change = serde_json::from_slice(&bytes).map_err(|_| unread())?;
        *counts.entry(line.t.clone()).or_default() += 1;
        match line.into_op() {
            Ok(op) => ops.push(op),
            // Told only of a dump that is whole: damage is no newer release.
            Err(error @ StoreError::NewerTable { .. }) => newer = Some(error),
            Err(_) => return Err(unread()),
        }
        if ops.len() == PAGE {
            target.rows(std::mem::take(&mut ops))?;
        }
    }
    if let Some(error) = newer {
        return Err(error);
    }
    target.rows(ops)?;
    Ok(Restored {
        path: path.to_owned(),
        created_ms: header.created_ms,
        lines: counts.values().sum(),
        files,
        commit_point,
    })
}

/// A dump that is being read, with the hash of what was read of it.
struct Input<'p, R> {
    path: &'p Path,
    from: R,
    hash: Sha256,
}

impl<R: BufRead> Input<'_, R> {
    /// The next line with its end; nothing after the last.
    fn line(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut line = Vec::new();
        let mut limited = (&mut self.from).take(MAX_LINE_BYTES);
        limited.read_until(b'\n', &mut line).map_err(StoreError::io("read", self.path))?;
        self.hash.update(&line);
        Ok(line)
    }
}

/// The content of one file of a dump.
struct Content<'i, 'p, R> {
    input: &'i mut Input<'p, R>,
    left: u64,
}

impl<R: BufRead> Read for Content<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.input.from).take(self.left).read(buffer)?;
        self.input.hash.update(&buffer[..read]);
        self.left -= read as u64;
        Ok(read)
    }
}

impl<R: BufRead> Content<'_, '_, R> {
    /// Reads what is left; whether all of it was there.
    fn pass_over(mut self) -> Result<bool, StoreError> {
        let path = self.input.path;
        io::copy(&mut self, &mut io::sink()).map_err(StoreError::io("read", path))?;
        Ok(self.left == 0)
    }
}
