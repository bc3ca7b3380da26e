//! A question to the history, checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use warmpool_api::task::TaskKind;
use warmpool_core::ids::KeyId;
use warmpool_core::metadata::Label;
use warmpool_core::sort::SortOrder;

/// What the history may be sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SortKey {
    /// When the task was accepted.
    #[default]
    Timestamp,
    /// How long it took.
    ExecutionTime,
    /// Its id.
    TaskId,
    /// Its status, by name.
    Status,
    /// Its type, by name.
    ExecutionType,
}

/// A page of the history: the query of `GET /lam/tasks`. What compares equal by the sort key is ordered by time, then by id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TaskQuery {
    /// Only what was made after this moment, in Unix milliseconds.
    pub start_time: Option<u64>,
    /// Only what was made before this moment, in Unix milliseconds.
    pub end_time: Option<u64>,
    /// Only the task of this id.
    pub task_id: Option<String>,
    /// Only what this key made. In the console an operator may name any; a key in a header sees its own alone.
    #[schemars(extend("x-problem" = KeyId::PROBLEM))]
    pub key_id: Option<KeyId>,
    /// Only tasks of these types.
    #[serde(rename = "executionType")]
    #[schemars(extend("x-name" = "executionType[]"))]
    pub kinds: Vec<TaskKind>,
    /// Only those of this end user.
    #[serde(alias = "raccoon_passcode")]
    #[schemars(extend("x-alias" = "raccoon_passcode"))]
    pub service_passcode: Option<String>,
    /// Only those with all of these labels.
    #[schemars(length(max = 16), extend("x-name" = "metadata[]", "x-problem" = Label::PROBLEM))]
    pub metadata: Vec<Label>,
    /// Which page.
    #[schemars(range(min = 1))]
    pub page: u64,
    /// How many entries a page holds.
    #[schemars(range(min = 1, max = 100))]
    pub limit: u64,
    /// Sort key.
    pub sort_by: SortKey,
    /// In which order.
    pub sort_order: SortOrder,
}

impl Default for TaskQuery {
    fn default() -> Self {
        Self {
            start_time: None,
            end_time: None,
            task_id: None,
            key_id: None,
            kinds: Vec::new(),
            service_passcode: None,
            metadata: Vec::new(),
            page: 1,
            limit: 10,
            sort_by: SortKey::default(),
            sort_order: SortOrder::default(),
        }
    }
}

impl TaskQuery {
    /// How many matching tasks come before the page.
    pub(super) const fn skip(&self) -> u64 {
        self.page.saturating_sub(1).saturating_mul(self.limit)
    }

    /// How many tasks the page has when `total` match.
    pub(super) fn take(&self, total: u64) -> usize {
        usize::try_from(self.limit.min(total.saturating_sub(self.skip()))).unwrap_or(usize::MAX)
    }
}
