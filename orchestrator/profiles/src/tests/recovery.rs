//! What a start finds: of another key, of a backup, or damaged.

use super::*;

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
        wrong.get(&owner(), "shop").map(drop),
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
async fn a_profile_whose_record_is_lost_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::memory();
    opened(&folder, &store, &[]).await.put(&owner(), "shop", &state("one")).await.unwrap();
    let root = folder.path().join("profiles");
    std::fs::create_dir(root.join("prf_lost")).unwrap();
    store.suppose_it_went_back().await;
    let profiles = opened(&folder, &store, &[]).await;
    assert_eq!(profiles.state(&owner(), "shop", None).await.unwrap(), state("one"));
    assert!(!root.join("prf_lost").exists());
    let mut left = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let aside = left.find(|path| path.display().to_string().contains("/lost-")).unwrap();
    assert!(aside.join("prf_lost").exists());
}

#[tokio::test]
async fn a_recovery_without_the_file_of_keys_removes_no_profile() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options.clone()).unwrap().store;
    opened(&folder, &store, &[]).await.put(&owner(), "bank", &state("two")).await.unwrap();
    let backup = store.backup().await.unwrap().path;
    store.close().await.unwrap();
    warmpool_store::fault::damage(folder.path());
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
    warmpool_store::fault::damage(folder.path());
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
    warmpool_store::fault::damage(folder.path());
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
    warmpool_store::fault::damage(folder.path());
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
