//! Another try of what did not succeed.

use std::collections::HashSet;

use futures_util::{TryStreamExt as _, future};

use super::spec::TaskSpec;
use super::tasks::Tasks;
use crate::Error;
use warmpool_api::task::Status;
use warmpool_core::ids::TaskId;
use warmpool_keys::KeyId;

impl Tasks {
    /// The specification of a new task of all that did not succeed in a task of `owner`.
    /// Errors: `UnknownTask`, `OutcomeUnknown`; `Conflict` when it has not ended, or nothing of it failed. Fails when the
    /// store cannot be read.
    pub async fn retry_spec(&self, id: TaskId, owner: &KeyId) -> Result<TaskSpec, Error> {
        let record = self.find(id, owner).await?.into_record();
        if !record.status.is_end() {
            return Err(Error::Conflict { message: "this task has not ended: wait for its end, or cancel it" });
        }
        if record.status == Status::Success {
            return Err(Error::Conflict { message: "nothing of this task failed" });
        }
        let mut spec = self.spec(&record).await?;
        if let Some(rules) = &mut spec.fleet {
            let succeeded = self.items_after(id, None).try_filter(|item| future::ready(item.status == Status::Success));
            let succeeded: HashSet<u32> = succeeded.map_ok(|item| item.index).try_collect().await?;
            // Of the specification's items, so that those are tried again of which nothing was ever written down.
            let mut indices = 0..;
            rules.items.retain(|_| indices.next().is_none_or(|index| !succeeded.contains(&index)));
            if rules.items.is_empty() {
                return Err(Error::Conflict { message: "every item of this fleet succeeded" });
            }
        }
        Ok(spec)
    }
}
