//! What is saved while the store or the disk is slow or full.

use super::*;

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
    faults.next(FaultPoint::Read, StoreFault::Hang(gate.clone()));
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
