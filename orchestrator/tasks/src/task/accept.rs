//! Accepting a task: its specification is checked, written to the disk, and only then answered.

use std::sync::Arc;

use serde_json::{Map, Value};
use tracing::Instrument as _;

use super::active::ActiveTask;
use super::record::{Output, Record};
use super::secrets::TaskSecrets;
use super::spec::TaskSpec;
use super::storage::{NewTask, body_parts, large_body};
use super::tasks::{Task, Tasks};
use crate::Error;
use warmpool_api::task::ItemCounts;
use warmpool_api::task::Status;
use warmpool_core::drain::Phase;
use warmpool_core::error::{FieldFault as _, ServiceError, ServiceFault as _};
use warmpool_core::ids::TaskId;
use warmpool_keys::KeyId;
use warmpool_store::{Commit, StoreError};

/// The most characters of a title or an address in a record.
const MAX_TEXT: usize = 500;
/// Stands in a record for the id that the table gives it.
const WITHOUT_ID: TaskId = TaskId::from_number(0);

/// What comes with a specification and is not stored as it is.
#[derive(Debug, Default)]
pub struct SubmitOptions {
    /// What nobody is shown.
    pub secrets: TaskSecrets,
    /// The client's idempotency key.
    pub idempotency: Option<String>,
    /// The whole request as it was sent, to check whether a key came with the same one.
    pub request: String,
    /// The task whose failed items are tried again.
    pub retry_of: Option<TaskId>,
}

impl Tasks {
    /// Accepts a task: once this returns the task is on the disk, and runs when its turn comes.
    /// Errors: `Draining`, `InvalidKey` when the key was revoked meanwhile, `TaskQueueFull`, `TaskLimit`, `KeyReused`,
    /// `DiskNearlyFull`, `StoreBusy`, and those of [`TaskSpec::parse_work`]: there is no task. `OutcomeUnknown`: the task
    /// is accepted, or does not exist, as soon as the disk says which.
    pub async fn accept(&self, owner: KeyId, spec: TaskSpec, options: SubmitOptions) -> Result<Task, Error> {
        if self.inner.drain.phase() >= Phase::Draining {
            return Err(Error::Service(ServiceError::Draining));
        }
        self.inner.keys.require(&owner)?;
        // A body may be large, and a fleet have many items.
        let tasks = self.clone();
        let checked = tokio::task::spawn_blocking(move || tasks.check(owner, &spec, options));
        let new = checked.await.map_err(Error::internal)??;
        // In a task of its own: a client that leaves must not leave a task behind that is written and never runs.
        let tasks = self.clone();
        let work = async move { tasks.accept_once(new).await };
        let accepted = self.inner.drain.spawn(work.in_current_span());
        accepted.await.map_err(Error::internal)?
    }

    /// Checks an order, and makes of it what the store is to take. That takes a processor its time.
    fn check(&self, owner: KeyId, spec: &TaskSpec, options: SubmitOptions) -> Result<NewTask, Error> {
        let SubmitOptions { secrets, idempotency, request, retry_of } = options;
        check_values(spec, &secrets.values, self.inner.config.tasks.max_body.bytes())?;
        if spec.launch.storage && secrets.state.is_none() {
            let problem = "must be sent again: nothing of the state that the task began with is kept";
            return Err(Error::invalid("state", problem));
        }
        if secrets.state.is_some() && !spec.launch.storage {
            return Err(Error::invalid("state", "must be left out: the task that is tried again began without one"));
        }
        let body = serde_json::to_vec(spec).map_err(Error::internal)?;
        let idempotency = idempotency.map(|sent| self.inner.idempotency.key(&owner, &sent, &request));
        let record = Record {
            retry_of,
            idempotency: idempotency.as_ref().map(|key| hex::encode(&key.row)),
            body_parts: u16::try_from(body_parts(body.len())).map_err(Error::internal)?,
            kept_bytes: large_body(body.len()),
            ..new_record(WITHOUT_ID, owner, spec)
        };
        Ok(NewTask { record, body, secrets, idempotency })
    }

    /// Accepts a task, or finds the task that the same idempotency key led to before.
    async fn accept_once(&self, new: NewTask) -> Result<Task, Error> {
        let Some(key) = new.idempotency.clone() else { return self.admit(new).await.map(Task::Active) };
        let _lock = self.inner.idempotency.lock(&key).await;
        match self.inner.storage.earlier(&key).await? {
            Some(earlier) if earlier.fingerprint != key.fingerprint => Err(Error::KeyReused),
            Some(earlier) => self.find(earlier.task, &new.record.owner).await,
            None => self.admit(new).await.map(Task::Active),
        }
    }

    async fn admit(&self, mut new: NewTask) -> Result<Arc<ActiveTask>, Error> {
        let (length, owner) = (self.inner.config.tasks.queue_length, &new.record.owner);
        let task = self.inner.table.insert(length, owner, |task_id| Record { task_id, ..new.record.clone() })?;
        new.record = task.record();
        let begun = async {
            let room = self.room(&task.owner, task.id, new.record.kept_bytes).await?;
            let commit = self.inner.storage.insert(new).await?;
            room.keep();
            Ok(commit)
        };
        let mut commit = match begun.await {
            Ok(commit) => commit,
            Err(error) => return Err(self.refuse(&task, error)),
        };
        if let Some(outcome) = commit.wait().await {
            return self.settle(task, outcome);
        }
        tracing::warn!(task = %task.id, "the store has not answered yet whether it has taken a task");
        let unknown = task.outcome_unknown();
        self.settle_later(task, commit);
        Err(unknown)
    }

    fn settle_later(&self, task: Arc<ActiveTask>, commit: Commit) {
        let tasks = self.clone();
        self.inner.drain.spawn(async move {
            let outcome = commit.known().await;
            if let Err(error) = tasks.settle(task, outcome) {
                tracing::warn!(%error, "the store has not taken a task");
            }
        });
    }

    /// Begins or withdraws a task, now that the store has answered.
    fn settle(&self, task: Arc<ActiveTask>, outcome: Result<(), StoreError>) -> Result<Arc<ActiveTask>, Error> {
        match outcome {
            Ok(()) => {
                tracing::info!(task = %task.id, kind = %task.record().kind, "task accepted");
                task.set_stored();
                self.inner.table.changed(&task.owner);
                // The key may have been revoked since it was checked, when this task was in no table yet.
                task.stop_if_revoked(&self.inner.keys);
                self.launch(Arc::clone(&task));
                Ok(task)
            }
            // The process is about to end, and the next one finds out.
            Err(StoreError::Failed) => Err(task.outcome_unknown()),
            Err(error) => Err(self.refuse(&task, error.into())),
        }
    }

    /// Withdraws a task that the store does not have. Returns the error for the client.
    fn refuse(&self, task: &ActiveTask, error: Error) -> Error {
        self.inner.table.withdraw(task);
        self.inner.sizes.forget(&task.owner, task.id);
        task.set_ended();
        error
    }
}

pub(super) fn new_record(task_id: TaskId, owner: KeyId, spec: &TaskSpec) -> Record {
    Record {
        task_id,
        owner,
        kind: spec.kind,
        status: Status::Queued,
        name: spec.name.clone(),
        title: spec.title().map(shortened),
        page: spec.first_page().map(shortened),
        engine: spec.engine,
        mode: spec.mode,
        inputs: spec.inputs.clone(),
        service_passcode: spec.service_passcode.clone(),
        metadata: spec.metadata.clone(),
        safe_to_repeat: spec.safe_to_repeat,
        may_have_run: false,
        started_ms: None,
        ended_ms: None,
        session_id: None,
        error: None,
        output: Output::default(),
        artifacts: Vec::new(),
        step_times: Vec::new(),
        items: spec
            .fleet
            .as_ref()
            .map(|fleet| ItemCounts::none_done(u32::try_from(fleet.items.len()).unwrap_or(u32::MAX))),
        webhook_url: spec.webhook_url.clone(),
        retry_of: None,
        idempotency: None,
        waiting: None,
        body_parts: 0,
        kept_bytes: 0,
    }
}

/// A title or an address as a record has it: the whole stands in the work, and a page in a `data:` address may be long.
fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_TEXT {
        text.to_owned()
    } else {
        text.chars().take(MAX_TEXT - 1).chain(['…']).collect()
    }
}

/// Checks the work, and that everything it needs is there and makes it no longer than `most` bytes.
fn check_values(spec: &TaskSpec, secrets: &Map<String, Value>, most: u64) -> Result<(), Error> {
    let Some(fleet) = &spec.fleet else {
        return spec.parse_work()?.templates().check(&spec.values(None, secrets), most);
    };
    // Told by the body's own path, which the work does not know.
    let work = spec.parse_work().map_err(|error| error.map_field(|error| error.within(spec.work_kind.as_str())))?;
    let templates = work.templates();
    for (index, item) in fleet.items.iter().enumerate() {
        let named = |path: &str| match path.strip_prefix("inputs") {
            Some(rest) => format!("inputs[{index}]{rest}"),
            None => path.to_owned(),
        };
        let checked = templates.check(&spec.values(Some(item), secrets), most);
        checked.map_err(|error| error.map_field(|error| error.renamed(named)))?;
    }
    Ok(())
}
