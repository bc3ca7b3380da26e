//! Renders worlds in turn, and takes out at once what nobody may have any more: deleted worlds, and those of revoked keys.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::files::FOLDER;
use super::patient::Patient;
use super::record::{Content, WorldRecord};
use super::render::{Renderer, remove_left};
use super::render_error::RenderError;
use super::{LiveWorld, Worlds};
use crate::Error;
use warmpool_api::world::{Failure, Status};
use warmpool_core::clock::unix_ms;
use warmpool_core::drain::Phase;
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::WorldId;
use warmpool_core::panics::{contained, keep_running};
use warmpool_store::{Batch, Durability, StoreError, Table};

/// How often a world is begun before it counts as failed.
const TRIES: usize = 2;
/// Time between two tries to reach a container runtime, or a store, that does not answer.
const RETRY: Duration = Duration::from_secs(5);

impl Worlds {
    /// Takes up the worlds that an earlier process left unfinished, oldest first.
    /// Fails when the store does not answer.
    pub async fn load(&self) -> Result<(), StoreError> {
        let mut unfinished: Vec<WorldRecord> = Vec::new();
        let mut known = HashSet::new();
        let mut pages = self.shared.store.pages(Table::Worlds);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                let record: WorldRecord = row.json(Table::Worlds)?;
                known.insert(record.world_id.clone());
                // Its files are measured later, so that no start waits for that.
                self.lock().usage.set(&record.world_id, &record.owner, 0);
                if !record.status.is_end() {
                    unfinished.push(record);
                }
            }
        }
        // Before the consequences are drawn of the data having gone back.
        let unowned = self.shared.store.unowned(&FOLDER, Table::Worlds).await?;
        self.shared.files.keep_only(unowned, known).await;
        self.shared.patients.count(|owner| self.lock().usage.add_patient(owner)).await?;
        unfinished.sort_unstable_by(|a, b| (a.created_ms, &a.world_id).cmp(&(b.created_ms, &b.world_id)));
        for record in unfinished {
            // A backup has no folders without files.
            if let Err(error) = self.shared.files.create(&record.world_id).await {
                tracing::error!(world = %record.world_id, %error, "a world's folder cannot be made");
            }
            self.enqueue(WorldRecord { status: Status::Queued, ..record });
        }
        // Of keys that were revoked while no daemon ran.
        self.end_revoked().await;
        Ok(())
    }

    /// Puts a world behind those of its key.
    pub(super) fn enqueue(&self, record: WorldRecord) {
        let id = record.world_id.clone();
        let mut state = self.lock();
        state.queue.push(&record.owner, &record.key, id.clone());
        state.live.insert(id, Arc::new(LiveWorld::new(record)));
        metrics::gauge!("warmpool_worlds_queued").set(count(state.queue.len()));
        drop(state);
        self.shared.work.notify_one();
    }

    /// Renders what is in the queue until the daemon stops.
    pub async fn run(&self) {
        while let Err(error) = remove_left(&self.shared.runtime, &self.shared.drain).await {
            tracing::debug!(%error, "cannot look for renderers of an earlier process");
            tokio::select! {
                () = self.shared.drain.reached(Phase::Draining) => return,
                () = sleep(RETRY) => {}
            }
        }
        let worlds = self.clone();
        self.shared.drain.spawn(keep_running("remove renderers", async move || worlds.remove_left_later().await));
        let worlds = self.clone();
        let ending = async move || worlds.follow_revocations().await;
        self.shared.drain.spawn(keep_running("end worlds of revoked keys", ending));
        let renderers = (0..self.shared.config.world.renderers).map(|_| {
            let worlds = self.clone();
            self.shared.drain.spawn(keep_running("render", async move || worlds.render_in_turn().await))
        });
        for renderer in renderers.collect::<Vec<_>>() {
            let _ = renderer.await;
        }
    }

    /// Removes what an earlier process has left and did not show at the start: the engine may finish what it was asked for by a
    /// process that was killed meanwhile.
    async fn remove_left_later(&self) {
        loop {
            tokio::select! {
                () = self.shared.drain.reached(Phase::Draining) => return,
                () = sleep(self.shared.config.docker.reconcile_interval) => {}
            }
            if let Err(error) = remove_left(&self.shared.runtime, &self.shared.drain).await {
                tracing::debug!(%error, "cannot look for renderers of an earlier process");
            }
        }
    }

    pub(super) async fn render_in_turn(&self) {
        let mut spare = self.spare().await;
        loop {
            // What waits keeps its place in the queue: its turn would be lost on a store that takes nothing.
            tokio::select! {
                biased;
                () = self.shared.drain.reached(Phase::Draining) => return,
                () = self.wait_for_room() => {}
            }
            let Some(live) = self.next() else {
                tokio::select! {
                    () = self.shared.drain.reached(Phase::Draining) => return,
                    () = self.shared.work.notified() => continue,
                }
            };
            let released = live.released.clone().drop_guard();
            tokio::select! {
                biased;
                // What is unfinished stays in the store, for the next start.
                () = self.shared.drain.reached(Phase::Draining) => return,
                () = live.cancel.cancelled() => {}
                () = self.make(&live, spare.take()) => {}
            }
            // Before a renderer starts: who deletes the world waits for this, and others wait for them.
            drop(released);
            spare = self.spare().await;
        }
    }

    fn next(&self) -> Option<Arc<LiveWorld>> {
        let mut state = self.lock();
        // What waits is in both.
        let found = state.queue.pop().and_then(|id| state.live.get(&id).cloned());
        metrics::gauge!("warmpool_worlds_queued").set(count(state.queue.len()));
        if state.queue.len() > 0 {
            self.shared.work.notify_one();
        }
        found
    }

    /// Makes one world and records the outcome.
    async fn make(&self, live: &LiveWorld, mut spare: Option<Renderer>) {
        let begun = std::time::Instant::now();
        let record = live.change(|record| record.status = Status::Rendering);
        let id = record.world_id.clone();
        tracing::info!(world = %id, environment = record.environment.as_str(), "rendering");
        let mut tries = 0;
        let mut content = Content::default();
        let outcome = loop {
            tries += 1;
            let rendered = contained(self.attempt(live, &mut content, &mut spare)).await;
            match rendered.unwrap_or_else(|panicked| Err(Error::internal(panicked).into())) {
                Err(error) if error.is_waited_for() => {
                    tracing::warn!(world = %id, %error, "a world waits for the container runtime, or for the store");
                    sleep(RETRY).await;
                    tries -= 1;
                }
                Err(error) if error.may_pass() && tries < TRIES => {
                    tracing::warn!(world = %id, %error, "a renderer failed, trying again");
                }
                outcome => break outcome,
            }
        };
        let failure = outcome.err().map(|error: RenderError| {
            tracing::warn!(world = %id, %error, "a world could not be made");
            error.failure()
        });
        let label = if failure.is_some() { "failed" } else { "ready" };
        metrics::counter!("warmpool_worlds_total", "status" => label).increment(1);
        metrics::histogram!("warmpool_world_render_seconds").record(begun.elapsed());
        if failure.is_none() {
            tracing::info!(world = %id, seconds = begun.elapsed().as_secs(), "rendered");
        }
        self.finish(live, &content, failure).await;
    }

    /// One try to make a world, in `spare` where one waits.
    async fn attempt(
        &self,
        live: &LiveWorld,
        content: &mut Content,
        spare: &mut Option<Renderer>,
    ) -> Result<(), RenderError> {
        let record = live.record();
        let patient = self.patiently(&record.world_id, || self.patient(&record)).await?;
        // An earlier try has kept its own: what was uploaded is gone by then.
        *content = record.open(&patient.cipher);
        self.render(live, &patient.cipher, content, spare.take()).await
    }

    pub(super) async fn patient(&self, record: &WorldRecord) -> Result<Patient, Error> {
        let patient = self.shared.patients.find(&record.patient).await?;
        patient.ok_or_else(|| Error::internal("the patient was deleted"))
    }

    /// Ends the worlds of integration keys as they are revoked, until the daemon stops.
    pub(super) async fn follow_revocations(&self) {
        let mut changes = self.shared.keys.changes();
        loop {
            // Before the first wait as well: a key may have been revoked since the start.
            self.end_revoked().await;
            tokio::select! {
                () = self.shared.drain.reached(Phase::Draining) => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Ends every world whose key was revoked, wherever it is on its way.
    pub(super) async fn end_revoked(&self) {
        // So that none is accepted, or deleted, meanwhile.
        let _none = self.shared.accepting.lock().await;
        let live: Vec<Arc<LiveWorld>> = self.lock().live.values().cloned().collect();
        for live in live {
            let record = live.record();
            if self.shared.keys.is_active(&record.key) {
                continue;
            }
            self.stop(&live).await;
            // It may have ended by itself just before.
            if self.remove_live(&record.world_id).is_none() {
                continue;
            }
            let message = "the integration key that asked for it was revoked".to_owned();
            let ended = ended(&live, Some(Failure { code: "key_revoked".to_owned(), message }));
            match self.write(&ended, Durability::Power).await {
                Ok(()) => self.tidy_ended(&ended).await,
                Err(error) => {
                    tracing::warn!(world = %ended.world_id, %error, "how a world ended could not be written; the next start does it");
                }
            }
            live.change(|record| *record = ended);
        }
    }

    /// Takes a world out of the queue or out of the hands of who renders it: once this returns, nobody does.
    pub(super) async fn stop(&self, live: &LiveWorld) {
        let id = live.record().world_id;
        let waited = {
            let mut state = self.lock();
            let waited = state.queue.remove(&id);
            metrics::gauge!("warmpool_worlds_queued").set(count(state.queue.len()));
            waited
        };
        if !waited {
            live.cancel.cancel();
            live.released.cancelled().await;
        }
    }

    /// Writes how a world ended, however long the store takes, and lets it go.
    async fn finish(&self, live: &LiveWorld, content: &Content, failure: Option<Failure>) {
        let WorldRecord { world_id, patient, .. } = live.record();
        let patient = self.patiently(&world_id, || self.shared.patients.find(&patient)).await.ok().flatten();
        let text = patient.map(|patient| patient.cipher.encrypt_json(content));
        let _alone = live.writing.lock().await;
        let mut ended = ended(live, failure);
        ended.content = text.unwrap_or(ended.content);
        let mut batch = Batch::new();
        if let Err(error) = batch.put_json(Table::Worlds, ended.world_id.as_str(), &ended) {
            tracing::error!(%error, "a world cannot be written");
            return;
        }
        batch.essential();
        let world = ended.world_id.clone();
        let held = |error: &StoreError| tracing::warn!(%world, %error, "a world waits for the store");
        match self.shared.store.commit_with_retry(batch, Durability::Power, held).await {
            // Before it is let go, so that nobody deletes it meanwhile.
            Ok(()) => self.tidy_ended(&ended).await,
            Err(error) => {
                tracing::error!(%world, %error, "how a world ended could not be written; the next start makes it anew");
            }
        }
        self.remove_live(&world);
        live.change(|record| *record = ended);
    }

    /// Takes a world out of what is being made.
    pub(super) fn remove_live(&self, world: &WorldId) -> Option<Arc<LiveWorld>> {
        self.lock().live.remove(world)
    }
}

/// A world's record at its end.
fn ended(live: &LiveWorld, failure: Option<Failure>) -> WorldRecord {
    let status = if failure.is_some() { Status::Failed } else { Status::Ready };
    WorldRecord { status, ended_ms: Some(unix_ms()), failure, ..live.record() }
}

#[expect(clippy::cast_precision_loss, reason = "a queue is short")]
fn count(length: usize) -> f64 {
    length as f64
}
