//! Profiles as their owners read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_core::browser::Engine;
use warmpool_core::ids::{KeyId, SessionId};

/// What a profile keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfileKind {
    /// A state, which every engine takes: cookies and storage.
    #[default]
    State,
    /// The folder of one engine's browser: service workers and saved permissions, too.
    Folder,
}

impl ProfileKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::State, Self::Folder];

    /// Its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Folder => "folder",
        }
    }
}

/// A profile: what a browser keeps for sites, under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Profile")]
pub struct ProfileView {
    /// Its name.
    pub name: String,
    /// What it keeps.
    #[serde(default)]
    pub kind: ProfileKind,
    /// The engine whose folder it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The key that owns it.
    pub key_id: KeyId,
    /// When it was made, in Unix milliseconds.
    pub created: u64,
    /// When a session last began with it, in Unix milliseconds.
    pub used: u64,
    /// Who writes it now: the id of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Its versions, the newest first.
    pub versions: Vec<ProfileVersion>,
}

/// A version of a profile: what one session saved, or what was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileVersion {
    /// Counts up.
    pub version: u64,
    /// When it was saved, in Unix milliseconds.
    pub saved: u64,
    /// The session that saved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its size in bytes: of a state as JSON, of a folder packed.
    pub size: u64,
    /// The browser that had the folder last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<String>,
}

/// The profiles of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileList {
    /// By their names.
    pub profiles: Vec<ProfileView>,
}

/// A profile, and what its newest version holds. Values are in its state alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileDetail {
    /// The profile.
    #[serde(flatten)]
    pub profile: ProfileView,
    /// The cookies of each host.
    pub cookies: Vec<HostCookies>,
    /// What each origin has stored.
    pub origins: Vec<OriginContents>,
}

/// The cookies of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostCookies {
    /// The host.
    pub domain: String,
    /// How many.
    pub cookies: u64,
    /// Which, by their names.
    pub list: Vec<HeldCookie>,
}

/// A cookie, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldCookie {
    /// Its name, which may be empty.
    pub name: String,
    /// The path it is for.
    pub path: String,
    /// When it expires, in Unix milliseconds. Absent where the site gave no date: the profile keeps such a cookie, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// What an origin has stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OriginContents {
    /// The origin.
    pub origin: String,
    /// Entries of its local storage.
    pub local_storage: u64,
    /// Entries of its session storage.
    pub session_storage: u64,
    /// The names of its databases.
    pub databases: Vec<String>,
    /// How many private files it has.
    #[serde(default)]
    pub files: u64,
    /// The size of all that, in bytes.
    pub size: u64,
}
