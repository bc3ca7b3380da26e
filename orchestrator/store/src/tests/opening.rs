//! Opening, quarantine, restore.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use super::super::backend::Backend;
use super::super::batch::Op;
use super::super::layout::{DATABASE, JOURNAL, KEPT_LOG};
use super::super::recovery_file::RecoveryCause;
use super::super::sled::SledBackend;
use super::*;

/// A data directory with two rows, of which a backup has one.
async fn sample(dir: &Path) {
    let store = open_sled(dir);
    put(&store, Table::Keys, b"old", b"1").await;
    store.backup().await.unwrap();
    put(&store, Table::Sessions, b"new", b"2").await;
    store.close().await.unwrap();
}

async fn has(store: &Store) -> (bool, bool) {
    (
        store.get(Table::Keys, b"old").await.unwrap().is_some(),
        store.get(Table::Sessions, b"new").await.unwrap().is_some(),
    )
}

/// Opens, expects a recovery, and that the next opening needs none.
async fn recovered(dir: &Path, options: &StoreOptions) -> (Recovery, (bool, bool)) {
    let opened = Store::open(dir, options.clone()).unwrap();
    let recovery = opened.recovery.unwrap();
    let rows = has(&opened.store).await;
    put(&opened.store, Table::Keys, b"after", b"x").await;
    opened.store.close().await.unwrap();
    let again = open_sled(dir);
    assert_eq!(has(&again).await, rows);
    again.close().await.unwrap();
    assert!(!dir.join("db.trouble").exists());
    (recovery, rows)
}

#[tokio::test]
async fn it_keeps_what_it_has_and_is_used_by_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/b");
    sample(&data).await;
    let store = open_sled(&data);
    assert_eq!(has(&store).await, (true, true));
    let second = Store::open(&data, options());
    assert!(matches!(second, Err(StoreError::Locked { .. })));
    let dump = data.join("dump");
    store.dump(&dump, &[]).await.unwrap();
    assert!(matches!(restore(&data, &dump, &[]), Err(StoreError::Locked { .. })));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&dump), 0o600);
    store.close().await.unwrap();
    assert_eq!(has(&open_sled(&data)).await, (true, true));
}

#[tokio::test]
async fn dropping_every_handle_closes_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    put(&store, Table::Keys, b"old", b"1").await;
    drop(store);
    for _ in 0..2000 {
        match Store::open(dir.path(), options()) {
            Ok(opened) => {
                assert_eq!(has(&opened.store).await, (true, false));
                return;
            }
            Err(StoreError::Locked { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("still locked");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let store = open_sled(dir.path());
    let next = (SCHEMA_VERSION + 1).to_be_bytes();
    put(&store, Table::Meta, b"schema_version", &next).await;
    store.close().await.unwrap();
    for attempt in 0..5 {
        match Store::open(dir.path(), options()) {
            Err(StoreError::NewerSchema { found, supported }) => {
                assert_eq!((found, supported), (SCHEMA_VERSION + 1, SCHEMA_VERSION));
            }
            other => panic!("attempt {attempt}: {other:?}"),
        }
    }
    assert!(dir.path().join(DATABASE).exists());
}

#[tokio::test]
async fn a_table_of_a_newer_release_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let change = |value: Option<&[u8]>| {
        let backend = SledBackend::open(&dir.path().join(DATABASE)).unwrap();
        backend.change_any("newer", b"key", value);
    };
    change(Some(&record::seal(Table::Keys, b"key", b"value")));
    for attempt in 0..5 {
        match Store::open(dir.path(), options()) {
            Err(StoreError::NewerTable { table }) => assert_eq!(table, "newer"),
            other => panic!("attempt {attempt}: {other:?}"),
        }
    }
    change(None);
    let store = open_sled(dir.path());
    assert_eq!(has(&store).await, (true, true), "a table without rows says nothing");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_dump_with_a_table_of_a_newer_release_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dump");
    let mut dump = dump::fuzzing::sealed(b"{\"t\":\"newer\",\"k\":\"AAE=\",\"v\":\"AgM=\"}\n");
    fs::write(&file, &dump).unwrap();
    let refused = restore(dir.path(), &file, &[]);
    assert!(matches!(&refused, Err(StoreError::NewerTable { table }) if table == "newer"), "{refused:?}");
    let at = dump.windows(5).position(|part| part == b"newer").unwrap();
    dump[at] ^= 1;
    fs::write(&file, &dump).unwrap();
    let refused = restore(dir.path(), &file, &[]);
    assert!(matches!(refused, Err(StoreError::Backup { .. })), "damage is no newer release: {refused:?}");
}

#[tokio::test]
async fn a_wrong_record_is_found_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let mut backend = SledBackend::open(&dir.path().join(DATABASE)).unwrap();
    backend.apply(&[Op { table: Table::Sessions, key: b"new".to_vec(), value: Some(b"not sealed".to_vec()) }]).unwrap();
    backend.flush().unwrap();
    drop(backend);
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert!(matches!(&recovery.cause, RecoveryCause::Damaged { reason } if reason.contains("sessions")));
    assert!(recovery.quarantined.as_ref().unwrap().join("db").exists());
    assert_eq!(rows, (true, true), "the backup and the log since then");
    assert!(recovery.restored.is_some());
    let sentence = recovery.to_string();
    for part in ["nothing is lost", "commits after it were made again from the log"] {
        assert!(sentence.contains(part), "{sentence}");
    }
}

#[tokio::test]
async fn a_bad_backup_is_passed_over_for_an_older_one() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let store = open_sled(dir.path());
    let newest = store.backup().await.unwrap().path;
    store.close().await.unwrap();
    let mut text = fs::read_to_string(&newest).unwrap();
    // Base64 of "2", the value that only this backup has, becomes that of "3".
    assert!(text.contains("Mg=="));
    text = text.replace("Mg==", "Mw==");
    fs::write(&newest, text).unwrap();
    fs::write(dir.path().join("db/db"), b"").unwrap();
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert_eq!(rows, (true, false));
    assert_eq!(recovery.unusable.len(), 1, "{recovery}");
    assert!(recovery.unusable[0].contains("hash"), "{recovery}");
}

#[tokio::test]
async fn without_a_backup_it_starts_empty_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    fs::remove_dir_all(dir.path().join("backups")).unwrap();
    fs::write(dir.path().join("db/db"), b"").unwrap();
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert_eq!(rows, (false, false));
    assert_eq!(recovery.restored, None);
    // The store has made some of its own beside the two.
    let lost = recovery.lost.unwrap();
    assert!(
        lost >= 2 && recovery.to_string().contains(&format!("starts empty, and {lost} commits are lost")),
        "{recovery}"
    );
}

/// A database that is not opened while this lives: opening a pipe waits for a writer that never comes.
struct Stuck<'a>(&'a Path);

impl<'a> Stuck<'a> {
    fn new(dir: &'a Path) -> Self {
        fs::rename(dir.join("db/conf"), dir.join("conf")).unwrap();
        nix::unistd::mkfifo(&dir.join("db/conf"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        Self(dir)
    }
}

impl Drop for Stuck<'_> {
    fn drop(&mut self) {
        fs::rename(self.0.join("conf"), self.0.join("db/conf")).unwrap();
        // Held by the thread that never comes to its end, as long as its process lives.
        fs::remove_file(self.0.join("db.lock")).unwrap();
    }
}

#[tokio::test]
async fn a_database_that_does_not_open_in_time_is_no_damaged_one() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let hasty = StoreOptions { open_timeout: Duration::from_millis(300), ..options() };
    for time in 1..6 {
        let _stuck = Stuck::new(dir.path());
        let refused = Store::open(dir.path(), hasty.clone()).unwrap_err();
        assert!(matches!(refused, StoreError::OpenTimedOut { times, .. } if times == time), "{refused:?}");
        let told = refused.to_string();
        assert!(told.contains("store.open_timeout") && told.contains("restores the newest backup"), "{told}");
        assert_eq!(told.contains(&format!("at {time} starts in a row")), time > 1, "{told}");
        let again = Store::open(dir.path(), hasty.clone());
        assert!(matches!(again, Err(StoreError::Locked { .. })), "nobody goes on beside the thread: {again:?}");
    }
    let store = open_sled(dir.path());
    assert_eq!(has(&store).await, (true, true), "all of it is there once the disk is fast again");
    store.close().await.unwrap();

    // What to do about one that never opens.
    drop({
        let stuck = Stuck::new(dir.path());
        let refused = Store::open(dir.path(), hasty).unwrap_err();
        assert!(matches!(refused, StoreError::OpenTimedOut { times: 1, .. }), "{refused:?}");
        stuck
    });
    fs::rename(dir.path().join(DATABASE), dir.path().join("aside")).unwrap();
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert_eq!((recovery.cause, rows), (RecoveryCause::Missing, (true, true)));
}

#[tokio::test]
async fn a_start_that_is_ended_while_it_opens_the_database_counts_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let ended = options();
    ended.cancelled.cancel();
    for _ in 0..5 {
        let _stuck = Stuck::new(dir.path());
        assert!(matches!(Store::open(dir.path(), ended.clone()), Err(StoreError::Cancelled)));
    }
    let store = open_sled(dir.path());
    assert_eq!(has(&store).await, (true, true));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_database_that_kills_the_process_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let notes = dir.path().join("db.trouble");
    fs::write(&notes, r#"{"unfinished_opens":2}"#).unwrap();
    let store = open_sled(dir.path());
    store.close().await.unwrap();
    fs::write(&notes, r#"{"unfinished_opens":3}"#).unwrap();
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert_eq!(recovery.cause, RecoveryCause::NeverOpened);
    assert_eq!(rows, (true, true));
}

#[tokio::test]
async fn a_database_that_failed_in_use_is_replaced_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    recovery_file::RecoveryFile::in_dir(dir.path()).record_failure("a page was wrong");
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert!(matches!(&recovery.cause, RecoveryCause::FailedWhileRunning { reason } if reason == "a page was wrong"));
    assert_eq!(rows, (true, true));
}

#[tokio::test]
async fn files_gone_from_the_database_do_not_pass_for_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    fs::remove_dir_all(dir.path().join(DATABASE)).unwrap();
    fs::create_dir(dir.path().join(DATABASE)).unwrap();
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert!(matches!(&recovery.cause, RecoveryCause::Damaged { reason } if reason.contains("version")));
    assert_eq!(rows, (true, true));
}

#[tokio::test]
async fn a_missing_database_is_restored_not_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    fs::remove_dir_all(dir.path().join(DATABASE)).unwrap();
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert_eq!(recovery.cause, RecoveryCause::Missing);
    assert_eq!(recovery.quarantined, None);
    assert_eq!(rows, (true, true));
}

#[tokio::test]
async fn an_interrupted_replacement_is_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path()).await;
    let quarantined = dir.path().join("db.corrupt-1");
    fs::rename(dir.path().join(DATABASE), &quarantined).unwrap();
    let pending = serde_json::json!({ "replacing": [{ "kind": "never_opened" }, quarantined] });
    fs::write(dir.path().join("db.trouble"), pending.to_string()).unwrap();
    fs::create_dir(dir.path().join("db.new")).unwrap();
    let (recovery, rows) = recovered(dir.path(), &options()).await;
    assert_eq!(recovery.cause, RecoveryCause::NeverOpened);
    assert_eq!(recovery.quarantined, Some(quarantined));
    assert_eq!(rows, (true, true));
}

#[tokio::test]
async fn the_data_is_one_instances_until_it_is_restored_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dump");
    let store = open_sled(dir.path());
    store.claim("0123456789ab").await.unwrap();
    store.claim("0123456789ab").await.unwrap();
    put(&store, Table::Meta, NAMES_KEY_CHECK.as_bytes(), b"check").await;
    let names_key = async |store: &Store| store.get(Table::Meta, NAMES_KEY_CHECK.as_bytes()).await.unwrap();
    let refused = store.claim("ba9876543210").await.unwrap_err();
    let told = refused.to_string();
    for part in ["of the instance 0123456789ab", "that of ba9876543210", "put the file of 0123456789ab back"] {
        assert!(told.contains(part), "{told}");
    }
    store.backup().await.unwrap();
    put(&store, Table::Keys, b"new", b"1").await;
    store.dump(&file, &[]).await.unwrap();
    store.close().await.unwrap();
    // Damage makes it nobody else's.
    fs::write(dir.path().join("db/db"), b"").unwrap();
    let opened = Store::open(dir.path(), options()).unwrap();
    assert!(opened.recovery.is_some());
    assert!(matches!(opened.store.claim("ba9876543210").await, Err(StoreError::OtherInstance { .. })));
    assert!(names_key(&opened.store).await.is_some());
    opened.store.close().await.unwrap();
    // On another machine, or where the file is lost for good.
    restore(dir.path(), &file, &[]).unwrap();
    let store = open_sled(dir.path());
    assert!(names_key(&store).await.is_none(), "nor does it hold anybody to a key of patients' names");
    store.claim("ba9876543210").await.unwrap();
    assert!(matches!(store.claim("0123456789ab").await, Err(StoreError::OtherInstance { .. })));
    store.close().await.unwrap();
}

#[tokio::test]
async fn data_that_went_back_says_so_until_that_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dump");
    let settle = async |store: &Store| {
        let mut batch = Batch::new();
        batch.settle_going_back();
        store.commit(batch, Durability::Power).await.unwrap();
        assert!(!store.went_back().await.unwrap());
        store.close().await.unwrap();
    };
    let store = open_sled(dir.path());
    assert!(!store.went_back().await.unwrap());
    store.backup().await.unwrap();
    store.dump(&file, &[]).await.unwrap();
    store.close().await.unwrap();

    // Nothing is lost: what it has was carried over.
    recovery_file::RecoveryFile::in_dir(dir.path()).record_failure("a page was wrong");
    let opened = Store::open(dir.path(), options()).unwrap();
    assert_eq!(opened.recovery.unwrap().lost, Some(0));
    assert!(!opened.store.went_back().await.unwrap());
    put(&opened.store, Table::Keys, b"new", b"1").await;
    opened.store.close().await.unwrap();

    fs::write(dir.path().join("db/db"), b"").unwrap();
    fs::remove_dir_all(dir.path().join(KEPT_LOG)).unwrap();
    let opened = Store::open(dir.path(), options()).unwrap();
    assert_ne!(opened.recovery.unwrap().lost, Some(0));
    opened.store.close().await.unwrap();
    let store = open_sled(dir.path());
    assert!(store.went_back().await.unwrap(), "also at the start after that");
    settle(&store).await;
    restore(dir.path(), &file, &[]).unwrap();
    let store = open_sled(dir.path());
    assert!(store.went_back().await.unwrap());
    settle(&store).await;
}

#[tokio::test]
async fn damaged_dumps_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    sample(&data).await;
    let store = open_sled(&data);
    let file = dir.path().join("dump");
    store.dump(&file, &[]).await.unwrap();
    store.close().await.unwrap();
    let good = fs::read(&file).unwrap();
    let mut random = Random::seeded("WARMPOOL_DUMP_SEED");
    for round in 0..60 {
        let mut bad = good.clone();
        let at = usize::try_from(random.below(good.len() as u64)).unwrap();
        match round % 3 {
            0 => bad.truncate(at),
            1 => bad[at] ^= 1 << random.below(8),
            _ => bad.extend_from_slice(b"more"),
        }
        fs::write(&file, &bad).unwrap();
        assert!(
            matches!(restore(&data, &file, &[]), Err(StoreError::Backup { .. } | StoreError::NewerSchema { .. })),
            "round {round}, byte {at}"
        );
    }
    let store = open_sled(&data);
    assert_eq!(has(&store).await, (true, true));
    store.close().await.unwrap();
    fs::write(&file, &good).unwrap();
    restore(&data, &file, &[]).unwrap();
    assert_eq!(has(&open_sled(&data)).await, (true, true));
    let replaced = fs::read_dir(&data)
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("db.replaced-")
        })
        .count();
    assert_eq!(replaced, 1, "the old database is kept");
}

#[tokio::test]
async fn backups_are_made_when_due() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    put(&store, Table::Keys, b"old", b"1").await;
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(run_backups(store.clone(), stop.clone()));
    for _ in 0..2000 {
        if !backup_folder::list(dir.path()).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    running.await.unwrap();
    assert_eq!(backup_folder::list(dir.path()).len(), 1);
    store.close().await.unwrap();
}

#[tokio::test]
async fn no_backup_is_made_by_the_clock_where_nothing_was_committed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    put(&store, Table::Keys, b"old", b"1").await;
    let first = store.backup_if_changed().await.unwrap().unwrap().path;
    let (apart, by_order) = (backup_folder::apart(dir.path()), dir.path().join("dump"));
    let long_ago = SystemTime::UNIX_EPOCH;
    fs::File::open(&first).unwrap().set_modified(long_ago).unwrap();
    // As where the attempt that wrote the backup failed at this.
    fs::remove_file(&apart).unwrap();
    assert_eq!(store.backup_if_changed().await.unwrap(), None);
    assert!(fs::metadata(&first).unwrap().modified().unwrap() > long_ago, "it is as good as new");
    assert!(apart.exists());
    store.dump(&by_order, &[]).await.unwrap();
    assert!(by_order.exists(), "whoever asks for one gets one");
    store.close().await.unwrap();

    let store = open_sled(dir.path());
    assert_eq!(store.backup_if_changed().await.unwrap(), None, "a start commits nothing");
    put(&store, Table::Keys, b"new", b"2").await;
    let second = store.backup_if_changed().await.unwrap().unwrap().path;
    assert_eq!(store.backup_if_changed().await.unwrap(), None);
    let kept: Vec<_> = backup_folder::list(dir.path()).into_iter().map(|(_, path)| path).collect();
    assert_eq!(kept, [second, first]);
    store.close().await.unwrap();
    // The newest backup is one of another history where somebody has put the files of another daemon here.
    fs::remove_file(dir.path().join(JOURNAL)).unwrap();
    let store = open_sled(dir.path());
    assert!(store.backup_if_changed().await.unwrap().is_some());
    store.close().await.unwrap();
}

/// Each commit moves a value from one key to the next; a dump must never see it at two, or at none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_during_commits_is_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(&dir.path().join("data"));
    for number in 0..1000_u64 {
        put(&store, Table::Sessions, &number.to_be_bytes(), b"filler").await;
    }
    let place = |step: u64| (step * 619 % 1009).to_be_bytes();
    let stop = tokio_util::sync::CancellationToken::new();
    put(&store, Table::Keys, &place(0), b"token").await;
    let mover = tokio::spawn({
        let (store, stop) = (store.clone(), stop.clone());
        async move {
            let mut step = 0;
            while !stop.is_cancelled() {
                let mut batch = Batch::new();
                batch.delete(Table::Keys, place(step)).put(Table::Keys, place(step + 1), *b"token").put(
                    Table::Meta,
                    *b"step",
                    (step + 1).to_be_bytes(),
                );
                store.commit(batch, Durability::Process).await.unwrap();
                step += 1;
            }
            step
        }
    });
    for round in 0..5 {
        let file = dir.path().join(format!("dump-{round}"));
        store.dump(&file, &[]).await.unwrap();
        let copy_dir = dir.path().join(format!("copy-{round}"));
        restore(&copy_dir, &file, &[]).unwrap();
        let copy = open_sled(&copy_dir);
        let keys = copy.scan(Table::Keys, KeyRange::all(), 9).await.unwrap();
        assert_eq!(keys.len(), 1, "{keys:?}");
        if let Some(step) = copy.get(Table::Meta, b"step").await.unwrap() {
            let step = u64::from_be_bytes(step.try_into().unwrap());
            assert_eq!(keys[0].key, place(step));
        }
        copy.close().await.unwrap();
    }
    stop.cancel();
    assert!(mover.await.unwrap() > 0);
    store.close().await.unwrap();
}
