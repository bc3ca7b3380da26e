//! With a backup and the log since then, nothing is lost where the database is damaged.

use std::fs;
use std::path::PathBuf;

use super::super::layout::{DATABASE, KEPT_LOG, MARK, WAL};
use super::super::{backup_folder, kept_log};
use super::crash::{Writer, check};
use super::*;

pub(super) fn damage(dir: &Path) {
    fs::write(dir.join(DATABASE).join("db"), b"").unwrap();
}

/// The files of the log, by the numbers of their last commits.
pub(super) fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found = super::super::layout::numbered(&dir.join(KEPT_LOG), "", ".wal");
    found.reverse();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Puts rows with these numbers and starts anew after each, so that each is in a segment of its own. A backup has the first.
pub(super) async fn in_segments(dir: &Path, numbers: std::ops::Range<u8>) {
    for number in numbers {
        let store = open_sled(dir);
        put(&store, Table::Tasks, &[number], &[number; 100]).await;
        if number == 0 {
            store.backup().await.unwrap();
        }
        store.close().await.unwrap();
    }
}

/// A store whose process has died with the last of these rows in its log alone.
pub(super) async fn killed_after(rows: u8) -> tempfile::TempDir {
    let (dir, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    in_segments(dir.path(), 0..rows - 1).await;
    let store = open_sled(dir.path());
    put(&store, Table::Tasks, &[rows - 1], b"x").await;
    copy_dir(dir.path(), killed.path());
    store.close().await.unwrap();
    killed
}

pub(super) async fn tasks(store: &Store) -> Vec<u8> {
    let rows = store.scan(Table::Tasks, KeyRange::all(), usize::MAX).await.unwrap();
    rows.into_iter().map(|row| row.key[0]).collect()
}

/// Opens a damaged store.
pub(super) async fn recovered(dir: &Path) -> (Recovery, Store) {
    let opened = Store::open(dir, options()).unwrap();
    (opened.recovery.expect("it was not damaged"), opened.store)
}

#[tokio::test]
async fn a_kill_and_a_damaged_database_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    store.backup().await.unwrap();
    store.close().await.unwrap();
    let mut random = Random::seeded("WARMPOOL_CRASH_SEED");
    let mut acked = 0;
    for round in 0..rounds("WARMPOOL_CRASH_ROUNDS", 8) {
        let writer = Writer::start(dir.path());
        let last = writer.run(Duration::from_millis(random.below(500)));
        acked = writer.kill(last).unwrap_or(acked);
        damage(dir.path());
        let (recovery, store) = recovered(dir.path()).await;
        let found = check(&store).await;
        assert!(found == acked || found == acked + 1, "round {round}: {acked} answered, {found} found: {recovery}");
        assert_eq!(recovery.lost, Some(0), "{recovery}");
        acked = found;
        store.close().await.unwrap();
    }
    println!("{acked} steps");
}

#[tokio::test]
async fn a_log_with_a_gap_is_not_used() {
    for gap in [0, 2, 4] {
        let dir = tempfile::tempdir().unwrap();
        in_segments(dir.path(), 0..5).await;
        let segments = segments(dir.path());
        assert_eq!(segments.len(), 5, "the first has more than the backup");
        fs::remove_file(&segments[gap]).unwrap();
        damage(dir.path());
        let (recovery, store) = recovered(dir.path()).await;
        let expected = if gap == 0 { vec![0, 1, 2, 3, 4] } else { vec![0] };
        assert_eq!(tasks(&store).await, expected, "{gap}: {recovery}");
        assert_eq!(recovery.lost == Some(0), gap == 0, "{recovery}");
        assert_eq!(store.went_back().await.unwrap(), gap != 0);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_log_is_not_used_nor_one_whose_end_nobody_knows() {
    for is_marked in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        in_segments(dir.path(), 0..4).await;
        damage(dir.path());
        if is_marked {
            let last = segments(dir.path()).pop().unwrap();
            let mut log = fs::read(&last).unwrap();
            let middle = log.len() / 2;
            log[middle] ^= 1;
            fs::write(&last, log).unwrap();
        } else {
            fs::remove_file(dir.path().join(MARK)).unwrap();
        }
        let (recovery, store) = recovered(dir.path()).await;
        assert_eq!(tasks(&store).await, [0], "{recovery}");
        assert_ne!(recovery.lost, Some(0), "{recovery}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_second_damage_loses_nothing_either() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..3).await;
    for number in 3..6 {
        damage(dir.path());
        let (recovery, store) = recovered(dir.path()).await;
        assert_eq!((recovery.lost, tasks(&store).await), (Some(0), (0..number).collect()), "{recovery}");
        put(&store, Table::Tasks, &[number], b"x").await;
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_backup_takes_the_place_of_what_was_kept_before() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..4).await;
    let store = open_sled(dir.path());
    assert!(!segments(dir.path()).is_empty());
    store.backup().await.unwrap();
    assert_eq!(segments(dir.path()), Vec::<PathBuf>::new());
    put(&store, Table::Tasks, b"\x09", b"x").await;
    store.close().await.unwrap();
    assert_eq!(segments(dir.path()).len(), 1);
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!((recovery.from_log, recovery.lost), (1, Some(0)), "{recovery}");
    assert_eq!(tasks(&store).await, [0, 1, 2, 3, 9]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_batch_of_megabytes_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..1).await;
    let store = open_sled(dir.path());
    let mut batch = Batch::new();
    for number in 0..300_u32 {
        batch.put(Table::TaskBodies, number.to_be_bytes(), vec![7; MAX_VALUE_BYTES]);
    }
    store.commit(batch, Durability::Process).await.unwrap();
    store.close().await.unwrap();
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    let rows = store.scan(Table::TaskBodies, KeyRange::all(), usize::MAX).await.unwrap();
    assert!(rows.len() == 300 && rows.iter().all(|row| row.value == vec![7; MAX_VALUE_BYTES]), "{recovery}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn keys_that_no_backup_has_are_in_it_until_they_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..1).await;
    let store = open_sled(dir.path());
    put(&store, Table::ProfileKeys, b"kept", b"the first secret").await;
    put(&store, Table::ProfileKeys, b"deleted", b"the second secret").await;
    store.close().await.unwrap();
    // What a base64 of the second has, wherever it begins in its line.
    let holds = |path: &Path| {
        fs::read_to_string(path).unwrap().contains("deleted") || {
            let text = fs::read_to_string(path).unwrap();
            ["ZGVsZXRlZA", "c2Vjb25kIHNlY3Jld"].iter().any(|part| text.contains(part))
        }
    };
    let files = || -> Vec<PathBuf> {
        let log = fs::read_dir(dir.path().join(KEPT_LOG)).unwrap().map(|entry| entry.unwrap().path());
        log.chain([dir.path().join(DATABASE).join(WAL), backup_folder::apart(dir.path())]).collect()
    };
    assert!(files().iter().any(|path| path.extension().is_some_and(|kind| kind == "apart") && holds(path)));
    assert!(segments(dir.path()).iter().all(|path| !holds(path)));
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!(recovery.lost, Some(0));
    for (key, value) in [("kept", "the first secret"), ("deleted", "the second secret")] {
        assert_eq!(store.get(Table::ProfileKeys, key.as_bytes()).await.unwrap().unwrap(), value.as_bytes());
    }
    let mut batch = Batch::new();
    batch.put(Table::ProfileKeys, *b"new", *b"the third secret");
    store.commit(batch, Durability::Process).await.unwrap();
    let mut batch = Batch::new();
    batch.delete(Table::ProfileKeys, *b"deleted").irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
    for path in files() {
        assert!(!holds(&path), "{}", path.display());
    }
    store.close().await.unwrap();
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!(recovery.lost, Some(0), "{recovery}");
    let keys = store.scan(Table::ProfileKeys, KeyRange::all(), usize::MAX).await.unwrap();
    assert_eq!(keys.into_iter().map(|row| row.key).collect::<Vec<_>>(), [b"kept".to_vec(), b"new".to_vec()]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_log_whose_keys_are_damaged_or_gone_is_not_used() {
    for is_gone in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        in_segments(dir.path(), 0..1).await;
        let store = open_sled(dir.path());
        for key in ["one", "two"] {
            put(&store, Table::ProfileKeys, key.as_bytes(), b"secret").await;
        }
        store.close().await.unwrap();
        let entries = fs::read_dir(dir.path().join(KEPT_LOG)).unwrap().map(|entry| entry.unwrap().path());
        let apart = entries.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "apart")).unwrap();
        if is_gone {
            fs::remove_file(&apart).unwrap();
        } else {
            let file = fs::read(&apart).unwrap();
            // After a whole line, where nothing but the checksum tells.
            let line = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            fs::write(&apart, &file[..line]).unwrap();
        }
        damage(dir.path());
        let (recovery, store) = recovered(dir.path()).await;
        assert_eq!((recovery.from_log, tasks(&store).await), (0, vec![0]), "{recovery}");
        assert_ne!(recovery.lost, Some(0), "{recovery}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn keys_are_in_their_file_once_it_is_written_anew() {
    for is_gone in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        in_segments(dir.path(), 0..1).await;
        let store = open_sled(dir.path());
        put(&store, Table::ProfileKeys, b"one", b"secret").await;
        store.close().await.unwrap();
        let store = open_sled(dir.path());
        store.write_apart().await.unwrap();
        store.close().await.unwrap();
        let names = || fs::read_dir(dir.path().join(KEPT_LOG)).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names().all(|name| !name.to_string_lossy().ends_with("apart")), "{:?}", names().collect::<Vec<_>>());
        if is_gone {
            fs::remove_file(backup_folder::apart(dir.path())).unwrap();
        }
        damage(dir.path());
        let (recovery, store) = recovered(dir.path()).await;
        let said = recovery.to_string();
        assert_eq!(said.contains("nothing is lost"), !is_gone, "{said}");
        assert_eq!(said.contains("patient-keys.jsonl: it is missing"), is_gone, "{said}");
        assert_eq!(store.get(Table::ProfileKeys, b"one").await.unwrap().is_none(), is_gone, "{said}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_restored_backup_goes_on_from_itself() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..1).await;
    let file = dir.path().join("dump");
    let store = open_sled(dir.path());
    store.dump(&file, &[]).await.unwrap();
    store.close().await.unwrap();
    in_segments(dir.path(), 1..3).await;
    restore(dir.path(), &file, &[]).unwrap();
    assert!(kept_log::is_missing(dir.path()), "it went on from another one");
    let store = open_sled(dir.path());
    put(&store, Table::Tasks, b"\x08", b"x").await;
    store.backup().await.unwrap();
    put(&store, Table::Tasks, b"\x09", b"x").await;
    store.close().await.unwrap();
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!(recovery.lost, Some(0), "{recovery}");
    assert_eq!(tasks(&store).await, [0, 8, 9]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn it_is_given_up_past_its_limit_until_there_is_another_backup() {
    let dir = tempfile::tempdir().unwrap();
    let limited = |kept_log_bytes| StoreOptions { kept_log_bytes, ..options() };
    let put_and_close = async |options: StoreOptions, number: u8| {
        let store = Store::open(dir.path(), options).unwrap().store;
        put(&store, Table::Tasks, &[number], &[number; 1000]).await;
        store.close().await.unwrap();
        kept_log::bytes(dir.path())
    };
    in_segments(dir.path(), 0..1).await;
    let mut sizes = Vec::new();
    for number in 1..6 {
        sizes.push(put_and_close(limited(3000), number).await);
    }
    assert!(sizes[0] > 0 && sizes.iter().all(|bytes| *bytes <= 6000), "{sizes:?}");
    assert!(kept_log::is_missing(dir.path()), "{sizes:?}");
    assert_eq!(put_and_close(limited(1 << 20), 6).await, 0, "it would have a gap");

    let store = open_sled(dir.path());
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(run_backups(store.clone(), stop.clone()));
    for _ in 0..2000 {
        if backup_folder::list(dir.path()).len() > 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    running.await.unwrap();
    assert_eq!(backup_folder::list(dir.path()).len(), 2, "long before it is due");
    store.close().await.unwrap();
    assert!(put_and_close(limited(1 << 20), 7).await > 0);
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!((recovery.lost, tasks(&store).await), (Some(0), (0..8).collect()), "{recovery}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn it_goes_on_from_a_backup_that_has_all_there_is() {
    let dir = tempfile::tempdir().unwrap();
    in_segments(dir.path(), 0..1).await;
    let store = open_sled(dir.path());
    store.backup().await.unwrap();
    kept_log::forget_all(dir.path());
    assert_eq!(store.backup_if_changed().await.unwrap(), None);
    put(&store, Table::Tasks, &[1], b"x").await;
    store.close().await.unwrap();
    damage(dir.path());
    let (recovery, store) = recovered(dir.path()).await;
    assert_eq!((recovery.lost, tasks(&store).await), (Some(0), vec![0, 1]), "{recovery}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn none_is_kept_where_the_settings_say_so() {
    for options in [StoreOptions { kept_log_bytes: 0, ..options() }, StoreOptions { backups_kept: 0, ..options() }] {
        let dir = tempfile::tempdir().unwrap();
        in_segments(dir.path(), 0..2).await;
        assert!(!kept_log::is_missing(dir.path()));
        let store = Store::open(dir.path(), options).unwrap().store;
        store.backup().await.unwrap();
        put(&store, Table::Tasks, &[1], b"x").await;
        store.close().await.unwrap();
        assert!(kept_log::is_missing(dir.path()));
    }
}

#[tokio::test]
async fn a_backup_that_fails_begins_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    put(&store, Table::Tasks, &[1], b"x").await;
    // Where backups should be is a file.
    fs::write(dir.path().join("backups"), b"").unwrap();
    store.backup().await.unwrap_err();
    assert!(kept_log::is_missing(dir.path()));
    store.close().await.unwrap();
}
