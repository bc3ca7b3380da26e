//! What the daemon and the agent in a worker say to each other: JSON over HTTP.
//!
//! Workers outlive an upgrade of the daemon, so each side may meet an older or a newer other side. The agent refuses
//! members that it does not know, because it could not carry them out. The daemon ignores members and events that it does
//! not know.
//!
//! | module | what it holds |
//! |---|---|
//! | `claim` | how a worker is to run, and its secret |
//! | `settings` | what pages see that differs from the browser's own, such as locales and time zone, and its checks |
//! | `state` | the worker's state and its events |
//! | `storage` | what a browser keeps for sites, and its checks |
//! | `captcha` | challenges that pages put to their visitors, and what is done about them |
//! | `driver`, `pages`, `files` | WebDriver sessions, open pages, files |
//! | `log` | what happens in a browser, for the log of its session |
//! | [`frame`] | heads of a websocket's frames |
//! | `overlong` | messages of a browser that are longer than any may be |
//! | `unicode` | JSON of browsers whose strings may not be Unicode |
//! | `playwright` | Playwright's own server beside the browser |
//! | `ports` | connections to browser and driver, and what the agent hears of a client's messages |
//! | [`extension`] | what a browser extension may be, and how its archive is read |
//! | [`folder`] | a browser's own profile folder, packed, and what may be in it |
//! | [`recording`] | a video of the display: its query and its form |
//! | `probe` | tries whether a worker reaches or executes what it must not |
//! | [`text`] | texts of a worker, of which only the beginning is kept |
//! | [`socks`] | the messages by which a browser's connections name their sites |
//! | [`firefox`] | Firefox's preferences, arguments and profiles, by what a client may do with them |
//! | [`preferences`], [`switches`] | Chromium's preferences and command-line switches, by what a client may do with them |

mod captcha;
mod claim;
mod driver;
pub mod extension;
mod files;
pub mod firefox;
pub mod folder;
pub mod frame;
/// The parsers of this crate, for the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::extension::fuzzing as extension;
    pub use crate::firefox::pref_file::fuzzing as pref_file;
    pub use crate::firefox::profile::fuzzing as firefox_profile;
    pub use crate::folder::fuzzing as folder;
    pub use crate::storage::fuzzing as storage;
    pub use crate::switches::fuzzing as switches;
}
mod log;
mod overlong;
mod pages;
mod playwright;
mod ports;
pub mod preferences;
mod probe;
pub mod recording;
mod settings;
pub mod socks;
mod state;
mod storage;
pub mod switches;
pub mod text;
mod unicode;

use serde::{Deserialize, Serialize};

pub use captcha::{Captcha, CaptchaAction, CaptchaEnd, CaptchaKind, CaptchaSolver, MAX_CAPTCHA_IMAGE, MAX_CAPTCHA_URL};
pub use claim::{Allowed, Claim, Secret};
pub use driver::{DEVTOOLS_COMMANDS, DriverMode, ELEMENT, NewDriverSession, Window, passes_agent};
pub use files::{File, FileSource, MAX_FILE_NAME, Rename, StoredFile, is_plain_file_name};
pub use log::{DoneRequest, LogLevel, LogLine, RequestAnswer, RequestTiming};
pub use overlong::OverlongMessages;
pub use pages::{MAX_PAGES, MAX_TEXT, Page, PageAction};
pub use playwright::{PlaywrightLaunch, PlaywrightProxy, playwright_minor};
pub use ports::{
    ATTACH_PROTOCOL, Attached, ClientMessage, DriverPort, LONGEST_COMMAND, LONGEST_LINE, ListenRules, ListenVerdict,
    PORT_PROTOCOL,
};
pub use probe::{Probe, ProbeWay, Probed, ProgramTry, ProgramsProbed};
pub use settings::{
    ColorScheme, Geolocation, Launch, Launched, Permission, ReducedMotion, SettingError, Settings, Size, check_locales,
    check_timezone, check_user_agent, check_viewport,
};
pub use state::{Identity, Snapshot, WorkerEvent, WorkerState};
pub use storage::{
    Cookie, Database, Entry, Index, Item, ObjectStore, OriginStorage, PrivateFile, PrivateFileKind, SameSite,
    StorageError, StorageQuery, StorageState, longest_state,
};
pub use unicode::with_whole_characters;

/// The number of a worker's user, and of that user's group, in its image and in its container.
///
/// Nobody on a host has it, so that nothing of the host's is a worker's own where numbers in a container are those of the host.
/// Engines that map them give 65536 at least, and have it as well.
pub const WORKER_USER: u32 = 61_000;
/// The home of that user in its image.
pub const WORKER_HOME: &str = "/home/worker";

/// The folder that the daemon shares with one worker, as the worker sees it.
pub const SHARED_FOLDER: &str = "/run/warmpool";
/// The agent's socket in that folder.
pub const SOCKET: &str = "agent.sock";
/// The agent's port where there is no such folder. Browsers refuse to open it, whoever asks.
pub const PORT: u16 = 6669;

/// The loopback port in a worker where its browser finds the SOCKS proxy that is its only way out.
pub const EGRESS_PORT: u16 = 1080;
/// The name, in an upgrade, of a tunnel that carries one connection of the browser.
pub const EGRESS_PROTOCOL: &str = "egress";
/// The query of `PUT /ads` where the rules are those of the list that images are built with, and of no other.
pub const BUILT_IN_LIST: &str = "built_in";

/// The longest claim, in bytes. Certificates of authorities are most of it, in Base64; the rest is settings.
pub const CLAIM_LIMIT: usize = 2 << 20;
/// The most certificates that the daemon's rules, a preset's or a key's may name, in bytes of DER: a claim holds all three.
pub const CERTIFICATES_LIMIT: usize = 384 << 10;

/// The longest body that an agent reads into memory, in bytes, and the most that the daemon's settings and its rules of ads may let
/// it send: a state, capabilities with a profile or extensions in them, or compiled rules, of which those of EasyList have some 22
/// million.
pub const BODY_LIMIT: usize = 128 << 20;

/// The longest text of a clipboard, in bytes.
pub const CLIPBOARD_LIMIT: usize = 1 << 20;

/// The body of an answer that is an error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong, as a code and as a sentence.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// For programs.
    #[serde(default)]
    pub code: String,
    /// For people.
    #[serde(deserialize_with = "text::read")]
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_the_user_that_containers_run_as() {
        let dockerfile = include_str!("../../Dockerfile");
        for made in
            [format!("groupadd --gid {WORKER_USER} worker;"), format!("useradd --uid {WORKER_USER} --gid worker ")]
        {
            assert!(dockerfile.contains(&made), "{made}");
        }
        let home = format!("\nENV HOME={WORKER_HOME}\n");
        assert_eq!(dockerfile.matches(&home).count(), dockerfile.matches("\nENV WARMPOOL_ENGINE=").count());
    }
}
