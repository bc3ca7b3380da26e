//! Chromium's preferences, of which a packed folder has one branch: what visitors allowed sites.
//!
//! The rest could name proxies, folders for downloads, pages to open at a start, or extensions.

use serde_json::{Map, Value, json};

/// Where they are.
pub const PREFERENCES: &str = "Default/Preferences";
/// The longest text of them, in bytes.
pub const MAX_PREFERENCES: u64 = 4 << 20;

/// The branch.
const BRANCH: [&str; 3] = ["profile", "content_settings", "exceptions"];
/// What a visitor may have allowed or forbidden sites, by Chromium's names.
const PERMISSIONS: [&str; 25] = [
    "ar",
    "autoplay",
    "background_sync",
    "camera_pan_tilt_zoom",
    "clipboard",
    "cookies",
    "durable_storage",
    "geolocation",
    "geolocation_with_options",
    "idle_detection",
    "images",
    "javascript",
    "keyboard_lock",
    "local_fonts",
    "media_stream_camera",
    "media_stream_mic",
    "midi_sysex",
    "notifications",
    "payment_handler",
    "pointer_lock",
    "popups",
    "sensors",
    "sound",
    "storage_access",
    "window_placement",
];

/// Of a file of preferences, what a packed folder has. Nothing where the file is none.
#[must_use]
pub fn kept_preferences(text: &[u8]) -> Value {
    let all: Value = serde_json::from_slice(text).unwrap_or_default();
    let exceptions = BRANCH.iter().fold(&all, |place, part| &place[*part]);
    let is_kept = |name: &String| PERMISSIONS.contains(&name.as_str());
    let kept: Map<String, Value> = exceptions
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, sites)| is_kept(name) && sites.is_object())
        .map(|(name, sites)| (name.clone(), settings(sites)))
        .collect();
    BRANCH.iter().rev().fold(Value::Object(kept), |inner, part| json!({*part: inner}))
}

/// What is set for each site: a number alone, with when it was set. More than that is an extension's or a device's.
fn settings(sites: &Value) -> Value {
    let plain = |site: &Value| {
        let entry = |name: &str| Some((name.to_owned(), site.get(name)?.clone()));
        let setting = site["setting"].is_u64().then(|| entry("setting")).flatten();
        let modified = site["last_modified"].is_string().then(|| entry("last_modified")).flatten();
        setting.map(|setting| Value::Object([Some(setting), modified].into_iter().flatten().collect()))
    };
    let sites = sites.as_object().into_iter().flatten();
    Value::Object(sites.filter_map(|(site, value)| Some((site.clone(), plain(value)?))).collect())
}
