//! Recoveries that go wrong or follow each other, and restores by hand that are cut off.

use std::collections::HashSet;
use std::fs;

use super::super::layout::{ASIDE, DATABASE, STAGING, UNFINISHED, WAL, numbered};
use super::super::recovery_file::{RecoveryCause, RecoveryFile, RecoveryNotes};
use super::super::{backup_folder, fault};
use super::kept_log::{damage, in_segments, killed_after, recovered, tasks};
use super::*;

const PICTURES: Folder = Folder { name: "pictures", has: |_| true };

#[tokio::test]
async fn a_backup_that_cannot_be_read_is_passed_over_for_an_older_one() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..2).await;
    // The system refuses to read it, as where the disk has a bad sector.
    fs::create_dir(dir.path().join("backups/warmpool-9999999999999.jsonl")).unwrap();
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert!(matches!(&*recovery.unusable, [told] if told.contains("cannot be read")), "{recovery}");
    assert_eq!((recovery.lost, tasks(&store).await), (Some(0), vec![0, 1]), "{recovery}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn the_log_of_a_database_that_was_put_aside_is_taken() {
    let killed = killed_after(3).await;
    let (database, aside) = (killed.path().join(DATABASE), killed.path().join(ASIDE));
    assert!(fs::metadata(database.join(WAL)).unwrap().len() > 0);
    fs::rename(&database, &aside).unwrap();
    let (recovery, store) = recovered(killed.path()).await;
    assert_eq!(recovery.cause, RecoveryCause::Missing);
    assert_eq!((recovery.lost, tasks(&store).await), (Some(0), vec![0, 1, 2]), "{recovery}");
    assert!(recovery.quarantined.is_some_and(|kept| kept.exists()) && !aside.exists(), "no later recovery takes it");
    store.close().await.unwrap();
}

#[tokio::test]
async fn recoveries_in_a_row_leave_few_backups() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..1).await;
    for within_an_hour in 1..9 {
        fs::write(dir.path().join(format!("backups/warmpool-{within_an_hour}.jsonl")), "").unwrap();
    }
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!(recovery.lost, Some(0), "{recovery}");
    assert_eq!(backup_folder::list(dir.path()).len(), 4);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_restore_that_was_cut_off_is_finished_by_the_next_start() {
    for is_begun in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("backup.tar"));
        let picture = data.join("pictures/ann/picture");
        let store = open_sled(&data);
        put(&store, Table::Keys, b"old", b"x").await;
        fs::create_dir_all(picture.parent().unwrap()).unwrap();
        fs::write(&picture, "old").unwrap();
        store.dump(&file, &[PICTURES]).await.unwrap();
        put(&store, Table::Keys, b"new", b"x").await;
        fs::write(&picture, "new").unwrap();
        store.close().await.unwrap();
        restore(&data, &file, &[PICTURES]).unwrap();
        // As it was before the last steps: the backup is ready, and what was there is moved away, or not even that.
        fs::create_dir(data.join(STAGING)).unwrap();
        fs::rename(data.join("pictures"), data.join(STAGING).join("pictures")).unwrap();
        fs::rename(data.join(DATABASE), data.join(UNFINISHED)).unwrap();
        for name in [DATABASE, "pictures"].into_iter().filter(|_| !is_begun) {
            let (_, replaced) = numbered(&data, &format!("{name}.replaced-"), "").remove(0);
            fs::rename(replaced, data.join(name)).unwrap();
        }
        RecoveryFile::in_dir(&data).write(&RecoveryNotes { restoring: true, ..RecoveryNotes::default() }).unwrap();

        let store = open_sled(&data);
        assert!(store.get(Table::Keys, b"old").await.unwrap().is_some());
        assert!(store.get(Table::Keys, b"new").await.unwrap().is_none(), "{is_begun}");
        assert_eq!(fs::read_to_string(&picture).unwrap(), "old");
        for name in [DATABASE, "pictures"] {
            assert_eq!(numbered(&data, &format!("{name}.replaced-"), "").len(), 1, "{name} is kept");
        }
        assert!(!data.join("db.trouble").exists() && !data.join(STAGING).exists());
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_owner_without_a_row_may_be_lost_where_the_data_went_back_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("backup.tar"));
    let unowned = async |store: &Store, table: Table| store.unowned(&PICTURES, table).await.unwrap();
    let lost = |deleted: &[&[u8]]| {
        let deleted: HashSet<Vec<u8>> = deleted.iter().map(|id| id.to_vec()).collect();
        Unowned::SetAside { deleted }
    };
    let store = open_sled(&data);
    fs::create_dir(data.join("pictures")).unwrap();
    put(&store, Table::Worlds, b"deleted", b"x").await;
    store.dump(&file, &[PICTURES]).await.unwrap();
    let rows = store.backup().await.unwrap().path;
    let mut batch = Batch::new();
    batch.delete(Table::Worlds, *b"deleted").irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
    assert_eq!(unowned(&store, Table::Worlds).await, Unowned::Removed);
    store.close().await.unwrap();

    restore(&data, &file, &[PICTURES]).unwrap();
    let store = open_sled(&data);
    assert!(store.went_back().await.unwrap());
    assert_eq!(unowned(&store, Table::Worlds).await, Unowned::Removed, "what was newer lies beside it");
    store.close().await.unwrap();

    restore(&data, &rows, &[PICTURES]).unwrap();
    let store = open_sled(&data);
    assert_eq!(unowned(&store, Table::Worlds).await, lost(&[b"deleted"]));
    assert_eq!(unowned(&store, Table::Profiles).await, lost(&[]));
    let mut batch = Batch::new();
    batch.settle_going_back();
    store.commit(batch, Durability::Power).await.unwrap();
    assert_eq!(unowned(&store, Table::Worlds).await, Unowned::Removed);
    store.close().await.unwrap();

    fault::damage(&data);
    let Opened { store, recovery } = Store::open(&data, options()).unwrap();
    assert_ne!(recovery.unwrap().lost, Some(0));
    assert_eq!(unowned(&store, Table::Worlds).await, lost(&[b"deleted"]));
    store.close().await.unwrap();
}
