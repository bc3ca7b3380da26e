//! The log beside the backups goes on from the newest one without a gap, or is given up until the next.

use std::fs;
use std::io::Write as _;

use super::super::backend::Backend as _;
use super::super::batch::Op;
use super::super::layout::{DATABASE, MARK, WAL};
use super::super::recovery_file::RecoveryCause;
use super::super::sled::SledBackend;
use super::super::{backup_folder, kept_log};
use super::kept_log::{damage, in_segments, killed_after, recovered, segments, tasks};
use super::*;

/// A profile's key, which is in no backup.
const KEY: &[u8] = b"profile";

#[tokio::test]
async fn a_database_that_lost_its_end_loses_nothing_where_a_key_was_deleted_since() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..1).await;
    let store = open_sled(dir.path());
    put(&store, Table::ProfileKeys, KEY, b"secret").await;
    put(&store, Table::Tasks, &[1], b"x").await;
    store.close().await.unwrap();
    let (database, earlier) = (dir.path().join(DATABASE), dir.path().join("earlier"));
    copy_dir(&database, &earlier);

    let store = open_sled(dir.path());
    let mut batch = Batch::new();
    batch.delete(Table::ProfileKeys, KEY).irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
    put(&store, Table::ProfileKeys, b"another", b"secret").await;
    put(&store, Table::Tasks, &[2], b"x").await;
    store.close().await.unwrap();
    fs::remove_dir_all(&database).unwrap();
    fs::rename(&earlier, &database).unwrap();

    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!((recovery.lost, tasks(&store).await), (Some(0), vec![0, 1, 2]), "{recovery}");
    let keys = store.scan(Table::ProfileKeys, KeyRange::all(), usize::MAX).await.unwrap();
    assert_eq!(keys.into_iter().map(|row| row.key).collect::<Vec<_>>(), [b"another".to_vec()]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_database_that_lacks_what_is_kept_is_behind_though_no_mark_says_so() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..2).await;
    let (database, earlier) = (dir.path().join(DATABASE), dir.path().join("earlier"));
    copy_dir(&database, &earlier);
    in_segments(dir.path(), 2..3).await;
    fs::remove_dir_all(&database).unwrap();
    fs::rename(&earlier, &database).unwrap();
    fs::remove_file(dir.path().join(MARK)).unwrap();
    let (recovery, store) = recovered(dir.path()).await;
    assert!(matches!(recovery.cause, RecoveryCause::Behind { .. }), "{recovery}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn half_a_commit_at_its_end_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..3).await;
    let before = segments(dir.path());
    let mut wal = fs::OpenOptions::new().append(true).open(dir.path().join(DATABASE).join(WAL)).unwrap();
    wal.write_all(b"0a1b2c3d {\"after\":").unwrap();
    drop(wal);
    open_sled(dir.path()).close().await.unwrap();
    assert_eq!(segments(dir.path()), before);
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!((recovery.lost, tasks(&store).await), (Some(0), vec![0, 1, 2]), "{recovery}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_database_takes_no_log_away_for_which_there_is_no_room() {
    let killed = killed_after(3).await;
    let mut database = SledBackend::open(&killed.path().join(DATABASE)).unwrap();
    let wrong = Op { table: Table::Sessions, key: b"new".to_vec(), value: Some(b"not sealed".to_vec()) };
    database.apply(&[wrong]).unwrap();
    database.flush().unwrap();
    drop(database);
    let opened = Store::open(killed.path(), StoreOptions { kept_log_bytes: 1, ..options() }).unwrap();
    let recovery = opened.recovery.unwrap();
    assert_eq!((recovery.lost, tasks(&opened.store).await), (Some(0), vec![0, 1, 2]), "{recovery}");
    opened.store.close().await.unwrap();
}

#[tokio::test]
async fn nothing_of_another_history_is_left_in_it() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..6).await;
    damage(dir.path());
    // Nobody knows how far it had come.
    fs::remove_file(dir.path().join(MARK)).unwrap();
    let (_, store) = recovered(dir.path()).await;
    assert!(segments(dir.path()).is_empty());
    put(&store, Table::Tasks, &[9], b"x").await;
    store.close().await.unwrap();
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!((recovery.lost, tasks(&store).await), (Some(0), vec![0, 9]), "{recovery}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn it_is_given_up_where_the_process_died_in_its_first_backup() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..1).await;
    kept_log::forget_all(dir.path());
    in_segments(dir.path(), 1..2).await;
    assert!(kept_log::begin(dir.path()).unwrap());
    in_segments(dir.path(), 2..3).await;
    assert!(kept_log::is_missing(dir.path()), "it lacks a commit, and the next backup would not be due");
    let store = open_sled(dir.path());
    store.backup().await.unwrap();
    store.close().await.unwrap();
    in_segments(dir.path(), 3..5).await;
    assert!(!kept_log::is_missing(dir.path()));
    fs::remove_file(backup_folder::list(dir.path())[0].1.as_path()).unwrap();
    open_sled(dir.path()).close().await.unwrap();
    assert!(kept_log::is_missing(dir.path()), "the backup that it went on from is gone");
}
