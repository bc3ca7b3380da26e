//! What every kind of store does alike.

use super::super::batch::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use super::super::fault::{FaultPoint, Faults, StoreFault};
use super::*;

async fn conforms(store: &Store) {
    batches_are_whole(store).await;
    scans_follow_the_order(store).await;
    sizes_are_checked(store).await;
    dumps_hold_everything(store).await;
    closing_is_final(store).await;
}

async fn batches_are_whole(store: &Store) {
    assert_eq!(store.get(Table::Keys, b"a").await.unwrap(), None);
    let mut batch = Batch::new();
    batch
        .put(Table::Keys, *b"a", *b"1")
        .put(Table::Sessions, *b"a", *b"2")
        .put(Table::Sessions, *b"gone", *b"3")
        .delete(Table::Sessions, *b"gone")
        .put(Table::Keys, *b"twice", *b"4")
        .put(Table::Keys, *b"twice", *b"");
    for durability in [Durability::Process, Durability::Power] {
        store.commit(batch.clone(), durability).await.unwrap();
        let get = async |table, key: &[u8]| store.get(table, key).await.unwrap();
        assert_eq!(get(Table::Keys, b"a").await.as_deref(), Some(&b"1"[..]));
        assert_eq!(get(Table::Sessions, b"a").await.as_deref(), Some(&b"2"[..]));
        assert_eq!(get(Table::Sessions, b"gone").await, None);
        assert_eq!(get(Table::Keys, b"twice").await.as_deref(), Some(&b""[..]));
        assert_eq!(get(Table::Sessions, b"twice").await, None, "other table");
    }
    store.commit(Batch::new(), Durability::Power).await.unwrap();
    let health = store.health();
    assert!(health.ok(), "{health:?}");
    assert!(health.last_durable_ms.is_some() && health.last_commit_ms.is_some());
    let mut batch = Batch::new();
    batch
        .delete(Table::Keys, *b"a")
        .delete(Table::Keys, *b"twice")
        .delete(Table::Keys, *b"never there")
        .delete(Table::Sessions, *b"a");
    store.commit(batch, Durability::Process).await.unwrap();
    assert!(contents(store).await.iter().all(|(_, rows)| rows.is_empty()));
}

async fn scans_follow_the_order(store: &Store) {
    let keys: [&[u8]; 6] = [b"a", b"a\0", b"a\xff", b"b", b"\xff", b"\xff\xff"];
    for key in keys.iter().rev() {
        put(store, Table::Sessions, key, key).await;
    }
    let scan = async |range: KeyRange, limit| -> Vec<Vec<u8>> {
        let rows = store.scan(Table::Sessions, range, limit).await.unwrap();
        for row in &rows {
            assert_eq!(row.key, row.value);
        }
        rows.into_iter().map(|row| row.key).collect()
    };
    assert_eq!(scan(KeyRange::all(), 9).await, keys);
    assert_eq!(scan(KeyRange::all(), 2).await, keys[..2]);
    assert_eq!(scan(KeyRange::prefix(b"a"), 9).await, keys[..3]);
    assert_eq!(scan(KeyRange::prefix(b"\xff"), 9).await, keys[4..]);
    assert_eq!(scan(KeyRange::between(b"a\0", b"b"), 9).await, keys[1..3]);
    assert_eq!(scan(KeyRange::all().after(b"a\xff"), 1).await, [keys[3]]);
    let nothing: [&[u8]; 0] = [];
    assert_eq!(scan(KeyRange::all(), 0).await, nothing);
    assert_eq!(scan(KeyRange::between(b"b", b"a"), 9).await, nothing);
    assert_eq!(scan(KeyRange::between(b"b", b"b"), 9).await, nothing);
    assert_eq!(scan(KeyRange::prefix(b"a").after(b"b"), 9).await, nothing);
}

async fn sizes_are_checked(store: &Store) {
    let before = contents(store).await;
    let commit = async |batch: Batch| store.commit(batch, Durability::Process).await;
    let mut too_large = Batch::new();
    too_large.put(Table::Keys, *b"fine", *b"x").put(Table::Keys, *b"k", vec![0; MAX_VALUE_BYTES + 1]);
    assert!(matches!(
        commit(too_large).await,
        Err(StoreError::ValueTooLarge { bytes, .. }) if bytes == MAX_VALUE_BYTES + 1
    ));
    for bad_key in [0, MAX_KEY_BYTES + 1] {
        let mut batch = Batch::new();
        batch.put(Table::Keys, vec![1; bad_key], *b"x");
        assert!(matches!(
            commit(batch).await,
            Err(StoreError::InvalidKey { bytes, .. }) if bytes == bad_key
        ));
    }
    let mut batch = Batch::new();
    for _ in 0..=MAX_BATCH_OPS {
        batch.delete(Table::Keys, *b"x");
    }
    assert!(matches!(commit(batch).await, Err(StoreError::BatchTooLarge { .. })));
    assert_eq!(contents(store).await, before, "nothing of a refused batch");
    let largest = vec![7; MAX_VALUE_BYTES];
    put(store, Table::Keys, &[1; MAX_KEY_BYTES], &largest).await;
    assert_eq!(store.get(Table::Keys, &[1; MAX_KEY_BYTES]).await.unwrap(), Some(largest));
}

async fn dumps_hold_everything(store: &Store) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dump.jsonl");
    let dumped = store.dump(&file, &[]).await.unwrap();
    assert_eq!(dumped.bytes, std::fs::metadata(&file).unwrap().len());
    let data = dir.path().join("data");
    let restored = restore(&data, &file, &[]).unwrap();
    assert_eq!(restored.lines, dumped.lines);
    let copy = open_sled(&data);
    assert_eq!(contents(&copy).await, contents(store).await);
    copy.close().await.unwrap();
}

async fn closing_is_final(store: &Store) {
    store.close().await.unwrap();
    let mut batch = Batch::new();
    batch.put(Table::Keys, *b"late", *b"x");
    assert!(matches!(store.commit(batch, Durability::Power).await, Err(StoreError::Closed)));
    assert!(matches!(store.get(Table::Keys, b"a").await, Err(StoreError::Closed)));
    assert!(matches!(store.close().await, Err(StoreError::Closed)));
    assert_eq!(store.health().state, StoreState::Closed);
}

#[tokio::test]
async fn memory() {
    conforms(&Store::memory()).await;
}

#[tokio::test]
async fn sled() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    conforms(&store).await;
    assert!(disk::directory_bytes(&dir.path().join("db")) > 0);
}

#[tokio::test]
async fn slow_threads() {
    let faults = Faults::default();
    for point in [FaultPoint::Apply, FaultPoint::Flush, FaultPoint::Barrier, FaultPoint::Read] {
        faults.always(point, StoreFault::Delay(Duration::from_millis(1)));
    }
    conforms(&Store::faulty(&faults, options())).await;
}
