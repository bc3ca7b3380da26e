//! The order of a list.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SortOrder {
    /// Smallest first.
    Ascend,
    /// Largest first.
    #[default]
    Descend,
}

impl SortOrder {
    /// Turns an ascending order into this one.
    pub const fn apply(self, order: Ordering) -> Ordering {
        match self {
            Self::Ascend => order,
            Self::Descend => order.reverse(),
        }
    }
}
