//! Dumps for the fuzzer: what is handed on is what the trailer counts.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::{
    Change, DataPath, DumpTarget, FileLine, Header, Op, ROWS_AND_FILES, SCHEMA_VERSION, StoreError, Trailer, read,
};

#[derive(Default)]
struct Counts {
    rows: u64,
    files: u64,
}

impl DumpTarget for Counts {
    fn rows(&mut self, ops: Vec<Op>) -> Result<(), StoreError> {
        self.rows += ops.len() as u64;
        Ok(())
    }

    fn file(&mut self, _place: &DataPath, content: &mut dyn Read) -> Result<(), StoreError> {
        self.files += 1;
        // Half of it is read, so that the other half is passed over.
        let mut buffer = [0; 2];
        content.read(&mut buffer).map(drop).map_err(StoreError::during("read"))
    }
}

/// Dumps to begin with.
pub fn seeds() -> Vec<Vec<u8>> {
    let rows = b"{\"t\":\"meta\",\"k\":\"AAE=\",\"v\":\"AgM=\"}\n{\"t\":\"sessions\",\"k\":\"AAE=\"}\n";
    let files = b"{\"file\":\"tasks/tsk_1/ab\",\"bytes\":4}\nabcd\n{\"file\":\"tasks/tsk_1/cd\",\"bytes\":0}\n\n";
    let both = [&rows[..], files].concat();
    vec![rows.to_vec(), files.to_vec(), sealed(&both), both]
}

/// Reads the bytes as a dump, and as the lines of one.
pub fn check(bytes: &[u8]) {
    for dump in [bytes, &sealed(bytes)] {
        let mut counts = Counts::default();
        if let Ok(restored) = read(Path::new("dump"), dump, &mut counts) {
            assert_eq!((restored.lines, restored.files), (counts.rows, counts.files));
        }
    }
}

/// A whole dump around these lines: no fuzzer finds the hash at its end.
pub(crate) fn sealed(lines: &[u8]) -> Vec<u8> {
    let folders = vec!["tasks".to_owned()];
    let header = Header { warmpool_dump: ROWS_AND_FILES, schema: SCHEMA_VERSION, created_ms: 0, folders };
    let mut dump = serde_json::to_vec(&header).unwrap_or_default();
    dump.push(b'\n');
    dump.extend_from_slice(lines);
    let (mut rest, mut counts, mut files) = (lines, BTreeMap::new(), 0);
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = &rest[..=end];
        rest = &rest[end + 1..];
        if let Ok(FileLine { bytes, .. }) = serde_json::from_slice(line) {
            let content = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(1);
            rest = rest.get(content..).unwrap_or_default();
            files += 1;
        } else if let Ok(Change { t, .. }) = serde_json::from_slice(line) {
            *counts.entry(t).or_default() += 1;
        }
    }
    let trailer = Trailer { lines: counts, files, sha256: hex::encode(Sha256::digest(&dump)) };
    dump.extend(serde_json::to_vec(&trailer).unwrap_or_default());
    dump.push(b'\n');
    dump
}
