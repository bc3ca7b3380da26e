//! What is kept apart from the backups: it outlives all of them, and is gone from every file once it is deleted.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::super::backup_folder;
use super::super::layout::{DATABASE, UNREAD_WAL};
use super::kept_log::{damage, in_segments, recovered, tasks};
use super::*;

const KEY: &[u8] = b"profile";
const DELETED: &[u8] = b"deleted";

/// Opens a store that makes no backups of its own.
fn open(dir: &Path) -> Opened {
    Store::open(dir, StoreOptions { backups_kept: 0, ..options() }).unwrap()
}

async fn delete_for_good(store: &Store, key: &[u8]) {
    let mut batch = Batch::new();
    batch.delete(Table::ProfileKeys, key).irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
}

async fn keys(store: &Store) -> Vec<Vec<u8>> {
    let rows = store.scan(Table::ProfileKeys, KeyRange::all(), usize::MAX).await.unwrap();
    rows.into_iter().map(|row| row.key).collect()
}

/// A data directory with two keys and a backup elsewhere. One key was deleted since, and the process died before the file lacked it.
async fn sample(dir: &Path, backup: &Path) {
    let apart = backup_folder::apart(dir);
    let store = open(dir).store;
    put(&store, Table::Profiles, b"shop", b"a profile").await;
    for key in [KEY, DELETED] {
        put(&store, Table::ProfileKeys, key, b"secret").await;
    }
    store.dump(backup, &[]).await.unwrap();
    let before = fs::read(&apart).unwrap();
    delete_for_good(&store, DELETED).await;
    store.close().await.unwrap();
    fs::write(&apart, before).unwrap();
}

#[tokio::test]
async fn a_recovery_without_a_backup_keeps_what_was_not_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup.tar"));
    sample(&data, &backup).await;
    damage(&data);
    let Opened { store, recovery } = open(&data);
    assert_eq!(recovery.unwrap().restored, None);
    assert_eq!(keys(&store).await, [KEY]);
    // As the next backup does.
    store.write_apart().await.unwrap();
    store.close().await.unwrap();
    restore(&data, &backup, &[]).unwrap();
    let store = open(&data).store;
    assert!(store.get(Table::Profiles, b"shop").await.unwrap().is_some());
    assert_eq!(keys(&store).await, [KEY]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_read_keeps_no_start_up() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..2).await;
    let apart = backup_folder::apart(dir.path());
    fs::remove_file(&apart).unwrap();
    // The system refuses to read it, as where the disk has a bad sector.
    fs::create_dir(&apart).unwrap();
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert!(matches!(&*recovery.unusable, [told] if told.contains("patient-keys.jsonl")), "{recovery}");
    assert_eq!((recovery.lost, tasks(&store).await), (Some(0), vec![0, 1]), "{recovery}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_start_writes_the_file_without_what_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    sample(&data, &dir.path().join("backup.tar")).await;
    let text = || fs::read_to_string(backup_folder::apart(&data)).unwrap();
    assert!(text().contains(&BASE64.encode(DELETED)));
    let store = open(&data).store;
    run_backups(store.clone(), tokio_util::sync::CancellationToken::new()).await;
    assert!(text().contains(&BASE64.encode(KEY)) && !text().contains(&BASE64.encode(DELETED)));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_log_that_was_set_aside_goes_before_a_key_does() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    let unread = dir.path().join(DATABASE).join(UNREAD_WAL);
    fs::write(&unread, "it may have the key").unwrap();
    put(&store, Table::ProfileKeys, KEY, b"secret").await;
    store.backup().await.unwrap();
    assert!(unread.exists(), "it is kept for a human");
    delete_for_good(&store, KEY).await;
    assert!(!unread.exists());
    store.close().await.unwrap();
}
