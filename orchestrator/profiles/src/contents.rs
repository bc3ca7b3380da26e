//! What a version holds, without its values.

use std::collections::BTreeMap;

use warmpool_api::profile::{CookieCount, OriginContents};
use warmpool_protocol::{Item, OriginStorage, StorageState};

/// How many cookies each host has.
pub(crate) fn cookies(state: &StorageState) -> Vec<CookieCount> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for cookie in &state.cookies {
        *counts.entry(cookie.host()).or_default() += 1;
    }
    counts.into_iter().map(|(domain, cookies)| CookieCount { domain: domain.to_owned(), cookies }).collect()
}

/// What each origin has stored, by number and size.
pub(crate) fn origins(state: &StorageState) -> Vec<OriginContents> {
    state.origins.iter().map(contents).collect()
}

fn contents(origin: &OriginStorage) -> OriginContents {
    let bytes = |items: &[Item]| items.iter().map(|item| item.name.len() + item.value.len()).sum::<usize>();
    let databases = serde_json::to_vec(&origin.indexed_db).map_or(0, |text| text.len());
    OriginContents {
        origin: origin.origin.clone(),
        local_storage: origin.local_storage.len() as u64,
        session_storage: origin.session_storage.len() as u64,
        databases: origin.indexed_db.iter().map(|database| database.name.clone()).collect(),
        size: (bytes(&origin.local_storage) + bytes(&origin.session_storage) + databases) as u64,
    }
}
