//! What a client of Kernel asks for.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use warmpool_api::{AnyObject, Members, Object};
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::Error;

use super::{asks_for_nothing, labels, refuse};
use crate::dropin::CreateBody;

/// The idle limit of a browser whose client names none, in seconds. Kernel counts connections and has a minute; here
/// only commands count.
const IDLE: u64 = 300;

/// The browser that is wanted. Members that are not served are here to be refused by their names.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "KernelCreateBrowser")]
pub(crate) struct CreateBrowser {
    /// Not served.
    chrome_policy: Option<Value>,
    /// Not served.
    extensions: Option<Value>,
    /// Not served.
    gpu: Option<Value>,
    /// Whether the browser runs without a display.
    headless: Option<bool>,
    /// Has no effect.
    invocation_id: Option<String>,
    /// Whether the display shows pages alone.
    kiosk_mode: Option<bool>,
    /// `app_name`, which stays with the record.
    name: Option<String>,
    profile: Option<Object<Profile>>,
    /// Not served.
    proxy_id: Option<Value>,
    /// The page in the first tab.
    start_url: Option<String>,
    /// Not served.
    stealth: Option<Value>,
    /// Labels.
    #[schemars(with = "Option<AnyObject>")]
    tags: Option<Members>,
    /// Not served.
    telemetry: Option<Value>,
    /// `idle_timeout`, in seconds.
    timeout_seconds: Option<u64>,
    /// `settings.viewport`; its `refresh_rate` has no effect.
    #[schemars(with = "Option<AnyObject>")]
    viewport: Option<Object<Map<String, Value>>>,
}

/// The profile that a browser begins with, by its id or its name, which are the same here.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "KernelProfileChoice")]
struct Profile {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    /// Whether the session saves it.
    #[serde(default)]
    save_changes: Option<bool>,
}

impl CreateBrowser {
    /// The profile that it names, which has to be there.
    pub(crate) fn profile(&self) -> Option<&str> {
        let Object(profile) = self.profile.as_ref()?;
        profile.id.as_deref().or(profile.name.as_deref())
    }

    /// The same as the body of a create call. `longest` is the longest life of a session, in seconds.
    /// Errors: `Field`.
    pub(crate) fn create_body(self, longest: u64) -> Result<CreateBody, Error> {
        let telemetry = self.telemetry.filter(|value| match value {
            Value::Object(members) => !members.values().all(asks_for_nothing),
            _ => true,
        });
        refuse([
            ("chrome_policy", &self.chrome_policy, "is not served: policies of browsers are the operator's"),
            (
                "extensions",
                &self.extensions,
                "is not served: upload it to /extensions, and name it in Warmpool's own create call",
            ),
            ("gpu", &self.gpu, "is not served: browsers draw without a graphics card"),
            ("proxy_id", &self.proxy_id, "is not served: the operator names upstream proxies in `egress.upstreams`"),
            ("stealth", &self.stealth, "is not served: a browser here does not hide what it is"),
            ("telemetry", &telemetry, "is not served: leave it out"),
        ])?;
        let mut create_body = CreateBody::default();
        create_body.set_default("url", json!("about:blank"));
        // Kernel's browsers live for as long as they are used, whether a client is connected or not.
        create_body.set_default("keep_alive", json!(true));
        create_body.set_default("session_timeout", json!(longest));
        create_body.set("idle_timeout", "timeout_seconds", json!(self.timeout_seconds.unwrap_or(IDLE.min(longest))));
        for (ours, theirs, value) in [
            ("headless", "headless", self.headless.map(Value::Bool)),
            ("kiosk", "kiosk_mode", self.kiosk_mode.map(Value::Bool)),
            ("app_name", "name", self.name.map(Value::String)),
            ("url", "start_url", self.start_url.map(Value::String)),
        ] {
            if let Some(value) = value {
                create_body.set(ours, theirs, value);
            }
        }
        if let Some(Object(mut viewport)) = self.viewport {
            viewport.remove("refresh_rate");
            create_body.set("settings.viewport", "viewport", Value::Object(viewport));
        }
        if let Some(Members(members)) = self.tags {
            labels(&mut create_body, "tags", members);
        }
        if let Some(Object(profile)) = self.profile {
            let (place, name) = match (profile.id, profile.name) {
                (Some(id), None) => ("profile.id", id),
                (None, Some(name)) => ("profile.name", name),
                _ => return Err(Error::invalid("profile", "must have either `id` or `name`")),
            };
            create_body.set("profile.name", place, json!(name));
            let mode = if profile.save_changes == Some(true) { "write" } else { "read" };
            create_body.set("profile.mode", "profile.save_changes", json!(mode));
        }
        Ok(create_body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Config, Flags, Host};
    use warmpool_core::error::{Fault as _, read_json};
    use warmpool_sessions::session::{Kind, Options};

    fn options(body: Value) -> Result<Options, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        let longest = config.session.max_timeout.as_secs();
        read_json::<CreateBrowser, _>(body)?.create_body(longest)?.options(Kind::DevTools, &config)
    }

    #[test]
    fn what_has_a_counterpart_takes_effect() {
        let options = options(json!({
            "name": "shop", "tags": {"team": "search"}, "kiosk_mode": true, "timeout_seconds": 90, "start_url": "https://a.example/",
            "viewport": {"width": 800, "height": 600, "refresh_rate": 25}, "profile": {"name": "p", "save_changes": true},
            "stealth": false, "telemetry": {"enabled": false}, "extensions": [],
        }))
        .unwrap();
        assert!(options.keep_alive && options.launch.kiosk);
        assert_eq!((options.idle_timeout, options.app_name.as_deref()), (Some(90), Some("shop")));
        assert_eq!(options.launch.url.as_deref(), Some("https://a.example/"));
        assert_eq!(serde_json::to_value(&options.profile).unwrap(), json!({"name": "p", "mode": "write"}));
    }

    #[test]
    fn what_has_none_is_refused_by_its_name() {
        for (body, field) in [
            (json!({"stealth": true}), "stealth"),
            (json!({"colour": 1}), "colour"),
            (json!({"telemetry": {"enabled": true}}), "telemetry"),
            (json!({"extensions": [{"name": "e"}]}), "extensions"),
            (json!({"timeout_seconds": 0}), "timeout_seconds"),
            (json!({"start_url": "file:///etc/passwd"}), "start_url"),
            (json!({"tags": {"a": {}}}), "tags.a"),
            (json!({"viewport": {"width": 0, "height": 1}}), "viewport.width"),
            (json!({"profile": {}}), "profile"),
            (json!({"profile": {"id": "a/b"}}), "profile.id"),
        ] {
            let error = options(body.clone()).unwrap_err();
            assert_eq!((error.field(), error.code().status()), (Some(field), 400), "{body}: {error}");
        }
    }
}
