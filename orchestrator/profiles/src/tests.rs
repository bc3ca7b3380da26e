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
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;
use warmpool_store::fault::{Faults, until};
use warmpool_store::{Store, StoreOptions};

fn limits(settings: &[(&str, &str)]) -> warmpool_config::Profiles {
    let environment = settings.iter().map(|(name, value)| (format!("WARMPOOL_PROFILES_{name}"), (*value).to_owned()));
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    Config::resolve(None, environment, &Flags::default(), &host).unwrap().profiles.clone()
}

async fn opened(folder: &TempDir, store: &Store, settings: &[(&str, &str)]) -> Profiles {
    Profiles::open(limits(settings), folder.path(), 0, [7; 32], store.clone()).await.unwrap()
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
