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

/// The commands that turn the filter on in a target and have it report what it blocks, in order. A tab's frames and workers go
/// with the tab.
pub(super) fn commands(kind: Kind) -> Vec<Command> {
    let count = ("Log.enable", json!({}));
    match kind {
        Kind::Page => vec![("Page.enable", json!({})), turn_on(), count],
        Kind::Frame => vec![count],
        Kind::Worker | Kind::SharedWorker | Kind::Other => Vec::new(),
    }
}

/// Turns the filter on in a tab. It goes off with any DevTools session that leaves the tab, whoever's that was, so each
/// navigation turns it on again.
pub(super) fn turn_on() -> Command {
    ("Page.setAdBlockingEnabled", json!({"enabled": true}))
}

/// Counts an entry of a page's log if it reports a blocked request.
pub(super) fn count(blocker: &Arc<AdBlocker>, params: &Value) {
    if params["entry"]["text"].as_str().is_some_and(|text| text.contains(BLOCKED)) {
        blocker.count();
    }
}
