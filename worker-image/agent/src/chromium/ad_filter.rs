//! The ad filter that Chromium has for itself, with the rules that the image was built with.
//!
//! It judges a request in the page's own process, so nothing waits for the agent; asking the agent about each request makes
//! a page half as slow again. It reads its rules when the browser starts, and DevTools turns it on for a tab. Lists of the
//! operator's own are not among those rules: for them the agent is asked (see `ads.rs`).

use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::{fs, sync::Arc};

use serde_json::{Value, json};

use crate::ads::AdBlocker;

use super::overrides::{Command, Kind};

/// Where the image keeps the index of the rules, and the preferences that tell of it.
const FOLDER: &str = "/usr/local/share/warmpool/ad-filter";
const PREFERENCES: &str = "Local State";
/// In a profile, and in [`FOLDER`].
const OF_PROFILE: &str = "Subresource Filter";
const INDEX: &str = "Indexed Rules";
/// What the browser writes to a page's log for each request that it blocks.
const BLOCKED: &str = " blocked resource ";

/// Whether the image has rules.
pub(super) fn is_there() -> bool {
    Path::new(FOLDER).join(PREFERENCES).exists()
}

/// Gives the rules to a new profile.
pub(super) fn install(profile: &Path) -> io::Result<()> {
    let (rules, place) = (Path::new(FOLDER), profile.join(OF_PROFILE));
    fs::copy(rules.join(PREFERENCES), profile.join(PREFERENCES))?;
    fs::create_dir_all(&place)?;
    symlink(rules.join(INDEX), place.join(INDEX))
}

/// The commands that turn the filter on in a tab, in order. The tab's frames and workers go with it. It goes off with any
/// DevTools session that leaves the tab, whoever's that was, so each navigation turns it on again.
pub(super) fn turn_on() -> [Command; 2] {
    [("Page.enable", json!({})), ("Page.setAdBlockingEnabled", json!({"enabled": true}))]
}

/// What has the browser ask the agent before it requests a document. A new tab may have its first page before an event has
/// told of the tab, and the browser looks at the filter when that page arrives.
///
/// While this is on, the documents that arrive have all their requests go through the browser's own process, which costs as much
/// as asking about each. So it is off from the request of a page until the page is there.
pub(super) fn documents() -> Command {
    ("Fetch.enable", json!({"patterns": [{"urlPattern": "http*", "resourceType": "Document"}]}))
}

/// What makes a target tell of the requests that were blocked.
pub(super) fn count_commands(kind: Kind) -> Option<Command> {
    matches!(kind, Kind::Page | Kind::Frame).then(|| ("Log.enable", json!({})))
}

/// Counts an entry of a page's log if it tells of a request that was blocked.
pub(super) fn count(blocker: &Arc<AdBlocker>, params: &Value) {
    if params["entry"]["text"].as_str().is_some_and(|text| text.contains(BLOCKED)) {
        blocker.count();
    }
}
