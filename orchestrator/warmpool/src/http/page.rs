//! Pages of lists.

use schemars::JsonSchema;
use serde::Serialize;

/// Where in a list a page is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMeta {
    total_pages: u64,
    total_records: u64,
    current_page: u64,
}

impl PageMeta {
    pub(super) fn new(total: u64, limit: u64, page: u64) -> Self {
        Self { total_pages: total.div_ceil(limit), total_records: total, current_page: page }
    }
}
