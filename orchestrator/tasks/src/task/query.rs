//! A question to the history, checked.

use crate::Error;
use warmpool_api::task::Kind;
use warmpool_core::error::FieldFault as _;
use warmpool_core::sort::SortOrder;

/// How far the list of all keys can be turned over.
const MAX_OF_ALL_KEYS: u64 = 10_000;

/// What the history may be sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortKey {
    /// When the task was accepted.
    #[default]
    Timestamp,
    /// How long it took.
    ExecutionTime,
    TaskId,
    /// Its status, by name.
    Status,
    /// Its type, by name.
    ExecutionType,
}

impl SortKey {
    /// Every key.
    pub const ALL: [Self; 5] = [Self::Timestamp, Self::ExecutionTime, Self::TaskId, Self::Status, Self::ExecutionType];

    /// The name in queries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::ExecutionTime => "executionTime",
            Self::TaskId => "taskId",
            Self::Status => "status",
            Self::ExecutionType => "executionType",
        }
    }
}

/// A page of the history. What compares equal by the sort key is ordered by time, then by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskQuery {
    /// Accepted after this, in Unix milliseconds.
    pub start_time: Option<u64>,
    /// Accepted before this, in Unix milliseconds.
    pub end_time: Option<u64>,
    /// Only this one.
    pub task_id: Option<String>,
    /// Only these types; none means all.
    pub kinds: Vec<Kind>,
    /// Only those of this end user.
    pub service_passcode: Option<String>,
    /// From 1.
    pub page: u64,
    /// 1 to 100.
    pub limit: u64,
    pub sort_by: SortKey,
    /// In which direction.
    pub sort_order: SortOrder,
}

impl Default for TaskQuery {
    fn default() -> Self {
        Self {
            start_time: None,
            end_time: None,
            task_id: None,
            kinds: Vec::new(),
            service_passcode: None,
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

    /// The list of all keys is put together of the first pages of each.
    /// Errors: `Field`.
    pub(super) fn check_for_all_keys(&self) -> Result<(), Error> {
        if !matches!(self.sort_by, SortKey::Timestamp | SortKey::TaskId) {
            let problem = "must be timestamp or taskId in the list of all keys: name one key by `key_id`";
            return Err(Error::invalid("sort_by", problem));
        }
        if self.skip().saturating_add(self.limit) > MAX_OF_ALL_KEYS {
            let problem = format!(
                "leads beyond the first {MAX_OF_ALL_KEYS} tasks of all keys: name one key by `key_id`, or a time by \
                 `end_time`"
            );
            return Err(Error::invalid("page", problem));
        }
        Ok(())
    }

    /// The first page that reaches as far as this one.
    pub(super) fn at_first_page(&self) -> Self {
        Self { page: 1, limit: self.skip().saturating_add(self.limit), ..self.clone() }
    }

    /// How many tasks the page has when `total` match.
    pub(super) fn take(&self, total: u64) -> usize {
        usize::try_from(self.limit.min(total.saturating_sub(self.skip()))).unwrap_or(usize::MAX)
    }
}
