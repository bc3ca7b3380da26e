//! What a client of Browserbase asks for.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use warmpool_api::{AnyObject, Members, Object};
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::Error;
use warmpool_workers::worker::PAGE;

use super::{asks_for_nothing, labels, location, refuse};
use crate::dropin::CreateBody;

const HIDES: &str = "is not served: a browser here does not hide what it is";

/// The session that is wanted. Members that are not served are here to be refused by their names.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseCreateSession")]
pub(crate) struct CreateSession {
    browser_settings: Option<Object<BrowserSettings>>,
    /// `advanced.extension_ids`, of one.
    extension_id: Option<String>,
    /// Whether the session outlives its client's connection.
    keep_alive: Option<bool>,
    /// Has no effect: a key has its own sessions.
    project_id: Option<String>,
    /// `true` for any upstream proxy, or an array of one.
    #[schemars(with = "Option<Proxies>")]
    proxies: Option<Value>,
    /// Not served.
    proxy_settings: Option<Value>,
    /// Has no effect: there is one place.
    region: Option<String>,
    /// `session_timeout`, in seconds.
    timeout: Option<u64>,
    /// Labels: texts, numbers and truth values, which become texts.
    #[schemars(with = "Option<AnyObject>")]
    user_metadata: Option<Members>,
}

/// What `proxies` may be.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is needed")]
enum Proxies {
    Any(bool),
    Of(Vec<AnyObject>),
}

/// Settings of the browser.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseBrowserSettings")]
struct BrowserSettings {
    /// Not served.
    advanced_stealth: Option<Value>,
    /// Not served.
    allowed_domains: Option<Value>,
    /// `advanced.block_ads`.
    block_ads: Option<bool>,
    /// Not served.
    captcha_image_selector: Option<Value>,
    /// Not served.
    captcha_input_selector: Option<Value>,
    /// The profile that the browser begins with.
    context: Option<Object<Context>>,
    /// The same as `extensionId` beside these settings.
    extension_id: Option<String>,
    /// Not served.
    ignore_certificate_errors: Option<Value>,
    /// Has no effect: `sessions.logs` is not served.
    log_session: Option<bool>,
    /// `linux` is what there is.
    os: Option<String>,
    /// `recording`.
    record_session: Option<bool>,
    /// `advanced.solve_captchas`.
    solve_captchas: Option<bool>,
    /// Not served.
    verified: Option<Value>,
    /// `settings.viewport`. A side that is left out is that of a page without it.
    #[schemars(with = "Option<AnyObject>")]
    viewport: Option<Object<Map<String, Value>>>,
}

/// The context that a session begins with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BrowserbaseContextChoice")]
struct Context {
    /// The context's id.
    id: String,
    /// Whether the session saves it.
    #[serde(default)]
    persist: Option<bool>,
}

impl CreateSession {
    /// The context that it begins with, which has to be there.
    pub(crate) fn context(&self) -> Option<&str> {
        let Object(settings) = self.browser_settings.as_ref()?;
        settings.context.as_ref().map(|Object(context)| context.id.as_str())
    }

    /// The same as the body of a create call.
    /// Errors: `Field`.
    pub(crate) fn create_body(self) -> Result<CreateBody, Error> {
        refuse([("proxySettings", &self.proxy_settings, "is not served: clients bring no certificates of their own")])?;
        let mut create_body = CreateBody::default();
        create_body.set_default("url", json!("about:blank"));
        if let Some(keep_alive) = self.keep_alive {
            create_body.set("keep_alive", "keepAlive", json!(keep_alive));
        }
        if let Some(timeout) = self.timeout {
            create_body.set("session_timeout", "timeout", json!(timeout));
        }
        if let Some(proxies) = &self.proxies {
            upstream(&mut create_body, proxies)?;
        }
        if let Some(Members(members)) = self.user_metadata {
            labels(&mut create_body, "userMetadata", members);
        }
        let in_settings = self.browser_settings.as_ref().and_then(|Object(settings)| settings.extension_id.as_ref());
        if let (Some(one), Some(other)) = (&self.extension_id, in_settings)
            && one != other
        {
            let problem =
                "must be the same as `extensionId`, or left out: a browser loads one extension by these fields";
            return Err(Error::invalid("browserSettings.extensionId", problem));
        }
        if let Some(id) = self.extension_id {
            extension(&mut create_body, "extensionId", id);
        }
        if let Some(Object(settings)) = self.browser_settings {
            settings.read(&mut create_body)?;
        }
        Ok(create_body)
    }
}

impl BrowserSettings {
    fn read(self, create_body: &mut CreateBody) -> Result<(), Error> {
        refuse([
            ("browserSettings.advancedStealth", &self.advanced_stealth, HIDES),
            ("browserSettings.verified", &self.verified, HIDES),
            (
                "browserSettings.allowedDomains",
                &self.allowed_domains,
                "is not served: the operator's `egress.deny` and `egress.allow` say where pages may go",
            ),
            (
                "browserSettings.captchaImageSelector",
                &self.captcha_image_selector,
                "is not served: `solveCaptchas` finds the challenges that it knows by itself",
            ),
            (
                "browserSettings.captchaInputSelector",
                &self.captcha_input_selector,
                "is not served: `solveCaptchas` finds the challenges that it knows by itself",
            ),
            (
                "browserSettings.ignoreCertificateErrors",
                &self.ignore_certificate_errors,
                "is not served: give a context of your client's `ignoreHTTPSErrors`",
            ),
        ])?;
        if self.os.as_deref().is_some_and(|os| os != "linux") {
            return Err(Error::not_supported(
                "browserSettings.os",
                "must be `linux`, which is what browsers here run on",
            ));
        }
        for (ours, theirs, value) in [
            ("advanced.block_ads", "browserSettings.blockAds", self.block_ads),
            ("recording", "browserSettings.recordSession", self.record_session),
            ("advanced.solve_captchas", "browserSettings.solveCaptchas", self.solve_captchas),
        ] {
            if let Some(value) = value {
                create_body.set(ours, theirs, json!(value));
            }
        }
        if let Some(id) = self.extension_id {
            extension(create_body, "browserSettings.extensionId", id);
        }
        if let Some(Object(mut viewport)) = self.viewport.filter(|Object(viewport)| !viewport.is_empty()) {
            // Either may be left out.
            for (side, length) in [("width", PAGE.width), ("height", PAGE.height)] {
                viewport.entry(side).or_insert(json!(length));
            }
            create_body.set("settings.viewport", "browserSettings.viewport", Value::Object(viewport));
        }
        if let Some(Object(context)) = self.context {
            create_body.set("profile.name", "browserSettings.context.id", json!(context.id));
            let mode = if context.persist == Some(true) { "write" } else { "read" };
            create_body.set("profile.mode", "browserSettings.context.persist", json!(mode));
        }
        Ok(())
    }
}

/// The one extension that a browser is to load. Clients send an empty one for none.
fn extension(create_body: &mut CreateBody, theirs: &str, id: String) {
    if !id.is_empty() {
        create_body.set("advanced.extension_ids", theirs, json!([id]));
    }
}

/// `proxies`: whether any upstream proxy is wanted, or where it is to be.
fn upstream(create_body: &mut CreateBody, proxies: &Value) -> Result<(), Error> {
    let of = match proxies {
        Value::Bool(true) => json!(true),
        Value::Null | Value::Bool(false) => return Ok(()),
        Value::Array(list) if list.is_empty() => return Ok(()),
        Value::Array(list) => {
            let [proxy] = list.as_slice() else {
                return Err(Error::not_supported("proxies", "may have one member here: all pages take one way"));
            };
            if proxy.get("domainPattern").is_some_and(|pattern| !asks_for_nothing(pattern)) {
                return Err(Error::not_supported("proxies[0].domainPattern", "is not served: all pages take one way"));
            }
            match (proxy["type"].as_str(), proxy.get("geolocation")) {
                (Some("none"), _) => return Ok(()),
                (Some("browserbase"), None | Some(Value::Null)) => json!(true),
                (Some("browserbase"), Some(geolocation)) => location("proxies[0].geolocation", geolocation)?,
                (Some("external"), _) => {
                    return Err(Error::not_supported(
                        "proxies[0].type",
                        "is not served as `external`: the operator names upstream proxies in `egress.upstreams`",
                    ));
                }
                _ => return Err(Error::invalid("proxies[0].type", "must be `browserbase` or `none`")),
            }
        }
        _ => return Err(Error::invalid("proxies", "must be a boolean or an array")),
    };
    create_body.set("advanced.proxy", "proxies", of);
    Ok(())
}

/// Reads the `q` of a list: `user_metadata['key']:'value'`. Returns key and value.
/// Errors: `Field`.
pub(crate) fn wanted_label(query: &str) -> Result<(String, String), Error> {
    let read = || {
        let rest = query.trim().strip_prefix("user_metadata['")?;
        let (key, rest) = rest.split_once("']:")?;
        let value = rest.strip_prefix('\'')?.strip_suffix('\'')?;
        (!key.contains('\'') && !value.contains('\'')).then(|| (key.to_owned(), value.to_owned()))
    };
    read().ok_or_else(|| Error::invalid("q", "must be one condition such as user_metadata['team']:'search'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Config, Flags, Host};
    use warmpool_core::error::{Fault as _, read_json};
    use warmpool_protocol::Size;
    use warmpool_sessions::session::{Options, SessionKind};

    fn options(body: Value) -> Result<Options, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        read_json::<CreateSession, _>(body)?.create_body()?.options(SessionKind::DevTools, &config)
    }

    #[test]
    fn what_has_a_counterpart_takes_effect() {
        let wanted = json!({
            "projectId": "p", "region": "us-west-2", "keepAlive": true, "timeout": 3600, "proxies": false,
            "userMetadata": {"team": "search", "try": 2},
            "browserSettings": {
                "context": {"id": "shop", "persist": true}, "viewport": {"width": 800, "height": 600}, "os": "linux",
                "blockAds": true, "recordSession": true, "logSession": true, "advancedStealth": false, "extensionId": "ext_a",
            },
        });
        let options = options(wanted).unwrap();
        assert!(options.keep_alive && options.recording && options.launch.block_ads);
        assert_eq!(options.extensions, ["ext_a".into()]);
        assert_eq!((options.session_timeout, options.launch.url.as_deref()), (3600, Some("about:blank")));
        assert_eq!(serde_json::to_value(&options.metadata).unwrap(), json!({"team": "search", "try": "2"}));
        assert_eq!(serde_json::to_value(&options.profile).unwrap(), json!({"name": "shop", "mode": "write"}));
    }

    #[test]
    fn a_side_of_the_viewport_may_be_left_out() {
        let viewport = |viewport: Value| {
            options(json!({"browserSettings": {"viewport": viewport}})).unwrap().launch.settings.viewport
        };
        let size = |width, height| Some(Size { width, height });
        assert_eq!(
            (viewport(json!({"width": 800})), viewport(json!({"height": 600}))),
            (size(800, 720), size(1280, 600))
        );
        assert_eq!(viewport(json!({})), None);
    }

    #[test]
    fn what_has_none_is_refused_by_its_name() {
        for (body, field) in [
            (json!({"extensionId": "../e"}), "extensionId"),
            (json!({"browserSettings": {"extensionId": "a b"}}), "browserSettings.extensionId"),
            (json!({"extensionId": "a", "browserSettings": {"extensionId": "b"}}), "browserSettings.extensionId"),
            (json!({"timeout": 0}), "timeout"),
            (json!({"colour": 1}), "colour"),
            (json!({"browserSettings": {"verified": true}}), "browserSettings.verified"),
            (json!({"browserSettings": {"os": "mac"}}), "browserSettings.os"),
            (json!({"browserSettings": {"allowedDomains": ["a.b"]}}), "browserSettings.allowedDomains"),
            (json!({"browserSettings": {"context": {"id": "a/b"}}}), "browserSettings.context.id"),
            (json!({"browserSettings": {"context": {}}}), "browserSettings.context"),
            (json!({"browserSettings": {"viewport": {"width": 0, "height": 1}}}), "browserSettings.viewport.width"),
            (json!({"userMetadata": {"a": {"b": 1}}}), "userMetadata.a"),
            (json!({"proxies": true}), "proxies"),
            (json!({"proxies": [{"type": "external", "server": "x"}]}), "proxies[0].type"),
            (
                json!({"proxies": [{"type": "browserbase", "geolocation": {"planet": "x"}}]}),
                "proxies[0].geolocation.planet",
            ),
        ] {
            let error = options(body.clone()).unwrap_err();
            assert_eq!((error.field(), error.code().status()), (Some(field), 400), "{body}: {error}");
        }
    }

    #[test]
    fn a_list_is_narrowed_by_one_label() {
        assert_eq!(wanted_label("user_metadata['a']:'b c'").unwrap(), ("a".to_owned(), "b c".to_owned()));
        for wrong in ["", "a:b", "user_metadata['a']['b']:'c'", "user_metadata['a']:b", "user_metadata['a']:'b' AND x"]
        {
            assert!(wanted_label(wrong).is_err(), "{wrong}");
        }
    }
}
