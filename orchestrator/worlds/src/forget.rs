//! Deletes worlds and patients, and enforces retention limits.

use std::time::Duration;

use super::patient::{forget, remove};
use super::record::WorldRecord;
use super::{PatientRef, WorldCaller, Worlds};
use crate::Error;
use warmpool_core::clock::{Now, millis};
use warmpool_core::drain::Phase;
use warmpool_core::ids::WorldId;
use warmpool_keys::IntegrationKey;
use warmpool_store::{Batch, Durability, KeyRange, Table, carry_out};

/// Time between two checks for what is older than it may be.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Worlds of a patient that are removed while nobody else may change worlds: a tenth of a second's work.
const WORLDS_AT_ONCE: usize = 16;
/// Patients who are looked at in one check for those of whom nothing is left.
const PATIENTS_AT_ONCE: usize = 1024;

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
            let mut batch = Batch::new();
            worlds.removal(&record, &mut batch).await?;
            worlds.remove_for_good(batch).await
        })
        .await
    }

    async fn remove_for_good(&self, mut batch: Batch) -> Result<(), Error> {
        batch.irrevocable();
        self.shared.store.commit(batch, Durability::Power).await?;
        self.announce_viewers();
        Ok(())
    }

    /// Removes a world's files, and adds to a batch what removes its rows. The caller holds `accepting`.
    async fn removal(&self, record: &WorldRecord, batch: &mut Batch) -> Result<(), Error> {
        let id = &record.world_id;
        if let Some(live) = self.live(id) {
            self.stop(&live).await;
            self.remove_live(id);
        }
        self.shared.files.remove_all(id).await?;
        self.lock().usage.remove(id);
        batch.delete(Table::Worlds, id.as_str());
        batch.delete(Table::PatientWorlds, record.patient.world_row(id.as_str()));
        let kept = self.shared.store.get(Table::Scenes, record.scene.as_bytes()).await?;
        if kept.is_some_and(|kept| kept == id.as_str().as_bytes()) {
            batch.delete(Table::Scenes, record.scene.as_str());
        }
        batch.essential();
        Ok(())
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
            while self.forget_some(&reference, &mut forgotten).await? {}
        }
        if forgotten == Deleted::default() {
            return Err(Error::UnknownPatient);
        }
        Ok(forgotten)
    }

    /// Deletes some of a patient's worlds, or what is left of a patient without one. Returns whether there may be more.
    async fn forget_some(&self, patient: &PatientRef, forgotten: &mut Deleted) -> Result<bool, Error> {
        // Some at a time, so that other requests get their turns. The patient goes when none is left, and none can come in between.
        let _none = self.shared.accepting.lock().await;
        let rows = self.shared.store.scan(Table::PatientWorlds, patient.world_rows(), WORLDS_AT_ONCE).await?;
        let mut batch = Batch::new();
        if rows.is_empty() {
            if self.shared.patients.is_known(patient).await? {
                forget(patient, &mut batch);
                self.remove_patients(batch, std::slice::from_ref(patient), Durability::Power).await?;
                forgotten.patients += 1;
            }
            return Ok(false);
        }
        let (mut worlds, mut removed) = (0, Ok(()));
        for row in &rows {
            if let Some(record) = self.record(&world_of(&row.value)).await? {
                removed = self.removal(&record, &mut batch).await;
                if removed.is_err() {
                    // Those before have no files any more.
                    break;
                }
                worlds += 1;
            }
            // By its own key, so that one without a world goes as well.
            batch.delete(Table::PatientWorlds, row.key.clone());
        }
        if !batch.is_empty() {
            self.remove_for_good(batch).await?;
            forgotten.worlds += worlds;
        }
        removed.map(|()| true)
    }

    /// Commits a batch that removes these patients, and counts them no more. The caller holds `accepting`.
    async fn remove_patients(
        &self,
        batch: Batch,
        patients: &[PatientRef],
        durability: Durability,
    ) -> Result<(), Error> {
        let mut owners = Vec::with_capacity(patients.len());
        for patient in patients {
            owners.extend(self.shared.patients.owner(patient).await?);
        }
        self.shared.store.commit(batch, durability).await?;
        let usage = &mut self.lock().usage;
        owners.iter().for_each(|owner| usage.remove_patient(owner));
        Ok(())
    }

    /// Deletes worlds and rows of the log that are older, or rows that are more, than they may be, and patients of whom nothing is
    /// left, until the daemon stops.
    pub async fn sweep(&self) {
        // The worlds that have to be tidied yet, once they are known.
        let mut untidy = None;
        let mut patients = KeyRange::all();
        loop {
            let worlds = match untidy.take() {
                Some(left) => Ok(left),
                None => self.shared.files.worlds().await,
            };
            match worlds {
                Ok(worlds) => untidy = Some(self.tidy_all(worlds).await),
                Err(error) => tracing::error!(%error, "what a crash left of worlds could not be looked for"),
            }
            if let Err(error) = self.forget_old(Now::read().unix_ms_for_ages()).await {
                tracing::error!(%error, "old worlds could not be removed");
            }
            if let Err(error) = self.forget_unused(&mut patients).await {
                tracing::error!(%error, "patients of whom nothing is left could not be removed");
            }
            tokio::select! {
                () = self.shared.drain.reached(Phase::Draining) => return,
                () = tokio::time::sleep(SWEEP_EVERY) => {}
            }
        }
    }

    pub(super) async fn forget_old(&self, now_ms: u64) -> Result<(), Error> {
        // A disk that is nearly full refuses these, and what frees space has to go on.
        if let Err(error) = self.shared.keys.save_last_used().await {
            tracing::warn!(%error, "cannot record when integration keys were last used");
        }
        let settings = &self.shared.config.world;
        self.shared.log.forget_old(now_ms, settings.keep_log_for).await?;
        self.shared.log.forget_surplus(settings.keep_log).await?;
        let oldest = now_ms.saturating_sub(millis(settings.keep_for));
        let mut pages = self.shared.store.pages(Table::Worlds);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                let record: WorldRecord = row.json(Table::Worlds)?;
                if record.status.is_end() && record.created_ms < oldest {
                    let _none = self.shared.accepting.lock().await;
                    // Nothing irrevocable: what a backup brings back is as old, and goes the same way.
                    let mut batch = Batch::new();
                    self.removal(&record, &mut batch).await?;
                    self.shared.store.commit(batch, Durability::Power).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes the patients in the next rows of `range` of whom neither a world nor a row of the log is left. The range begins after
    /// them then, or anew after the last.
    pub(super) async fn forget_unused(&self, range: &mut KeyRange) -> Result<(), Error> {
        let rows = self.shared.store.scan(Table::Patients, range.clone(), PATIENTS_AT_ONCE).await?;
        *range = rows.last().map_or_else(KeyRange::all, |last| KeyRange::all().after(&last.key));
        let unused = self.unused(rows.iter().map(|row| PatientRef::of_row(&row.key)).collect()).await?;
        if unused.is_empty() {
            return Ok(());
        }
        // A request may have come for one of them meanwhile.
        let _none = self.shared.accepting.lock().await;
        let unused = self.unused(unused).await?;
        let mut batch = Batch::new();
        unused.iter().for_each(|patient| remove(patient, &mut batch));
        // Nothing irrevocable: what a backup brings back is as little, and goes the same way.
        self.remove_patients(batch, &unused, Durability::Process).await
    }

    /// Those of these patients of whom neither a world nor a row of the log is left.
    async fn unused(&self, patients: Vec<PatientRef>) -> Result<Vec<PatientRef>, Error> {
        let mut unused = Vec::new();
        for patient in patients {
            let names = self.shared.log.names(&patient);
            if !names && self.shared.store.scan(Table::PatientWorlds, patient.world_rows(), 1).await?.is_empty() {
                unused.push(patient);
            }
        }
        Ok(unused)
    }

    /// Removes what a crash leaves: folders whose worlds are gone, and what was uploaded for worlds that have ended. Measures the
    /// rest. Returns those of the worlds with which this failed.
    pub(super) async fn tidy_all(&self, worlds: Vec<WorldId>) -> Vec<WorldId> {
        let mut untidy = Vec::new();
        for world in worlds {
            // A world that is being accepted has files before it has a row.
            let _none = self.shared.accepting.lock().await;
            let tidied = match self.record(&world).await {
                Ok(Some(record)) => self.tidy(&record).await,
                Ok(None) => self.shared.files.remove_all(&world).await,
                Err(error) => Err(error),
            };
            if let Err(error) = tidied {
                tracing::error!(%world, %error, "what a crash left of a world could not be removed");
                untidy.push(world);
            }
        }
        untidy
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

/// The world of which a row of a patient's worlds tells, by its value.
pub(super) fn world_of(value: &[u8]) -> WorldId {
    WorldId::from(&*String::from_utf8_lossy(value))
}
