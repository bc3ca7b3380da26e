//! Tables that are read from one end to the other, some rows at a time.

use super::{KeyRange, Row, Store, StoreError, Table};

/// Rows of one page: with values as large as they can be, 16 MiB.
const PAGE: usize = 256;

/// The rows of a range that have not been read yet.
///
/// A row that somebody puts or deletes meanwhile may be among them, or not; every other one is, and once.
#[derive(Debug)]
pub struct Pages<'a> {
    store: &'a Store,
    table: Table,
    range: KeyRange,
}

impl Pages<'_> {
    /// The next rows, in the order of their keys, and none after the last. After an error it can be called again.
    /// Errors: [`StoreError::Timeout`], or that the store has failed or is closed.
    pub async fn next(&mut self) -> Result<Option<Vec<Row>>, StoreError> {
        let rows = self.store.scan(self.table, self.range.clone(), PAGE).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        self.range = self.range.clone().after(&last.key);
        Ok(Some(rows))
    }
}

impl Store {
    /// Every row of a table, page by page.
    #[must_use]
    pub fn pages(&self, table: Table) -> Pages<'_> {
        self.pages_of(table, KeyRange::all())
    }

    /// The rows of a range, page by page.
    #[must_use]
    pub fn pages_of(&self, table: Table, range: KeyRange) -> Pages<'_> {
        Pages { store: self, table, range }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::fault::{FaultGate, FaultPoint, Faults, StoreFault};
    use crate::{Batch, Durability, MAX_BATCH_OPS, StoreOptions};

    fn key(at: usize) -> Vec<u8> {
        format!("{at:06}").into_bytes()
    }

    async fn put(store: &Store, keys: impl IntoIterator<Item = Vec<u8>>) {
        for keys in keys.into_iter().collect::<Vec<_>>().chunks(MAX_BATCH_OPS) {
            let mut batch = Batch::new();
            for key in keys {
                batch.put(Table::Sessions, key.as_slice(), *b"row");
            }
            store.commit(batch, Durability::Process).await.unwrap();
        }
    }

    /// The keys of each page that is left.
    async fn read(pages: &mut Pages<'_>) -> Vec<Vec<Vec<u8>>> {
        let mut read = Vec::new();
        while let Some(rows) = pages.next().await.unwrap() {
            read.push(rows.into_iter().map(|row| row.key).collect());
        }
        read
    }

    #[tokio::test]
    async fn each_row_is_on_one_page() {
        for rows in [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 7] {
            let store = Store::memory();
            put(&store, (0..rows).map(key)).await;
            let read = read(&mut store.pages(Table::Sessions)).await;
            assert!(read.iter().all(|page| (1..=PAGE).contains(&page.len())), "of {rows}");
            assert_eq!(read.len(), rows.div_ceil(PAGE));
            assert_eq!(read.concat(), (0..rows).map(key).collect::<Vec<_>>());
            assert!(store.pages(Table::Keys).next().await.unwrap().is_none(), "another table");
        }
    }

    #[tokio::test]
    async fn a_range_is_read_to_its_own_end() {
        let store = Store::memory();
        put(&store, (0..3 * PAGE).map(key)).await;
        let range = KeyRange::between(&key(10), &key(2 * PAGE));
        let read = read(&mut store.pages_of(Table::Sessions, range)).await;
        assert_eq!(read.concat(), (10..2 * PAGE).map(key).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn rows_that_go_or_come_meanwhile_move_no_other() {
        let store = Store::memory();
        put(&store, (0..PAGE + 10).map(|at| key(2 * at))).await;
        let mut pages = store.pages(Table::Sessions);
        assert_eq!(pages.next().await.unwrap().unwrap().len(), PAGE);
        let last = 2 * (PAGE - 1);
        let mut batch = Batch::new();
        batch.delete(Table::Sessions, key(0)).delete(Table::Sessions, key(last));
        store.commit(batch, Durability::Process).await.unwrap();
        put(&store, [key(1), key(last + 1)]).await;
        let expected: Vec<_> = std::iter::once(key(last + 1)).chain((PAGE..PAGE + 10).map(|at| key(2 * at))).collect();
        assert_eq!(read(&mut pages).await, [expected]);
    }

    #[tokio::test]
    async fn a_page_that_nobody_waited_for_comes_again() {
        let faults = Faults::default();
        let store = Store::faulty(&faults, StoreOptions::default());
        put(&store, (0..PAGE + 1).map(key)).await;
        let mut pages = store.pages(Table::Sessions);
        assert_eq!(pages.next().await.unwrap().unwrap().len(), PAGE);
        let gate = FaultGate::default();
        faults.next(FaultPoint::Read, StoreFault::Hang(gate.clone()));
        assert!(timeout(Duration::from_millis(10), pages.next()).await.is_err());
        gate.open();
        assert_eq!(read(&mut pages).await, [[key(PAGE)]]);
    }
}
