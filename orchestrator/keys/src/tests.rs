use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use std::{fs, io};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::service::NO_SECRET;
use warmpool_core::clock::Now;
use warmpool_store::fault::{FaultPoint, Faults, StoreFault, until};
use warmpool_store::{Batch, Durability, FatalHook, Store, StoreError, StoreOptions, Table};

const YEAR_MS: i64 = 365 * 86_400_000;

fn at(unix_ms: u64) -> Now {
    Now::at(unix_ms, "a boot", 0)
}

async fn keys() -> Keys {
    Keys::load(Store::memory()).await.unwrap()
}

#[tokio::test]
async fn a_new_key_opens_and_is_found_again() {
    let store = Store::memory();
    let keys = Keys::load(store.clone()).await.unwrap();
    assert!(!keys.any_active());
    let key = keys.create("build server", KeyRole::Client).await.unwrap();
    let text = key.secret.expose();
    assert_eq!(text.len(), 3 + 12 + 1 + 43);
    assert!(text.starts_with(&format!("wp_{}_", key.record.id)));
    assert_eq!(keys.verify(text), Some(key.record.id.clone()));
    let loaded = Keys::load(store).await.unwrap();
    assert_eq!(loaded.verify(text), Some(key.record.id.clone()));
    assert_eq!(loaded.list()[0].name, "build server");
    assert!(loaded.any_active() && loaded.is_active(&key.record.id));
}

#[tokio::test]
async fn anything_else_opens_nothing() {
    let keys = keys().await;
    let key = keys.create("a", KeyRole::Client).await.unwrap();
    let other = keys.create("b", KeyRole::Client).await.unwrap();
    let text = key.secret.expose().to_owned();
    for at in 0..text.len() {
        let mut wrong = text.clone().into_bytes();
        wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
        let wrong = String::from_utf8(wrong).unwrap();
        assert_eq!(keys.verify(&wrong), None, "{at}");
        assert_eq!(keys.verify(&text[..at]), None, "{at}");
    }
    let (_, secret) = text.rsplit_at(43);
    let mixed = format!("wp_{}_{secret}", other.record.id);
    let unknown = format!("wp_000000000000_{secret}");
    let padded = format!(" {text}");
    let longer = format!("{text}A");
    let hash = format!("wp_{}_{}", key.record.id, String::from(key.record.hash));
    let none = format!("wp_{}_{NO_SECRET}", key.record.id);
    for wrong in [&mixed, &unknown, &padded, &longer, &hash, &none, "wp_", "wp__", "ä"] {
        assert_eq!(keys.verify(wrong), None, "{wrong}");
    }
}

/// `rsplit_at(n)`: all but the last `n` bytes, and those.
trait RsplitAt {
    fn rsplit_at(&self, n: usize) -> (&str, &str);
}

impl RsplitAt for String {
    fn rsplit_at(&self, n: usize) -> (&str, &str) {
        self.split_at(self.len() - n)
    }
}

#[tokio::test]
async fn names_are_checked() {
    let keys = keys().await;
    let longest = "ü".repeat(64);
    for good in ["a", "CI (staging) #2", longest.as_str(), "日本"] {
        keys.create(good, KeyRole::Client).await.unwrap();
    }
    let too_long = "a".repeat(65);
    for bad in ["", " ", " a", "a ", "a\nb", "a\u{7f}", "a\u{202e}b", "a\u{200b}b", &too_long] {
        assert!(matches!(keys.create(bad, KeyRole::Client).await, Err(KeyError::InvalidName)), "{bad:?}");
    }
    assert_eq!(keys.list().len(), 4);
}

#[tokio::test]
async fn no_two_active_keys_have_one_name_and_revoked_ones_can_be_removed() {
    let store = Store::memory();
    let keys = Keys::load(store.clone()).await.unwrap();
    let first = keys.create("press", KeyRole::Client).await.unwrap().record;
    assert!(
        matches!(keys.create("press", KeyRole::Client).await, Err(KeyError::NameTaken { id, .. }) if id == first.id)
    );
    assert!(matches!(keys.remove(&first.id).await, Err(KeyError::Active(_))));
    keys.revoke(&first.id).await.unwrap();
    let second = keys.create("press", KeyRole::Client).await.unwrap().record;
    let changes = keys.changes();
    keys.remove(&first.id).await.unwrap();
    assert!(changes.has_changed().unwrap(), "whoever shows a list hears of it");
    assert!(matches!(keys.remove(&first.id).await, Err(KeyError::Unknown(_))));
    for keys in [keys, Keys::load(store).await.unwrap()] {
        assert_eq!(keys.list().iter().map(|key| key.id.clone()).collect::<Vec<_>>(), std::slice::from_ref(&second.id));
    }
}

#[tokio::test]
async fn a_rotated_key_has_two_secrets_for_a_while() {
    let store = Store::memory();
    let keys = Keys::load(store.clone()).await.unwrap();
    let old = keys.create("a", KeyRole::Client).await.unwrap();
    let id = old.record.id.clone();
    let new = keys.rotate(&id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(new.record.id, id);
    let rotated = Now::read();
    let (before, after) = (Duration::from_secs(50), Duration::from_secs(60));
    for keys in [keys.clone(), Keys::load(store).await.unwrap()] {
        assert_eq!(keys.verify_at(new.secret.expose(), &rotated.later(after)), Some(id.clone()));
        // Whatever the wall clock does meanwhile.
        for jump in [-YEAR_MS, 0, YEAR_MS] {
            let at = |span| rotated.later(span).jumped(jump);
            assert_eq!(keys.verify_at(old.secret.expose(), &at(before)), Some(id.clone()), "{jump}");
            assert_eq!(keys.verify_at(old.secret.expose(), &at(after)), None, "{jump}");
        }
    }
    let newest = keys.rotate(&id, Duration::ZERO).await.unwrap();
    assert_eq!(keys.verify(old.secret.expose()), None);
    assert_eq!(keys.verify(new.secret.expose()), None);
    assert_eq!(keys.verify(newest.secret.expose()), Some(id));
}

#[tokio::test]
async fn what_a_secret_opened_holds_as_long_as_that_secret() {
    let (keys, now, minute) = (keys().await, Now::read(), Duration::from_secs(60));
    let old = keys.create("a", KeyRole::Client).await.unwrap();
    let (id, first) = keys.verify_secret(old.secret.expose()).unwrap();
    assert!(keys.holds(&id, first, &now) && keys.verify_secret("wp_wrong").is_none());
    let other = keys.create("b", KeyRole::Client).await.unwrap().record.id;
    assert!(!keys.holds(&other, first, &now), "another key's");

    // Whoever is told of the next secret has one that holds at every moment.
    let mut told = None;
    let tell = |secret| {
        assert!(keys.holds(&id, first, &now) && !keys.holds(&id, secret, &now));
        told = Some(secret);
    };
    keys.rotate_telling(&id, minute, tell).await.unwrap();
    let (second, rotated) = (told.unwrap(), Now::read());
    assert!(keys.is_replaced(&id, first) && !keys.is_replaced(&id, second), "the clock ends the first alone");
    for (later, first_holds) in [(Duration::ZERO, true), (minute / 2, true), (minute, false)] {
        let at = rotated.later(later);
        assert_eq!((keys.holds(&id, first, &at), keys.holds(&id, second, &at)), (first_holds, true), "{later:?}");
    }
    keys.rotate(&id, Duration::ZERO).await.unwrap();
    assert!(!keys.holds(&id, first, &now) && !keys.holds(&id, second, &now));

    let secret = keys.create("c", KeyRole::Client).await.unwrap().secret;
    let (id, hash) = keys.verify_secret(secret.expose()).unwrap();
    keys.revoke(&id).await.unwrap();
    assert!(!keys.holds(&id, hash, &now), "nothing opens a revoked key");
}

#[tokio::test]
async fn to_ask_whether_a_secret_still_works_is_no_use_of_its_key() {
    let keys = keys().await;
    let key = keys.create("a", KeyRole::Client).await.unwrap();
    let (id, secret) = (key.record.id, key.record.hash);
    let used = || keys.get(&id).unwrap().last_used_ms;
    assert!(keys.holds(&id, secret, &at(1000)) && !keys.is_replaced(&id, secret));
    assert_eq!(used(), None);
    assert!(keys.verify_at(key.secret.expose(), &at(2000)).is_some());
    assert!(keys.holds(&id, secret, &at(3000)));
    assert_eq!(used(), Some(2000));
}

#[tokio::test]
async fn after_another_boot_an_old_secret_works_no_longer_than_it_was_to() {
    const MINUTE: Duration = Duration::from_secs(60);
    let store = Store::memory();
    let keys = Keys::load(store.clone()).await.unwrap();
    let old = keys.create("a", KeyRole::Client).await.unwrap();
    let id = old.record.id.clone();
    keys.rotate(&id, MINUTE).await.unwrap();
    // The machine takes the time for 1970, at this start and at the next.
    let booted = Now::at(0, "another boot", 10);
    for now in [booted, booted.later(MINUTE / 2)] {
        let keys = Keys::load_at(store.clone(), &now).await.unwrap();
        assert_eq!(keys.verify_at(old.secret.expose(), &now), Some(id.clone()));
        assert_eq!(keys.verify_at(old.secret.expose(), &booted.later(MINUTE).jumped(-YEAR_MS)), None);
    }
}

#[tokio::test]
async fn an_old_secret_of_an_earlier_release_is_counted_from_the_start() {
    const MINUTE: Duration = Duration::from_secs(60);
    let store = Store::memory();
    let keys = Keys::load(store.clone()).await.unwrap();
    let old = keys.create("a", KeyRole::Client).await.unwrap();
    let id = old.record.id.clone();
    let new = keys.rotate(&id, MINUTE).await.unwrap();
    let mut kept = serde_json::to_value(&new.record).unwrap();
    kept["previous"].as_object_mut().unwrap().remove("deadline").unwrap();
    let mut batch = Batch::new();
    batch.put_json(Table::Keys, id.as_str(), &kept).unwrap();
    store.commit(batch, Durability::Process).await.unwrap();
    let started = Now::read();
    let keys = Keys::load_at(store, &started).await.unwrap();
    assert_eq!(keys.verify_at(old.secret.expose(), &started.jumped(YEAR_MS)), Some(id));
    assert_eq!(keys.verify_at(old.secret.expose(), &started.later(MINUTE).jumped(-YEAR_MS)), None);
}

#[tokio::test]
async fn a_revoked_key_is_dead_and_its_sessions_are_told() {
    let store = Store::memory();
    let keys = Keys::load(store.clone()).await.unwrap();
    let key = keys.create("a", KeyRole::Client).await.unwrap();
    let id = key.record.id.clone();
    let rotated = keys.rotate(&id, Duration::from_secs(60)).await.unwrap();
    let changes = keys.changes();
    let record = keys.revoke(&id).await.unwrap();
    assert!(matches!(record.state, KeyState::Revoked { .. }));
    assert!(changes.has_changed().unwrap());
    for keys in [keys.clone(), Keys::load(store).await.unwrap()] {
        assert_eq!(keys.verify(key.secret.expose()), None);
        assert_eq!(keys.verify(rotated.secret.expose()), None);
        assert!(!keys.is_active(&id) && !keys.any_active());
        assert!(matches!(keys.rotate(&id, Duration::ZERO).await, Err(KeyError::Revoked(_))));
    }
    assert_eq!(keys.revoke(&id).await.unwrap(), record, "again changes nothing");
    let unknown: KeyId = "000000000000".parse().unwrap();
    assert!(matches!(keys.revoke(&unknown).await, Err(KeyError::Unknown(_))));
}

#[tokio::test]
async fn a_key_is_revoked_even_if_the_disk_is_full() {
    let faults = Faults::default();
    let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 1000, ..StoreOptions::default() });
    let keys = Keys::load(store.clone()).await.unwrap();
    let key = keys.create("a", KeyRole::Client).await.unwrap();
    let other = keys.create("b", KeyRole::Client).await.unwrap();
    faults.set_free_bytes(300);
    assert!(matches!(keys.create("c", KeyRole::Client).await, Err(KeyError::Store(StoreError::DiskNearlyFull { .. }))));
    assert_eq!(keys.list().len(), 2);
    keys.revoke(&key.record.id).await.unwrap();
    faults.set_free_bytes(0);
    let changes = keys.changes();
    assert!(keys.revoke(&other.record.id).await.is_err(), "not recorded");
    assert!(changes.has_changed().unwrap());
    assert_eq!(keys.verify(other.secret.expose()), None, "but dead");
    faults.set_free_bytes(u64::MAX);
    keys.revoke(&other.record.id).await.unwrap();
    let loaded = Keys::load(store).await.unwrap();
    assert!(!loaded.any_active());
}

#[tokio::test]
async fn of_operators_who_revoke_each_other_one_is_left() {
    let store = Store::memory();
    let (keys, integrations) = (Keys::load(store.clone()).await.unwrap(), IntegrationKeys::load(store).await.unwrap());
    let one = keys.create("one", KeyRole::Operator).await.unwrap().record.id;
    let other = keys.create("other", KeyRole::Operator).await.unwrap().record.id;
    keys.create("client", KeyRole::Client).await.unwrap();
    let revoke = |id| keys.revoke_unless_last(&integrations, id);
    let outcomes = <[_; 2]>::from(tokio::join!(revoke(&one), revoke(&other)));
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(KeyError::LastOperator))).count();
    let left = [&one, &other].into_iter().filter(|id| keys.is_active(id)).count();
    assert_eq!((refused, left), (1, 1));
    let gone = if keys.is_active(&one) { &other } else { &one };
    assert!(!revoke(gone).await.unwrap().0.is_active(), "again changes nothing");
}

#[tokio::test]
async fn a_failing_store_makes_no_key() {
    let faults = Faults::default();
    let store = Store::faulty(&faults, StoreOptions { on_fatal: FatalHook::new(|_| {}), ..StoreOptions::default() });
    let keys = Keys::load(store).await.unwrap();
    faults.next(FaultPoint::Barrier, StoreFault::Error(io::ErrorKind::Other));
    assert!(keys.create("a", KeyRole::Client).await.is_err());
    assert!(keys.list().is_empty());
}

#[tokio::test]
async fn the_time_of_last_use_is_saved_now_and_then() {
    let store = Store::memory();
    let keys = Keys::load(store.clone()).await.unwrap();
    let key = keys.create("a", KeyRole::Client).await.unwrap();
    let idle = keys.create("b", KeyRole::Client).await.unwrap();
    let text = key.secret.expose();
    let stored = async || {
        let keys = Keys::load(store.clone()).await.unwrap();
        let find = |id: &KeyId| keys.list().into_iter().find(|record| record.id == *id);
        assert_eq!(find(&idle.record.id).unwrap().last_used_ms, None);
        find(&key.record.id).unwrap().last_used_ms
    };
    assert!(keys.verify_at(text, &at(1000)).is_some());
    assert!(keys.verify_at("wrong", &at(5000)).is_none());
    assert_eq!(stored().await, None);
    keys.save_last_used().await.unwrap();
    assert_eq!(stored().await, Some(1000));
    assert!(keys.verify_at(text, &at(2000)).is_some());
    // A change of the key keeps it.
    keys.rotate(&key.record.id, Duration::from_secs(9)).await.unwrap();
    assert_eq!(stored().await, Some(2000));
    // As does the end of the task that saves it.
    assert!(keys.verify(text).is_some());
    let stop = CancellationToken::new();
    stop.cancel();
    keys.clone().run_last_used(stop).await;
    assert!(stored().await > Some(2000));
}

#[tokio::test]
async fn the_first_key_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::memory();
    let keys = Keys::load(store.clone()).await.unwrap();
    let path = keys.ensure_first(dir.path()).await.unwrap().unwrap();
    assert_eq!(path, dir.path().join("first-key"));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    let id = keys.verify(text.trim_end()).unwrap();
    assert_eq!(keys.list()[0].name, "default");
    assert_eq!(keys.ensure_first(dir.path()).await.unwrap(), None);
    keys.revoke(&id).await.unwrap();
    let keys = Keys::load(store).await.unwrap();
    assert_eq!(keys.ensure_first(dir.path()).await.unwrap(), None, "one revoked is one");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn secrets_do_not_show() {
    let keys = keys().await;
    let key = keys.create("a", KeyRole::Client).await.unwrap();
    let (_, secret) = key.secret.expose().split_at(16);
    let shown = format!("{key:?} {} {keys:?} {:?}", key.secret, keys.list());
    assert!(!shown.contains(secret) && !shown.contains(&String::from(key.record.hash)));
    let record = serde_json::to_string(&key.record).unwrap();
    assert!(!record.contains(secret));
}

#[tokio::test]
async fn keys_survive_damage_to_the_store_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(dir.path(), options.clone()).unwrap().store;
    let keys = Keys::load(store.clone()).await.unwrap();
    let good = keys.create("good", KeyRole::Client).await.unwrap();
    let bad = keys.create("bad", KeyRole::Client).await.unwrap();
    keys.revoke(&bad.record.id).await.unwrap();
    store.close().await.unwrap();
    warmpool_store::fault::damage(dir.path());
    let opened = Store::open(dir.path(), options).unwrap();
    assert!(opened.recovery.is_some());
    let keys = Keys::load(opened.store.clone()).await.unwrap();
    assert!(keys.verify(good.secret.expose()).is_some());
    assert_eq!(keys.verify(bad.secret.expose()), None);
    opened.store.close().await.unwrap();
}

#[tokio::test]
async fn who_waits_for_a_revocation_hears_of_it_and_of_no_other() {
    let keys = keys().await;
    let (key, other) = (
        keys.create("a", KeyRole::Client).await.unwrap().record.id,
        keys.create("b", KeyRole::Client).await.unwrap().record.id,
    );
    assert!(keys.require(&key).is_ok());
    let waiting = tokio::spawn({
        let (keys, key) = (keys.clone(), key.clone());
        async move { keys.revoked(&key).await }
    });
    for _ in 0..9 {
        keys.revoke(&other).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    keys.revoke(&key).await.unwrap();
    waiting.await.unwrap();
    assert!(matches!(keys.require(&key), Err(Error::InvalidKey)));
    // One that is revoked already is not waited for, nor one that never was.
    keys.revoked(&key).await;
    keys.revoked(&"000000000000".parse().unwrap()).await;
}

#[tokio::test]
async fn a_rotated_key_and_a_new_one_are_in_memory_although_nobody_waits() {
    let faults = Faults::default();
    let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() });
    let keys = Keys::load(store.clone()).await.unwrap();
    let (leaked, gone) =
        (keys.create("leaked", KeyRole::Client).await.unwrap(), keys.create("gone", KeyRole::Client).await.unwrap());
    keys.revoke(&gone.record.id).await.unwrap();
    let (of, id) = (keys.clone(), leaked.record.id.clone());
    faults.abandon(async move { of.rotate(&id, Duration::ZERO).await }).await;
    until("the old secret opens nothing", || keys.verify(leaked.secret.expose()).is_none()).await;
    let of = keys.clone();
    faults.abandon(async move { of.create("new", KeyRole::Client).await }).await;
    until("the new one is there", || keys.list().iter().any(|key| key.name == "new")).await;
    let (of, id) = (keys.clone(), gone.record.id.clone());
    faults.abandon(async move { of.remove(&id).await }).await;
    until("the revoked one is forgotten", || keys.get(&gone.record.id).is_none()).await;
    keys.save_last_used().await.unwrap();
    assert_eq!(keys.list(), Keys::load(store).await.unwrap().list(), "the disk says the same");
}
