//! Dump files: everything in the store as JSON lines.
//!
//! A file is a header line, one line a change, and a trailer with counts and a SHA-256 of all lines before it.
//! A change with a value sets a key, one without deletes it; they apply in order. A dump of a store in use
//! holds the rows as they were passed by, then every change made meanwhile, which together give the state at
//! the end.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::health::unix_ms;
use super::{Direction, KeyRange, SCHEMA_VERSION, StoreError, Table, build, record};

/// The version of the file format.
const FORMAT: u32 = 1;
/// Rows read at a time.
const PAGE: usize = 256;
/// No line of ours is longer: a value, a key and their base64.
const MAX_LINE_BYTES: u64 = 256 * 1024;

/// A dump that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dumped {
    /// The file.
    pub path: PathBuf,
    /// When it was begun, Unix milliseconds.
    pub created_ms: u64,
    /// How many changes it holds.
    pub lines: u64,
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
}

#[derive(Serialize, Deserialize)]
struct Header {
    warmpool_dump: u32,
    schema: u32,
    created_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    t: String,
    k: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    v: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    lines: BTreeMap<String, u64>,
    sha256: String,
}

/// Writes a dump beside its final name and renames it at the end.
pub(super) struct Writer {
    path: PathBuf,
    unfinished: PathBuf,
    out: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
    created_ms: u64,
    lines: BTreeMap<String, u64>,
}

impl Writer {
    pub(super) fn create(path: &Path) -> Result<Self, StoreError> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".tmp");
        let unfinished = PathBuf::from(unfinished);
        let _ = fs::remove_file(&unfinished);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(StoreError::io("create", &unfinished))?;
        let created_ms = unix_ms();
        let mut writer = Self {
            path: path.to_owned(),
            unfinished,
            out: BufWriter::new(file),
            hash: Sha256::new(),
            bytes: 0,
            created_ms,
            lines: BTreeMap::new(),
        };
        writer.line(&Header { warmpool_dump: FORMAT, schema: SCHEMA_VERSION, created_ms })?;
        Ok(writer)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let mut bytes = serde_json::to_vec(line)
            .map_err(|source| StoreError::Io { doing: "write a line of the dump".to_owned(), source: source.into() })?;
        bytes.push(b'\n');
        self.hash.update(&bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(&bytes).map_err(StoreError::io("write", &self.unfinished))
    }

    pub(super) fn change(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        *self.lines.entry(table.name().to_owned()).or_default() += 1;
        self.line(&Line {
            t: table.name().to_owned(),
            k: BASE64.encode(key),
            v: value.map(|value| BASE64.encode(value)),
        })
    }

    pub(super) fn finish(mut self) -> Result<Dumped, StoreError> {
        let trailer = Trailer { lines: self.lines.clone(), sha256: hex(&self.hash.clone().finalize()) };
        self.line(&trailer)?;
        let io = |doing, path: &Path| StoreError::io(doing, path);
        self.out.flush().map_err(io("write", &self.unfinished))?;
        self.out.get_ref().sync_all().map_err(io("sync", &self.unfinished))?;
        fs::rename(&self.unfinished, &self.path).map_err(io("rename", &self.unfinished))?;
        build::sync_parent(&self.path)?;
        Ok(Dumped { path: self.path, created_ms: self.created_ms, lines: self.lines.values().sum(), bytes: self.bytes })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Dumps a database that is open but not in use.
pub(super) fn dump_backend(backend: &dyn Backend, path: &Path) -> Result<Dumped, StoreError> {
    let refused = |error: BackendError| StoreError::Io {
        doing: "read the database".to_owned(),
        source: std::io::Error::other(error),
    };
    let mut writer = Writer::create(path)?;
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

/// Checks counts and hash of a dump, then hands its changes on in order.
pub(super) fn read(
    path: &Path,
    mut apply: impl FnMut(Vec<Op>) -> Result<(), StoreError>,
) -> Result<Restored, StoreError> {
    // Two passes, so that nothing of a bad file is ever used and nothing large is held in memory.
    pass(path, &mut |_| Ok(()))?;
    pass(path, &mut apply)
}

fn pass(path: &Path, apply: &mut dyn FnMut(Vec<Op>) -> Result<(), StoreError>) -> Result<Restored, StoreError> {
    let bad = |reason: String| StoreError::Backup { path: path.to_owned(), reason };
    let mut input = BufReader::new(File::open(path).map_err(StoreError::io("open", path))?);
    let mut next_line = || -> Result<Vec<u8>, StoreError> {
        let mut line = Vec::new();
        (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(StoreError::io("read", path))?;
        Ok(line)
    };
    let first = next_line()?;
    let header: Header = serde_json::from_slice(&first).map_err(|_| bad("it does not begin as a dump does".into()))?;
    if header.warmpool_dump != FORMAT {
        return Err(bad(format!("its format {} is unknown", header.warmpool_dump)));
    }
    if header.schema > SCHEMA_VERSION {
        return Err(StoreError::NewerSchema { found: header.schema, supported: SCHEMA_VERSION });
    }
    let mut hash = Sha256::new();
    hash.update(&first);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut ops = Vec::new();
    loop {
        let bytes = next_line()?;
        if bytes.last() != Some(&b'\n') {
            return Err(bad("it is cut short".into()));
        }
        if let Ok(trailer) = serde_json::from_slice::<Trailer>(&bytes) {
            if trailer.sha256 != hex(&hash.finalize()) {
                return Err(bad("its hash does not match".into()));
            }
            if trailer.lines != counts {
                return Err(bad("its counts do not match".into()));
            }
            if !next_line()?.is_empty() {
                return Err(bad("something follows its end".into()));
            }
            break;
        }
        hash.update(&bytes);
        let number = counts.values().sum::<u64>() + 2;
        let op = change(&bytes).ok_or_else(|| bad(format!("line {number} cannot be read")))?;
        *counts.entry(op.table.name().to_owned()).or_default() += 1;
        ops.push(op);
        if ops.len() == PAGE {
            apply(std::mem::take(&mut ops))?;
        }
    }
    apply(ops)?;
    Ok(Restored { path: path.to_owned(), created_ms: header.created_ms, lines: counts.values().sum() })
}

fn change(line: &[u8]) -> Option<Op> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let value = match line.v {
        Some(text) => Some(BASE64.decode(text).ok()?),
        None => None,
    };
    Some(Op { table: Table::from_name(&line.t)?, key: BASE64.decode(line.k).ok()?, value })
}
