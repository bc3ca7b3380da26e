//! Tables in memory: the model the property tests compare with, and a store for tests of other modules.

use std::collections::BTreeMap;

use super::backend::{Backend, BackendError, Barrier, RawRow, ThreadCheck};
use super::batch::Op;
use super::{KeyRange, Table};

/// One ordered map a table.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryBackend {
    tables: BTreeMap<Table, BTreeMap<Vec<u8>, Vec<u8>>>,
}

pub(super) struct NoBarrier;

impl Barrier for NoBarrier {
    fn wait(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Backend for MemoryBackend {
    fn apply(&mut self, ops: &[Op]) -> Result<(), BackendError> {
        for op in ops {
            let rows = self.tables.entry(op.table).or_default();
            match &op.value {
                Some(value) => rows.insert(op.key.clone(), value.clone()),
                None => rows.remove(&op.key),
            };
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn barrier(&self) -> Result<Box<dyn Barrier>, BackendError> {
        Ok(Box::new(NoBarrier))
    }

    fn thread_check(&self) -> ThreadCheck {
        Box::new(|| Ok(()))
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError> {
        Ok(self.tables.get(&table).and_then(|rows| rows.get(key)).cloned())
    }

    fn scan(&self, table: Table, range: &KeyRange, limit: usize) -> Result<Vec<RawRow>, BackendError> {
        let Some(rows) = self.tables.get(&table) else {
            return Ok(Vec::new());
        };
        let found = rows.range::<[u8], _>(range.bounds());
        let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        Ok(found.take(limit).map(owned).collect())
    }
}
