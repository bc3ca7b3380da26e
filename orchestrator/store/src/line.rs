//! Lines of JSON, each behind the CRC-32 of its text: what the journal and the write-ahead log are made of.

use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{MAX_BATCH_OPS, MAX_VALUE_BYTES, StoreError};

/// No line is longer, in bytes: one of the write-ahead log has a batch, whose values are that large at most, in base64.
const MAX_LINE_BYTES: u64 = 2 * (MAX_BATCH_OPS * MAX_VALUE_BYTES) as u64;

/// Passes on each whole line with the place where it begins, and returns where the last one ends.
pub(super) fn lines(
    path: &Path,
    from: impl Read,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut from = BufReader::new(from);
    let (mut end, mut bytes) = (0, Vec::new());
    loop {
        bytes.clear();
        let read = from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
        let read = read.map_err(StoreError::io("read", path))?;
        if bytes.last() != Some(&b'\n') {
            return Ok(end);
        }
        each(end, &bytes)?;
        end += read as u64;
    }
}

/// A line with this content.
pub(super) fn line(content: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_string(content)?;
    Ok(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes())
}

/// What a line says; nothing where it is damaged, or says something else.
pub(super) fn parse<T: for<'a> Deserialize<'a>>(line: &[u8]) -> Option<T> {
    let (crc, json) = std::str::from_utf8(line).ok()?.trim_end_matches('\n').split_once(' ')?;
    let whole = u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(json.as_bytes());
    serde_json::from_str(json).ok().filter(|_| whole)
}
