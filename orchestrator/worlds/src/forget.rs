//! Deletes worlds and patients, and enforces retention limits.

use std::time::Duration;

use super::patient::forget;
use super::record::WorldRecord;
use super::{PatientRef, WorldCaller, Worlds};
use crate::Error;
use warmpool_core::clock::{millis, unix_ms};
use warmpool_core::drain::Phase;
use warmpool_core::ids::WorldId;
use warmpool_keys::IntegrationKey;
use warmpool_store::{Batch, Durability, KeyRange, Table, carry_out};

/// Time between two checks for what is older than it may be.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Rows read, or removed, at a time.
const PAGE: usize = 256;

/// What was deleted of a patient.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// How many worlds.
    pub worlds: usize,
    /// How many patients: one for each integration key that knew the id.
    pub patients: usize,
}

impl Worlds {
    /// Deletes a world with all its files; one that is being made is given up.
    /// Errors: `UnknownWorld`; when store or disk refuse: then the world stays, perhaps without its files.
    pub async fn delete(&self, id: &str, caller: &WorldCaller) -> Result<(), Error> {
        let (worlds, id, caller) = (self.clone(), id.to_owned(), caller.clone());
        carry_out(async move {
            // So that nothing is written of it meanwhile.
            let _none = worlds.shared.accepting.lock().await;
            let record = worlds.find(&id, &caller).await?;
            worlds.remove_for_good(&record).await
        })
        .await
    }

    async fn remove_for_good(&self, record: &WorldRecord) -> Result<(), Error> {
        let mut batch = self.removal(record).await?;
        batch.irrevocable();
        self.shared.store.commit(batch, Durability::Power).await?;
        self.announce_viewers();
        Ok(())
    }

    /// Removes a world's files, and returns the changes that remove its rows. The caller holds `accepting`.
    async fn removal(&self, record: &WorldRecord) -> Result<Batch, Error> {
        let id = &record.world_id;
        if let Some(live) = self.live(id) {
            self.stop(&live).await;
            self.remove_live(id);
        }
        self.shared.files.remove_all(id).await?;
        self.lock().usage.remove(id);
        let mut batch = Batch::new();
        batch.delete(Table::Worlds, id.as_str());
        batch.delete(Table::PatientWorlds, record.patient.world_row(id.as_str()));
        let kept = self.shared.store.get(Table::Scenes, record.scene.as_bytes()).await?;
        if kept.is_some_and(|kept| kept == id.as_str().as_bytes()) {
            batch.delete(Table::Scenes, record.scene.as_str());
        }
        batch.essential();
        Ok(batch)
    }

    /// The patients that a caller means by this id, each with the integration key that may know them.
    pub(super) fn references(&self, caller: &WorldCaller, patient_id: &str) -> Vec<(IntegrationKey, PatientRef)> {
        let keys = match caller {
            WorldCaller::Integration(key) => vec![IntegrationKey::clone(key)],
            WorldCaller::Operator(owner) => self.shared.keys.list_of(owner),
        };
        let reference = |key: IntegrationKey| {
            let reference = self.shared.patients.reference(&key.id, patient_id);
            (key, reference)
        };
        keys.into_iter().map(reference).collect()
    }

    /// Deletes all that is kept of a patient: worlds, attachments, id and name. Rows of the log stay, and are anonymous.
    /// Errors: `UnknownPatient`; when store or disk refuse: then try again.
    pub async fn delete_patient(&self, patient_id: &str, caller: &WorldCaller) -> Result<Deleted, Error> {
        let (worlds, id, caller) = (self.clone(), patient_id.to_owned(), caller.clone());
        carry_out(async move { worlds.forget_patient(&id, &caller).await }).await
    }

    async fn forget_patient(&self, patient_id: &str, caller: &WorldCaller) -> Result<Deleted, Error> {
        let mut forgotten = Deleted::default();
        for (_, reference) in self.references(caller, patient_id) {
            // So that no request for the patient comes between the worlds and the name.
            let _none = self.shared.accepting.lock().await;
            for record in self.worlds_of(&reference).await? {
                self.remove_for_good(&record).await?;
                forgotten.worlds += 1;
            }
            if self.shared.patients.is_known(&reference).await? {
                let mut batch = Batch::new();
                forget(&reference, &mut batch);
                self.shared.store.commit(batch, Durability::Power).await?;
                forgotten.patients += 1;
            }
        }
        if forgotten == Deleted::default() {
            return Err(Error::UnknownPatient);
        }
        Ok(forgotten)
    }

    pub(super) async fn worlds_of(&self, patient: &PatientRef) -> Result<Vec<WorldRecord>, Error> {
        let mut found = Vec::new();
        let mut range = KeyRange::prefix(patient.world_row("").as_bytes());
        loop {
            let rows = self.shared.store.scan(Table::PatientWorlds, range.clone(), PAGE).await?;
            let Some(last) = rows.last() else { return Ok(found) };
            range = range.after(&last.key);
            for row in &rows {
                let id = WorldId::from(&*String::from_utf8_lossy(&row.value));
                found.extend(self.record(&id).await?);
            }
        }
    }

    /// Deletes worlds and rows of the log that are older, or rows that are more, than they may be, until the daemon stops.
    pub async fn sweep(&self) {
        let mut tidied = false;
        loop {
            if !tidied {
                match self.tidy_all().await {
                    Ok(()) => tidied = true,
                    Err(error) => tracing::error!(%error, "what a crash left of worlds could not be removed"),
                }
            }
            if let Err(error) = self.forget_old().await {
                tracing::error!(%error, "old worlds could not be removed");
            }
            tokio::select! {
                () = self.shared.drain.reached(Phase::Draining) => return,
                () = tokio::time::sleep(SWEEP_EVERY) => {}
            }
        }
    }

    pub(super) async fn forget_old(&self) -> Result<(), Error> {
        // A disk that is nearly full refuses these, and what frees space has to go on.
        if let Err(error) = self.shared.keys.save_last_used().await {
            tracing::warn!(%error, "cannot record when integration keys were last used");
        }
        let settings = &self.shared.config.world;
        self.shared.log.forget_old(settings.keep_log_for).await?;
        self.shared.log.forget_surplus(settings.keep_log).await?;
        let oldest = unix_ms().saturating_sub(millis(settings.keep_for));
        let mut range = KeyRange::all();
        loop {
            let rows = self.shared.store.scan(Table::Worlds, range.clone(), PAGE).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            range = range.after(&last.key);
            for row in &rows {
                let record: WorldRecord = row.json(Table::Worlds)?;
                if record.status.is_end() && record.created_ms < oldest {
                    let _none = self.shared.accepting.lock().await;
                    // Nothing irrevocable: what a backup brings back is as old, and goes the same way.
                    let batch = self.removal(&record).await?;
                    self.shared.store.commit(batch, Durability::Power).await?;
                }
            }
        }
    }

    /// Removes what a crash leaves: folders whose worlds are gone, and what was uploaded for worlds that have ended. Measures the rest.
    pub(super) async fn tidy_all(&self) -> Result<(), Error> {
        for world in self.shared.files.worlds().await? {
            // A world that is being accepted has files before it has a row.
            let _none = self.shared.accepting.lock().await;
            match self.record(&world).await? {
                Some(record) => self.tidy(&record).await?,
                None => self.shared.files.remove_all(&world).await?,
            }
        }
        Ok(())
    }

    /// Removes what was uploaded for a world that has just ended: its pictures are written anew, or nobody will need them.
    pub(super) async fn tidy_ended(&self, record: &WorldRecord) {
        if let Err(error) = self.tidy(record).await {
            tracing::warn!(world = %record.world_id, %error, "a world's uploads could not be removed; the next start does it");
        }
    }

    async fn tidy(&self, record: &WorldRecord) -> Result<(), Error> {
        let (world, files) = (&record.world_id, &self.shared.files);
        if record.status.is_end() {
            files.remove_uploads(world).await?;
        }
        let bytes = files.size(world).await?;
        self.lock().usage.set(world, &record.owner, bytes);
        Ok(())
    }
}
