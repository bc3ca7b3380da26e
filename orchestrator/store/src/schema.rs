//! The version of the data, and the steps from one to the next.

use super::backend::{Backend, BackendError};
use super::batch::{Batch, Op};
use super::ledger::Ledger;
use super::record::sealed;
use super::{KeyRange, Table, record};

/// The version this release reads and writes.
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// The version that brought the ledger, and has patients' keys in a table of their own.
pub(super) const KEYS_APART: u32 = 2;

/// The key in [`Table::Meta`] under which the version stands.
const KEY: &[u8] = b"schema_version";

/// One step: what to change to get from version `to - 1` to `to`. The changes and the new version are one
/// transaction, so a step is done once or not at all.
pub(super) struct Migration {
    pub(super) to: u32,
    pub(super) changes: fn(&dyn Backend) -> Result<Batch, BackendError>,
}

/// Every step, in order.
pub(super) const MIGRATIONS: &[Migration] = &[Migration { to: KEYS_APART, changes: move_keys }];

/// Moves the key of each patient out of the patient's row, which backups hold.
fn move_keys(backend: &dyn Backend) -> Result<Batch, BackendError> {
    let damaged = |reason: String| BackendError::Damaged(format!("a patient's row: {reason}"));
    let mut batch = Batch::new();
    for (key, sealed) in backend.scan(Table::Patients, &KeyRange::all(), usize::MAX)? {
        let value = record::open(Table::Patients, &key, &sealed).map_err(|error| damaged(error.to_string()))?;
        let mut row: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?;
        if let Some(serde_json::Value::String(own)) = row.remove("key") {
            batch.put(Table::PatientKeys, key.clone(), own);
            batch.put_json(Table::Patients, key, &row).map_err(|error| damaged(error.to_string()))?;
        }
    }
    Ok(batch)
}

/// The version of the data; none in a database that was never finished.
pub(super) fn version(backend: &dyn Backend) -> Result<Option<u32>, BackendError> {
    let Some(sealed) = backend.get(Table::Meta, KEY)? else {
        return Ok(None);
    };
    let bytes = record::open(Table::Meta, KEY, &sealed)
        .ok()
        .and_then(|value| <[u8; 4]>::try_from(value).ok())
        .ok_or_else(|| BackendError::Damaged("the schema version cannot be read".into()))?;
    Ok(Some(u32::from_be_bytes(bytes)))
}

fn set(version: u32) -> Op {
    Op { table: Table::Meta, key: KEY.to_vec(), value: Some(record::seal(Table::Meta, KEY, &version.to_be_bytes())) }
}

/// Writes the version and the ledger of a new database.
pub(super) fn begin(backend: &mut dyn Backend, version: u32) -> Result<Ledger, BackendError> {
    let mut ledger = Ledger::default();
    ledger.apply(backend, vec![set(version)])?;
    Ok(ledger)
}

/// Takes every step that leads on from the version of the data.
pub(super) fn migrate(
    backend: &mut dyn Backend,
    ledger: &mut Ledger,
    migrations: &[Migration],
) -> Result<(), BackendError> {
    for step in migrations {
        if version(backend)?.unwrap_or(0) + 1 != step.to {
            continue;
        }
        tracing::info!(to = step.to, "migrating the store");
        let mut ops = sealed(&(step.changes)(backend)?.ops);
        ops.push(set(step.to));
        ledger.apply(backend, ops)?;
        backend.flush()?;
        backend.barrier()?.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::memory::MemoryBackend;
    use super::*;

    fn rename_a(backend: &dyn Backend) -> Result<Batch, BackendError> {
        let sealed = backend.get(Table::Sessions, b"a")?.unwrap();
        let value = record::open(Table::Sessions, b"a", &sealed).unwrap().to_vec();
        let mut batch = Batch::new();
        batch.delete(Table::Sessions, *b"a").put(Table::Sessions, *b"b", value);
        Ok(batch)
    }

    const STEPS: &[Migration] =
        &[Migration { to: 2, changes: rename_a }, Migration { to: 3, changes: |_| Ok(Batch::new()) }];

    #[test]
    fn steps_run_once_from_where_the_data_is() {
        let mut backend = MemoryBackend::default();
        let mut ledger = begin(&mut backend, 1).unwrap();
        let mut batch = Batch::new();
        batch.put(Table::Sessions, *b"a", *b"value");
        ledger.apply(&mut backend, sealed(&batch.ops)).unwrap();
        for _ in 0..2 {
            migrate(&mut backend, &mut ledger, STEPS).unwrap();
            assert_eq!(version(&backend).unwrap(), Some(3));
            assert_eq!(backend.get(Table::Sessions, b"a").unwrap(), None);
            let moved = backend.get(Table::Sessions, b"b").unwrap().unwrap();
            assert_eq!(record::open(Table::Sessions, b"b", &moved), Ok(&b"value"[..]));
        }
    }

    #[test]
    fn patients_keys_move_out_of_their_rows() {
        let mut backend = MemoryBackend::default();
        let mut ledger = begin(&mut backend, 1).unwrap();
        let mut batch = Batch::new();
        batch.put(Table::Patients, *b"ref", *br#"{"key":"own","identity":"name"}"#);
        ledger.apply(&mut backend, sealed(&batch.ops)).unwrap();
        migrate(&mut backend, &mut ledger, MIGRATIONS).unwrap();
        let value = |table| {
            let sealed = backend.get(table, b"ref").unwrap().unwrap();
            String::from_utf8(record::open(table, b"ref", &sealed).unwrap().to_vec()).unwrap()
        };
        assert_eq!(value(Table::Patients), r#"{"identity":"name"}"#);
        assert_eq!(value(Table::PatientKeys), "own");
    }

    #[test]
    fn the_last_step_leads_to_this_release() {
        assert_eq!(MIGRATIONS.last().map_or(1, |step| step.to), SCHEMA_VERSION);
    }
}
