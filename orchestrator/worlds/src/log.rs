//! The log of requests for worlds. A row names its patient by reference only: deleting a patient makes the patient's
//! rows anonymous without touching them.

mod index;
mod unproven;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{Stream, unfold};
use http::StatusCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::patient::{Identity, PatientRef, Patients};
use super::request::Counts;
use crate::Error;
use index::{Index, RowKey};
use unproven::Unproven;
use warmpool_api::integration::RequestView;
use warmpool_api::world::Environment;
use warmpool_core::cipher::Cipher;
use warmpool_core::clock::{millis, unix_ms};
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::WorldId;
use warmpool_keys::{IntegrationKeyId, KeyId};
use warmpool_store::{Batch, Durability, KeyRange, Store, StoreError, Table, carry_out};

/// Rows removed at a time.
const PAGE: usize = 512;
/// How many rows a follower may be behind.
const BEHIND: usize = 256;

/// One request, as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestRow {
    pub at_ms: u64,
    /// The service key that may see the row; none where the integration key is unknown, which every service key may see.
    pub owner: Option<KeyId>,
    pub key: Option<IntegrationKeyId>,
    /// Both ends of the integration key that was sent.
    pub shown: Option<String>,
    pub patient: Option<PatientRef>,
    pub environment: Option<Environment>,
    /// What is attached; none where the body could not be read.
    pub counts: Option<Counts>,
    /// The labels of the first belongings, encrypted with the patient's own key.
    pub belongings: Option<String>,
    pub status: u16,
    pub latency_ms: u64,
    pub world: Option<WorldId>,
}

/// A request that is being answered, and what the log will say of it.
pub struct RequestEntry {
    pub(crate) row: RequestRow,
    arrived: Instant,
    waited: Duration,
    /// Whether its integration key works.
    proven: bool,
    /// Logs the request even if nobody is left to answer.
    anyway: Option<RequestLog>,
}

impl RequestEntry {
    /// Begins with a request that arrives now.
    #[must_use]
    pub fn begin() -> Self {
        let row = RequestRow { at_ms: unix_ms(), ..RequestRow::default() };
        Self { row, arrived: Instant::now(), waited: Duration::ZERO, proven: false, anyway: None }
    }

    /// It came with an integration key that works.
    pub(crate) const fn prove(&mut self) {
        self.proven = true;
    }

    /// Logs it from now on also when it is dropped, as a client that leaves does: its world is made all the same.
    pub(crate) fn log_anyway(&mut self, log: &RequestLog) {
        self.prove();
        self.anyway = Some(log.clone());
    }

    /// Leaves this time out of the latency: a client asked to wait so long for the world's end.
    pub const fn leave_out(&mut self, waited: Duration) {
        self.waited = waited;
    }
}

impl Drop for RequestEntry {
    fn drop(&mut self) {
        let Some((log, runtime)) = self.anyway.take().zip(Handle::try_current().ok()) else { return };
        let row = std::mem::take(&mut self.row);
        let entry = Self { row, anyway: None, ..*self };
        runtime.spawn(async move { log.add(entry, StatusCode::OK.as_u16()).await });
    }
}

/// Which rows are wanted. What is none excludes no row.
#[derive(Debug, Clone, Default)]
pub struct RequestQuery {
    /// Those that this service key may see.
    pub owner: Option<KeyId>,
    /// Those that arrived after this moment, in Unix milliseconds.
    pub start_ms: Option<u64>,
    /// Those that arrived before this moment, in Unix milliseconds.
    pub end_ms: Option<u64>,
    /// Those for one of these patients: of one id, one for each integration key that may know it.
    pub patients: Option<Vec<PatientRef>>,
    /// Those for this kind of scene.
    pub environment: Option<Environment>,
    /// Those with this integration key.
    pub key: Option<IntegrationKeyId>,
    /// Those whose status begins with this digit.
    pub class: Option<u16>,
    /// Which page, from 1.
    pub page: usize,
    /// How many rows a page holds.
    pub limit: usize,
}

impl RequestQuery {
    /// Whether a row is wanted.
    pub(crate) fn takes(&self, row: &RequestRow) -> bool {
        let patient = |wanted: &Vec<PatientRef>| row.patient.as_ref().is_some_and(|patient| wanted.contains(patient));
        self.owner.as_ref().is_none_or(|owner| row.owner.as_ref().is_none_or(|of| of == owner))
            && self.start_ms.is_none_or(|start| row.at_ms > start)
            && self.end_ms.is_none_or(|end| row.at_ms < end)
            && self.patients.as_ref().is_none_or(patient)
            && self.environment.is_none_or(|wanted| row.environment == Some(wanted))
            && self.key.as_ref().is_none_or(|key| row.key.as_ref() == Some(key))
            && self.class.is_none_or(|class| row.status / 100 == class)
    }
}

/// The log of requests. Clones share it.
#[derive(Clone)]
pub struct RequestLog {
    store: Store,
    patients: Patients,
    /// Rows for followers. Those that anybody can send are apart, so that however many they are, nobody misses the others.
    proven: broadcast::Sender<RequestRow>,
    unproven: broadcast::Sender<RequestRow>,
    known: Arc<Mutex<Known>>,
    /// Tells rows of one millisecond apart.
    next: Arc<AtomicU32>,
}

/// What the log knows without reading.
struct Known {
    /// Which rows there are.
    index: Index,
    /// Those that the store does not have.
    unproven: Unproven,
}

impl RequestLog {
    /// Reads every row into the index. Of requests without a key that works it will keep so many.
    /// Errors: when the store cannot be read.
    pub(super) async fn open(store: Store, patients: Patients, unproven: usize) -> Result<Self, StoreError> {
        let mut index = Index::default();
        let mut pages = store.pages(Table::WorldRequests);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                if let Some(place) = place(&row.key) {
                    index.add(place, &row.json(Table::WorldRequests)?, true);
                }
            }
        }
        let known = Arc::new(Mutex::new(Known { index, unproven: Unproven::new(unproven) }));
        let ((proven, _), (unproven, _)) = (broadcast::channel(BEHIND), broadcast::channel(BEHIND));
        Ok(Self { store, patients, proven, unproven, known, next: Arc::default() })
    }

    /// Adds a request, now that it was answered with this status.
    pub async fn add(&self, mut entry: RequestEntry, status: u16) {
        entry.anyway = None;
        let latency_ms = millis(entry.arrived.elapsed().saturating_sub(entry.waited));
        let row = RequestRow { status, latency_ms, ..std::mem::take(&mut entry.row) };
        let place = (row.at_ms, self.next.fetch_add(1, Ordering::Relaxed));
        if entry.proven {
            let log = self.clone();
            carry_out(async move { log.write(place, row).await }).await;
        } else {
            self.remember(place, row);
        }
    }

    async fn write(&self, place: RowKey, row: RequestRow) {
        let mut batch = Batch::new();
        let put = batch.put_json(Table::WorldRequests, key(place), &row).map(drop);
        let written = match put {
            Ok(()) => self.store.commit(batch, Durability::Process).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => self.known.lock().index.add(place, &row, true),
            Err(error) => tracing::error!(%error, "a request for a world could not be logged"),
        }
        // Fails only if nobody follows.
        let _ = self.proven.send(row);
    }

    fn remember(&self, place: RowKey, row: RequestRow) {
        {
            let Known { index, unproven } = &mut *self.known.lock();
            index.add(place, &row, false);
            if let Some(oldest) = unproven.add(place, row.clone()) {
                index.remove(oldest);
            }
        }
        let _ = self.unproven.send(row);
    }

    /// The rows that match, as they are added from now on.
    pub fn follow(&self, query: RequestQuery) -> impl Stream<Item = Result<RequestView, Error>> + Send + use<> {
        let state = (self.clone(), self.proven.subscribe(), self.unproven.subscribe(), query);
        unfold(state, |(log, mut proven, mut unproven, query)| async move {
            let row = loop {
                let next = tokio::select! {
                    biased;
                    next = proven.recv() => next,
                    next = unproven.recv() => next,
                };
                match next {
                    Ok(row) if query.takes(&row) => break row,
                    // A slow reader misses rows of the stream; the list has them.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            };
            let view = log.view(row, &mut HashMap::new()).await;
            Some((view, (log, proven, unproven, query)))
        })
    }

    /// One page of rows, newest first, and how many there are in all.
    /// Fails when the store does not answer.
    pub async fn list(&self, query: &RequestQuery) -> Result<(Vec<RequestView>, usize), Error> {
        let (places, mut rows, total) = {
            let Known { index, unproven } = &*self.known.lock();
            let (places, total) = index.page(query);
            let row = |place: &RowKey| Some((*place, unproven.get(*place)?.clone()));
            let rows: HashMap<_, _> = places.iter().filter_map(row).collect();
            (places, rows, total)
        };
        let stored: Vec<_> = places.iter().filter(|place| !rows.contains_key(place)).copied().collect();
        let read = self.store.get_many(Table::WorldRequests, stored.iter().copied().map(key).collect()).await?;
        for (place, row) in stored.into_iter().zip(read) {
            // A row that was removed in between is left out.
            let Some(row) = row else { continue };
            rows.insert(place, serde_json::from_slice(&row).map_err(Error::internal)?);
        }
        let mut known = HashMap::new();
        let mut views = Vec::with_capacity(places.len());
        for row in places.into_iter().filter_map(|place| rows.remove(&place)) {
            views.push(self.view(row, &mut known).await?);
        }
        Ok((views, total))
    }

    /// One row as clients see it; `known` are the patients that were looked up before.
    async fn view(
        &self,
        row: RequestRow,
        known: &mut HashMap<PatientRef, Option<(Identity, Cipher)>>,
    ) -> Result<RequestView, Error> {
        if let Some(reference) = row.patient.as_ref().filter(|reference| !known.contains_key(reference)) {
            let patient = self.patients.find(reference).await?;
            let named = patient.and_then(|patient| Some((patient.identity()?, patient.cipher)));
            known.insert(reference.clone(), named);
        }
        let patient = row.patient.as_ref().and_then(|reference| known.get(reference)?.as_ref());
        let belongings: Option<Vec<String>> =
            patient.zip(row.belongings.as_ref()).and_then(|((_, cipher), text)| cipher.decrypt_json(text).ok());
        let name = patient.map(|(identity, _)| identity.name.as_str());
        let status = StatusCode::from_u16(row.status).ok().and_then(|status| status.canonical_reason());
        Ok(RequestView {
            timestamp: row.at_ms,
            patient_id: patient.map(|(identity, _)| identity.id.clone()),
            environment_type: row.environment,
            payload: payload(name, row.counts, &belongings.unwrap_or_default()),
            key_id: row.key,
            key: row.shown,
            status: format!("{} {}", row.status, status.unwrap_or_default()).trim_end().to_owned(),
            latency: format!("{} ms", row.latency_ms),
            latency_ms: row.latency_ms,
            world_id: row.world,
            world_status: None,
        })
    }

    /// Whether a row is for this patient.
    pub(super) fn names(&self, patient: &PatientRef) -> bool {
        self.known.lock().index.names(patient)
    }

    /// Removes rows that are older than `keep_for`.
    pub(super) async fn forget_old(&self, now_ms: u64, keep_for: Duration) -> Result<(), Error> {
        let oldest_ms = now_ms.saturating_sub(millis(keep_for));
        {
            let Known { index, unproven } = &mut *self.known.lock();
            index.forget_before((oldest_ms, 0));
            unproven.forget_before((oldest_ms, 0));
        }
        let oldest = key((oldest_ms, 0));
        loop {
            let range = KeyRange::between(&key((0, 0)), &oldest);
            let rows = self.store.scan(Table::WorldRequests, range, PAGE).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::new();
            for row in rows {
                batch.delete(Table::WorldRequests, row.key);
            }
            self.store.commit(batch, Durability::Process).await?;
        }
    }

    /// Removes the oldest rows of each service key that has more than `keep` in the store.
    pub(super) async fn forget_surplus(&self, keep: usize) -> Result<(), Error> {
        let surplus = self.known.lock().index.surplus(keep);
        if surplus.is_empty() {
            return Ok(());
        }
        let (mut gone, mut outcome) = (HashSet::new(), Ok(()));
        for page in surplus.chunks(PAGE) {
            let mut batch = Batch::new();
            for place in page {
                batch.delete(Table::WorldRequests, key(*place));
            }
            outcome = self.store.commit(batch, Durability::Process).await;
            if outcome.is_err() {
                break;
            }
            gone.extend(page);
        }
        self.known.lock().index.forget(&gone);
        Ok(outcome?)
    }
}

/// The key of a row: rows lie in the order of time.
fn key((at_ms, number): RowKey) -> Vec<u8> {
    [&at_ms.to_be_bytes()[..], &number.to_be_bytes()].concat()
}

/// The time and the number in the key of a row.
fn place(key: &[u8]) -> Option<RowKey> {
    let (at_ms, number) = key.split_first_chunk()?;
    Some((u64::from_be_bytes(*at_ms), u32::from_be_bytes(number.try_into().ok()?)))
}

/// `Ann Lee: 3 images, 1 video, 3 belongings: radio, teapot and 1 more`.
fn payload(name: Option<&str>, counts: Option<Counts>, belongings: &[String]) -> String {
    let Some(counts) = counts else { return "not read".to_owned() };
    let count = |number: usize, one: &str| match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {one}s")),
    };
    let parts = [count(counts.images, "image"), count(counts.videos, "video"), count(counts.belongings, "belonging")];
    let mut text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        text.push_str("nothing attached");
    } else if counts.belongings > 0 && !belongings.is_empty() {
        text = format!("{text}: {}", belongings.join(", "));
        let unnamed = counts.belongings.saturating_sub(belongings.len());
        if unnamed > 0 {
            text = format!("{text} and {unnamed} more");
        }
    }
    name.map_or_else(|| text.clone(), |name| format!("{name}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_patient_and_what_is_attached() {
        let counts = Counts { images: 3, videos: 1, belongings: 2 };
        let belongings = ["radio".to_owned(), "teapot".to_owned()];
        assert_eq!(
            payload(Some("Ann Lee"), Some(counts), &belongings),
            "Ann Lee: 3 images, 1 video, 2 belongings: radio, teapot"
        );
        assert_eq!(payload(None, Some(counts), &[]), "3 images, 1 video, 2 belongings");
        assert_eq!(payload(Some("Ann Lee"), Some(Counts::default()), &[]), "Ann Lee: nothing attached");
        let one = Counts { images: 1, videos: 2, belongings: 1 };
        assert_eq!(payload(None, Some(one), &["hat".to_owned()]), "1 image, 2 videos, 1 belonging: hat");
        let many = Counts { belongings: 24, ..Counts::default() };
        assert_eq!(payload(None, Some(many), &belongings), "24 belongings: radio, teapot and 22 more");
        assert_eq!(payload(None, None, &[]), "not read");
    }

    #[test]
    fn rows_lie_in_the_order_of_time() {
        assert_eq!(place(&key((7, 9))), Some((7, 9)));
        assert!(key((1, u32::MAX)) < key((2, 0)) && key((255, 0)) < key((256, 0)) && key((2, 1)) < key((2, 2)));
    }
}
