//! What a version holds, without its values.

use std::collections::BTreeMap;

use warmpool_api::profile::{HeldCookie, HostCookies, OriginContents};
use warmpool_protocol::{Cookie, Item, OriginStorage, PrivateFileKind, StorageState};

/// The cookies of each host, by their names.
pub(crate) fn cookies(state: &StorageState) -> Vec<HostCookies> {
    let mut hosts: BTreeMap<&str, Vec<HeldCookie>> = BTreeMap::new();
    for cookie in &state.cookies {
        hosts.entry(cookie.host()).or_default().push(held(cookie));
    }
    let host = |(domain, mut list): (&str, Vec<HeldCookie>)| {
        list.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
        HostCookies { domain: domain.to_owned(), cookies: list.len() as u64, list }
    };
    hosts.into_iter().map(host).collect()
}

fn held(cookie: &Cookie) -> HeldCookie {
    let expires = (cookie.expires >= 0.0).then_some((cookie.expires * 1000.0) as u64);
    HeldCookie { name: cookie.name.clone(), path: cookie.path.clone(), expires }
}

/// What each origin has stored, by number and size.
pub(crate) fn origins(state: &StorageState) -> Vec<OriginContents> {
    state.origins.iter().map(contents).collect()
}

fn contents(origin: &OriginStorage) -> OriginContents {
    let bytes = |items: &[Item]| items.iter().map(|item| item.name.len() + item.value.len()).sum::<usize>();
    let databases = serde_json::to_vec(&origin.indexed_db).map_or(0, |text| text.len());
    let files = origin.opfs.iter().map(|file| file.base64.as_ref().map_or(0, String::len)).sum::<usize>();
    OriginContents {
        origin: origin.origin.clone(),
        local_storage: origin.local_storage.len() as u64,
        session_storage: origin.session_storage.len() as u64,
        databases: origin.indexed_db.iter().map(|database| database.name.clone()).collect(),
        files: origin.opfs.iter().filter(|file| file.kind == PrivateFileKind::File).count() as u64,
        size: (bytes(&origin.local_storage) + bytes(&origin.session_storage) + databases + files) as u64,
    }
}
