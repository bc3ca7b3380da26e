//! Fleets: one piece of work for many inputs. Each item is carried out in a browser context or a container of its own and
//! recorded as it ends, so that an interrupted fleet continues where it was.

mod end;
mod item_turn;
mod open_item;

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::active::{ActiveTask, StopReason, TaskEvent};
use super::attempt::{Attempt, AttemptResults, WorkItem};
use super::hosts::Hosts;
use super::lifecycle::stop_error;
use super::record::{Item, Record};
use super::runner::Runner;
use super::secrets::TaskSecrets;
use super::spec::{FleetRules, TaskSpec};
use super::storage::{put_item, put_record};
use super::tasks::Tasks;
use crate::Error;
use crate::script::TaskWork;
pub(super) use open_item::OpenItem;
use warmpool_api::task::{ItemCounts, Status};
use warmpool_core::blocking;
use warmpool_core::clock::unix_ms;
use warmpool_core::drain::Phase;
use warmpool_core::error::{Fault as _, ServiceFault as _};
use warmpool_store::{Batch, Durability};

/// A fleet while it runs.
struct Fleet<'a> {
    tasks: &'a Tasks,
    task: &'a ActiveTask,
    spec: &'a TaskSpec,
    rules: &'a FleetRules,
    work: &'a TaskWork,
    secrets: &'a TaskSecrets,
    state: Mutex<FleetState>,
    /// Cancelled once no further items are begun.
    closed: CancellationToken,
}

/// The items that are still to be carried out, and how the others went.
struct FleetState {
    queue: VecDeque<OpenItem>,
    counts: ItemCounts,
    /// How many files the items that have ended have, or more.
    artifacts: usize,
    hosts: Hosts,
}

impl FleetState {
    /// Whether no further items are begun: as many have failed as may, in this process or in an earlier one.
    const fn is_closed(&self, rules: &FleetRules) -> bool {
        rules.stop_after_failures > 0 && self.counts.failure >= rules.stop_after_failures
    }
}

impl Tasks {
    pub(super) async fn run_fleet(&self, task: &ActiveTask) -> Result<(), Error> {
        let record = task.record();
        let spec = self.inner.storage.read(task, || self.inner.storage.spec(&record)).await?;
        let rules = spec.fleet.as_ref().ok_or_else(|| Error::internal("a fleet without its rules"))?;
        let secrets = self.inner.storage.read(task, || self.inner.storage.secrets(task.id)).await?;
        let work = blocking::in_place(|| spec.parse_work())?;
        let state = Mutex::new(self.restore(task, &spec, rules).await?);
        let closed = CancellationToken::new();
        let fleet = Fleet { tasks: self, task, spec: &spec, rules, work: &work, secrets: &secrets, state, closed };
        let config = &self.inner.config;
        // More could have no session at the same time.
        let sessions = if config.session.max_per_key == 0 { usize::MAX } else { config.session.max_per_key };
        let runners = rules.concurrency.min(config.tasks.workers).min(sessions).min(rules.items.len()).max(1);
        let outcomes = futures_util::future::join_all((0..runners).map(|_| fleet.run())).await;
        outcomes.into_iter().collect::<Result<Vec<()>, Error>>()?;
        fleet.end().await
    }

    /// The items that have not ended. Those that an earlier process had begun are tried again, if that is safe.
    async fn restore(&self, task: &ActiveTask, spec: &TaskSpec, rules: &FleetRules) -> Result<FleetState, Error> {
        let total = u32::try_from(rules.items.len()).unwrap_or(u32::MAX);
        let mut items: Vec<Option<OpenItem>> = (0..total).map(|index| Some(OpenItem::Fresh(index))).collect();
        let mut counts = ItemCounts::none_done(total);
        let (mut artifacts, mut after) = (0, None);
        loop {
            let page = self.inner.storage.read(task, || self.inner.storage.items(task.id, after)).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.index);
            for mut item in page {
                artifacts += item.artifacts.len();
                let Some(place) = items.get_mut(item.index as usize) else { continue };
                match item.status {
                    Status::Queued => *place = Some(item.into()),
                    Status::Running if spec.safe_to_repeat => {
                        item.status = Status::Queued;
                        *place = Some(item.into());
                    }
                    Status::Running => {
                        item.status = Status::Failure;
                        item.error = Some(stop_error(StopReason::Interrupted));
                        let mut batch = Batch::new();
                        let bytes = put_item(&mut batch, task.id, &item)?;
                        self.inner.storage.write(task, batch, Durability::Process).await?;
                        self.keep(task, bytes);
                        counts.moved(Status::Queued, Status::Failure);
                        *place = None;
                    }
                    end => {
                        counts.moved(Status::Queued, end);
                        *place = None;
                    }
                }
            }
        }
        if task.record().may_have_run {
            self.end_doubtful(task, rules, &mut items, &mut counts).await?;
        }
        Ok(FleetState { queue: items.into_iter().flatten().collect(), counts, artifacts, hosts: Hosts::default() })
    }
}

impl Fleet<'_> {
    fn state(&self) -> MutexGuard<'_, FleetState> {
        self.state.lock()
    }

    /// Takes one item after another until there are none.
    async fn run(&self) -> Result<(), Error> {
        let mut runner = Runner::new(self.tasks, self.task, self.spec);
        loop {
            if self.task.stopped().is_some() || self.tasks.inner.drain.phase() >= Phase::Draining {
                return Ok(());
            }
            let item = {
                let mut state = self.state();
                if state.is_closed(self.rules) {
                    return Ok(());
                }
                let Some(item) = state.queue.pop_front() else { return Ok(()) };
                item
            };
            if let Some(item) = self.carry_out(&mut runner, item.into_item(self.rules)).await? {
                self.state().queue.push_front(item.into());
                return Ok(());
            }
        }
    }

    /// Tries an item until it has an end; gives it back if the fleet is interrupted before.
    async fn carry_out(&self, runner: &mut Runner<'_>, mut item: Item) -> Result<Option<Item>, Error> {
        loop {
            let Some(ready) = self.turn(runner, &item).await else { return Ok(Some(item)) };
            // Others may have failed while this one waited, or the daemon may go down.
            let going_down = self.tasks.inner.drain.phase() >= Phase::Draining;
            if going_down || (item.attempts == 0 && self.state().is_closed(self.rules)) {
                return Ok(Some(item));
            }
            let begun = unix_ms();
            item.attempts += 1;
            if let Err(error) = self.write(&mut item, Status::Running).await {
                if !error.is_shortage() {
                    return Err(error);
                }
                item.attempts -= 1;
                runner.release();
                if !self.tasks.inner.storage.wait_for_room(self.task, error).await {
                    return Ok(Some(item));
                }
                continue;
            }
            let values = self.spec.values(Some(&item.inputs), &self.secrets.values);
            let state = self.secrets.state.as_ref();
            let (index, room) = (Some(item.index), item.room());
            let work = WorkItem { spec: self.spec, work: self.work, values, state, index, room };
            let attempt = match ready {
                Ok(()) => runner.attempt(&work).await?,
                Err(attempt) => attempt,
            };
            item.execution_time = unix_ms().saturating_sub(begun);
            match attempt {
                Attempt::Finished(results) => {
                    let Some(pause) = self.record_results(&mut item, results).await? else { return Ok(None) };
                    if !runner.pause_until(Instant::now() + pause).await {
                        return Ok(Some(item));
                    }
                }
                Attempt::NoSession(_) | Attempt::StoreUnavailable(_) => {
                    item.attempts -= 1;
                    runner.release();
                    self.write(&mut item, Status::Queued).await?;
                }
                Attempt::NotBegun => {
                    item.attempts -= 1;
                    self.write(&mut item, Status::Queued).await?;
                    return Ok(Some(item));
                }
                Attempt::Stopped(StopReason::Interrupted) if self.spec.safe_to_repeat => {
                    self.write(&mut item, Status::Queued).await?;
                    return Ok(Some(item));
                }
                Attempt::Stopped(StopReason::Interrupted) => {
                    item.error = Some(stop_error(StopReason::Interrupted));
                    self.write(&mut item, Status::Failure).await?;
                    return Ok(None);
                }
                Attempt::Stopped(stop) => {
                    item.error = Some(stop_error(stop));
                    self.write(&mut item, Status::Cancelled).await?;
                    return Ok(None);
                }
            }
        }
    }

    /// Records the results of an attempt. Returns how long to wait before the next attempt, if there is to be one.
    async fn record_results(&self, item: &mut Item, results: AttemptResults) -> Result<Option<Duration>, Error> {
        item.session_id = results.session;
        item.output = results.output;
        item.artifacts = results.artifacts;
        item.error = results.error;
        let code = item.error.as_ref().map(|error| error.code.clone());
        let Some(code) = code else {
            self.write(item, Status::Success).await?;
            return Ok(None);
        };
        if let Some(pause) = self.rules.backoff(item.attempts, &code) {
            self.write(item, Status::Queued).await?;
            return Ok(Some(pause));
        }
        self.write(item, Status::Failure).await?;
        Ok(None)
    }

    /// Writes an item's next status, as [`Fleet::write_all`] does.
    async fn write(&self, item: &mut Item, status: Status) -> Result<(), Error> {
        self.write_all(std::slice::from_mut(item), status).await
    }

    /// Writes the next status of items that have the same one, and the fleet's counts, and then publishes them. A beginning is
    /// written now or not at all; all else waits until the store takes it.
    /// Errors: Nothing is written, and nothing has changed.
    async fn write_all(&self, items: &mut [Item], status: Status) -> Result<(), Error> {
        let Some(from) = items.first().map(|item| item.status) else { return Ok(()) };
        set_status(items, status);
        let counts = self.count(items.len(), from, status);
        let mut record = self.task.record();
        let began = unix_ms();
        let begin = |record: &mut Record| {
            record.status = Status::Running;
            record.started_ms.get_or_insert(began);
        };
        begin(&mut record);
        record.items = Some(counts);
        let written = async {
            let (mut batch, mut bytes) = (Batch::new(), 0);
            for item in &*items {
                bytes += put_item(&mut batch, self.task.id, item)?;
            }
            put_record(&mut batch, &record)?;
            if status != Status::Running {
                return self.tasks.inner.storage.write(self.task, batch, Durability::Process).await.map(|()| bytes);
            }
            // An item that is not safe to repeat must not be begun twice, also after loss of power.
            let durability = if self.spec.safe_to_repeat { Durability::Process } else { Durability::Power };
            self.tasks.inner.storage.commit(batch, durability).await.map(|()| bytes)
        };
        let bytes = match written.await {
            Ok(bytes) => bytes,
            Err(error) => {
                set_status(items, from);
                self.count(items.len(), status, from);
                return Err(error);
            }
        };
        if status.is_end() {
            self.state().artifacts += items.iter().map(|item| item.artifacts.len()).sum::<usize>();
        }
        let counts = self.state().counts.clone();
        let mut first = false;
        let record = self.task.change(|record| {
            first = record.status != Status::Running;
            begin(record);
            record.items = Some(counts);
        });
        if first {
            self.tasks.inner.table.update(&record);
            self.task.notify(TaskEvent::status(record));
        }
        if status.is_end() {
            self.tasks.keep(self.task, bytes);
            let ended = metrics::counter!("warmpool_task_items_ended_total", "status" => status.as_str());
            ended.increment(items.len() as u64);
        }
        for item in &*items {
            self.task.notify(TaskEvent::Item(self.task.id, Box::new(item.clone())));
        }
        self.tasks.inner.table.changed(&self.task.owner);
        Ok(())
    }

    /// Counts that items go from one status to another. Returns the new counts.
    fn count(&self, items: usize, from: Status, to: Status) -> ItemCounts {
        let mut state = self.state();
        (0..items).for_each(|_| state.counts.moved(from, to));
        if state.is_closed(self.rules) {
            self.closed.cancel();
        }
        state.counts.clone()
    }
}

fn set_status(items: &mut [Item], status: Status) {
    items.iter_mut().for_each(|item| item.status = status);
}
