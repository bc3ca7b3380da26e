//! What happens when the storage hangs, fails or runs out of space.

use std::io;

use super::super::fault::{FaultGate, FaultPoint, Faults, StoreFault, until};
use super::*;
use warmpool_core::error::ServiceError;

fn one(key: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(Table::Sessions, key, *b"x");
    batch
}

#[tokio::test]
async fn what_is_queued_is_withdrawn_and_what_is_under_way_stays_open() {
    let faults = Faults::default();
    let impatient = StoreOptions { call_timeout: Duration::from_millis(200), ..options() };
    let store = Store::faulty(&faults, impatient);
    for point in [FaultPoint::Apply, FaultPoint::Flush, FaultPoint::Barrier] {
        let gate = FaultGate::default();
        let before = faults.calls(point);
        faults.next(point, StoreFault::Hang(gate.clone()));
        let mut under_way = store.begin(one(b"under way"), Durability::Power).await.unwrap();
        until("the first is under way", || faults.calls(point) > before).await;
        assert!(under_way.wait().await.is_none(), "{point:?}: nobody knows yet");
        if point != FaultPoint::Barrier {
            let queued = store.commit(one(b"queued"), Durability::Process).await;
            assert!(matches!(queued, Err(StoreError::Timeout { .. })), "{point:?}: {queued:?}");
            let read = store.get(Table::Sessions, b"queued").await;
            assert!(matches!(read, Err(StoreError::Timeout { .. })), "{point:?}: {read:?}");
        }
        gate.open();
        under_way.known().await.unwrap();
        assert!(store.get(Table::Sessions, b"under way").await.unwrap().is_some());
        assert_eq!(store.get(Table::Sessions, b"queued").await.unwrap(), None, "it was said never to happen");
        assert!(store.health().ok());
    }
}

#[tokio::test]
async fn a_commit_waits_until_its_outcome_is_known() {
    let faults = Faults::default();
    let impatient = StoreOptions { call_timeout: Duration::from_millis(50), ..options() };
    let store = Store::faulty(&faults, impatient);
    let gate = FaultGate::default();
    faults.next(FaultPoint::Apply, StoreFault::Hang(gate.clone()));
    let commit = tokio::spawn({
        let store = store.clone();
        async move { store.commit(one(b"a"), Durability::Process).await }
    });
    until("it is under way", || faults.calls(FaultPoint::Apply) == 1).await;
    // Long past the time of a call.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!commit.is_finished());
    gate.open();
    commit.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_must_not_be_lost_is_tried_until_there_is_room() {
    let faults = Faults::default();
    let guarded = StoreOptions { min_free_bytes: 1000, ..options() };
    let store = Store::faulty(&faults, guarded);
    faults.set_free_bytes(0);
    let mut held = Vec::new();
    let mut batch = one(b"a");
    batch.essential();
    store
        .commit_with_retry(batch.clone(), Durability::Process, |error| {
            held.push(error.to_string());
            faults.set_free_bytes(250);
        })
        .await
        .unwrap();
    assert_eq!(held.len(), 1, "{held:?}");
    assert!(store.get(Table::Sessions, b"a").await.unwrap().is_some());
    store.close().await.unwrap();
    let refused = store.commit_with_retry(batch, Durability::Process, |_| {}).await;
    assert!(matches!(refused, Err(StoreError::Closed)), "a store that is closed takes nothing ever: {refused:?}");
}

#[tokio::test]
async fn a_full_queue_is_a_timeout() {
    let faults = Faults::default();
    let small = StoreOptions { call_timeout: Duration::from_millis(100), queue: 1, ..options() };
    let store = Store::faulty(&faults, small);
    let gate = FaultGate::default();
    faults.next(FaultPoint::Read, StoreFault::Hang(gate.clone()));
    let calls = (0..5).map(|_| store.get(Table::Keys, b"a"));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in calls {
        let store = store.clone();
        waiting.spawn(async move { store.get(Table::Keys, b"a").await });
    }
    while let Some(outcome) = waiting.join_next().await {
        assert!(matches!(outcome.unwrap(), Err(StoreError::Timeout { .. })));
    }
    gate.open();
}

#[tokio::test]
async fn only_power_waits_for_the_barrier_and_many_share_one() {
    let faults = Faults::default();
    let store = Store::faulty(&faults, options());
    let gate = FaultGate::default();
    faults.next(FaultPoint::Barrier, StoreFault::Hang(gate.clone()));
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..50_u8 {
        let store = store.clone();
        waiting.spawn(async move { store.commit(one(&[number, 1]), Durability::Power).await });
    }
    until("all are applied", || faults.calls(FaultPoint::Apply) == 50).await;
    store.commit(one(b"process"), Durability::Process).await.unwrap();
    assert!(waiting.try_join_next().is_none(), "answered too early");
    assert_eq!(store.health().last_durable_ms, None);
    gate.open();
    while let Some(outcome) = waiting.join_next().await {
        outcome.unwrap().unwrap();
    }
    assert!(faults.calls(FaultPoint::Barrier) <= 3);
    assert!(store.health().last_durable_ms.is_some());
}

#[tokio::test]
async fn every_failure_ends_the_process() {
    let cases = [
        (FaultPoint::Apply, StoreFault::Error(io::ErrorKind::StorageFull)),
        (FaultPoint::Flush, StoreFault::Error(io::ErrorKind::Other)),
        (FaultPoint::Barrier, StoreFault::Error(io::ErrorKind::Other)),
        (FaultPoint::Journal, StoreFault::Error(io::ErrorKind::Other)),
        (FaultPoint::Read, StoreFault::Damage),
        (FaultPoint::Apply, StoreFault::Panic),
        (FaultPoint::Barrier, StoreFault::Panic),
        (FaultPoint::Journal, StoreFault::Panic),
    ];
    for (point, fault) in cases {
        let (faults, fatal) = (Faults::default(), Fatal::default());
        let hooked = StoreOptions { on_fatal: fatal.hook(), ..options() };
        let store = Store::faulty(&faults, hooked);
        store.commit(one(b"a"), Durability::Power).await.unwrap();
        faults.next(point, fault.clone());
        let failed = match point {
            FaultPoint::Read => store.get(Table::Sessions, b"a").await.map(|_| ()),
            FaultPoint::Journal => store.commit(one(b"b").irrevocable().clone(), Durability::Process).await,
            _ => store.commit(one(b"b"), Durability::Power).await,
        };
        assert!(matches!(failed, Err(StoreError::Failed)), "{failed:?}");
        until("the hook is called", || !fatal.reasons().is_empty()).await;
        assert_eq!(fatal.reasons().len(), 1, "{point:?} {fault:?}");
        assert_eq!(store.health().state, StoreState::Failed);
        // The barrier thread fails alone; the storage thread then finds out with its next commit.
        let later = store.commit(one(b"c"), Durability::Power).await;
        assert!(matches!(later, Err(StoreError::Failed)), "{later:?}");
    }
}

#[tokio::test]
async fn a_thread_of_the_backends_that_ends_is_a_failure_before_anybody_asks() {
    for fault in [StoreFault::Damage, StoreFault::Panic] {
        let (faults, fatal) = (Faults::default(), Fatal::default());
        let store = Store::faulty(&faults, StoreOptions { on_fatal: fatal.hook(), ..options() });
        faults.next(FaultPoint::Threads, fault);
        until("the hook is called", || !fatal.reasons().is_empty()).await;
        assert_eq!((fatal.reasons().len(), store.health().state), (1, StoreState::Failed));
    }
}

#[tokio::test]
async fn without_a_hook_the_process_aborts() {
    use std::os::unix::process::ExitStatusExt;
    const VARIABLE: &str = "WARMPOOL_TEST_ABORT";
    if std::env::var_os(VARIABLE).is_some() {
        let faults = Faults::default();
        let store = Store::faulty(&faults, options());
        faults.next(FaultPoint::Flush, StoreFault::Error(io::ErrorKind::StorageFull));
        let _ = store.commit(one(b"a"), Durability::Process).await;
        return;
    }
    let status = again_as("failure::without_a_hook_the_process_aborts", VARIABLE, Path::new("1"))
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(nix::libc::SIGABRT), "{status:?}");
}

#[tokio::test]
async fn a_disk_nearly_full_is_refused_before_the_backend_is_touched() {
    let faults = Faults::default();
    let guarded = StoreOptions { min_free_bytes: 1000, ..options() };
    let store = Store::faulty(&faults, guarded);
    faults.set_free_bytes(1000);
    store.commit(one(b"a"), Durability::Power).await.unwrap();
    faults.set_free_bytes(999);
    let applied = faults.calls(FaultPoint::Apply);
    for durability in [Durability::Process, Durability::Power] {
        assert!(matches!(
            store.commit(one(b"b"), durability).await,
            Err(StoreError::DiskNearlyFull { free_bytes: 999, min_free_bytes: 1000 })
        ));
    }
    assert_eq!(faults.calls(FaultPoint::Apply), applied);
    assert_eq!(store.health().state, StoreState::DiskNearlyFull);
    assert!(store.get(Table::Sessions, b"a").await.unwrap().is_some());

    let mut essential = one(b"c");
    essential.essential();
    store.commit(essential.clone(), Durability::Power).await.unwrap();
    let mut removing = Batch::new();
    removing.delete(Table::Sessions, b"a");
    store.commit(removing, Durability::Process).await.unwrap();
    assert!(store.get(Table::Sessions, b"a").await.unwrap().is_none(), "what makes room is not refused");
    faults.set_free_bytes(249);
    assert!(matches!(
        store.commit(essential, Durability::Power).await,
        Err(StoreError::DiskNearlyFull { min_free_bytes: 250, .. })
    ));
    faults.set_free_bytes(5000);
    store.commit(one(b"b"), Durability::Power).await.unwrap();
    assert!(store.health().ok());
}

#[tokio::test]
async fn a_close_waits_for_the_disk_for_longer_than_a_call() {
    let faults = Faults::default();
    let impatient = StoreOptions { call_timeout: Duration::from_millis(50), ..options() };
    let store = Store::faulty(&faults, impatient);
    let gate = FaultGate::default();
    faults.always(FaultPoint::Barrier, StoreFault::Hang(gate.clone()));
    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.close().await }
    });
    until("the last barrier is under way", || faults.calls(FaultPoint::Barrier) == 1).await;
    // Long past the time of a call.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!closing.is_finished());
    assert!(matches!(store.commit(one(b"a"), Durability::Process).await, Err(StoreError::Closed)));
    gate.open();
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_asks_how_it_is_does_not_wait_for_the_disk() {
    let faults = Faults::default();
    let guarded = StoreOptions { min_free_bytes: 1000, ..options() };
    let store = Store::faulty(&faults, guarded);
    assert!(store.health().ok());
    assert!(store.shortage().is_none());
    // What others write is noticed, too.
    faults.set_free_bytes(999);
    until("it is measured", || store.health().state == StoreState::DiskNearlyFull).await;
    let gate = FaultGate::default();
    faults.hang_free_space(gate.clone());
    let asked = tokio::task::spawn_blocking(move || (store.health(), store.shortage()));
    let answered = tokio::time::timeout(Duration::from_secs(10), asked).await;
    gate.open();
    let (health, shortage) = answered.expect("it waited for the disk").unwrap();
    assert_eq!(health.free_bytes, Some(999));
    assert!(matches!(shortage, Some(ServiceError::DiskNearlyFull)), "{shortage:?}");
}

#[tokio::test]
async fn the_guard_looks_at_the_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let greedy = StoreOptions { min_free_bytes: u64::MAX, ..options() };
    let store = Store::open(dir.path(), greedy).unwrap().store;
    assert!(matches!(
        store.commit(one(b"a"), Durability::Process).await,
        Err(StoreError::DiskNearlyFull { free_bytes, .. }) if free_bytes > 0
    ));
    assert!(matches!(store.backup().await, Err(StoreError::DiskNearlyFull { .. })));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_commit_after_which_none_comes_is_tidied_all_the_same() {
    let faults = Faults::default();
    let store = Store::faulty(&faults, options());
    store.commit(one(b"a"), Durability::Process).await.unwrap();
    let by_the_commit = faults.calls(FaultPoint::Tidy) + 1;
    until("it is tidied while nobody waits", || faults.calls(FaultPoint::Tidy) > by_the_commit).await;
    store.close().await.unwrap();
}
