//! Accepting an order: checked, written to the disk, and only then answered.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::id::TaskId;
use super::keep::{Keep, hex, idempotency_key, put_record};
use super::live::Live;
use super::order::Order;
use super::record::{ItemCounts, Output, Record, Status};
use super::seal;
use super::table::{Accepted, GATES, Tasks};
use crate::drain::Phase;
use crate::error::Error;
use crate::keys::KeyId;
use crate::script::Values;
use crate::session::now_ms;
use crate::store::{Batch, Commit, Durability, StoreError, Table};

/// What comes with an order and is not kept as it is.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// What `{{secret.name}}` stands for.
    pub secrets: Map<String, Value>,
    /// The client's idempotency key.
    pub idempotency: Option<String>,
    /// The whole request as it was sent, to tell whether a key came with the same one.
    pub request: String,
    /// The task whose failed items are tried again.
    pub retry_of: Option<TaskId>,
}

/// What an idempotency key led to.
#[derive(serde::Serialize, serde::Deserialize)]
struct Earlier {
    task: TaskId,
    fingerprint: String,
}

impl Tasks {
    /// Accepts an order: once this returns the task is on the disk, and runs when its turn comes.
    ///
    /// # Errors
    /// `Draining`, `InvalidKey` when the key was revoked meanwhile, `TaskQueueFull`, `KeyReused`, `DiskNearlyFull`,
    /// `StoreBusy`, and those of [`Order::parse_work`]: there is no task. `OutcomeUnknown`: the task is accepted, or does
    /// not exist, as soon as the disk says which.
    pub(crate) async fn accept(&self, owner: KeyId, order: Order, extras: Extras) -> Result<Accepted, Error> {
        if self.inner.drain.phase() >= Phase::Draining {
            return Err(Error::Draining);
        }
        self.inner.keys.require(&owner)?;
        check_values(&order, &extras.secrets)?;
        // By itself: a client that leaves must not leave a task behind that is written and never runs.
        let tasks = self.clone();
        let taken = self.inner.drain.spawn(async move { tasks.take(owner, order, extras).await });
        taken.await.map_err(Error::internal)?
    }

    async fn take(&self, owner: KeyId, order: Order, extras: Extras) -> Result<Accepted, Error> {
        let Some(sent) = &extras.idempotency else {
            return self.admit(owner, order, extras, None).await.map(Accepted::Live);
        };
        let key = idempotency_key(&self.inner.instance, &owner, sent);
        let request = hex(&self.inner.instance.fingerprint(&["request", owner.as_str(), &extras.request]));
        let gate = key.last().map_or(0, |byte| usize::from(*byte) % GATES);
        let _alone = self.inner.gates[gate].lock().await;
        if let Some(value) = self.inner.keep.store.get(Table::TaskKeys, &key).await? {
            let earlier: Earlier = serde_json::from_slice(&value).map_err(Error::internal)?;
            if earlier.fingerprint != request {
                return Err(Error::KeyReused);
            }
            return self.find(earlier.task, &owner).await;
        }
        self.admit(owner, order, extras, Some((key, request))).await.map(Accepted::Live)
    }

    async fn admit(
        &self,
        owner: KeyId,
        order: Order,
        extras: Extras,
        idempotency: Option<(Vec<u8>, String)>,
    ) -> Result<Arc<Live>, Error> {
        let length = self.inner.config.tasks.queue_length;
        let live = {
            // Under the lock of the history, so that ids enter it in their order.
            let mut history = self.history();
            let mut table = self.live_table();
            if table.values().filter(|live| live.record().status == Status::Queued).count() >= length {
                return Err(Error::TaskQueueFull { length });
            }
            let mut record = new_record(self.inner.ids.next(now_ms()), owner, &order);
            record.retry_of = extras.retry_of;
            record.idempotency = idempotency.as_ref().map(|(key, _)| hex(key));
            let live = Arc::new(Live::unwritten(record));
            history.add(&live.owner, &live.record().entry());
            table.insert(live.id, Arc::clone(&live));
            live
        };
        let mut commit = match self.write_new(&live, &order, &extras, idempotency).await {
            Ok(commit) => commit,
            Err(error) => return Err(self.refuse(&live, error)),
        };
        if let Some(outcome) = commit.wait().await {
            return self.settle(live, outcome);
        }
        tracing::warn!(task = %live.id, "the store has not answered yet whether it has taken a task");
        let unknown = live.unknown();
        let tasks = self.clone();
        self.inner.drain.spawn(async move {
            let outcome = commit.known().await;
            if let Err(error) = tasks.settle(live, outcome) {
                tracing::warn!(%error, "the store has not taken a task");
            }
        });
        Err(unknown)
    }

    /// The store has said what became of a task that was on its way into it.
    fn settle(&self, live: Arc<Live>, outcome: Result<(), StoreError>) -> Result<Arc<Live>, Error> {
        match outcome {
            Ok(()) => {
                tracing::info!(task = %live.id, kind = %live.record().kind, "task accepted");
                live.set_kept();
                // It may have been revoked since it was asked, when this task was in no table yet.
                self.ask_key(&live);
                self.launch(Arc::clone(&live));
                Ok(live)
            }
            // The process is about to end, and the next one finds out.
            Err(StoreError::Failed) => Err(live.unknown()),
            Err(error) => Err(self.refuse(&live, error.into())),
        }
    }

    /// Takes back a task that the store does not have; gives the error for the client.
    fn refuse(&self, live: &Live, error: Error) -> Error {
        self.history().withdraw(&live.owner, &live.record().entry());
        self.live_table().remove(&live.id);
        live.set_ended();
        error
    }

    async fn write_new(
        &self,
        live: &Live,
        order: &Order,
        extras: &Extras,
        idempotency: Option<(Vec<u8>, String)>,
    ) -> Result<Commit, Error> {
        let mut batch = Batch::new();
        let parts = Keep::put_order(&mut batch, live.id, order)?;
        let record = live.change(|record| record.body_parts = parts);
        put_record(&mut batch, &record)?;
        if !extras.secrets.is_empty() {
            let sealed = seal::seal(&self.inner.instance, live.id, &extras.secrets)?;
            batch.put(Table::TaskSecrets, live.id.store_key(), sealed);
        }
        if let Some((key, fingerprint)) = idempotency {
            batch.put_json(Table::TaskKeys, key, &Earlier { task: live.id, fingerprint })?;
        }
        Ok(self.inner.keep.store.begin(batch, Durability::Power).await?)
    }
}

fn new_record(task_id: TaskId, owner: KeyId, order: &Order) -> Record {
    Record {
        task_id,
        owner,
        kind: order.kind,
        status: Status::Queued,
        engine: order.engine,
        mode: order.mode,
        inputs: order.inputs.clone(),
        service_passcode: order.service_passcode.clone(),
        safe_to_repeat: order.safe_to_repeat,
        started_ms: None,
        ended_ms: None,
        session_id: None,
        error: None,
        output: Output::default(),
        artifacts: Vec::new(),
        items: order.fleet.as_ref().map(|fleet| ItemCounts::of(u32::try_from(fleet.items.len()).unwrap_or(u32::MAX))),
        retry_of: None,
        idempotency: None,
        waiting: None,
        body_parts: 0,
    }
}

/// What templates stand for, in one item of a fleet or in the whole task.
pub(super) fn values(order: &Order, item: Option<&Map<String, Value>>, secrets: &Map<String, Value>) -> Values {
    let mut inputs = order.inputs.clone();
    inputs.extend(item.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
    Values { inputs, secrets: secrets.clone() }
}

/// Checks the work, and that everything it needs is there.
fn check_values(order: &Order, secrets: &Map<String, Value>) -> Result<(), Error> {
    let work = order.parse_work()?;
    let Some(fleet) = &order.fleet else { return work.check_values(&values(order, None, secrets)) };
    for (index, item) in fleet.items.iter().enumerate() {
        work.check_values(&values(order, Some(item), secrets)).map_err(|error| match error {
            Error::InvalidField { field, message } => {
                let Some(rest) = field.strip_prefix("inputs") else { return Error::InvalidField { field, message } };
                let message = message.replace(&format!("`{field}`"), &format!("`inputs[{index}]{rest}`"));
                Error::InvalidField { field: format!("inputs[{index}]{rest}"), message }
            }
            other => other,
        })?;
    }
    Ok(())
}
