//! Writes one session's record to the store: changes in their order, and none after the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::{Record, Session, Sessions};
use crate::Error;
use warmpool_core::drain::DrainTask;
use warmpool_core::error::{Fault as _, ServiceFault as _};
use warmpool_store::{Batch, Durability, MAX_VALUE_BYTES, Store, Table, carry_out};

/// Time between two attempts at a change that clients rely on.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long whoever makes such a change waits for the store.
const PERSIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes the record of one live session.
#[derive(Debug)]
pub(super) struct Journal {
    store: Store,
    /// Whether the end was written, or is being written. Held from a look at the session until the store has what was seen.
    closed: Mutex<bool>,
}

impl Journal {
    pub(super) fn new(store: Store) -> Self {
        Self { store, closed: Mutex::new(false) }
    }

    /// Writes the record as it is when its turn comes; nothing once the end was written.
    /// Errors: `DiskNearlyFull`, `StoreBusy`: nothing was written.
    pub(super) async fn persist(&self, record: impl FnOnce() -> Record) -> Result<(), Error> {
        self.persist_as(record, written).await
    }

    /// Writes what a client relies on after a restart, and tries until the store has taken it: the record as it is then. The end, and
    /// other changes, do not wait for that.
    /// Errors: the store is gone.
    pub(super) async fn keep(&self, record: impl Fn() -> Record) -> Result<(), Error> {
        let mut is_told = false;
        loop {
            match self.persist_as(&record, written_with_reserve).await {
                Err(error) if error.is_shortage() => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(session = %record().session_id, %error, "a change of a session waits");
                    }
                }
                outcome => return outcome,
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Makes a change, and writes the record that follows from it or takes the change back. No other write of this session comes
    /// between. The caller carries it out.
    /// Errors: those of `change`; `DiskNearlyFull`, `StoreBusy`, `Draining`: nothing was written.
    pub(super) async fn persist_or_take_back(
        &self,
        change: impl FnOnce() -> Result<Record, Error>,
        take_back: impl FnOnce(),
    ) -> Result<(), Error> {
        let _turn = self.closed.lock().await;
        let record = change()?;
        let outcome = async { Ok(self.store.commit(written(&record)?, Durability::Process).await?) };
        outcome.await.inspect_err(|_| take_back())
    }

    /// Writes a record, which takes something away that must not come back.
    /// Errors: as [`Journal::persist`].
    pub(super) async fn persist_for_good(&self, record: impl FnOnce() -> Record) -> Result<(), Error> {
        self.persist_as(record, written_for_good).await
    }

    /// The same, and tries until the store has taken it: what a client has taken away must not come back because the store was busy.
    /// Errors: the store is gone.
    async fn take_away(&self, record: impl FnOnce() -> Record) -> Result<(), Error> {
        let closed = self.closed.lock().await;
        if *closed {
            return Ok(());
        }
        let record = record();
        let batch = written_for_good(&record)?;
        let held = |error: &_| tracing::warn!(session = %record.session_id, %error, "a change of a session waits");
        Ok(self.store.commit_with_retry(batch, Durability::Process, held).await?)
    }

    async fn persist_as(
        &self,
        record: impl FnOnce() -> Record,
        written: fn(&Record) -> Result<Batch, Error>,
    ) -> Result<(), Error> {
        let closed = self.closed.lock().await;
        if *closed {
            return Ok(());
        }
        Ok(self.store.commit(written(&record())?, Durability::Process).await?)
    }

    /// Writes the end, and these changes with it, after all that was persisted; tries until the store has taken it.
    /// Errors: the store is gone.
    pub(super) async fn close(&self, record: &Record, with: Batch) -> Result<(), Error> {
        let mut closed = self.closed.lock().await;
        *closed = true;
        let held = |error: &_| tracing::warn!(session = %record.session_id, %error, "the end of a session waits");
        Ok(self.store.commit_with_retry(written_with(record, with)?, Durability::Process, held).await?)
    }
}

impl Sessions {
    /// Writes a change of a live session to the store, so that it survives the daemon, also where its client has left meanwhile. It
    /// waits for the store, and not for one that is slow or has no room: what goes on in the browser cannot be taken back, and the
    /// store is tried until it has the change.
    pub async fn persist(&self, session: &Arc<Session>) {
        if timeout(PERSIST_TIMEOUT, self.keep(session)).await.is_err() {
            tracing::warn!(session = %session.id, "a change of a session is not on the disk yet");
        }
    }

    /// The same, without waiting for it.
    pub(super) fn keep(&self, session: &Arc<Session>) -> DrainTask<()> {
        self.changed(&session.owner);
        let session = Arc::clone(session);
        self.spawn_write(async move {
            if let Err(error) = session.journal.keep(|| session.record()).await {
                tracing::error!(session = %session.id, %error, "a change of a session was not written");
            }
        })
    }

    /// Writes what a page has caused, which the next write of the record would bring anyway.
    pub(super) async fn note(&self, session: &Arc<Session>) {
        self.changed(&session.owner);
        let session = Arc::clone(session);
        carry_out(async move {
            if let Err(error) = session.journal.persist(|| session.record()).await {
                tracing::warn!(session = %session.id, %error, "what a page has caused was not written");
            }
        })
        .await;
    }

    /// Ends a link, if there is one of this id, and returns once the store knows it, so that no older backup makes the link work again.
    /// Whoever ends it again meanwhile waits for the store, too.
    /// Errors: the store is gone, so that the link may work again.
    pub async fn end_share(&self, session: &Arc<Session>, share: &str) -> Result<(), Error> {
        if !session.shares.remove(share) {
            return Ok(());
        }
        self.changed(&session.owner);
        let (session, share) = (Arc::clone(session), share.to_owned());
        carry_out(async move {
            session.journal.take_away(|| session.record()).await?;
            session.shares.forget(&share);
            Ok(())
        })
        .await
    }
}

/// The change that writes a record.
pub(super) fn written(record: &Record) -> Result<Batch, Error> {
    written_with(record, Batch::new())
}

/// The change that writes a record on which a client relies after a restart. A session has few of them in its life, and they are no
/// new work, so they may use what a nearly full disk has left.
fn written_with_reserve(record: &Record) -> Result<Batch, Error> {
    let mut batch = written(record)?;
    batch.essential();
    Ok(batch)
}

/// The change that writes a record which takes something away. An older backup brings it back no longer than the session may last.
fn written_for_good(record: &Record) -> Result<Batch, Error> {
    let mut batch = written(record)?;
    batch.essential().irrevocable_until(record.deadline());
    Ok(batch)
}

/// The change that writes a record, beside others.
pub(super) fn written_with(record: &Record, mut batch: Batch) -> Result<Batch, Error> {
    batch.put(Table::Sessions, record.store_key(), fitted(record)?);
    if record.ended.is_some() {
        // A nearly full disk stops new sessions; the ends of old ones are still recorded.
        batch.essential();
    }
    Ok(batch)
}

/// A record as text. Its pages add to it, and so may make it larger than the store takes: then what they added gives way, so that
/// the session's end is always written.
fn fitted(record: &Record) -> Result<Vec<u8>, Error> {
    let mut text = serde_json::to_vec(record).map_err(Error::internal)?;
    if text.len() > MAX_VALUE_BYTES {
        let mut shorter = record.clone();
        while text.len() > MAX_VALUE_BYTES && shorter.shorten() {
            text = serde_json::to_vec(&shorter).map_err(Error::internal)?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::session::Ending;
    use crate::session::record::Ended;
    use warmpool_api::captcha::{CaptchaRecord, Outcome, SolvedBy};
    use warmpool_api::session::{EgressSummary, RefusedCount};
    use warmpool_config::MAX_SHARES;
    use warmpool_core::clock::{Deadline, Now};
    use warmpool_core::ids::ShareId;
    use warmpool_protocol::CaptchaKind;
    use warmpool_store::StoreOptions;
    use warmpool_store::fault::{FaultGate, FaultPoint, Faults, StoreFault};

    fn record(ending: Option<&Ending>) -> Record {
        let mut record: Record = serde_json::from_value(json!({
            "session_id": "ses_a", "owner": "0123456789ab", "created_ms": 1, "worker": "w",
            "options": {"kind": "devtools", "engine": "chromium", "mode": "headless", "launch": {"url": null},
                "session_timeout": 300, "idle_timeout": null},
        }))
        .unwrap();
        record.ended = ending.map(|ending| Ended::new(ending, 2));
        record
    }

    async fn kept(store: &Store) -> Record {
        let value = store.get(Table::Sessions, &record(None).store_key()).await.unwrap().unwrap();
        serde_json::from_slice(&value).unwrap()
    }

    #[tokio::test]
    async fn the_end_is_the_last_that_is_written() {
        let faults = Faults::default();
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() });
        let journal = Arc::new(Journal::new(store.clone()));
        let gate = FaultGate::default();
        faults.next(FaultPoint::Apply, StoreFault::Hang(gate.clone()));
        // The first is under way, the second has looked at the session and waits, as the end then does.
        let persisting = |journal: &Arc<Journal>| {
            let journal = Arc::clone(journal);
            tokio::spawn(async move { journal.persist(|| record(None)).await })
        };
        let first = persisting(&journal);
        while faults.calls(FaultPoint::Apply) == 0 {
            tokio::task::yield_now().await;
        }
        let second = persisting(&journal);
        let completed = record(Some(&Ending::ClientFinished));
        let closing = {
            let (journal, completed) = (Arc::clone(&journal), completed.clone());
            tokio::spawn(async move { journal.close(&completed, Batch::new()).await })
        };
        tokio::task::yield_now().await;
        gate.open();
        for written in [first, second, closing] {
            written.await.unwrap().unwrap();
        }
        journal.persist(|| record(None)).await.unwrap();
        assert_eq!(kept(&store).await, completed);
    }

    #[tokio::test]
    async fn what_was_taken_away_is_written_for_good() {
        let faults = Faults::default();
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() });
        let journal = Journal::new(store);
        journal.persist(|| record(None)).await.unwrap();
        assert_eq!(faults.calls(FaultPoint::Journal), 0);
        journal.persist_for_good(|| record(None)).await.unwrap();
        assert_eq!(faults.calls(FaultPoint::Journal), 1);
    }

    #[tokio::test]
    async fn what_pages_added_does_not_keep_an_end_from_the_store() {
        let store = Store::memory();
        let mut full = record(Some(&Ending::TimedOut));
        let challenge = CaptchaRecord {
            kind: CaptchaKind::Image,
            url: format!("http://a.example/{}", "a".repeat(2000)),
            since: 1,
            ended_at: 2,
            by: SolvedBy::Solver,
            outcome: Outcome::Failed,
            error: Some("solver_key".to_owned()),
            cost: None,
        };
        full.captchas = vec![challenge; 32];
        let refused = RefusedCount { host: "a".repeat(255), port: 1, reason: "denied".to_owned(), count: 1 };
        full.egress =
            Some(EgressSummary { bytes_in: 1, bytes_out: 2, refused_count: 300, refused: vec![refused; 300] });
        Journal::new(store.clone()).close(&full, Batch::new()).await.unwrap();
        let kept = kept(&store).await;
        assert_eq!(kept.ended, full.ended);
        assert_eq!(kept.egress.unwrap().refused_count, 300);
    }

    #[tokio::test]
    async fn no_text_of_a_worker_keeps_an_end_from_the_store() {
        let store = Store::memory();
        let mut full = record(Some(&Ending::TimedOut));
        // Each of its characters takes six bytes in the store.
        let text = "\u{1}".repeat(MAX_VALUE_BYTES);
        (full.page_error, full.profile_error) = (Some(text.clone()), Some(text.clone()));
        full.ended.as_mut().unwrap().message = text;
        Journal::new(store.clone()).close(&full, Batch::new()).await.unwrap();
        let Record { page_error, profile_error, ended, .. } = kept(&store).await;
        let ended = ended.unwrap();
        assert_eq!(ended.reason, Ending::TimedOut.code());
        for text in [page_error.unwrap(), profile_error.unwrap(), ended.message] {
            assert!(text.starts_with('\u{1}') && text.ends_with('…') && text.len() > 1000, "{} bytes", text.len());
        }
    }

    #[tokio::test]
    async fn a_live_session_has_room_for_all_its_links() {
        let store = Store::memory();
        let now = Now::at(u64::from(u32::MAX) * 1000, "01234567-89ab-cdef-0123-456789abcdef", 1 << 40);
        let until = Deadline::after(Duration::from_secs(86_400), &now);
        let share = json!({"share_id": ShareId::random(), "enable_actions": false, "created_at": 1_790_000_000_000_u64,
            "expires_at": 1_790_000_000_000_u64, "deadline": until});
        let mut full = record(None);
        full.shares = vec![serde_json::from_value(share).unwrap(); MAX_SHARES];
        let bytes = serde_json::to_vec(&full).unwrap().len();
        assert!(bytes + (8 << 10) <= MAX_VALUE_BYTES, "{bytes} bytes leave no room for what else a session has");
        Journal::new(store.clone()).persist(|| full).await.unwrap();
        assert_eq!(kept(&store).await.shares.len(), MAX_SHARES);
    }

    #[tokio::test]
    async fn an_end_waits_for_room() {
        let faults = Faults::default();
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 1000, ..StoreOptions::default() });
        let journal = Journal::new(store.clone());
        journal.persist(|| record(None)).await.unwrap();
        faults.set_free_bytes(0);
        assert!(matches!(
            journal.persist(|| record(None)).await,
            Err(Error::Service(warmpool_core::error::ServiceError::DiskNearlyFull))
        ));
        let completed = record(Some(&Ending::ClientFinished));
        let (closed, ()) = tokio::join!(journal.close(&completed, Batch::new()), async {
            while faults.calls(FaultPoint::Apply) == 1 && kept(&store).await.ended.is_none() {
                faults.set_free_bytes(1000);
            }
        });
        closed.unwrap();
        assert_eq!(kept(&store).await, completed);
    }
}
