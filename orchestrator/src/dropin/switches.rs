//! Chromium's command-line switches, as clients of other services send them for a browser that runs already.

use serde_json::{Value, json};

use super::Wish;
use crate::error::Error;

/// Switches that change nothing which a page can see: the warm browser has them, or does without.
const HARMLESS: [&str; 48] = [
    "allow-pre-commit-input",
    "disable-back-forward-cache",
    "disable-background-networking",
    "disable-background-timer-throttling",
    "disable-backgrounding-occluded-windows",
    "disable-breakpad",
    "disable-client-side-phishing-detection",
    "disable-component-extensions-with-background-pages",
    "disable-component-update",
    "disable-crash-reporter",
    "disable-default-apps",
    "disable-dev-shm-usage",
    "disable-domain-reliability",
    "disable-extensions",
    "disable-field-trial-config",
    "disable-gpu",
    "disable-hang-monitor",
    "disable-infobars",
    "disable-ipc-flooding-protection",
    "disable-notifications",
    "disable-popup-blocking",
    "disable-print-preview",
    "disable-prompt-on-repost",
    "disable-renderer-backgrounding",
    "disable-search-engine-choice-screen",
    "disable-session-crashed-bubble",
    "disable-setuid-sandbox",
    "disable-software-rasterizer",
    "disable-speech-api",
    "disable-sync",
    "enable-automation",
    "export-tagged-pdf",
    "generate-pdf-document-outline",
    "hide-crash-restore-bubble",
    "hide-scrollbars",
    "ignore-gpu-blacklist",
    "ignore-gpu-blocklist",
    "metrics-recording-only",
    "mute-audio",
    "no-default-browser-check",
    "no-first-run",
    "no-pings",
    "no-sandbox",
    "no-service-autorun",
    "no-startup-window",
    "password-store",
    "start-maximized",
    "use-mock-keychain",
];

/// Reads one switch into the wish. `place` is where the client wrote it.
///
/// # Errors
/// `Field`, for a switch that a running browser cannot take and for one with a wrong value.
pub(super) fn read(wish: &mut Wish, place: &str, switch: &str) -> Result<(), Error> {
    let bare = switch.trim().trim_start_matches('-');
    let (name, value) = bare.split_once('=').map_or((bare, None), |(name, value)| (name, Some(unquoted(value))));
    let wrong = |problem: &str| Err(Error::invalid(place, format!("has `{switch}`, which {problem}")));
    match (name.to_ascii_lowercase().as_str(), value) {
        ("", _) => wrong("is no command-line switch"),
        ("headless", _) => {
            wish.set("headless", place, json!(value != Some("false")));
            Ok(())
        }
        ("user-agent", Some(agent)) => {
            wish.set("settings.user_agent", place, json!(agent));
            Ok(())
        }
        ("lang" | "accept-lang", Some(tags)) => {
            let tags: Vec<&str> = tags.split(',').map(|tag| tag.split(';').next().unwrap_or_default().trim()).collect();
            wish.set("settings.locales", place, json!(tags));
            Ok(())
        }
        ("window-size", Some(size)) => {
            match size.split_once([',', 'x']).map(|(w, h)| (w.trim().parse(), h.trim().parse())) {
                Some((Ok(width), Ok(height))) => {
                    let (width, height): (u32, u32) = (width, height);
                    wish.set("settings.viewport", place, json!({"width": width, "height": height}));
                    Ok(())
                }
                _ => wrong("must be as in --window-size=1280,720"),
            }
        }
        ("user-agent" | "lang" | "accept-lang" | "window-size", None) => wrong("needs a value"),
        (name, _) if HARMLESS.contains(&name) => Ok(()),
        ("proxy-server" | "proxy-bypass-list" | "proxy-pac-url", _) => Err(Error::not_supported(
            place,
            format!("has `{switch}`, and a proxy cannot be given on this URL: leave it out"),
        )),
        _ => Err(Error::not_supported(
            place,
            format!(
                "has `{switch}`, which cannot be given to a browser that runs already: leave it out, or use WebDriver at \
                 /session, whose `goog:chromeOptions.args` start a browser of their own"
            ),
        )),
    }
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// Whether a switch asks for a browser without a display; `None` when it is about something else.
pub(super) fn headless(switch: &Value) -> Option<bool> {
    let bare = switch.as_str()?.trim().trim_start_matches('-').to_ascii_lowercase();
    match bare.split_once('=') {
        None if bare == "headless" => Some(true),
        Some(("headless", value)) => Some(value != "false"),
        _ => None,
    }
}
