//! The envelope of a stored value: one version byte, a CRC-32, then the value.
//!
//! The checksum covers table, key and value, so a value that ends up under another key is noticed too.

use super::Table;
use super::batch::Op;

const VERSION: u8 = 1;
const HEADER: usize = 5;

/// Why an envelope could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    #[error("record too short")]
    Short,
    #[error("record version {0} is unknown")]
    Version(u8),
    #[error("record checksum does not match")]
    Checksum,
}

fn checksum(table: Table, key: &[u8], value: &[u8]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(table.name().as_bytes());
    crc.update(&(key.len() as u64).to_be_bytes());
    crc.update(key);
    crc.update(value);
    crc.finalize().to_be_bytes()
}

/// Wraps `value` for storage under `key`.
pub(super) fn seal(table: Table, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(HEADER + value.len());
    sealed.push(VERSION);
    sealed.extend_from_slice(&checksum(table, key, value));
    sealed.extend_from_slice(value);
    sealed
}

/// Unwraps and checks what [`seal`] made.
pub(super) fn open<'a>(table: Table, key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], RecordError> {
    let (&version, rest) = sealed.split_first().ok_or(RecordError::Short)?;
    if version != VERSION {
        return Err(RecordError::Version(version));
    }
    let (crc, value) = rest.split_at_checked(4).ok_or(RecordError::Short)?;
    if crc != checksum(table, key, value) {
        return Err(RecordError::Checksum);
    }
    Ok(value)
}

/// The checksum that stands in an envelope, unchecked.
pub(super) fn checksum_of(sealed: &[u8]) -> Option<u32> {
    sealed.get(1..HEADER).and_then(|crc| crc.try_into().ok()).map(u32::from_be_bytes)
}

/// Changes with their values sealed, as backends take them.
pub(super) fn sealed(ops: &[Op]) -> Vec<Op> {
    ops.iter()
        .map(|op| Op {
            table: op.table,
            key: op.key.clone(),
            value: op.value.as_ref().map(|value| seal(op.table, &op.key, value)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        let sealed = seal(Table::Sessions, b"key", b"value");
        assert_eq!(open(Table::Sessions, b"key", &sealed), Ok(&b"value"[..]));
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(Table::Sessions, b"key", &damaged).is_err(), "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert!(open(Table::Sessions, b"key", &sealed[..len]).is_err());
        }
    }

    #[test]
    fn a_value_under_the_wrong_key_or_table_is_noticed() {
        let sealed = seal(Table::Sessions, b"key", b"value");
        assert!(open(Table::Sessions, b"kez", &sealed).is_err());
        assert!(open(Table::Keys, b"key", &sealed).is_err());
    }
}
