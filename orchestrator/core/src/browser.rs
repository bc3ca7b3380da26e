//! Which browsers there are: engines, modes, presets of settings, and the kinds of workers that the pool counts.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use warmpool_protocol::folder::FolderEngine;
use warmpool_protocol::{Permission, Settings};

use crate::error::FieldError;
use crate::ids::ExtensionId;

/// A browser engine, by the name the API uses (`browser_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Chromium, driven over DevTools and chromedriver.
    Chromium,
    /// Firefox, driven over WebDriver BiDi and geckodriver.
    Firefox,
    /// WebKitGTK, driven by WebKitWebDriver.
    Webkit,
}

impl Engine {
    /// Every engine the API can name.
    pub const ALL: [Self; 3] = [Self::Chromium, Self::Firefox, Self::Webkit];

    /// The name in JSON, labels and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
            Self::Webkit => "webkit",
        }
    }

    /// The protocol that `websocket_url` speaks for this engine.
    #[must_use]
    pub const fn protocol(self) -> &'static str {
        match self {
            Self::Chromium => "cdp",
            Self::Firefox => "webdriver-bidi",
            Self::Webkit => "webkit-inspector",
        }
    }

    /// Checks that browsers of this engine can have the settings.
    /// Errors: the first that they cannot have, by its path below `settings`.
    pub fn check_settings(self, settings: &Settings) -> Result<(), FieldError> {
        let lacks = |permission: &Permission| !self.grants(*permission);
        match settings.permissions.iter().enumerate().find(|(_, permission)| lacks(permission)) {
            None => Ok(()),
            Some((at, permission)) => {
                let able: Vec<_> = Self::ALL.into_iter().filter(|engine| engine.grants(*permission)).collect();
                let able: Vec<_> = able.iter().map(|engine| engine.as_str()).collect();
                let name = permission.as_str();
                let problem = format!("has `{name}`, which {self} cannot grant: {} can", able.join(" and "));
                Err(FieldError::not_supported(format!("permissions[{at}]"), problem))
            }
        }
    }

    /// Whether its browsers grant a permission to all pages.
    const fn grants(self, permission: Permission) -> bool {
        match (self, permission) {
            (Self::Chromium | Self::Firefox, _) | (Self::Webkit, Permission::Geolocation) => true,
            // Its pages have no cameras and microphones, copy for a click alone, and have to ask for notifications first.
            (Self::Webkit, _) => false,
        }
    }

    /// The names by which WebDriver clients ask for this engine; the first is the one that its driver answers with.
    const fn browser_names(self) -> &'static [&'static str] {
        match self {
            Self::Chromium => &["chrome", "chromium"],
            Self::Firefox => &["firefox"],
            Self::Webkit => &["MiniBrowser", "webkit", "webkitgtk", "safari"],
        }
    }

    /// The `browserName` that its driver answers with.
    #[must_use]
    pub const fn browser_name(self) -> &'static str {
        self.browser_names()[0]
    }

    /// Whether a WebDriver client's `browserName` means this engine.
    #[must_use]
    pub fn is_browser_name(self, name: &str) -> bool {
        self.browser_names().contains(&name)
    }

    /// The same for clients that care little for upper and lower case.
    #[must_use]
    pub fn resembles_browser_name(self, name: &str) -> bool {
        self.browser_names().iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl From<Engine> for FolderEngine {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Chromium => Self::Chromium,
            Engine::Firefox => Self::Firefox,
            Engine::Webkit => Self::Webkit,
        }
    }
}

impl From<FolderEngine> for Engine {
    fn from(engine: FolderEngine) -> Self {
        match engine {
            FolderEngine::Chromium => Self::Chromium,
            FolderEngine::Firefox => Self::Firefox,
            FolderEngine::Webkit => Self::Webkit,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Engine {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|engine| engine.as_str() == text).ok_or(())
    }
}

/// Whether a browser has a display of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// On the worker's own X display.
    Headed,
    /// On no display.
    Headless,
}

impl Mode {
    /// The mode that the API's `headless` flag asks for.
    #[must_use]
    pub const fn from_headless(headless: bool) -> Self {
        if headless { Self::Headless } else { Self::Headed }
    }

    /// The name in labels and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Headed => "headed",
            Self::Headless => "headless",
        }
    }
}

impl FromStr for Mode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Headed, Self::Headless].into_iter().find(|mode| mode.as_str() == text).ok_or(())
    }
}

/// The first bytes of a hash, which name what was hashed to people and in labels.
fn short_hash(digest: impl AsRef<[u8]>) -> u64 {
    digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Makes a short hash a type of its own, written in hexadecimal.
macro_rules! short_hash {
    ($(#[$docs:meta])* $Name:ident) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $Name(u64);

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl FromStr for $Name {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                u64::from_str_radix(text, 16).map(Self).map_err(|_| ())
            }
        }
    };
}

short_hash! {
    /// Names the settings and extensions with which workers of a preset wait, by a hash of them.
    PresetId
}

impl PresetId {
    /// The id of these settings and extensions: the same in every process that knows the same settings.
    pub fn new(settings: &Settings, extensions: &[ExtensionId]) -> Self {
        // Serialising into memory cannot fail; an empty text would only make two presets share an id.
        let settings = Sha256::new_with_prefix(serde_json::to_vec(settings).unwrap_or_default());
        let all = extensions.iter().fold(settings, |all, id| all.chain_update(id.as_str()).chain_update("\n"));
        Self(short_hash(all.finalize()))
    }
}

short_hash! {
    /// Names the authorities that a browser trusts beside the public ones, by a hash of their certificates.
    TrustId
}

impl TrustId {
    /// The id of these certificates, in DER: their order counts.
    pub fn from_certificates<'a>(certificates: impl Iterator<Item = &'a [u8]>) -> Self {
        let each = certificates.fold(Sha256::new(), |all, certificate| all.chain_update(Sha256::digest(certificate)));
        Self(short_hash(each.finalize()))
    }
}

/// A kind of worker, as the pool counts them: those of one engine in one mode, with the same settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolKey {
    /// The engine.
    pub engine: Engine,
    /// Headed or headless.
    pub mode: Mode,
    /// The preset whose settings its workers wait with; none for the browser's own.
    pub preset: Option<PresetId>,
    /// The authorities that its browsers trust beside the public ones; none for those alone.
    pub trust: Option<TrustId>,
}

impl PoolKey {
    /// The kind of browsers without settings of their own.
    #[must_use]
    pub const fn plain(engine: Engine, mode: Mode) -> Self {
        Self { engine, mode, preset: None, trust: None }
    }
}

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.engine.as_str(), self.mode.as_str())?;
        self.preset.map_or(Ok(()), |preset| write!(f, "/{preset}"))?;
        self.trust.map_or(Ok(()), |trust| write!(f, "/ca-{trust}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for engine in Engine::ALL {
            assert_eq!(engine.as_str().parse(), Ok(engine));
            assert_eq!(serde_json::to_value(engine).unwrap(), engine.as_str());
        }
        assert_eq!("opera".parse::<Engine>(), Err(()));
        assert_eq!("headless".parse(), Ok(Mode::Headless));
        assert_eq!(PresetId(7).to_string().parse(), Ok(PresetId(7)));
    }

    #[test]
    fn a_preset_has_the_same_id_in_every_version() {
        let german = Settings { locales: vec!["de-DE".to_owned()], ..Settings::default() };
        assert_eq!(PresetId::new(&german, &[]).to_string(), "17ec1efea94cceb5");
        assert_ne!(PresetId::new(&german, &[]), PresetId::new(&Settings::default(), &[]));
    }

    #[test]
    fn what_an_engine_cannot_grant_is_named_with_those_that_can() {
        let settings = Settings { permissions: Permission::ALL.to_vec(), ..Settings::default() };
        assert!(
            Engine::Chromium.check_settings(&settings).is_ok() && Engine::Firefox.check_settings(&settings).is_ok()
        );
        let permissions = vec![Permission::Geolocation, Permission::Camera];
        let error = Engine::Webkit.check_settings(&Settings { permissions, ..Settings::default() }).unwrap_err();
        let wanted = "`permissions[1]` has `camera`, which webkit cannot grant: chromium and firefox can";
        assert_eq!(error.to_string(), wanted);
        assert!(Engine::Webkit.check_settings(&Settings::default()).is_ok());
    }

    #[test]
    fn browser_names_of_clients_are_known() {
        assert!(Engine::Chromium.is_browser_name("chrome"));
        assert!(!Engine::Chromium.is_browser_name("Chromium"));
        assert!(Engine::Chromium.resembles_browser_name("Chromium"));
        assert!(Engine::Webkit.is_browser_name("MiniBrowser"));
        assert!(!Engine::Chromium.is_browser_name("firefox"));
    }
}
