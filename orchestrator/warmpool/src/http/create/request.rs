//! What the bodies of the create calls may say.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use super::super::body::Object;
use warmpool_core::browser::Engine;
use warmpool_workers::egress::Location;

/// The field that only one of the two create calls has.
pub(crate) const APP_NAME: &str = "app_name";

/// The session that is wanted. Every member may be left out or null.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CreateWebDriverSession")]
pub(crate) struct CreateRequest {
    /// The end user on whose behalf the session is made. It stays with the record.
    #[schemars(length(max = 1024))]
    pub(crate) service_passcode: Option<String>,
    /// The app that the session runs for. It stays with the record.
    #[schemars(length(max = 1024))]
    pub(crate) app_name: Option<String>,
    /// The page in the first tab: `http`, `https`, `data:` or `about:blank`.
    pub(crate) url: Option<String>,
    #[schemars(extend("default" = "chromium"))]
    pub(crate) browser_type: Option<Engine>,
    pub(crate) settings: Option<Object<Settings>>,
    pub(crate) advanced: Option<Object<Advanced>>,
    /// Whether the browser runs without a display.
    #[schemars(extend("default" = false))]
    pub(crate) headless: Option<bool>,
    /// The hard cap on the session's life, in seconds.
    #[schemars(range(min = 1))]
    pub(crate) session_timeout: Option<i64>,
    /// Ends the session after this many seconds without a command.
    #[schemars(range(min = 1))]
    pub(crate) idle_timeout: Option<i64>,
    /// Whether a dropped connection leaves the session alone until `session_timeout`.
    #[schemars(extend("default" = false))]
    pub(crate) keep_alive: Option<bool>,
    /// Whether the session is recorded.
    #[schemars(extend("default" = false))]
    pub(crate) recording: Option<bool>,
    /// Whether the display shows pages alone, without the browser's tabs and address bar. Needs a display.
    #[schemars(extend("default" = false))]
    pub(crate) kiosk: Option<bool>,
}

/// The body of `POST /sessions/create`: the same without [`APP_NAME`].
pub(crate) struct CreateSession;

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

/// What pages see of the browser. Overrides of the client's own win.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Language tags, the preferred one first, for the navigator, `Intl` and `Accept-Language`.
    #[schemars(length(min = 1), extend("examples" = [["de-DE", "en-US"]]))]
    pub(crate) locales: Option<Vec<String>>,
    /// The user agent in the request header and in the page.
    pub(crate) user_agent: Option<String>,
    pub(crate) viewport: Option<Object<Viewport>>,
}

/// The size of a page, in CSS pixels.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Viewport {
    #[schemars(range(min = 1, max = 8192))]
    pub(crate) width: u32,
    #[schemars(range(min = 1, max = 8192))]
    pub(crate) height: u32,
}

/// Advanced options.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Advanced {
    /// Whether ads are blocked. WebKit cannot.
    #[schemars(extend("default" = false))]
    pub(crate) block_ads: Option<bool>,
    /// Not served by this release: `true` is refused.
    #[schemars(extend("default" = false))]
    pub(crate) solve_captchas: Option<bool>,
    /// The upstream proxy that pages go through: `true` for any, or where it is. WebDriver sessions take a boolean only.
    #[schemars(with = "Option<ProxyChoice>")]
    pub(crate) proxy: Option<Value>,
}

/// What `advanced.proxy` may be. `location` reads it, since its messages depend on the call.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is needed")]
enum ProxyChoice {
    Any(bool),
    At(Location),
}
