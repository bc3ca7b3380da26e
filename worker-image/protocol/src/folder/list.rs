//! Which files of a profile folder may be packed and unpacked: what sites have stored, and what their visitor allowed them.
//!
//! Left out is what every browser makes for itself (caches, locks, crash dumps, logs), what leads a browser to programs, files
//! or proxies (preferences, extensions, handlers, compiled scripts, certificates), and saved passwords.

use super::{FolderEngine, MAX_PATH};

/// What Chromium keeps in files of their own.
const CHROMIUM: [&str; 6] = [
    "Default/Cookies",
    "Default/Favicons",
    "Default/History",
    "Default/Network/Cookies",
    "Default/TransportSecurity",
    // Of these the permissions of sites alone.
    super::PREFERENCES,
];
/// What Chromium keeps in folders. The last two are data of extensions, and not the extensions.
const CHROMIUM_FOLDERS: [&str; 9] = [
    "Default/File System/",
    "Default/IndexedDB/chrome-extension_",
    "Default/IndexedDB/http_",
    "Default/IndexedDB/https_",
    "Default/Local Storage/leveldb/",
    "Default/Service Worker/",
    "Default/WebStorage/",
    "Default/Local Extension Settings/",
    "Default/Sync Extension Settings/",
];
/// What Firefox keeps in files of their own.
const FIREFOX: [&str; 16] = [
    "SiteSecurityServiceState.bin",
    "content-prefs.sqlite",
    "cookies.sqlite",
    "cookies.sqlite-wal",
    "formhistory.sqlite",
    "ls-archive.sqlite",
    "permissions.sqlite",
    "persdict.dat",
    "places.sqlite",
    "places.sqlite-wal",
    super::read::SERVICE_WORKERS,
    "storage-sync-v2.sqlite",
    "storage-sync-v2.sqlite-wal",
    "storage.sqlite",
    "webappsstore.sqlite",
    "webappsstore.sqlite-wal",
];
/// What Firefox keeps in folders: those of sites, and not its own beside them.
const FIREFOX_FOLDERS: [&str; 2] = ["storage/default/http+++", "storage/default/https+++"];
/// What WebKit keeps in files of their own.
const WEBKIT: [&str; 3] = ["cookies.sqlite", "cookies.sqlite-wal", "data/storage/salt"];
/// What WebKit keeps in folders.
const WEBKIT_FOLDERS: [&str; 6] = [
    "cache/CacheStorage/",
    "data/databases/indexeddb/v1/http_",
    "data/databases/indexeddb/v1/https_",
    "data/localstorage/",
    "data/serviceworkers/",
    "data/storage/",
];
/// Names of files that databases make anew.
const IDLE: [&str; 3] = ["LOCK", "LOG", "LOG.old"];

pub(super) fn has(engine: FolderEngine, path: &str) -> bool {
    let (files, folders): (&[&str], &[&str]) = match engine {
        FolderEngine::Chromium => (&CHROMIUM, &CHROMIUM_FOLDERS),
        FolderEngine::Firefox => (&FIREFOX, &FIREFOX_FOLDERS),
        FolderEngine::Webkit => (&WEBKIT, &WEBKIT_FOLDERS),
    };
    is_inside(path) && (files.contains(&path) || folders.iter().any(|folder| is_below(folder, path)))
}

/// Whether a file is in a folder of the list, which may be named by its beginning.
fn is_below(folder: &str, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(folder) else { return false };
    let rest = if folder.ends_with('/') { Some(rest) } else { rest.split_once('/').map(|(_, rest)| rest) };
    let name = path.rsplit('/').next().unwrap_or_default();
    rest.is_some_and(|rest| !rest.is_empty()) && !IDLE.contains(&name)
}

/// Whether a path stays below where it starts, and is spelled in the one way that there is.
fn is_inside(path: &str) -> bool {
    let is_plain =
        |part: &str| !matches!(part, "" | "." | "..") && !part.contains(|c: char| c == '\\' || c.is_control());
    path.len() <= MAX_PATH && path.split('/').all(is_plain)
}
