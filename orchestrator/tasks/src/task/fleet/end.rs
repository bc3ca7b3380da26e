//! The end of a fleet: its items that are left, and what it has for results.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{Fleet, OpenItem};
use crate::Error;
use crate::task::active::StopReason;
use crate::task::lifecycle::{TaskEnd, stop_error};
use crate::task::record::{ArtifactRecord, Item, Output};
use crate::task::record_room::RecordRoom;
use crate::task::view;
use warmpool_api::task::{Status, TaskError};
use warmpool_core::drain::Phase;
use warmpool_core::error::{Code, Fault as _};

/// The most files that a fleet's record names.
const MAX_ARTIFACTS: usize = 100;
/// How many items are ended by one change of the store, which may each be as large as a value can be.
const AT_ONCE: usize = 128;

impl Fleet<'_> {
    /// Ends the fleet, or leaves it for the next process.
    pub(super) async fn end(&self) -> Result<(), Error> {
        let (left, closed) = {
            let mut state = self.state();
            (std::mem::take(&mut state.queue), state.is_closed(self.rules))
        };
        let stop = self.task.stopped();
        let going_down = self.tasks.inner.drain.phase() >= Phase::Draining;
        if !left.is_empty() && !closed && matches!(stop, None | Some(StopReason::Interrupted)) && going_down {
            self.tasks.suspend(self.task);
            return Ok(());
        }
        let why = match stop {
            Some(stop) => stop_error(stop),
            None => TaskError::new("stopped", "not begun: as many items failed as stop_after_failures allows"),
        };
        self.cancel(left, &why).await?;
        let counts = self.state().counts.clone();
        // Some may have had their end before any was begun here.
        self.task.change(|record| record.items = Some(counts.clone()));
        let (status, error) = match stop {
            Some(stop) if counts.cancelled > 0 => (Status::Cancelled, Some(stop_error(stop))),
            _ if counts.failure + counts.cancelled > 0 => {
                let message = format!("{} of {} items failed", counts.failure, counts.total);
                (Status::Failure, Some(TaskError::new(if closed { "stopped" } else { "items_failed" }, message)))
            }
            _ => (Status::Success, None),
        };
        let mut room = self.task.record().room().without(&error);
        let (rows, artifacts) = self.gather(&mut room).await?;
        let end = match (self.tasks.save_output(self.task, rows, room).await, self.task.stopped()) {
            (Ok(output), _) => TaskEnd { status, error, output, artifacts },
            // It was stopped while it waited for room. Every item has its end, so only this is left to do.
            (Err(error), None | Some(StopReason::Interrupted)) if error.code() == Code::DiskNearlyFull => {
                self.tasks.suspend(self.task);
                return Ok(());
            }
            (Err(error), Some(stop)) if error.code() == Code::DiskNearlyFull => TaskEnd::cancelled(stop),
            // The items have all of it.
            (Err(Error::TaskLimit { .. }), _) => {
                TaskEnd { status, error, output: Output::Inline(vec![self.elsewhere()]), artifacts }
            }
            (Err(error), _) => return Err(error),
        };
        self.tasks.finish(self.task, end).await;
        Ok(())
    }

    /// Ends the items that nobody is to carry out any more.
    async fn cancel(&self, left: VecDeque<OpenItem>, why: &TaskError) -> Result<(), Error> {
        let mut left = left.into_iter().map(|item| Item { error: Some(why.clone()), ..item.into_item(self.rules) });
        loop {
            let mut items: Vec<Item> = left.by_ref().take(AT_ONCE).collect();
            if items.is_empty() {
                return Ok(());
            }
            self.write_all(&mut items, Status::Cancelled).await?;
        }
    }

    /// Stands for the result objects that do not fit, and says where they are.
    fn elsewhere(&self) -> Value {
        json!({"truncated": true, "items": format!("/lam/tasks/{}/items", self.task.id)})
    }

    /// The items as result objects, as far as they fit; and their files.
    async fn gather(&self, room: &mut RecordRoom) -> Result<(Vec<Value>, Vec<ArtifactRecord>), Error> {
        let most = self.tasks.inner.config.tasks.max_output.bytes();
        let (mut rows, mut bytes, mut artifacts) = (Vec::new(), 0, Vec::new());
        // The files that further items may have, and whether the record names as many as it can: the items name the others.
        let (mut unseen, mut is_full) = (self.state().artifacts, false);
        let mut after = None;
        // Most items of a large fleet need not be read.
        while bytes <= most || unseen > 0 && !is_full {
            let read = || self.tasks.inner.storage.items(self.task.id, after);
            let page = self.tasks.inner.storage.read(self.task, read).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.index);
            for item in page {
                if bytes <= most {
                    let row = json!(view::item(self.task.id, &item, None));
                    bytes += row.to_string().len() as u64;
                    // Once, instead of what does not fit.
                    rows.push(if bytes <= most { row } else { self.elsewhere() });
                }
                unseen = unseen.saturating_sub(item.artifacts.len());
                for artifact in item.artifacts {
                    is_full = artifacts.len() == MAX_ARTIFACTS || !room.take(&artifact);
                    if is_full {
                        break;
                    }
                    artifacts.push(artifact);
                }
            }
        }
        Ok((rows, artifacts))
    }
}
