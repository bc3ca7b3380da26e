//! What the client knows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use warmpool_tests::{Driver, Session};

/// A session that was acknowledged and has not ended, as far as the client knows.
pub(super) struct Live {
    pub(super) session: Session,
    /// The name that its first window was given.
    pub(super) mark: String,
    /// Of a WebDriver session.
    pub(super) driver: Option<Driver>,
}

/// A task that was acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Task {
    /// The page that it opens, if it ends by itself.
    pub(super) page: Option<u64>,
    /// Whether something was killed while it was open, so that it may have failed.
    pub(super) disturbed: bool,
    /// Whether a cancel was acknowledged.
    pub(super) cancelled: bool,
    /// Its final record, once one was seen.
    pub(super) ended: Option<Value>,
}

/// What must be true.
#[derive(Default)]
pub(super) struct Known {
    pub(super) live: Vec<Live>,
    /// How each session ended: status, reason and time.
    pub(super) ended: BTreeMap<String, [Value; 3]>,
    pub(super) tasks: BTreeMap<String, Task>,
    /// How often something was killed, and how many tasks have failed of it.
    kills: u64,
    failures: u64,
    /// How often each thing was done.
    pub(super) counts: BTreeMap<&'static str, u64>,
}

const FINAL: [&str; 3] = ["success", "failure", "cancelled"];
/// What a task may fail with whose worker or daemon was killed.
const DISTURBANCES: [&str; 6] =
    ["interrupted", "browser_died", "driver_error", "no_worker", "navigation_failed", "worker_failed"];

impl Known {
    /// Takes down how a session ended, or checks that it ended so before.
    pub(super) fn ends(&mut self, id: &str, record: &Value) -> Result<()> {
        let end = ["status", "reason", "ended_at"].map(|field| record[field].clone());
        ensure!(end.iter().all(|part| !part.is_null()), "a session without an end: {record}");
        self.live.retain(|live| live.session.id != id);
        let known = self.ended.entry(id.to_owned()).or_insert_with(|| end.clone());
        ensure!(*known == end, "{id} ended as {known:?}, and ends again as {end:?}");
        Ok(())
    }

    /// Checks a task's record, and takes it down where it is final.
    pub(super) fn task(&mut self, id: &str, record: &Value) -> Result<()> {
        let task = self.tasks.get_mut(id).with_context(|| format!("{id} was never accepted"))?;
        let status = record["status"].as_str().unwrap_or_default();
        if let Some(ended) = &task.ended {
            let same = ["status", "error", "executionTime", "output", "sessionId"];
            let is_same = same.iter().all(|member| ended[*member] == record[*member]);
            ensure!(is_same, "{id} ended as {ended}, and is now {record}");
            return Ok(());
        }
        if !FINAL.contains(&status) {
            ensure!(!task.cancelled, "{id} was cancelled, and is {record}");
            return Ok(());
        }
        let code = record["error"]["code"].as_str().unwrap_or_default();
        match status {
            "cancelled" => ensure!(task.cancelled, "nobody cancelled {id}: {record}"),
            // An endless one waits for half a minute, which is as long as a step may.
            "failure" if task.page.is_none() && code == "no_match" => {}
            "failure" => {
                ensure!(task.disturbed && DISTURBANCES.contains(&code), "{id} failed, {task:?}: {record}");
                // One worker is for tasks, so a kill takes one at most.
                self.failures += 1;
                ensure!(
                    self.failures <= self.kills,
                    "{} tasks failed of {} kills: {record}",
                    self.failures,
                    self.kills
                );
            }
            _ => ensure!(task.page.is_some() && !task.cancelled, "{id} cannot succeed, {task:?}: {record}"),
        }
        task.ended = Some(record.clone());
        Ok(())
    }

    /// Something was killed: what is open may fail of it.
    pub(super) fn disturb(&mut self) {
        self.kills += 1;
        self.tasks.values_mut().filter(|task| task.ended.is_none()).for_each(|task| task.disturbed = true);
    }

    pub(super) fn open_tasks(&self) -> Vec<String> {
        self.tasks.iter().filter(|(_, task)| task.ended.is_none()).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn live_ids(&self) -> BTreeSet<String> {
        self.live.iter().map(|live| live.session.id.clone()).collect()
    }
}
