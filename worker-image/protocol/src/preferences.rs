//! Chromium's preferences: which of them a client may set.
//!
//! Both sides ask this table, as with [`switches`](crate::switches). Its names are those that clients of this field set. What
//! it does not have reaches no browser, unless the operator names it in `worker.chromium_prefs`.

use serde_json::{Map, Value};

/// What becomes of a preference that a client sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A browser that is started gets it, and so what stands below it.
    Free,
    /// The worker has done the right thing already: a folder of its own is where the daemon finds files, and so on.
    Fulfilled,
    /// It would reach around the worker's isolation.
    Refused,
    /// Nobody has judged it.
    Unknown,
}

/// By dotted name; each stands for all that is below it.
const FREE: &[&str] = &[
    "NewTabPage",
    "alternate_error_pages",
    "autofill",
    "bookmark_bar",
    "browser.custom_chrome_frame",
    "browser.enable_spellchecking",
    "browser.has_seen_welcome_page",
    "browser.show_home_button",
    "browser.show_hub_popup_on_download_start",
    "browser.theme",
    "browser.window_placement",
    "content_settings",
    "credentials_enable_autosignin",
    "credentials_enable_service",
    "default_content_setting_values",
    "default_content_settings",
    "devtools",
    "distribution",
    "dns_prefetching",
    "download.directory_upgrade",
    "download.prompt_for_download",
    "download_bubble",
    "enable_a_ping",
    "enable_do_not_track",
    "first_run_tabs",
    "hardware_acceleration_mode",
    "hardware_acceleration_mode_previous",
    "homepage",
    "homepage_is_newtabpage",
    "https_only_mode_enabled",
    "intl",
    "local_discovery",
    "managed_default_content_settings",
    "media_router",
    "net.network_prediction_options",
    "ntp",
    "pdf",
    "plugins.always_open_pdf_externally",
    "plugins.plugins_disabled",
    "printing",
    "privacy_sandbox",
    "profile.block_third_party_cookies",
    "profile.content_settings",
    "profile.cookie_controls_mode",
    "profile.default_content_setting_values",
    "profile.default_content_settings",
    "profile.exit_type",
    "profile.exited_cleanly",
    "profile.managed_default_content_settings",
    "profile.name",
    "profile.password_manager_enabled",
    "profile.password_manager_leak_detection",
    "safebrowsing",
    "search.suggest_enabled",
    "session.restore_on_startup",
    "session.startup_urls",
    "signin",
    "spellcheck",
    "sync_promo",
    "tracking_protection",
    "translate",
    "translate_allowlists",
    "translate_blocked_languages",
    "translate_site_blacklist",
    "translate_whitelists",
    "user_experience_metrics",
    "webkit.webprefs",
];

/// Beginnings of single names.
const FREE_STARTS: &[&str] = &["omnibox-"];

const FULFILLED: &[&str] = &[
    "download.default_directory",
    "savefile.default_directory",
    "webrtc.ip_handling_policy",
    "webrtc.multiple_routes_enabled",
    "webrtc.nonproxied_udp_enabled",
];

const REFUSED: &[&str] = &["extensions.settings", "net.explicitly_allowed_network_ports", "protection", "proxy"];

fn has(table: &[&str], name: &str) -> bool {
    table.iter().any(|&above| name.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// What becomes of the preference of this dotted name. `allowed` has what the operator allows beyond the table.
#[must_use]
pub fn class(name: &str, allowed: &[String]) -> Class {
    let is_plain = !name.chars().any(|c| c.is_control());
    if has(REFUSED, name) || !is_plain {
        Class::Refused
    } else if has(FULFILLED, name) {
        Class::Fulfilled
    } else if has(FREE, name)
        || FREE_STARTS.iter().any(|start| name.starts_with(start))
        || allowed.iter().any(|above| has(&[above], name))
    {
        Class::Free
    } else {
        Class::Unknown
    }
}

/// What a client's preferences come to.
#[derive(Debug, Default, PartialEq)]
pub struct JudgedPreferences {
    /// What a browser gets, by dotted names.
    pub taken: Map<String, Value>,
    /// What nobody has judged.
    pub left_out: Vec<String>,
    /// What would weaken the fence.
    pub refused: Vec<String>,
}

/// Judges preferences, whether their names are dotted or nested.
#[must_use]
pub fn judge(preferences: &Map<String, Value>, allowed: &[String]) -> JudgedPreferences {
    let mut judged = JudgedPreferences::default();
    judge_below("", preferences, allowed, &mut judged);
    judged
}

fn judge_below(above: &str, preferences: &Map<String, Value>, allowed: &[String], judged: &mut JudgedPreferences) {
    for (name, value) in preferences {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match (class(&path, allowed), value) {
            (Class::Free, _) => {
                judged.taken.insert(path, value.clone());
            }
            (Class::Fulfilled, _) => {}
            (Class::Refused, _) => judged.refused.push(path),
            // An object stands for what is in it.
            (Class::Unknown, Value::Object(below)) if !below.is_empty() => judge_below(&path, below, allowed, judged),
            (Class::Unknown, _) => judged.left_out.push(path),
        }
    }
}

/// Whether an operator may allow the preferences of this name.
#[must_use]
pub fn may_be_allowed(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty()
        && name.split('.').all(|part| !part.is_empty() && part.chars().all(is_plain))
        && !has(REFUSED, name)
        // Nor what is above one of them.
        && !REFUSED.iter().any(|refused| has(&[name], refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(preferences: Value, allowed: &[&str]) -> (Value, String, String) {
        let allowed: Vec<String> = allowed.iter().map(|&name| name.to_owned()).collect();
        let JudgedPreferences { taken, left_out, refused } = judge(preferences.as_object().unwrap(), &allowed);
        (Value::Object(taken), left_out.join(" "), refused.join(" "))
    }

    #[test]
    fn what_clients_set_is_taken_however_it_is_nested() {
        let flat = json!({"profile.default_content_setting_values.popups": 1, "intl.accept_languages": "sv"});
        assert_eq!(judged(flat.clone(), &[]), (flat, String::new(), String::new()));
        let nested = json!({"profile": {"default_content_setting_values": {"popups": 1}, "name": "x"}, "omnibox-x": 0});
        let wanted = json!({
            "profile.default_content_setting_values": {"popups": 1}, "profile.name": "x", "omnibox-x": 0,
        });
        assert_eq!(judged(nested, &[]), (wanted, String::new(), String::new()));
    }

    #[test]
    fn folders_are_the_workers_own() {
        let folders = json!({"download": {"default_directory": "/home/worker/profile-1/NativeMessagingHosts"},
            "savefile.default_directory": "/x", "webrtc.ip_handling_policy": "default"});
        assert_eq!(judged(folders, &[]), (json!({}), String::new(), String::new()));
    }

    #[test]
    fn what_weakens_the_fence_is_refused_by_name() {
        for (preferences, name) in [
            (json!({"proxy": {"mode": "direct"}}), "proxy"),
            (json!({"proxy.mode": "direct"}), "proxy.mode"),
            (json!({"extensions": {"settings": {"a": {"path": "/x"}}}}), "extensions.settings"),
            (json!({"net": {"explicitly_allowed_network_ports": [6669]}}), "net.explicitly_allowed_network_ports"),
            (json!({"intl.a\u{0}b": 1}), "intl.a\u{0}b"),
        ] {
            assert_eq!(judged(preferences.clone(), &[name]).2, name, "{preferences}");
            assert!(!may_be_allowed(name), "{name}");
        }
        for above in ["extensions", "net", "", "a..b", "a b"] {
            assert!(!may_be_allowed(above), "{above}");
        }
    }

    #[test]
    fn what_nobody_has_judged_is_left_out_until_the_operator_allows_it() {
        let unknown = json!({
            "custom_handlers": {"enabled": true}, "intlx": 1, "extensions.ui.developer_mode": true,
            "browser": {"enabled_labs_experiments": ["x@1"]},
        });
        let (taken, left_out, refused) = judged(unknown.clone(), &[]);
        assert_eq!((taken, refused), (json!({}), String::new()));
        let wanted = "browser.enabled_labs_experiments custom_handlers.enabled extensions.ui.developer_mode intlx";
        assert_eq!(left_out, wanted);
        assert!(may_be_allowed("custom_handlers"));
        let (taken, left_out, _) = judged(unknown, &["custom_handlers", "extensions.ui"]);
        assert_eq!(left_out, "browser.enabled_labs_experiments intlx");
        assert_eq!(taken, json!({"custom_handlers": {"enabled": true}, "extensions.ui.developer_mode": true}));
    }
}
