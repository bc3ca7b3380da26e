//! What was taken away for good does not come back, by whatever way an older state does.

use std::fs;

use super::super::backend::Backend as _;
use super::super::batch::Op;
use super::super::dump::fuzzing::sealed;
use super::super::layout::{DATABASE, JOURNAL, KEPT_LOG, MARK};
use super::super::mark::mark_another_boot;
use super::super::recovery_file::RecoveryCause;
use super::super::sled::SledBackend;
use super::super::{backup_folder, kept_log, record};
use super::*;
use warmpool_core::clock::{Deadline, Now};

/// A key that is revoked and a patient who is deleted, both of which a backup, and the dump that is returned, still have.
async fn sample(dir: &Path) -> (Store, std::path::PathBuf) {
    let store = open_sled(dir);
    put(&store, Table::Keys, b"key", b"active").await;
    for table in [Table::Patients, Table::PatientKeys] {
        put(&store, table, b"ann", b"Ann's").await;
        put(&store, table, b"bob", b"Bob's").await;
    }
    store.backup().await.unwrap();
    let file = dir.join("before.tar");
    store.dump(&file, &[]).await.unwrap();
    let mut batch = Batch::new();
    batch.put(Table::Keys, *b"key", *b"revoked").irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
    let mut batch = Batch::new();
    batch.delete(Table::Patients, *b"ann").delete(Table::PatientKeys, *b"ann").irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
    (store, file)
}

async fn value(store: &Store, table: Table, key: &[u8]) -> Option<String> {
    store.get(table, key).await.unwrap().map(|value| String::from_utf8(value).unwrap())
}

async fn nothing_came_back(store: &Store) {
    assert_eq!(value(store, Table::Keys, b"key").await.as_deref(), Some("revoked"));
    for table in [Table::Patients, Table::PatientKeys] {
        assert_eq!(value(store, table, b"ann").await, None, "{table}");
    }
}

fn damage(dir: &Path) {
    fs::write(dir.join(DATABASE).join("db"), b"").unwrap();
}

fn backups(dir: &Path) -> Vec<std::path::PathBuf> {
    backup_folder::list(dir).into_iter().map(|(_, path)| path).collect()
}

#[tokio::test]
async fn no_recovery_and_no_restored_backup_brings_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = sample(dir.path()).await;
    put(&store, Table::Sessions, b"later", b"x").await;
    store.close().await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), copy.path());

    damage(copy.path());
    let opened = Store::open(copy.path(), options()).unwrap();
    nothing_came_back(&opened.store).await;
    let recovery = opened.recovery.unwrap();
    assert_eq!((recovery.from_log, recovery.replayed, recovery.lost), (3, 0, Some(0)), "{recovery}");
    opened.store.close().await.unwrap();

    damage(dir.path());
    fs::remove_dir_all(dir.path().join(KEPT_LOG)).unwrap();
    let opened = Store::open(dir.path(), options()).unwrap();
    nothing_came_back(&opened.store).await;
    assert_eq!(value(&opened.store, Table::PatientKeys, b"bob").await.as_deref(), Some("Bob's"));
    let recovery = opened.recovery.unwrap();
    assert_eq!((recovery.replayed, recovery.lost), (2, Some(1)), "{recovery}");
    assert!(recovery.to_string().contains("later changes are lost: 1 commits"), "{recovery}");
    opened.store.close().await.unwrap();

    restore(dir.path(), &file, &[]).unwrap();
    let store = open_sled(dir.path());
    nothing_came_back(&store).await;
    assert_eq!(value(&store, Table::PatientKeys, b"bob").await.as_deref(), Some("Bob's"));
    store.close().await.unwrap();

    fs::remove_dir_all(dir.path().join("backups")).unwrap();
    damage(dir.path());
    let opened = Store::open(dir.path(), options()).unwrap();
    nothing_came_back(&opened.store).await;
    assert_eq!(opened.recovery.unwrap().restored, None);
    opened.store.close().await.unwrap();
}

#[tokio::test]
async fn what_was_made_anew_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = sample(dir.path()).await;
    for table in [Table::Patients, Table::PatientKeys] {
        put(&store, table, b"ann", b"another Ann's").await;
    }
    store.backup().await.unwrap();
    store.close().await.unwrap();
    for _ in 0..2 {
        damage(dir.path());
        let opened = Store::open(dir.path(), options()).unwrap();
        assert!(opened.recovery.is_some());
        for table in [Table::Patients, Table::PatientKeys] {
            assert_eq!(value(&opened.store, table, b"ann").await.as_deref(), Some("another Ann's"));
        }
        opened.store.close().await.unwrap();
    }
}

#[tokio::test]
async fn patients_keys_are_in_no_backup_and_deleted_ones_in_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = sample(dir.path()).await;
    store.backup().await.unwrap();
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    for path in backups(dir.path()).into_iter().chain([file.clone()]) {
        assert!(!text(&path).contains("patient_keys"), "{}", path.display());
    }
    let apart = text(&backup_folder::apart(dir.path()));
    assert!(apart.contains("Ym9i") && !apart.contains("YW5u"), "Bob's key alone: {apart}");
    store.close().await.unwrap();

    let elsewhere = tempfile::tempdir().unwrap();
    restore(elsewhere.path(), &file, &[]).unwrap();
    let store = open_sled(elsewhere.path());
    assert_eq!(value(&store, Table::Patients, b"ann").await.as_deref(), Some("Ann's"), "unreadable without a key");
    assert_eq!(value(&store, Table::PatientKeys, b"ann").await, None);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_database_that_went_back_is_noticed_and_its_content_carried_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    put(&store, Table::Keys, b"key", b"active").await;
    store.backup().await.unwrap();
    put(&store, Table::Sessions, b"newer than the backup", b"x").await;
    let earlier = dir.path().join("earlier");
    copy_dir(&dir.path().join(DATABASE), &earlier);
    let mut batch = Batch::new();
    batch.put(Table::Keys, *b"key", *b"revoked").irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
    put(&store, Table::Sessions, b"lost", b"x").await;
    store.close().await.unwrap();

    fs::remove_dir_all(dir.path().join(DATABASE)).unwrap();
    fs::rename(&earlier, dir.path().join(DATABASE)).unwrap();
    fs::remove_dir_all(dir.path().join(KEPT_LOG)).unwrap();
    let opened = Store::open(dir.path(), options()).unwrap();
    let recovery = opened.recovery.unwrap();
    assert!(matches!(recovery.cause, RecoveryCause::Behind { found, expected } if found + 2 == expected), "{recovery}");
    assert_eq!((recovery.replayed, recovery.lost), (1, Some(1)), "{recovery}");
    assert!(value(&opened.store, Table::Sessions, b"newer than the backup").await.is_some());
    assert!(value(&opened.store, Table::Sessions, b"lost").await.is_none());
    assert_eq!(value(&opened.store, Table::Keys, b"key").await.as_deref(), Some("revoked"));
    opened.store.close().await.unwrap();
    open_sled(dir.path()).close().await.unwrap();
}

#[tokio::test]
async fn a_database_that_went_back_further_than_a_backup_gives_way_to_it_also_without_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let (database, earlier) = (dir.path().join(DATABASE), dir.path().join("earlier"));
    let store = open_sled(dir.path());
    copy_dir(&database, &earlier);
    put(&store, Table::Keys, b"key", b"active").await;
    store.backup().await.unwrap();
    put(&store, Table::Sessions, b"lost", b"x").await;
    store.close().await.unwrap();
    fs::remove_dir_all(&database).unwrap();
    fs::rename(&earlier, &database).unwrap();
    fs::remove_file(dir.path().join(JOURNAL)).unwrap();
    let opened = Store::open(dir.path(), options()).unwrap();
    let recovery = opened.recovery.unwrap();
    assert!(matches!(recovery.cause, RecoveryCause::Behind { .. }), "{recovery}");
    assert_eq!(value(&opened.store, Table::Keys, b"key").await.as_deref(), Some("active"), "{recovery}");
    assert_eq!(recovery.lost, Some(1), "{recovery}");
    opened.store.close().await.unwrap();
}

/// After loss of power a database has fewer commits than the backup that was made before it.
#[tokio::test]
async fn no_commit_gets_the_number_of_one_that_a_backup_has() {
    for has_mark in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (database, mark, earlier) = (dir.path().join(DATABASE), dir.path().join(MARK), dir.path().join("earlier"));
        let store = open_sled(dir.path());
        put(&store, Table::Keys, b"key", b"active").await;
        copy_dir(&database, &earlier);
        for number in 0..20_u8 {
            put(&store, Table::Sessions, &[number], b"x").await;
        }
        if !has_mark {
            store.backup().await.unwrap();
        }
        store.close().await.unwrap();
        fs::remove_dir_all(&database).unwrap();
        fs::rename(&earlier, &database).unwrap();
        match has_mark {
            true => mark_another_boot(dir.path()),
            // The log beside the backup would say how far the database had come.
            false => {
                fs::remove_file(&mark).unwrap();
                kept_log::forget_all(dir.path());
            }
        }
        let store = open_sled(dir.path());
        let mut batch = Batch::new();
        batch.put(Table::Keys, *b"key", *b"revoked").irrevocable();
        store.commit(batch, Durability::Process).await.unwrap();
        store.close().await.unwrap();
        // Twice: the first start has written what the second one finds.
        open_sled(dir.path()).close().await.unwrap();
        let journal = fs::read_to_string(dir.path().join(JOURNAL)).unwrap();
        let (_, json) = journal.lines().last().unwrap().split_once(' ').unwrap();
        let line: serde_json::Value = serde_json::from_str(json).unwrap();
        assert!(line["n"].as_u64().unwrap() > 20, "{json}");
        if !has_mark {
            damage(dir.path());
            let opened = Store::open(dir.path(), options()).unwrap();
            assert!(opened.recovery.unwrap().restored.is_some());
            assert_eq!(value(&opened.store, Table::Keys, b"key").await.as_deref(), Some("revoked"));
            opened.store.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_journal_stays_small_and_is_made_again_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(JOURNAL);
    let length = || fs::metadata(&path).unwrap().len();
    let store = open_sled(dir.path());
    let large = |number: u8| [vec![number], vec![b'x'; 60_000]].concat();
    let mut batch = Batch::new();
    batch.put(Table::Keys, *b"key", *b"revoked").irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
    for number in 0..60 {
        let mut batch = Batch::new();
        batch.put(Table::Worlds, [number % 2], large(number)).irrevocable();
        store.commit(batch, Durability::Process).await.unwrap();
    }
    store.close().await.unwrap();
    assert!(length() < 2 << 20, "{} bytes", length());

    // As a release left it that keeps every line.
    let small = fs::read_to_string(&path).unwrap();
    let (head, lines) = small.split_once('\n').unwrap();
    fs::write(&path, format!("{head}\n{}", lines.repeat(9))).unwrap();
    open_sled(dir.path()).close().await.unwrap();
    let grown = length();
    assert!(grown > 2 << 20, "numbers that go back are none of its own");
    let last = lines.lines().next_back().unwrap();
    fs::write(&path, format!("{small}{}", format!("{last}\n").repeat(40))).unwrap();
    open_sled(dir.path()).close().await.unwrap();
    assert!(length() < 1 << 20, "{} bytes", length());

    damage(dir.path());
    let opened = Store::open(dir.path(), options()).unwrap();
    assert!(opened.recovery.is_some());
    assert_eq!(value(&opened.store, Table::Keys, b"key").await.as_deref(), Some("revoked"));
    for number in [58, 59] {
        let kept = opened.store.get(Table::Worlds, &[number % 2]).await.unwrap();
        assert_eq!(kept, Some(large(number)));
    }
    opened.store.close().await.unwrap();
}

/// How many lines the journal has, with its head.
fn journal_lines(dir: &Path) -> usize {
    fs::read_to_string(dir.join(JOURNAL)).unwrap().lines().count()
}

async fn delete_for_good(store: &Store, table: Table, key: &[u8]) {
    let mut batch = Batch::new();
    batch.delete(table, key).irrevocable();
    store.commit(batch, Durability::Process).await.unwrap();
}

#[tokio::test]
async fn rows_that_no_dump_has_leave_nothing_in_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("before.tar");
    let store = open_sled(dir.path());
    put(&store, Table::Profiles, b"old", b"x").await;
    store.dump(&file, &[]).await.unwrap();
    for number in 0..50_u8 {
        put(&store, Table::Profiles, &[number], b"x").await;
        delete_for_good(&store, Table::Profiles, &[number]).await;
    }
    delete_for_good(&store, Table::Profiles, b"old").await;
    store.close().await.unwrap();
    let store = open_sled(dir.path());
    assert_eq!(journal_lines(dir.path()), 52, "the database may lose its end");
    store.backup().await.unwrap();
    store.close().await.unwrap();
    open_sled(dir.path()).close().await.unwrap();
    assert_eq!(journal_lines(dir.path()), 2, "its head, and what an older dump brings back");
    restore(dir.path(), &file, &[]).unwrap();
    let store = open_sled(dir.path());
    assert_eq!(value(&store, Table::Profiles, b"old").await, None);
    store.close().await.unwrap();
}

#[tokio::test]
async fn without_backups_a_start_takes_them_out_of_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let (before, between) = (dir.path().join("before.tar"), dir.path().join("between.tar"));
    let open = || Store::open(dir.path(), StoreOptions { backups_kept: 0, ..options() }).unwrap().store;
    let store = open();
    put(&store, Table::Profiles, b"old", b"x").await;
    store.dump(&before, &[]).await.unwrap();
    for number in 0..50_u8 {
        put(&store, Table::Profiles, &[number], b"x").await;
        delete_for_good(&store, Table::Profiles, &[number]).await;
    }
    delete_for_good(&store, Table::Profiles, b"old").await;
    put(&store, Table::Profiles, b"young", b"x").await;
    store.dump(&between, &[]).await.unwrap();
    delete_for_good(&store, Table::Profiles, b"young").await;
    assert_eq!(journal_lines(dir.path()), 53, "the database may lose its end");
    store.close().await.unwrap();
    open().close().await.unwrap();
    assert_eq!(journal_lines(dir.path()), 3, "its head, and what dumps elsewhere bring back");
    for dump in [&before, &between] {
        restore(dir.path(), dump, &[]).unwrap();
        let store = open();
        assert_eq!(store.scan(Table::Profiles, KeyRange::all(), 9).await.unwrap(), []);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_can_matter_no_more_leaves_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    let ends = |seconds| Deadline::after(Duration::from_secs(seconds), &Now::read());
    for (key, until) in [(b"a", ends(0)), (b"b", ends(3600))] {
        let mut batch = Batch::new();
        batch.put(Table::Sessions, *key, *b"an address").irrevocable_until(until);
        store.commit(batch, Durability::Process).await.unwrap();
    }
    // As an earlier release kept it.
    delete_for_good(&store, Table::SignIns, b"c").await;
    delete_for_good(&store, Table::Keys, b"d").await;
    store.close().await.unwrap();
    open_sled(dir.path()).close().await.unwrap();
    assert_eq!(journal_lines(dir.path()), 3, "its head, and the second and the last one");
}

#[tokio::test]
async fn no_backup_brings_sign_ins_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    put(&store, Table::SignIns, b"a", b"x").await;
    store.backup().await.unwrap();
    let path = backups(dir.path()).remove(0);
    assert!(!fs::read_to_string(&path).unwrap().contains("sign_ins"));
    store.close().await.unwrap();
    // As an earlier release made it.
    let rows = b"{\"t\":\"sign_ins\",\"k\":\"YQ==\",\"v\":\"eA==\"}\n{\"t\":\"keys\",\"k\":\"YQ==\",\"v\":\"eA==\"}\n";
    fs::write(path, sealed(rows)).unwrap();
    damage(dir.path());
    let opened = Store::open(dir.path(), options()).unwrap();
    assert_eq!(opened.recovery.unwrap().unusable, [""; 0]);
    assert_eq!(value(&opened.store, Table::Keys, b"a").await.as_deref(), Some("x"));
    assert_eq!(value(&opened.store, Table::SignIns, b"a").await, None);
    opened.store.close().await.unwrap();
}

#[tokio::test]
async fn a_record_that_is_gone_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    put(&store, Table::Keys, b"a", b"1").await;
    store.backup().await.unwrap();
    put(&store, Table::Keys, b"b", b"1").await;
    store.close().await.unwrap();
    let mut backend = SledBackend::open(&dir.path().join(DATABASE)).unwrap();
    backend.apply(&[Op { table: Table::Keys, key: b"a".to_vec(), value: None }]).unwrap();
    backend.flush().unwrap();
    drop(backend);
    let opened = Store::open(dir.path(), options()).unwrap();
    let recovery = opened.recovery.unwrap();
    assert!(matches!(&recovery.cause, RecoveryCause::Damaged { reason } if reason.contains("missing")), "{recovery}");
    assert_eq!(value(&opened.store, Table::Keys, b"a").await.as_deref(), Some("1"));
    opened.store.close().await.unwrap();
}

#[tokio::test]
async fn without_its_mark_a_database_opens() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = sample(dir.path()).await;
    store.close().await.unwrap();
    for mark in [None, Some(&b"nonsense"[..])] {
        match mark {
            None => fs::remove_file(dir.path().join(MARK)).unwrap(),
            Some(nonsense) => fs::write(dir.path().join(MARK), nonsense).unwrap(),
        }
        let store = open_sled(dir.path());
        nothing_came_back(&store).await;
        store.close().await.unwrap();
    }
}

/// As a release before the ledger left it.
#[tokio::test]
async fn backups_that_hold_patients_keys_go_once_there_is_a_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(DATABASE)).unwrap();
    let mut backend = SledBackend::open(&dir.path().join(DATABASE)).unwrap();
    let row =
        |table, key: &[u8], value: &[u8]| Op { table, key: key.to_vec(), value: Some(record::seal(table, key, value)) };
    let patient = row(Table::Patients, b"ann", br#"{"key":"Ann's","identity":"x"}"#);
    backend.apply(&[row(Table::Meta, b"schema_version", &1_u32.to_be_bytes()), patient]).unwrap();
    backend.flush().unwrap();
    drop(backend);
    let store = open_sled(dir.path());
    assert_eq!(value(&store, Table::PatientKeys, b"ann").await.as_deref(), Some("Ann's"));
    let old = backups(dir.path());
    assert!(fs::read_to_string(&old[0]).unwrap().contains("patients"), "the state before is kept at first");
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(run_backups(store.clone(), stop.clone()));
    super::super::fault::until("the old one is gone", || !old[0].exists()).await;
    stop.cancel();
    running.await.unwrap();
    assert_eq!(backups(dir.path()).len(), 1);
    store.close().await.unwrap();
    open_sled(dir.path()).close().await.unwrap();
}
