//! What the bodies of the create calls may say, and what session they ask for.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod settings;

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use warmpool_protocol::{self as protocol, CaptchaSolver, Launch, Size, StorageState, check_locales, check_timezone};

use super::{GivenState, Options, SessionKind, page_address};
use crate::Error;
use warmpool_api::{AnyObject, Members, Object};
use warmpool_config::{CaptchaMode, Config};
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::error::{FieldError, FieldFault as _, read_json};
use warmpool_core::ids::ExtensionId;
use warmpool_core::metadata::{MAX_LABELS, Metadata};
use warmpool_profiles::{ProfileChoice, check_name};
use warmpool_webhooks::{MAX_ADDRESS, check_address};
use warmpool_workers::egress::{Location, Upstreams};

pub use settings::Settings;

/// The field that only one of the two create calls has.
pub const APP_NAME: &str = "app_name";
/// The member that asks for an upstream proxy.
const PROXY: &str = "advanced.proxy";
/// The member that names extensions.
pub(super) const EXTENSIONS: &str = "advanced.extension_ids";
/// The longest passcode or app name, in characters. Their record has room for it in any script: a control character takes six bytes
/// there, and no other takes more.
const MAX_TEXT: usize = 1024;

/// The session that is wanted. Every member may be left out or null.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CreateRequest {
    /// The end user on whose behalf the session is made: an id or a name, and never a secret. It stays with the record; lists, the
    /// console, webhooks and backups show it.
    #[schemars(length(max = MAX_TEXT))]
    pub(super) service_passcode: Option<String>,
    /// Labels of the session. A key has 1 to 64 letters, digits, `-`, `_`, `.` or `/`, and a value has 256 bytes at most.
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = MAX_LABELS))]
    pub(super) metadata: Option<Members>,
    /// The app that the session runs for. It stays with the record.
    #[schemars(length(max = MAX_TEXT))]
    pub app_name: Option<String>,
    /// The page in the first tab: `http`, `https`, `data:` or `about:blank`, of 16 KiB at most as browsers write it.
    pub(super) url: Option<String>,
    #[schemars(extend("default" = "chromium"))]
    pub(super) browser_type: Option<Engine>,
    pub(super) settings: Option<Object<Settings>>,
    pub(super) advanced: Option<Object<Advanced>>,
    /// Whether the browser runs without a display.
    #[schemars(extend("default" = false))]
    pub(super) headless: Option<bool>,
    /// The hard cap on the session's life, in seconds.
    #[schemars(range(min = 1))]
    pub(super) session_timeout: Option<i64>,
    /// Ends the session after this many seconds without a command.
    #[schemars(range(min = 1))]
    pub(super) idle_timeout: Option<i64>,
    /// Whether a dropped connection leaves the session alone until `session_timeout`.
    #[schemars(extend("default" = false))]
    pub(super) keep_alive: Option<bool>,
    /// Whether the session is recorded.
    #[schemars(extend("default" = false))]
    pub(super) recording: Option<bool>,
    /// Whether the session's console, page errors, requests and downloads are written down, for `GET /sessions/{id}/logs` and
    /// `/har`.
    #[schemars(extend("default" = false))]
    pub(super) logs: Option<bool>,
    /// Whether the display shows pages alone, without the browser's tabs and address bar. Needs a display.
    #[schemars(extend("default" = false))]
    pub(super) kiosk: Option<bool>,
    /// What the browser begins with: cookies and storage in the shape of Playwright's `storageState`, as
    /// `GET /sessions/{id}/state` gives it. Only the names and values of what is there are needed.
    #[schemars(with = "Option<AnyObject>")]
    pub(super) state: Option<Object<StorageState>>,
    /// The profile that the browser begins with, and whether it is saved.
    pub(super) profile: Option<Object<ProfileChoice>>,
    /// Where signed messages go when the session ends, and when a challenge in it waits for a person: see `GET /webhooks/secret`. It
    /// has 2048 bytes at most.
    #[schemars(length(max = MAX_ADDRESS))]
    pub(super) webhook_url: Option<String>,
}

/// The body of `POST /sessions/create`: the same without [`APP_NAME`].
pub struct CreateSession;

impl JsonSchema for CreateSession {
    fn schema_name() -> Cow<'static, str> {
        "CreateSession".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = CreateRequest::json_schema(generator);
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove(APP_NAME);
        }
        schema
    }
}

/// The body of `POST /sessions/webdriver/create`: all of [`CreateRequest`], with a boolean for `advanced.proxy`.
pub struct CreateWebDriverSession;

impl JsonSchema for CreateWebDriverSession {
    fn schema_name() -> Cow<'static, str> {
        "CreateWebDriverSession".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = CreateRequest::json_schema(generator);
        let advanced = generator.subschema_for::<Option<WebDriverAdvanced>>();
        set_property(&mut schema, "advanced", advanced);
        schema
    }
}

/// [`Advanced`] with a boolean for `proxy`.
struct WebDriverAdvanced;

impl JsonSchema for WebDriverAdvanced {
    fn schema_name() -> Cow<'static, str> {
        "WebDriverAdvanced".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Advanced::json_schema(generator);
        let proxy = json_schema!({
            "description": "Whether pages go through an upstream proxy.",
            "type": ["boolean", "null"],
        });
        set_property(&mut schema, "proxy", proxy);
        schema
    }
}

fn set_property(schema: &mut Schema, name: &str, property: Schema) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(name.to_owned(), property.to_value());
    }
}

/// Advanced options.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Advanced {
    /// Whether ads are blocked, on every engine.
    #[schemars(extend("default" = false))]
    pub(super) block_ads: Option<bool>,
    /// Whether CAPTCHAs are found and solved; `true` is refused while `captcha.mode` is off.
    #[schemars(extend("default" = false))]
    pub(super) solve_captchas: Option<bool>,
    /// The upstream proxy that pages go through: `true` for any, or where it is.
    #[schemars(with = "Option<ProxyChoice>")]
    pub(super) proxy: Option<Value>,
    /// The extensions that the browser loads, by their ids from `POST /extensions`. WebKit loads none.
    pub(super) extension_ids: Option<Vec<String>>,
}

/// What `advanced.proxy` may be. `location` reads it, since its messages depend on the call.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is needed")]
enum ProxyChoice {
    Any(bool),
    At(Location),
}

impl CreateRequest {
    /// Checks the request and fills in the defaults.
    /// Errors: `Field`, and `Pool` when no upstream proxy is where `advanced.proxy` wants it.
    pub fn options(self, kind: SessionKind, config: &Config) -> Result<Options, Error> {
        if kind == SessionKind::DevTools && self.app_name.is_some() {
            return Err(Error::unknown(APP_NAME, "only POST /sessions/webdriver/create has it"));
        }
        let engine = self.browser_type.unwrap_or(Engine::Chromium);
        let advanced = advanced(self.advanced, kind, config)?;
        let mode = Mode::from_headless(self.headless.unwrap_or(false));
        let kiosk = self.kiosk == Some(true);
        if kiosk && mode == Mode::Headless {
            return Err(Error::invalid("kiosk", "needs a display: leave it out, or leave `headless` out"));
        }
        let profile = self.profile.map(|Object(profile)| profile);
        if let Some(profile) = &profile {
            check_name("profile.name", &profile.name)?;
            if self.state.is_some() {
                return Err(Error::invalid(
                    "state",
                    "must be left out where `profile` says what the browser begins with",
                ));
            }
        }
        let state = self.state.map(|Object(state)| GivenState::new(state)).transpose()?;
        let launch = Launch {
            kiosk,
            storage: state.is_some(),
            ..launch(Some(page(self.url, config)?), self.settings, engine, &advanced)?
        };
        let longest = config.session.max_timeout.as_secs();
        let seconds = |field: &str, value: i64| match u64::try_from(value) {
            Ok(value) if (1..=longest).contains(&value) => Ok(value),
            _ => Err(Error::invalid(field, format!("must be from 1 to {longest} seconds (`session.max_timeout`)"))),
        };
        let default_timeout = config.session.default_timeout.as_secs();
        let session_timeout =
            self.session_timeout.map_or(Ok(default_timeout), |value| seconds("session_timeout", value))?;
        let idle_timeout = self.idle_timeout.map(|value| seconds("idle_timeout", value)).transpose()?;
        Ok(Options {
            kind,
            engine,
            mode,
            launch,
            session_timeout,
            idle_timeout: idle_timeout.or_else(|| config.session.idle_timeout.map(|idle| idle.as_secs())),
            keep_alive: self.keep_alive.unwrap_or(false),
            one_connection: false,
            connection_is_use: false,
            name: None,
            screen: None,
            proxy: advanced.proxy,
            recording: self.recording.unwrap_or(false),
            logs: self.logs.unwrap_or(false),
            service_passcode: check_text("service_passcode", self.service_passcode)?,
            metadata: Metadata::check(self.metadata.map(|members| members.0).unwrap_or_default())?,
            app_name: check_text("app_name", self.app_name)?,
            profile,
            extensions: advanced.extensions,
            webhook_url: check_webhook(self.webhook_url, config)?,
            task: None,
            state,
            playwright: None,
            queue_wait: None,
        })
    }
}

/// Checks the settings of a launch.
/// Errors: `Field`.
pub fn launch(
    url: Option<String>,
    settings: Option<Object<Settings>>,
    engine: Engine,
    advanced: &AdvancedOptions,
) -> Result<Launch, Error> {
    let settings = settings.map(|settings| settings.0).unwrap_or_default();
    let misfit = |wrong| Error::from(FieldError::from(wrong).within("settings"));
    let locales = settings.locales.map_or(Ok(Vec::new()), |tags| check_locales(&tags)).map_err(misfit)?;
    let viewport = settings.viewport.map(|Object(size)| Size { width: size.width, height: size.height });
    let timezone =
        settings.timezone.map(|name| check_timezone(&name).map(str::to_owned)).transpose().map_err(misfit)?;
    let mut settings = protocol::Settings {
        locales,
        user_agent: settings.user_agent,
        viewport,
        timezone,
        color_scheme: settings.color_scheme,
        reduced_motion: settings.reduced_motion,
        geolocation: settings.geolocation.map(|Object(place)| protocol::Geolocation {
            latitude: place.latitude,
            longitude: place.longitude,
            accuracy: place.accuracy.unwrap_or_default(),
        }),
        permissions: settings.permissions.unwrap_or_default(),
    };
    settings.check().map_err(misfit)?;
    engine.check_settings(&settings).map_err(|error| error.within("settings"))?;
    settings.sort_permissions();
    let extensions = !advanced.extensions.is_empty();
    if extensions && engine == Engine::Webkit {
        return Err(Error::not_supported(EXTENSIONS, "is not served by WebKit: choose another engine"));
    }
    let (block_ads, captchas) = (advanced.block_ads, advanced.captchas);
    Ok(Launch { url, settings, block_ads, captchas, extensions, ..Launch::default() })
}

/// What `advanced` asks for, checked.
pub struct AdvancedOptions {
    /// Whether ads are to be blocked.
    pub block_ads: bool,
    /// The solver of the pages' challenges, if any.
    pub captchas: Option<CaptchaSolver>,
    /// Where pages are to be asked for, if through an upstream proxy.
    pub proxy: Option<Location>,
    /// The extensions that the browser is to load.
    pub extensions: Vec<ExtensionId>,
}

/// Checks `advanced`. What the contract has and this release or the engine does not, is refused and never silently left out.
/// Errors: `Field`, and `Pool` when no upstream proxy is where it is wanted.
pub fn advanced(
    advanced: Option<Object<Advanced>>,
    kind: SessionKind,
    config: &Config,
) -> Result<AdvancedOptions, Error> {
    let advanced = advanced.map(|advanced| advanced.0).unwrap_or_default();
    let block_ads = advanced.block_ads == Some(true);
    let captchas = if advanced.solve_captchas == Some(true) { Some(captcha_solver(config)?) } else { None };
    let extensions = extensions(advanced.extension_ids.unwrap_or_default(), config)?;
    Ok(AdvancedOptions { block_ads, captchas, proxy: location(advanced.proxy, kind, config)?, extensions })
}

/// The ids of extensions. Whether there are such is seen once the session begins.
fn extensions(ids: Vec<String>, config: &Config) -> Result<Vec<ExtensionId>, Error> {
    let limit = config.extensions.max_per_session;
    if ids.len() > limit {
        return Err(Error::invalid(EXTENSIONS, format!("may have {limit} members (`extensions.max_per_session`)")));
    }
    Ok(ExtensionId::read_all(&ids).map_err(|error| error.within(EXTENSIONS))?)
}

/// The solver of a session's challenges.
fn captcha_solver(config: &Config) -> Result<CaptchaSolver, Error> {
    match config.captcha.mode {
        CaptchaMode::Off => Err(Error::not_supported(
            "advanced.solve_captchas",
            "is off: set `captcha.mode` to person or solver in the daemon's settings, or leave it out",
        )),
        CaptchaMode::Person => Ok(CaptchaSolver::Person),
        CaptchaMode::Solver => Ok(CaptchaSolver::Service),
    }
}

/// Where pages are to be asked for.
fn location(proxy: Option<Value>, kind: SessionKind, config: &Config) -> Result<Option<Location>, Error> {
    let wanted = match (proxy, kind) {
        (None | Some(Value::Null | Value::Bool(false)), _) => return Ok(None),
        (Some(Value::Bool(true)), _) => Location::default(),
        (Some(Value::Object(members)), SessionKind::DevTools | SessionKind::Task) => {
            let location = read_json(Value::Object(members)).and_then(|at: Location| at.check().map(|()| at));
            location.map_err(|error| error.within(PROXY))?
        }
        (Some(_), SessionKind::WebDriver) => return Err(Error::invalid(PROXY, "must be a boolean here")),
        (Some(_), SessionKind::DevTools | SessionKind::Task) => {
            return Err(Error::invalid(PROXY, "must be an object or a boolean"));
        }
    };
    // Also before a task is accepted, which could never run.
    Upstreams::new(&config.egress.upstreams.0).choose(&wanted, "").map(|_| Some(wanted)).map_err(Into::into)
}

/// The page to open: only what a client could open by itself, and nothing of the container's own.
fn page(url: Option<String>, config: &Config) -> Result<String, Error> {
    let Some(text) = url else { return Ok(config.session.default_url.to_string()) };
    page_address(&text).map_err(|wrong| Error::invalid("url", wrong.to_string()))
}

/// Checks the address of a webhook.
/// Errors: `Field`.
pub fn check_webhook(address: Option<String>, config: &Config) -> Result<Option<String>, Error> {
    if let Some(text) = &address {
        check_address(text, config).map_err(|wrong| Error::invalid("webhook_url", wrong.to_string()))?;
    }
    Ok(address)
}

/// Checks a text that stays with a record.
/// Errors: `Field` when it is too long.
pub fn check_text(field: &str, text: Option<String>) -> Result<Option<String>, Error> {
    match text {
        Some(text) if text.chars().count() > MAX_TEXT => {
            Err(Error::invalid(field, format!("may have {MAX_TEXT} characters at most")))
        }
        text => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use warmpool_config::{Flags, Host};
    use warmpool_core::error::Fault as _;
    use warmpool_protocol::ColorScheme;

    fn check(body: Value, kind: SessionKind) -> Result<Options, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        serde_json::from_value::<CreateRequest>(body).unwrap().options(kind, &config)
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let nulls = json!({"url": null, "browser_type": null, "settings": null, "advanced": null, "headless": null,
            "session_timeout": null, "service_passcode": null});
        for body in [json!({}), nulls] {
            let options = check(body, SessionKind::DevTools).unwrap();
            assert_eq!(options.engine, Engine::Chromium);
            assert_eq!(options.mode, Mode::Headed);
            assert_eq!(options.session_timeout, 300);
            assert_eq!(options.launch.url.as_deref(), Some("https://www.google.com/"));
        }
    }

    #[test]
    fn a_profile_without_a_mode_is_read() {
        for profile in [json!({"name": "shop"}), json!({"name": "shop", "mode": null, "kind": null})] {
            let options = check(json!({"profile": profile}), SessionKind::DevTools).unwrap();
            assert!(options.profile.is_some_and(|profile| !profile.is_written()), "{profile}");
        }
    }

    #[test]
    fn texts_of_records_are_measured_in_characters() {
        for (text, fits) in [("я".repeat(MAX_TEXT), true), ("я".repeat(MAX_TEXT + 1), false)] {
            let made = check(json!({"service_passcode": text, "app_name": text}), SessionKind::WebDriver);
            assert_eq!(made.is_ok(), fits);
        }
        // Their record has room for them: nothing takes more there than a control character.
        let widest = |text: &str| json!(text).to_string().len() - 2;
        assert_eq!(widest("\u{1}"), 6);
        assert!(["🌸", "\"", "\\", "\u{7f}", "\u{2028}"].into_iter().all(|text| widest(text) <= 6));
    }

    #[test]
    fn the_description_has_the_limits_of_texts() {
        let schema = schemars::schema_for!(CreateRequest).to_value();
        for member in ["service_passcode", "app_name"] {
            assert_eq!(schema["properties"][member]["maxLength"], MAX_TEXT, "{member}");
        }
        assert_eq!(schema["properties"]["metadata"]["maxProperties"], MAX_LABELS);
    }

    #[test]
    fn settings_are_made_canonical() {
        let settings = json!({"locales": ["de-de"], "timezone": "europe/berlin", "color_scheme": "dark"});
        let settings = check(json!({"settings": settings}), SessionKind::DevTools).unwrap().launch.settings;
        assert_eq!((settings.locales[0].as_str(), settings.timezone.as_deref()), ("de-DE", Some("Europe/Berlin")));
        assert_eq!(settings.color_scheme, Some(ColorScheme::Dark));
    }

    #[test]
    fn settings_have_the_names_of_playwrights_options_too() {
        let theirs = json!({"userAgent": "Me/1", "timezoneId": "Europe/Berlin", "colorScheme": "dark",
            "reducedMotion": "reduce", "viewport": {"width": 800, "height": 600}});
        let ours = json!({"user_agent": "Me/1", "timezone": "Europe/Berlin", "color_scheme": "dark",
            "reduced_motion": "reduce", "viewport": {"width": 800, "height": 600}});
        let [theirs, ours] =
            [theirs, ours].map(|settings| check(json!({"settings": settings}), SessionKind::DevTools).unwrap().launch);
        assert_eq!(theirs, ours);
    }

    #[test]
    fn faults_name_their_field() {
        for (body, field) in [
            (json!({"session_timeout": 0}), "session_timeout"),
            (json!({"session_timeout": -1}), "session_timeout"),
            (json!({"metadata": {"team": 1}}), "metadata.team"),
            (json!({"session_timeout": 86_401}), "session_timeout"),
            (json!({"url": "file:///etc/passwd"}), "url"),
            (json!({"url": "nonsense"}), "url"),
            (json!({"url": "chrome://settings"}), "url"),
            (json!({"settings": {"locales": []}}), "settings.locales"),
            (json!({"settings": {"locales": ["en-US", "x"]}}), "settings.locales[1]"),
            (json!({"settings": {"user_agent": "a\r\nX-Evil: 1"}}), "settings.user_agent"),
            (json!({"settings": {"viewport": {"width": 0, "height": 1}}}), "settings.viewport.width"),
            (json!({"settings": {"viewport": {"width": 1, "height": 8193}}}), "settings.viewport.height"),
            (json!({"settings": {"timezone": "Berlin"}}), "settings.timezone"),
            (json!({"settings": {"geolocation": {"latitude": 0, "longitude": 181}}}), "settings.geolocation.longitude"),
            (json!({"browser_type": "webkit", "settings": {"permissions": ["camera"]}}), "settings.permissions[0]"),
            (json!({"webhook_url": "http://10.0.0.1/"}), "webhook_url"),
            (json!({"advanced": {"solve_captchas": true}}), "advanced.solve_captchas"),
            (json!({"advanced": {"proxy": {"country": "de"}}}), "advanced.proxy"),
            (json!({"advanced": {"proxy": true}}), "advanced.proxy"),
            (json!({"advanced": {"proxy": {"country": "DE"}}}), "advanced.proxy.country"),
            (json!({"advanced": {"proxy": {"city": "new york"}}}), "advanced.proxy.city"),
            (json!({"advanced": {"proxy": {"zip": "1"}}}), "advanced.proxy.zip"),
            (json!({"advanced": {"proxy": {"continent": "eu"}}}), "advanced.proxy.continent"),
            (json!({"advanced": {"proxy": 1}}), "advanced.proxy"),
            (json!({"app_name": "x"}), "app_name"),
            (json!({"advanced": {"extension_ids": ["../x"]}}), "advanced.extension_ids[0]"),
            (json!({"advanced": {"extension_ids": ["ext_a", "ext_a"]}}), "advanced.extension_ids[1]"),
            (json!({"advanced": {"extension_ids": vec!["ext_a"; 9]}}), "advanced.extension_ids"),
            (json!({"browser_type": "webkit", "advanced": {"extension_ids": ["ext_a"]}}), "advanced.extension_ids"),
        ] {
            let error = check(body.clone(), SessionKind::DevTools).unwrap_err();
            assert_eq!(error.field(), Some(field), "{body}");
            assert_eq!(error.code().status(), 400);
        }
        assert!(check(json!({"app_name": "x", "advanced": {"proxy": false}}), SessionKind::WebDriver).is_ok());
    }
}
