//! What Kernel's clients send and read.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::super::public_url::PublicUrl;
use super::super::{acting_view, changed, time};
use crate::dropin::hosted::kernel;
use crate::http::error::Error;
use warmpool_api::profile::ProfileView;
use warmpool_api::session::{SessionView, Viewport};
use warmpool_config::ByteSize;
use warmpool_core::error::FieldFault as _;
use warmpool_core::ids::SessionId;
use warmpool_core::metadata::Metadata;
use warmpool_sessions::session::Session;

/// A browser, as Kernel's clients read it: a session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KernelBrowser")]
pub(super) struct BrowserReply {
    pub(super) session_id: SessionId,
    pub(super) created_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deleted_at: Option<String>,
    /// The websocket for Playwright and Puppeteer, while it lives; empty afterwards.
    pub(super) cdp_ws_url: String,
    /// Empty: Chromium speaks BiDi by WebDriver's own calls.
    pub(super) webdriver_ws_url: String,
    /// The live view, in which its holder may act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) browser_live_view_url: Option<String>,
    pub(super) headless: bool,
    pub(super) stealth: bool,
    /// The idle limit, in seconds.
    pub(super) timeout_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_url: Option<String>,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub(super) tags: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<ProfileReply>,
    /// Whether the session saves the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) profile_save_changes: Option<bool>,
    /// Whether the display shows pages alone, while it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kiosk_mode: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) viewport: Option<Viewport>,
    /// The size that comes nearest to that of its container.
    pub(super) memory: String,
    /// Says nothing: there is one place, and the service's clients read one of its own.
    pub(super) region: &'static str,
    /// What the client has to know of the browser it got.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// Whether browsers that have ended count.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct RetrieveQuery {
    /// Finds one that has ended, too.
    pub(super) include_deleted: Option<bool>,
}

/// Which browsers there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "KernelStatus")]
pub(super) enum BrowserStatus {
    /// Those that live.
    #[default]
    Active,
    /// Those that have ended.
    Deleted,
    /// All.
    All,
}

/// Which browsers to list. `tags[key]=value` narrows the list to those with this label.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ListQuery {
    /// `active` where it is left out.
    pub(super) status: Option<BrowserStatus>,
    /// The same as the status `all`.
    pub(super) include_deleted: Option<bool>,
    /// Only those whose id, name or profile has this part, of at most 256 bytes.
    pub(super) query: Option<String>,
    /// Has no effect.
    pub(super) region: Option<String>,
    /// How many to pass over.
    pub(super) offset: Option<u64>,
    /// How many; 20 where it is left out.
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: Option<u64>,
}

/// Which profiles to list.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ProfilesQuery {
    /// Only the one of this name.
    pub(super) name: Option<String>,
    /// Only those whose name has this part, of at most 256 bytes.
    pub(super) query: Option<String>,
    /// How many to pass over.
    pub(super) offset: Option<u64>,
    /// How many.
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: Option<u64>,
}

/// A profile that is wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "KernelCreateProfile")]
pub(super) struct CreateProfile {
    /// Its name, which is its id as well; a new one where it is left out.
    pub(super) name: Option<String>,
}

/// A profile.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KernelProfile")]
pub(super) struct ProfileReply {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) last_used_at: String,
}

/// Which file.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct FileQuery {
    /// Its path, of which the name counts: a session's files have no folders.
    pub(super) path: String,
    /// Has no effect.
    pub(super) mode: Option<String>,
}

/// A file of a browser.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KernelFile")]
pub(super) struct FileReply {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) size_bytes: u64,
    pub(super) is_dir: bool,
    pub(super) mod_time: String,
    pub(super) mode: &'static str,
}

/// A browser in Kernel's words. `profile` is what it began with, where that is still there.
pub(super) fn reply(
    base: &PublicUrl,
    view: SessionView,
    live: Option<&Arc<Session>>,
    profile: Option<ProfileView>,
    memory: ByteSize,
) -> BrowserReply {
    let live = live.filter(|session| session.check_open().is_ok());
    BrowserReply {
        created_at: time(view.timestamp),
        deleted_at: view.ended_at.map(time),
        cdp_ws_url: live.map(|session| base.websocket_url(session)).unwrap_or_default(),
        webdriver_ws_url: String::new(),
        browser_live_view_url: live.map(|session| acting_view(base, session)),
        headless: view.headless,
        stealth: false,
        timeout_seconds: view.idle_timeout.unwrap_or(view.session_timeout),
        name: view.app_name,
        start_url: view.url,
        tags: view.metadata,
        profile: profile.map(profile_reply),
        profile_save_changes: view.profile.map(|profile| profile.is_written),
        kiosk_mode: live.map(|session| session.options.launch.kiosk),
        viewport: view.viewport,
        memory: kernel::memory(memory),
        region: "us-east",
        warnings: live.map(|session| session.warnings.clone()).unwrap_or_default(),
        session_id: view.session_id,
    }
}

pub(super) fn profile_reply(profile: ProfileView) -> ProfileReply {
    ProfileReply {
        created_at: time(profile.created),
        updated_at: time(changed(&profile)),
        last_used_at: time(profile.used),
        id: profile.name.clone(),
        name: profile.name,
    }
}

/// The longest part of a text that a list is narrowed to, in bytes: each is looked for in every text of the key.
const MAX_PART: usize = 256;

/// A part that texts have, in upper or lower case.
#[derive(Debug)]
pub(super) struct TextPart(String);

impl TextPart {
    /// Errors: `Field` for one that is too long.
    pub(super) fn read(part: String) -> Result<Self, Error> {
        if part.len() > MAX_PART {
            return Err(Error::invalid("query", format!("must have at most {MAX_PART} bytes")));
        }
        Ok(Self(part.to_lowercase()))
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_in_upper_and_lower_case_and_is_short() {
        let part = |text: &str| TextPart::read(text.to_owned());
        assert!(part("SHÖP").unwrap().is_in("my-shöp-1") && part("").unwrap().is_in(""));
        assert!(!part("shop ").unwrap().is_in("shop"));
        assert!(part(&"x".repeat(MAX_PART)).is_ok());
        assert!(part(&"x".repeat(MAX_PART + 1)).unwrap_err().to_string().contains("256"));
    }
}
