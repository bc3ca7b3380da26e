//! The version of the data, and the steps from one to the next.

use super::backend::{Backend, BackendError};
use super::batch::{Batch, Op};
use super::{Table, record};

/// The version this release reads and writes.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The key in [`Table::Meta`] under which the version stands.
const KEY: &[u8] = b"schema_version";

/// One step: what to change to get from version `to - 1` to `to`. The changes and the new version are one
/// transaction, so a step is done once or not at all.
pub(super) struct Migration {
    pub(super) to: u32,
    pub(super) changes: fn(&dyn Backend) -> Result<Batch, BackendError>,
}

/// Every step, in order. None so far.
pub(super) const MIGRATIONS: &[Migration] = &[];

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

/// Gives a new database its version.
pub(super) fn begin(backend: &mut dyn Backend, version: u32) -> Result<(), BackendError> {
    backend.apply(&[set(version)])
}

/// Takes every step that leads on from the version of the data.
pub(super) fn migrate(backend: &mut dyn Backend, migrations: &[Migration]) -> Result<(), BackendError> {
    for step in migrations {
        if version(backend)?.unwrap_or(0) + 1 != step.to {
            continue;
        }
        tracing::info!(to = step.to, "migrating the store");
        let mut ops: Vec<Op> = (step.changes)(backend)?
            .ops
            .into_iter()
            .map(|op| Op { value: op.value.map(|value| record::seal(op.table, &op.key, &value)), ..op })
            .collect();
        ops.push(set(step.to));
        backend.apply(&ops)?;
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
        begin(&mut backend, 1).unwrap();
        let sealed = record::seal(Table::Sessions, b"a", b"value");
        backend.apply(&[Op { table: Table::Sessions, key: b"a".to_vec(), value: Some(sealed) }]).unwrap();
        for _ in 0..2 {
            migrate(&mut backend, STEPS).unwrap();
            assert_eq!(version(&backend).unwrap(), Some(3));
            assert_eq!(backend.get(Table::Sessions, b"a").unwrap(), None);
            let moved = backend.get(Table::Sessions, b"b").unwrap().unwrap();
            assert_eq!(record::open(Table::Sessions, b"b", &moved), Ok(&b"value"[..]));
        }
    }

    #[test]
    fn the_last_step_leads_to_this_release() {
        assert_eq!(MIGRATIONS.last().map_or(1, |step| step.to), SCHEMA_VERSION);
    }
}
