//! Profiles over a store in memory and files in a folder of their own.

mod imports;
mod recovery;
mod saving;

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
use warmpool_store::fault::{FaultGate, FaultPoint, Faults, StoreFault, until};
use warmpool_store::{Batch, Durability, KeyRange, Store, StoreOptions, Table};

fn limits(settings: &[(&str, &str)]) -> warmpool_config::ProfileSettings {
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
async fn a_key_looks_at_its_own_profiles_alone() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = opened(&folder, &Store::memory(), &[]).await;
    profiles.put(&owner(), "shop", &state("one")).await.unwrap();
    assert_eq!(profiles.get(&owner(), "shop").unwrap().name, "shop");
    let other = "00000000000b".parse().unwrap();
    for (key, name) in [(owner(), "x".repeat(1 << 20)), (other, "shop".to_owned())] {
        let refused = profiles.get(&key, &name).unwrap_err();
        assert!(matches!(&refused, Error::UnknownProfile { name } if name.len() <= 100), "it repeats all of the name");
    }
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
async fn what_nobody_uses_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = opened(&folder, &Store::memory(), &[("KEEP_FOR", "1h")]).await;
    profiles.put(&owner(), "shop", &state("one")).await.unwrap();
    let now = warmpool_core::clock::unix_ms();
    for before in [0, now] {
        profiles.forget_unused(before).await;
        assert_eq!(profiles.list(|_| true).len(), 1);
    }
    profiles.forget_unused(now + 7_200_000).await;
    assert_eq!(profiles.list(|_| true).len(), 0);
}
