//! Pages of lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where in a list a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageMeta {
    /// How many pages the list has.
    pub total_pages: u64,
    /// How many records the list has.
    pub total_records: u64,
    /// The number of this page, from 1.
    pub current_page: u64,
}

impl PageMeta {
    /// Describes the page with the number `page` of a list of `total` records, of which a page holds `limit`.
    #[must_use]
    pub const fn new(total: u64, limit: u64, page: u64) -> Self {
        Self { total_pages: total.div_ceil(limit), total_records: total, current_page: page }
    }
}
