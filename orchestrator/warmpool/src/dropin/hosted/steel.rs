//! What a client of Steel asks for.

mod context;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use warmpool_api::{AnyObject, Object};
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::Error;

pub(crate) use context::{ContextReply, SessionContext};

use super::{asks_for_nothing, location, refuse};
use crate::dropin::CreateBody;

/// The session that is wanted. Members that are not served are here to be refused by their names.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[schemars(rename = "SteelCreateSession")]
pub(crate) struct CreateSession {
    /// `advanced.block_ads`.
    block_ads: Option<bool>,
    /// Not served.
    ca_certificates: Option<Value>,
    /// 1 is what there is.
    concurrency: Option<u64>,
    /// Not served.
    credentials: Option<Value>,
    /// What is `true` in it is so; what is `false` is not served.
    #[schemars(with = "Option<AnyObject>")]
    debug_config: Option<Object<Map<String, Value>>>,
    /// `{"device": "desktop"}` is what there is.
    #[schemars(with = "Option<AnyObject>")]
    device_config: Option<Object<Map<String, Value>>>,
    /// `settings.viewport`.
    #[schemars(with = "Option<AnyObject>")]
    dimensions: Option<Object<Map<String, Value>>>,
    /// Not served.
    experimental_features: Option<Value>,
    /// `advanced.extension_ids`; `all_ext` stands for all that the key has.
    pub(crate) extension_ids: Option<Vec<String>>,
    /// `kiosk`.
    fullscreen: Option<bool>,
    /// Whether the browser runs without a display.
    headless: Option<bool>,
    /// `idle_timeout`, in milliseconds. One that is no shorter than `timeout` has no effect.
    inactivity_timeout: Option<u64>,
    /// Not served.
    is_selenium: Option<Value>,
    /// Has no effect: a key has its own sessions.
    namespace: Option<String>,
    /// Not served.
    optimize_bandwidth: Option<Value>,
    /// Whether the session saves its profile. Without a `profileId` it makes one.
    persist_profile: Option<bool>,
    /// The profile that the browser begins with.
    pub(crate) profile_id: Option<String>,
    /// Has no effect: a key has its own sessions.
    project_id: Option<String>,
    /// Not served.
    proxy_url: Option<Value>,
    /// Has no effect: there is one place.
    region: Option<Value>,
    /// `state`: what a session before it gave as its context.
    session_context: Option<Object<SessionContext>>,
    /// Not served.
    session_id: Option<Value>,
    /// `advanced.solve_captchas`.
    solve_captcha: Option<bool>,
    /// How the browser hides what it is, which is not served.
    #[schemars(with = "Option<AnyObject>")]
    stealth_config: Option<Object<Map<String, Value>>>,
    /// `session_timeout`, in milliseconds.
    timeout: Option<u64>,
    /// `true` for any upstream proxy, or `{"geolocation": {"country": "DE"}}`.
    use_proxy: Option<Value>,
    /// `settings.user_agent`.
    user_agent: Option<String>,
}

impl CreateSession {
    /// The profile that it names, which has to be there.
    pub(crate) fn profile(&self) -> Option<&str> {
        self.profile_id.as_deref()
    }

    /// Whether it wants a new profile, to which it gives no name.
    pub(crate) fn makes_profile(&self) -> bool {
        self.profile_id.is_none() && self.persist_profile == Some(true)
    }

    /// The same as the body of a create call.
    /// Errors: `Field`.
    pub(crate) fn create_body(self) -> Result<CreateBody, Error> {
        refuse([
            (
                "caCertificates",
                &self.ca_certificates,
                "is not served: the operator names authorities in `egress.ca_certificates`",
            ),
            ("credentials", &self.credentials, "is not served: a profile keeps logins"),
            ("experimentalFeatures", &self.experimental_features, "is not served: leave it out"),
            ("isSelenium", &self.is_selenium, "is not served: give Selenium the address of the daemon, as a grid's"),
            (
                "optimizeBandwidth",
                &self.optimize_bandwidth,
                "is not served: block requests by your client's own routes",
            ),
            ("proxyUrl", &self.proxy_url, "is not served: the operator names upstream proxies in `egress.upstreams`"),
            ("sessionId", &self.session_id, "is not served: the id is in the answer"),
        ])?;
        if self.concurrency.is_some_and(|count| count != 1) {
            return Err(Error::not_supported("concurrency", "must be 1: one call makes one session"));
        }
        if let Some(Object(config)) = &self.debug_config {
            no_member(
                config,
                "debugConfig",
                |value| *value == json!(false),
                "cannot be false: share a live view instead",
            )?;
        }
        if let Some(Object(config)) = &self.device_config {
            no_member(config, "deviceConfig", |value| *value != json!("desktop"), "must be `desktop`")?;
        }
        if let Some(Object(config)) = &self.stealth_config {
            if self.solve_captcha == Some(true) && config.get("autoCaptchaSolving") == Some(&json!(false)) {
                let problem = "cannot be false beside `solveCaptcha`: challenges are solved once they are seen";
                return Err(Error::not_supported("stealthConfig.autoCaptchaSolving", problem));
            }
            let hides = |value: &Value| *value == json!(true);
            for (name, value) in config {
                if !matches!(name.as_str(), "skipFingerprintInjection" | "autoCaptchaSolving") && hides(value) {
                    let problem = "is not served: a browser here does not hide what it is";
                    return Err(Error::not_supported(format!("stealthConfig.{name}"), problem));
                }
            }
        }
        let seconds = |millis: u64| json!(millis.div_ceil(1000));
        let mut create_body = CreateBody::default();
        create_body.set_default("url", json!("about:blank"));
        let inactivity = self.inactivity_timeout.filter(|idle| self.timeout.is_none_or(|timeout| *idle < timeout));
        // Steel's sessions last until they are released or their time is over.
        create_body.set_default("keep_alive", json!(true));
        for (ours, theirs, value) in [
            ("advanced.block_ads", "blockAds", self.block_ads.map(Value::Bool)),
            ("advanced.solve_captchas", "solveCaptcha", self.solve_captcha.map(Value::Bool)),
            ("advanced.extension_ids", "extensionIds", self.extension_ids.map(|ids| json!(ids))),
            ("headless", "headless", self.headless.map(Value::Bool)),
            ("idle_timeout", "inactivityTimeout", inactivity.map(seconds)),
            ("kiosk", "fullscreen", self.fullscreen.map(Value::Bool)),
            ("session_timeout", "timeout", self.timeout.map(seconds)),
            ("settings.user_agent", "userAgent", self.user_agent.map(Value::String)),
            ("settings.viewport", "dimensions", self.dimensions.map(|Object(size)| Value::Object(size))),
        ] {
            if let Some(value) = value {
                create_body.set(ours, theirs, value);
            }
        }
        match &self.use_proxy {
            Some(Value::Bool(true)) => create_body.set("advanced.proxy", "useProxy", json!(true)),
            Some(Value::Object(members)) if members.contains_key("geolocation") => {
                let place = location("useProxy.geolocation", &members["geolocation"])?;
                create_body.set("advanced.proxy", "useProxy", place);
            }
            Some(value) if !asks_for_nothing(value) => {
                let remedy = "must be a boolean or have a `geolocation`: the operator names upstream proxies";
                return Err(Error::not_supported("useProxy", remedy));
            }
            _ => {}
        }
        if let Some(Object(context)) = self.session_context {
            create_body.set("state", "sessionContext", context.into_state()?);
        }
        let mode = if self.persist_profile == Some(true) { "write" } else { "read" };
        if let Some(name) = self.profile_id {
            create_body.set("profile.name", "profileId", json!(name));
            create_body.set("profile.mode", "persistProfile", json!(mode));
        }
        Ok(create_body)
    }
}

/// Refuses a member whose value is `wrong`.
fn no_member(config: &Map<String, Value>, place: &str, wrong: fn(&Value) -> bool, problem: &str) -> Result<(), Error> {
    match config.iter().find(|(_, value)| wrong(value)) {
        Some((name, _)) => Err(Error::not_supported(format!("{place}.{name}"), problem)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Config, Flags, Host};
    use warmpool_core::browser::Mode;
    use warmpool_core::error::{Fault as _, read_json};
    use warmpool_sessions::session::{Options, SessionKind};

    fn options(body: Value) -> Result<Options, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        read_json::<CreateSession, _>(body)?.create_body()?.options(SessionKind::DevTools, &config)
    }

    #[test]
    fn what_has_a_counterpart_takes_effect() {
        let options = options(json!({
            "persistProfile": true, "profileId": "shop", "timeout": 90_500, "headless": true, "userAgent": "Agent/1", "blockAds": true,
            "dimensions": {"width": 800, "height": 600}, "useProxy": false, "region": "fra", "namespace": "default",
            "stealthConfig": {"skipFingerprintInjection": true, "humanizeInteractions": false},
            "deviceConfig": {"device": "desktop"}, "debugConfig": {"interactive": true}, "concurrency": 1,
            "inactivityTimeout": 60_000, "projectId": "p", "caCertificates": [], "optimizeBandwidth": {"blockImages": false},
        }))
        .unwrap();
        assert!(options.keep_alive && options.launch.block_ads && options.mode == Mode::Headless);
        assert_eq!((options.session_timeout, options.idle_timeout), (91, Some(60)));
        assert_eq!(serde_json::to_value(&options.profile).unwrap(), json!({"name": "shop", "mode": "write"}));
    }

    #[test]
    fn the_shorter_of_two_timeouts_counts() {
        let body = json!({"timeout": 60_000, "inactivityTimeout": 60_000, "fullscreen": true});
        let options = options(body).unwrap();
        assert!(options.launch.kiosk && options.idle_timeout.is_none());
    }

    #[test]
    fn what_has_none_is_refused_by_its_name() {
        for (body, field) in [
            (json!({"timeout": 0}), "timeout"),
            (json!({"inactivityTimeout": 0}), "inactivityTimeout"),
            (json!({"headless": true, "fullscreen": true}), "fullscreen"),
            (json!({"caCertificates": ["-----BEGIN CERTIFICATE-----"]}), "caCertificates"),
            (json!({"optimizeBandwidth": {"blockImages": true}}), "optimizeBandwidth"),
            (
                json!({"solveCaptcha": true, "stealthConfig": {"autoCaptchaSolving": false}}),
                "stealthConfig.autoCaptchaSolving",
            ),
            (json!({"colour": 1}), "colour"),
            (json!({"isSelenium": true}), "isSelenium"),
            (json!({"extensionIds": ["a b"]}), "extensionIds"),
            (json!({"deviceConfig": {"device": "mobile"}}), "deviceConfig.device"),
            (json!({"debugConfig": {"interactive": false}}), "debugConfig.interactive"),
            (json!({"stealthConfig": {"humanizeInteractions": true}}), "stealthConfig.humanizeInteractions"),
            (json!({"dimensions": {"width": 0, "height": 1}}), "dimensions.width"),
            (json!({"useProxy": {"server": "http://a"}}), "useProxy"),
            (json!({"useProxy": true}), "useProxy"),
            (json!({"profileId": "a/b"}), "profileId"),
            (json!({"concurrency": 2}), "concurrency"),
            (json!({"sessionContext": {"indexedDB": {"a.b": []}}}), "sessionContext.indexedDB"),
            (
                json!({"sessionContext": {"cookies": [{"name": "a", "value": "b", "domain": ".co.uk"}]}}),
                "sessionContext.cookies[0].domain",
            ),
            (json!({"sessionContext": {"localStorage": {"a b": {}}}}), "sessionContext.localStorage"),
        ] {
            let error = options(body.clone()).unwrap_err();
            assert_eq!((error.field(), error.code().status()), (Some(field), 400), "{body}: {error}");
        }
    }
}
