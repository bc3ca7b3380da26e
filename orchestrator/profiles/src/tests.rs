//! Profiles over a store in memory and files in a folder of their own.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;
use warmpool_protocol::StorageState;

use super::*;
use warmpool_config::{Config, Flags, Host};
use warmpool_core::browser::Engine;
use warmpool_core::error::ServiceError;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;
use warmpool_store::fault::{Fault, FaultGate, FaultPoint, Faults, until};
use warmpool_store::{Batch, Durability, KeyRange, Store, StoreOptions, Table};

fn limits(settings: &[(&str, &str)]) -> warmpool_config::Profiles {
    let environment = settings.iter().map(|(name, value)| (format!("WARMPOOL_PROFILES_{name}"), (*value).to_owned()));
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    Config::resolve(None, environment, &Flags::default(), &host).unwrap().profiles.clone()
}

async fn opened(folder: &TempDir, store: &Store, settings: &[(&str, &str)]) -> Profiles {
    opened_by(7, folder, store, settings).await
}

/// Opens them with the key of this instance.
async fn opened_by(instance: u8, folder: &TempDir, store: &Store, settings: &[(&str, &str)]) -> Profiles {
    Profiles::open(limits(settings), folder.path(), 0, [instance; 32], store.clone()).await.unwrap()
}

fn owner() -> KeyId {
    "0123456789ab".parse().unwrap()
}

fn state(value: &str) -> StorageState {
    let cookie = json!({"name": "login", "value": value, "domain": "a.example", "path": "/"});
    serde_json::from_value(json!({"cookies": [cookie]})).unwrap()
}

fn write(name: &str) -> ProfileChoice {
    ProfileChoice { name: name.to_owned(), mode: ProfileMode::Write, kind: None }
}

fn read(name: &str) -> ProfileChoice {
    ProfileChoice { name: name.to_owned(), mode: ProfileMode::Read, kind: None }
}

fn numbers(profiles: &Profiles) -> Vec<u64> {
    profiles.list(|_| true)[0].versions.iter().map(|version| version.version).collect()
}

#[tokio::test]
async fn the_first_writer_makes_it_and_a_reader_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = opened(&folder, &Store::memory(), &[]).await;
    assert!(matches!(
        profiles.begin(&owner(), &read("shop"), Engine::Chromium).await,
        Err(Error::UnknownProfile { .. })
    ));
    let begun = profiles.begin(&owner(), &write("shop"), Engine::Chromium).await.unwrap();
    assert!(begun.state.is_none());
    let writer = begun.writer.unwrap();
    let session = SessionId::random();
    writer.belongs_to(&session);
    let Err(Error::ProfileInUse { holder, .. }) = profiles.begin(&owner(), &write("shop"), Engine::Chromium).await
    else {
        panic!()
    };
    assert!(holder.contains(session.as_str()), "{holder}");
    assert!(writer.save(&state("one")).await.unwrap());
    assert!(!writer.save(&state("one")).await.unwrap(), "nothing is new");
    assert!(writer.save(&state("two")).await.unwrap());
    assert_eq!(numbers(&profiles), [1], "the saves of a session replace each other");
    assert_eq!(profiles.begin(&owner(), &read("shop"), Engine::Chromium).await.unwrap().state, Some(state("two")));
    drop(writer);
    let other = "00000000000b".parse().unwrap();
    assert!(matches!(profiles.begin(&other, &read("shop"), Engine::Chromium).await, Err(Error::UnknownProfile { .. })));
    assert!(profiles.begin(&owner(), &write("shop"), Engine::Chromium).await.unwrap().writer.is_some());
}

#[tokio::test]
async fn versions_are_kept_and_rolled_back_to() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = opened(&folder, &Store::memory(), &[("KEEP_VERSIONS", "3")]).await;
    for value in ["one", "two", "three", "four"] {
        profiles.put(&owner(), "shop", &state(value)).await.unwrap();
    }
    assert_eq!(numbers(&profiles), [4, 3, 2]);
    assert!(matches!(profiles.state(&owner(), "shop", Some(1)).await, Err(Error::UnknownVersion { .. })));
    profiles.roll_back(&owner(), "shop", 2).await.unwrap();
    assert_eq!(numbers(&profiles), [5, 4, 3]);
    assert_eq!(profiles.state(&owner(), "shop", None).await.unwrap(), state("two"));
    let detail = profiles.detail(&owner(), "shop").await.unwrap();
    assert_eq!((detail.cookies[0].domain.as_str(), detail.cookies[0].cookies), ("a.example", 1));
    let folder = std::fs::read_dir(folder.path().join("profiles")).unwrap().next().unwrap().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "older files are gone");
}

#[tokio::test]
async fn limits_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("MAX_PER_KEY", "1"), ("MAX_SIZE", "64KiB")];
    let profiles = opened(&folder, &Store::memory(), &settings).await;
    profiles.put(&owner(), "shop", &state("one")).await.unwrap();
    let refused = profiles.put(&owner(), "shop", &state(&"x".repeat(70_000))).await.unwrap_err();
    assert!(refused.to_string().contains("profiles.max_size"), "{refused}");
    assert_eq!(profiles.state(&owner(), "shop", None).await.unwrap(), state("one"), "the old version stays");
    let refused = profiles.create(&owner(), "other", ProfileKind::State, None).await.unwrap_err();
    assert!(refused.to_string().contains("profiles.max_per_key"), "{refused}");
    assert!(matches!(
        profiles.create(&owner(), "shop", ProfileKind::State, None).await,
        Err(Error::ProfileExists { .. })
    ));
}

#[tokio::test]
async fn what_was_saved_is_there_after_a_restart_and_is_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::memory();
    opened(&folder, &store, &[]).await.put(&owner(), "shop", &state("correct horse")).await.unwrap();
    let inside = folder.path().join("profiles");
    let stray = inside.join("prf_nobody");
    std::fs::create_dir(&stray).unwrap();
    let profile =
        std::fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().path()).find(|path| *path != stray).unwrap();
    std::fs::write(profile.join("half.new"), b"half").unwrap();
    for file in std::fs::read_dir(&profile).unwrap() {
        assert!(!String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()).contains("horse"));
    }
    let again = opened(&folder, &store, &[]).await;
    assert_eq!(again.state(&owner(), "shop", None).await.unwrap(), state("correct horse"));
    assert!(!stray.exists() && !profile.join("half.new").exists(), "what no record names is removed");
}

#[tokio::test]
async fn a_start_with_the_wrong_key_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::memory();
    let profiles = opened(&folder, &store, &[]).await;
    profiles.put(&owner(), "shop", &state("one")).await.unwrap();
    profiles.put(&owner(), "bank", &state("two")).await.unwrap();
    let stray = folder.path().join("profiles/prf_nobody");
    std::fs::create_dir(&stray).unwrap();

    let wrong = opened_by(8, &folder, &store, &[]).await;
    assert!(wrong.list(|_| true).is_empty() && !stray.exists());
    let refused = [
        wrong.state(&owner(), "shop", None).await.map(drop),
        wrong.put(&owner(), "shop", &state("three")).await.map(drop),
        wrong.create(&owner(), "shop", ProfileKind::State, None).await.map(drop),
        wrong.begin(&owner(), &read("shop"), Engine::Chromium).await.map(drop),
        wrong.begin(&owner(), &write("shop"), Engine::Chromium).await.map(drop),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::Unreadable { .. })), "none takes its place: {refused:?}");
    }
    // Whose key is gone for good can be deleted, and made anew.
    wrong.delete(&owner(), "bank").await.unwrap();
    assert!(matches!(wrong.delete(&owner(), "bank").await, Err(Error::UnknownProfile { .. })));
    wrong.put(&owner(), "bank", &state("four")).await.unwrap();

    let again = opened(&folder, &store, &[]).await;
    assert_eq!(again.state(&owner(), "shop", None).await.unwrap(), state("one"));
    assert!(matches!(again.state(&owner(), "bank", None).await, Err(Error::Unreadable { .. })));
    assert_eq!(std::fs::read_dir(folder.path().join("profiles")).unwrap().count(), 2);
}

#[tokio::test]
async fn nothing_is_removed_while_a_record_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::memory();
    opened(&folder, &store, &[]).await.put(&owner(), "shop", &state("one")).await.unwrap();
    let row = |value: &'static str| {
        let mut batch = Batch::new();
        batch.put(Table::Profiles, format!("{}/odd", owner()), value);
        batch
    };
    store.commit(row("of another release"), Durability::Process).await.unwrap();
    let of_odd = folder.path().join("profiles/prf_odd");
    std::fs::create_dir(&of_odd).unwrap();
    let profiles = opened(&folder, &store, &[]).await;
    assert!(of_odd.exists());
    assert!(matches!(profiles.put(&owner(), "odd", &state("two")).await, Err(Error::Unreadable { .. })));
    profiles.delete(&owner(), "odd").await.unwrap();
    let profiles = opened(&folder, &store, &[]).await;
    assert!(!of_odd.exists(), "no row names it any more");
    assert_eq!(profiles.state(&owner(), "shop", None).await.unwrap(), state("one"));
}

#[tokio::test]
async fn a_recovery_without_the_file_of_keys_removes_no_profile() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options.clone()).unwrap().store;
    opened(&folder, &store, &[]).await.put(&owner(), "bank", &state("two")).await.unwrap();
    let backup = store.backup().await.unwrap().path;
    store.close().await.unwrap();
    std::fs::write(folder.path().join("db/db"), b"").unwrap();
    let (keys, aside) = (folder.path().join("backups/patient-keys.jsonl"), folder.path().join("keys"));
    std::fs::rename(&keys, &aside).unwrap();
    let store = Store::open(folder.path(), options.clone()).unwrap().store;
    assert!(opened(&folder, &store, &[]).await.list(|_| true).is_empty());
    store.close().await.unwrap();
    // The operator puts the file back, and restores the same backup.
    std::fs::rename(&aside, &keys).unwrap();
    warmpool_store::restore(folder.path(), &backup, &[]).unwrap();
    let store = Store::open(folder.path(), options).unwrap().store;
    let again = opened(&folder, &store, &[]).await;
    assert_eq!(again.state(&owner(), "bank", None).await.unwrap(), state("two"));
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_is_not_the_daemons_keeps_no_start_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::memory();
    opened(&folder, &store, &[]).await.put(&owner(), "shop", &state("one")).await.unwrap();
    let root = folder.path().join("profiles");
    let profile = std::fs::read_dir(&root).unwrap().next().unwrap().unwrap().path();
    std::fs::create_dir(root.join("lost+found")).unwrap();
    std::fs::create_dir(profile.join("folder")).unwrap();
    std::fs::write(root.join("notes.txt"), "by hand").unwrap();
    let again = opened(&folder, &store, &[]).await;
    assert_eq!(again.state(&owner(), "shop", None).await.unwrap(), state("one"));
    assert!(root.join("lost+found").exists() && root.join("notes.txt").exists());
}

#[tokio::test]
async fn a_deleted_profile_comes_back_from_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options.clone()).unwrap().store;
    let profiles = opened(&folder, &store, &[]).await;
    profiles.put(&owner(), "shop", &state("one")).await.unwrap();
    profiles.put(&owner(), "bank", &state("two")).await.unwrap();
    store.backup().await.unwrap();
    let writer = profiles.begin(&owner(), &write("shop"), Engine::Chromium).await.unwrap().writer;
    assert!(matches!(profiles.delete(&owner(), "shop").await, Err(Error::ProfileInUse { .. })));
    drop(writer);
    profiles.delete(&owner(), "shop").await.unwrap();
    // A save after the backup: its record is lost with the database, its file is not.
    profiles.put(&owner(), "bank", &state("three")).await.unwrap();
    store.close().await.unwrap();
    std::fs::write(folder.path().join("db/db"), b"").unwrap();
    let recovered = Store::open(folder.path(), options).unwrap();
    assert!(recovered.recovery.is_some());
    let again = opened(&folder, &recovered.store, &[("KEEP_VERSIONS", "1")]).await;
    let names: Vec<String> = again.list(|_| true).into_iter().map(|profile| profile.name).collect();
    assert_eq!(names, ["bank"]);
    recovered.store.close().await.unwrap();
}

#[tokio::test]
async fn a_profile_is_put_together_from_its_files_where_its_record_is_older() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options.clone()).unwrap().store;
    let profiles = opened(&folder, &store, &[("KEEP_VERSIONS", "1")]).await;
    profiles.put(&owner(), "bank", &state("two")).await.unwrap();
    store.backup().await.unwrap();
    profiles.put(&owner(), "bank", &state("three")).await.unwrap();
    store.close().await.unwrap();
    std::fs::write(folder.path().join("db/db"), b"").unwrap();
    let recovered = Store::open(folder.path(), options).unwrap();
    let again = opened(&folder, &recovered.store, &[("KEEP_VERSIONS", "1")]).await;
    assert_eq!(again.state(&owner(), "bank", None).await.unwrap(), state("three"));
    recovered.store.close().await.unwrap();
}

#[tokio::test]
async fn versions_that_are_newer_than_a_restored_record_are_kept_beside_the_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options.clone()).unwrap().store;
    let profiles = opened(&folder, &store, &[]).await;
    profiles.put(&owner(), "bank", &state("one")).await.unwrap();
    store.backup().await.unwrap();
    profiles.put(&owner(), "bank", &state("two")).await.unwrap();
    profiles.put(&owner(), "bank", &state("three")).await.unwrap();
    store.close().await.unwrap();
    std::fs::write(folder.path().join("db/db"), b"").unwrap();
    let recovered = Store::open(folder.path(), options).unwrap();
    let again = opened(&folder, &recovered.store, &[]).await;
    assert_eq!(again.state(&owner(), "bank", None).await.unwrap(), state("three"));
    assert_eq!(numbers(&again), [3, 2, 1]);
    assert_eq!(again.state(&owner(), "bank", Some(1)).await.unwrap(), state("one"));
    recovered.store.close().await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_replaced_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::memory();
    let profiles = opened(&folder, &store, &[]).await;
    profiles.put(&owner(), "bank", &state("one")).await.unwrap();
    let inside = std::fs::read_dir(folder.path().join("profiles")).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(&inside).unwrap().next().unwrap().unwrap();
    // As when the daemon is killed before it has removed what a save replaced.
    let stale = inside.join(warmpool_core::ids::ProfileId::random().as_str());
    std::fs::copy(file.path(), &stale).unwrap();
    let past = std::time::SystemTime::now() - Duration::from_secs(60);
    std::fs::File::options().write(true).open(&stale).unwrap().set_modified(past).unwrap();
    let again = opened(&folder, &store, &[]).await;
    assert_eq!(numbers(&again), [1]);
    assert!(!stale.exists());
}

#[tokio::test]
async fn a_name_that_was_promised_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = opened(&folder, &Store::memory(), &[("MAX_PER_KEY", "1")]).await;
    let first = profiles.begin(&owner(), &write("one"), Engine::Chromium).await.unwrap().writer.unwrap();
    let refused = profiles.begin(&owner(), &write("two"), Engine::Chromium).await.unwrap_err();
    assert!(matches!(refused, Error::ProfileLimit { .. }), "{refused}");
    assert!(matches!(profiles.put(&owner(), "three", &state("x")).await, Err(Error::ProfileLimit { .. })));
    first.save(&state("one")).await.unwrap();
    drop(first);
    assert!(profiles.begin(&owner(), &write("one"), Engine::Chromium).await.is_ok());
}

#[tokio::test]
async fn two_who_make_one_profile_get_one_answer_each() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = opened(&folder, &Store::memory(), &[]).await;
    let owner = owner();
    let make = || profiles.create(&owner, "shop", ProfileKind::State, None);
    let made = [make(), make(), make()];
    let made: Vec<_> = futures_util::future::join_all(made).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
}

#[tokio::test]
async fn the_profiles_of_a_key_share_their_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::memory();
    let profiles = opened(&folder, &store, &[("MAX_TOTAL", "64KiB")]).await;
    let (owner, stranger) = (owner(), "ba9876543210".parse().unwrap());
    let large = |letter: &str| state(&letter.repeat(30_000));
    profiles.put(&owner, "shop", &large("a")).await.unwrap();
    profiles.put(&owner, "shop", &large("b")).await.unwrap();
    profiles.put(&owner, "shop", &large("c")).await.unwrap();
    assert_eq!(numbers(&profiles), [3, 2], "the oldest version gave way");
    for attempt in [
        profiles.put(&owner, "bank", &large("d")).await,
        profiles.create(&owner, "bank", ProfileKind::State, Some(&large("d"))).await,
    ] {
        assert!(matches!(attempt, Err(Error::SizeLimit { limit: 65536, .. })), "{attempt:?}");
    }
    assert_eq!(profiles.list(|_| true).len(), 1, "what was refused leaves no profile behind");
    let files = |profiles: &std::path::Path| {
        let inside = std::fs::read_dir(profiles).unwrap().filter_map(|at| std::fs::read_dir(at.unwrap().path()).ok());
        inside.map(Iterator::count).sum::<usize>()
    };
    assert_eq!(files(&folder.path().join("profiles")), 2, "nor any file");
    profiles.put(&stranger, "bank", &large("d")).await.unwrap();
    profiles.delete(&owner, "shop").await.unwrap();
    profiles.put(&owner, "bank", &large("d")).await.unwrap();
    // Of saves at once, none is promised what another has.
    let puts = ["a", "b", "c"].map(|name| {
        let (profiles, owner, state) = (profiles.clone(), owner.clone(), large(name));
        async move { profiles.put(&owner, name, &state).await }
    });
    let done = futures_util::future::join_all(puts).await;
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
}

#[tokio::test]
async fn a_full_disk_keeps_the_old_version() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::memory();
    opened(&folder, &store, &[]).await.put(&owner(), "shop", &state("one")).await.unwrap();
    let full = Profiles::open(limits(&[]), folder.path(), u64::MAX, [7; 32], store).await.unwrap();
    assert!(full.put(&owner(), "shop", &state("two")).await.is_err());
    assert_eq!(full.state(&owner(), "shop", None).await.unwrap(), state("one"));
}

#[tokio::test]
async fn what_nobody_uses_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = opened(&folder, &Store::memory(), &[("KEEP_FOR", "1h")]).await;
    profiles.put(&owner(), "shop", &state("one")).await.unwrap();
    profiles.forget_unused().await;
    assert_eq!(profiles.list(|_| true).len(), 1);
}

/// A folder that never comes: it says that it is waited for.
struct SilentReader(Option<mpsc::Sender<()>>);

impl AsyncRead for SilentReader {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(waited_for) = self.0.take() {
            let _ = waited_for.try_send(());
        }
        Poll::Pending
    }
}

/// The limits of a service where a folder has this long to arrive.
fn within(import_timeout: Duration) -> warmpool_config::Profiles {
    let settings = limits(&[("MAX_IMPORTS", "2"), ("MAX_IMPORTS_PER_KEY", "1")]);
    warmpool_config::Profiles { import_timeout, ..settings }
}

#[test]
fn slow_folders_leave_threads_for_files() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(3).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = async {
        let profiles = Profiles::none(within(Duration::from_secs(3600)), folder.path(), Store::memory());
        let (sender, mut waited_for) = mpsc::channel(9);
        for number in 0..9 {
            let (profiles, from) = (profiles.clone(), SilentReader(Some(sender.clone())));
            let owner = format!("00000000000{}", number % 3).parse().unwrap();
            tokio::spawn(async move { profiles.put_folder(&owner, &format!("slow-{number}"), from).await });
        }
        for _ in 0..2 {
            waited_for.recv().await.unwrap();
        }
        for number in 0..100 {
            let path = folder.path().join(format!("file-{number}"));
            tokio::fs::write(&path, b"tea").await.unwrap();
            assert_eq!(tokio::fs::read(&path).await.unwrap(), b"tea");
        }
        assert!(waited_for.try_recv().is_err(), "another one was begun");
    };
    let in_time = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await });
    runtime.shutdown_background();
    in_time.expect("slow folders held every thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_too_slow_is_given_up_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = Profiles::none(within(Duration::from_millis(10)), folder.path(), Store::memory());
    // In turn for one key, and so the second may not even begin.
    let two = ["one", "two"].map(|name| {
        let profiles = profiles.clone();
        async move { profiles.put_folder(&owner(), name, SilentReader(None)).await }
    });
    for put in futures_util::future::join_all(two).await {
        let error = put.unwrap_err();
        assert!(matches!(error, Error::ImportTimeout { .. }), "{error}");
    }
    assert!(profiles.list(|_| true).is_empty());
}

#[tokio::test]
async fn changes_are_in_memory_and_on_the_disk_although_their_client_left() {
    let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::default());
    let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() });
    let profiles = opened(&folder, &store, &[]).await;
    let of = profiles.clone();
    faults.abandon(async move { of.create(&owner(), "shop", ProfileKind::State, Some(&state("one"))).await }).await;
    let versions = || profiles.list(|_| true).first().map_or(0, |profile| profile.versions.len());
    until("it is made, with its state", || versions() == 1).await;
    let of = profiles.clone();
    faults.abandon(async move { of.put(&owner(), "shop", &state("two")).await }).await;
    until("the second version is there", || versions() == 2).await;
    let writer = profiles.begin(&owner(), &write("shop"), Engine::Chromium).await.unwrap().writer.unwrap();
    faults.abandon(async move { writer.save(&state("three")).await }).await;
    until("the third version is there", || versions() == 3).await;
    assert_eq!(profiles.state(&owner(), "shop", None).await.unwrap(), state("three"));
    assert_eq!(opened(&folder, &store, &[]).await.state(&owner(), "shop", None).await.unwrap(), state("three"));
    let of = profiles.clone();
    faults.abandon(async move { of.delete(&owner(), "shop").await }).await;
    until("it is listed no longer", || profiles.list(|_| true).is_empty()).await;
    until("nobody holds it", || profiles.holders().lock().is_empty()).await;
    assert!(matches!(profiles.put(&owner(), "shop", &state("four")).await.map(|view| view.versions.len()), Ok(1)));
}

/// Keeps a store busy until the gate is opened.
async fn keep_busy(store: &Store, faults: &Faults) -> FaultGate {
    let (gate, before) = (FaultGate::default(), faults.calls(FaultPoint::Read));
    faults.next(FaultPoint::Read, Fault::Hang(gate.clone()));
    let store = store.clone();
    tokio::spawn(async move { drop(store.get(Table::Meta, b"x").await) });
    until("it is at something else", || faults.calls(FaultPoint::Read) > before).await;
    gate
}

#[tokio::test]
async fn what_a_session_saves_waits_for_a_store_that_answers_late() {
    let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::default());
    let call_timeout = Duration::from_millis(20);
    let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 0, call_timeout, ..StoreOptions::default() });
    let profiles = opened(&folder, &store, &[]).await;
    // The second save finds the profile, and waits with its version alone.
    for value in ["one", "two"] {
        let writer = profiles.begin(&owner(), &write("shop"), Engine::Chromium).await.unwrap().writer.unwrap();
        writer.belongs_to(&SessionId::random());
        let gate = keep_busy(&store, &faults).await;
        let refused = profiles.put(&owner(), "other", &state("one")).await;
        assert!(matches!(refused, Err(Error::Service(ServiceError::StoreBusy))), "{refused:?}");
        let saving = tokio::spawn(async move { writer.save(&state(value)).await });
        tokio::time::sleep(10 * call_timeout).await;
        assert!(!saving.is_finished(), "a client can come again, and a session cannot");
        gate.open();
        assert!(saving.await.unwrap().unwrap());
        assert_eq!(profiles.state(&owner(), "shop", None).await.unwrap(), state(value));
    }
}

#[tokio::test]
async fn a_profile_is_put_together_although_the_disk_is_nearly_full() {
    const MIN_FREE: u64 = 1 << 20;
    // The first is enough for what must be recorded.
    for free in [MIN_FREE / 2, 0] {
        let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::default());
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: MIN_FREE, ..StoreOptions::default() });
        let profiles = opened(&folder, &store, &[("KEEP_VERSIONS", "1")]).await;
        profiles.put(&owner(), "bank", &state("one")).await.unwrap();
        let row = store.scan(Table::Profiles, KeyRange::all(), 9).await.unwrap().remove(0);
        profiles.put(&owner(), "bank", &state("two")).await.unwrap();
        let mut older = Batch::new();
        older.put(Table::Profiles, row.key, row.value);
        store.commit(older, Durability::Process).await.unwrap();
        faults.set_free_bytes(free);
        for _ in 0..2 {
            let again = opened(&folder, &store, &[("KEEP_VERSIONS", "1")]).await;
            assert_eq!(again.state(&owner(), "bank", None).await.unwrap(), state("two"), "{free} bytes are free");
        }
    }
}
