//! Dump files: everything in the store as JSON lines, and the files that belong to it.
//!
//! A dump is a header line, one line a change, and a trailer with counts and a SHA-256 of all bytes before it.
//! A change with a value sets a key, one without deletes it; they apply in order. A dump of a store in use
//! holds the rows as they were passed by, then every change made meanwhile, which together give the state at
//! the end.
//!
//! A dump with files, which is format 2, names their folders in its header. After the changes each file has a
//! line with its place and size, which so many bytes of content and a line's end follow.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::folder::Place;
use super::layout::sync_parent;
use super::unfinished::Unfinished;
use super::{Direction, KeyRange, SCHEMA_VERSION, StoreError, Table, record};
use crate::clock::unix_ms;

/// The format of a dump of rows alone, which every release reads.
const ROWS: u32 = 1;
/// The format of a dump with files.
const ROWS_AND_FILES: u32 = 2;
/// Rows read at a time.
const PAGE: usize = 256;
/// No line of ours is longer: a value, a key and their base64.
const MAX_LINE_BYTES: u64 = 256 * 1024;
/// Bytes of a file copied at a time.
const COPY: usize = 64 * 1024;

/// A dump that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dumped {
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
}

/// Where the content of a dump goes when it is read back.
pub(super) trait Target {
    /// The names of the folders whose files the dump holds; comes first.
    fn folders(&mut self, _names: &[String]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Changes, in their order.
    fn rows(&mut self, _ops: Vec<Op>) -> Result<(), StoreError> {
        Ok(())
    }

    /// A file. What is not read of its content is passed over.
    fn file(&mut self, _place: &Place, _content: &mut dyn Read) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Takes nothing: for a pass that only checks.
struct Nowhere;

impl Target for Nowhere {}

#[derive(Serialize, Deserialize)]
struct Header {
    warmpool_dump: u32,
    schema: u32,
    created_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    folders: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    t: String,
    k: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    v: Option<String>,
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

/// Writes a dump, which gets its name at the end.
pub(super) struct Writer {
    path: PathBuf,
    unfinished: Unfinished,
    out: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
    created_ms: u64,
    lines: BTreeMap<String, u64>,
    files: u64,
}

impl Writer {
    /// Begins a dump that will hold the files of these folders.
    pub(super) fn create(path: &Path, folders: Vec<String>) -> Result<Self, StoreError> {
        let (unfinished, file) = Unfinished::create(path)?;
        let created_ms = unix_ms();
        let mut writer = Self {
            path: path.to_owned(),
            unfinished,
            out: BufWriter::new(file),
            hash: Sha256::new(),
            bytes: 0,
            created_ms,
            lines: BTreeMap::new(),
            files: 0,
        };
        let format = if folders.is_empty() { ROWS } else { ROWS_AND_FILES };
        writer.line(&Header { warmpool_dump: format, schema: SCHEMA_VERSION, created_ms, folders })?;
        Ok(writer)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let mut bytes = serde_json::to_vec(line)
            .map_err(|source| StoreError::Io { doing: "write a line of the dump".to_owned(), source: source.into() })?;
        bytes.push(b'\n');
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(StoreError::io("write", self.unfinished.name()))
    }

    pub(super) fn change(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        *self.lines.entry(table.name().to_owned()).or_default() += 1;
        self.line(&Line {
            t: table.name().to_owned(),
            k: BASE64.encode(key),
            v: value.map(|value| BASE64.encode(value)),
        })
    }

    /// Adds the first `bytes` of a file.
    pub(super) fn file(&mut self, place: &Place, mut content: impl Read, bytes: u64) -> Result<(), StoreError> {
        self.line(&FileLine { file: place.to_string(), bytes })?;
        let mut buffer = vec![0; COPY];
        let mut left = bytes;
        while left > 0 {
            let most = usize::try_from(left).map_or(COPY, |left| left.min(COPY));
            let read = match content.read(&mut buffer[..most]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                read => read,
            };
            let read = read.map_err(|source| StoreError::Io { doing: format!("read {place}"), source })?;
            self.write(&buffer[..read])?;
            left -= read as u64;
        }
        self.write(b"\n")?;
        self.files += 1;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Dumped, StoreError> {
        let sha256 = hex::encode(self.hash.clone().finalize());
        self.line(&Trailer { lines: self.lines.clone(), files: self.files, sha256 })?;
        let unfinished = self.unfinished.name();
        self.out.flush().map_err(StoreError::io("write", unfinished))?;
        self.out.get_ref().sync_all().map_err(StoreError::io("sync", unfinished))?;
        self.unfinished.finish(self.out.get_ref(), &self.path)?;
        sync_parent(&self.path)?;
        Ok(Dumped {
            path: self.path,
            created_ms: self.created_ms,
            lines: self.lines.values().sum(),
            files: self.files,
            bytes: self.bytes,
        })
    }
}

/// Dumps a database that is open but not in use.
pub(super) fn dump_backend(backend: &dyn Backend, path: &Path) -> Result<Dumped, StoreError> {
    let refused = |error: BackendError| StoreError::Io {
        doing: "read the database".to_owned(),
        source: std::io::Error::other(error),
    };
    let mut writer = Writer::create(path, Vec::new())?;
    for table in Table::ALL {
        let mut range = KeyRange::all();
        loop {
            let rows = backend.scan(table, &range, PAGE, Direction::Ascending).map_err(refused)?;
            let Some((last, _)) = rows.last() else { break };
            range = range.after(last);
            for (key, sealed) in &rows {
                let value = record::open(table, key, sealed)
                    .map_err(|error| refused(BackendError::Damaged(error.to_string())))?;
                writer.change(table, key, Some(value))?;
            }
        }
    }
    writer.finish()
}

/// Checks counts and hash of a dump, then hands its content on in order.
pub(super) fn read(path: &Path, target: &mut dyn Target) -> Result<Restored, StoreError> {
    // Two passes, so that nothing of a bad file is ever used and nothing large is held in memory.
    pass(path, &mut Nowhere)?;
    pass(path, target)
}

fn pass(path: &Path, target: &mut dyn Target) -> Result<Restored, StoreError> {
    let bad = |reason: String| StoreError::Backup { path: path.to_owned(), reason };
    let mut input = Input::open(path)?;
    let first = input.line()?;
    let header: Header = serde_json::from_slice(&first).map_err(|_| bad("it does not begin as a dump does".into()))?;
    if !matches!(header.warmpool_dump, ROWS | ROWS_AND_FILES) {
        return Err(bad(format!("its format {} is unknown: install the newer release", header.warmpool_dump)));
    }
    if header.schema > SCHEMA_VERSION {
        return Err(StoreError::NewerSchema { found: header.schema, supported: SCHEMA_VERSION });
    }
    target.folders(&header.folders)?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut files = 0;
    let mut ops = Vec::new();
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
        let number = counts.values().sum::<u64>() + files + 2;
        if let Ok(line) = serde_json::from_slice::<FileLine>(&bytes) {
            let place = Place::parse(&line.file).filter(|place| header.folders.contains(&place.folder));
            let place = place.ok_or_else(|| bad(format!("entry {number} is a file where none may be")))?;
            let mut content = Content { input: &mut input, left: line.bytes };
            target.file(&place, &mut content)?;
            if !content.pass_over()? || input.line()? != b"\n" {
                return Err(bad(format!("entry {number}, the file {place}, is not whole")));
            }
            files += 1;
            continue;
        }
        let op = change(&bytes).ok_or_else(|| bad(format!("entry {number} cannot be read")))?;
        *counts.entry(op.table.name().to_owned()).or_default() += 1;
        ops.push(op);
        if ops.len() == PAGE {
            target.rows(std::mem::take(&mut ops))?;
        }
    }
    target.rows(ops)?;
    Ok(Restored { path: path.to_owned(), created_ms: header.created_ms, lines: counts.values().sum(), files })
}

/// A dump that is being read, with the hash of what was read of it.
struct Input<'p> {
    path: &'p Path,
    file: BufReader<File>,
    hash: Sha256,
}

impl<'p> Input<'p> {
    fn open(path: &'p Path) -> Result<Self, StoreError> {
        let file = BufReader::new(File::open(path).map_err(StoreError::io("open", path))?);
        Ok(Self { path, file, hash: Sha256::new() })
    }

    /// The next line with its end; nothing after the last.
    fn line(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut line = Vec::new();
        let mut limited = (&mut self.file).take(MAX_LINE_BYTES);
        limited.read_until(b'\n', &mut line).map_err(StoreError::io("read", self.path))?;
        self.hash.update(&line);
        Ok(line)
    }
}

/// The content of one file of a dump.
struct Content<'i, 'p> {
    input: &'i mut Input<'p>,
    left: u64,
}

impl Read for Content<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.input.file).take(self.left).read(buffer)?;
        self.input.hash.update(&buffer[..read]);
        self.left -= read as u64;
        Ok(read)
    }
}

impl Content<'_, '_> {
    /// Reads what is left; whether all of it was there.
    fn pass_over(mut self) -> Result<bool, StoreError> {
        let path = self.input.path;
        io::copy(&mut self, &mut io::sink()).map_err(StoreError::io("read", path))?;
        Ok(self.left == 0)
    }
}

fn change(line: &[u8]) -> Option<Op> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let value = match line.v {
        Some(text) => Some(BASE64.decode(text).ok()?),
        None => None,
    };
    Some(Op { table: Table::from_name(&line.t)?, key: BASE64.decode(line.k).ok()?, value })
}
