//! What a client of Kernel asks for.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use warmpool_api::{AnyObject, Members, Object};
use warmpool_config::{ByteSize, Config};
use warmpool_core::error::{FieldError, FieldFault as _};
use warmpool_sessions::Error;
use warmpool_sessions::session::{Options, SessionKind};

use super::{labels, refuse};
use crate::dropin::CreateBody;

/// The idle limit of a browser whose client names none, in seconds, as there.
const IDLE: u64 = 60;

const PROXIES: &str = "is not served: the operator names upstream proxies in `egress.upstreams`";
/// The sizes of memory that browsers have there, in GiB.
const MEMORY: [u64; 7] = [1, 2, 4, 6, 8, 12, 16];

/// The browser that is wanted. Members that are not served are here to be refused by their names.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "KernelCreateBrowser")]
pub(crate) struct CreateBrowser {
    /// Not served.
    chrome_policy: Option<Value>,
    /// `advanced.extension_ids`, each by its id or its name.
    extensions: Option<Vec<Object<NamedExtension>>>,
    /// Not served.
    gpu: Option<Value>,
    /// Whether the browser runs without a display.
    headless: Option<bool>,
    /// Has no effect.
    invocation_id: Option<String>,
    /// Whether the display shows pages alone.
    kiosk_mode: Option<bool>,
    location: Option<Object<Location>>,
    /// No more than workers have.
    memory: Option<String>,
    /// `app_name`, which stays with the record.
    pub(crate) name: Option<String>,
    /// Not served.
    network: Option<Value>,
    profile: Option<Object<Profile>>,
    proxy: Option<Object<Proxy>>,
    /// Not served.
    proxy_id: Option<Value>,
    /// Has no effect: there is one place.
    region: Option<String>,
    /// The page in the first tab.
    start_url: Option<String>,
    /// Not served.
    stealth: Option<Value>,
    /// Labels.
    #[schemars(with = "Option<AnyObject>")]
    tags: Option<Members>,
    /// Not served.
    telemetry: Option<Value>,
    /// `idle_timeout`, in seconds. Open connections and live views are use.
    timeout_seconds: Option<u64>,
    /// Not served.
    vaults: Option<Value>,
    /// Not served.
    video_memory: Option<Value>,
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

/// Where a browser says that it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "KernelLocation")]
struct Location {
    /// `settings.locales`, of one.
    #[serde(default)]
    locale: Option<String>,
    /// `settings.timezone`.
    #[serde(default)]
    timezone: Option<String>,
}

/// Which way the pages of a browser take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "KernelProxyChoice")]
struct Proxy {
    /// Not served.
    #[serde(default)]
    id: Option<Value>,
    /// `direct` and `default` are the same without `stealth`.
    #[serde(default)]
    #[expect(dead_code, reason = "it is accepted")]
    mode: Option<ProxyMode>,
    /// Not served.
    #[serde(default)]
    name: Option<Value>,
}

/// A way that is no proxy's.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "KernelProxyMode")]
enum ProxyMode {
    Direct,
    Default,
}

impl CreateBrowser {
    /// The profile that it names, which has to be there.
    pub(crate) fn profile(&self) -> Option<&str> {
        let Object(profile) = self.profile.as_ref()?;
        profile.id.as_deref().or(profile.name.as_deref())
    }

    /// What it asks of a session. As there, it is not idle while somebody is connected or watches.
    /// Errors: `Field`, and `Pool` when no upstream proxy is where the client wants it.
    pub(crate) fn options(self, config: &Config) -> Result<Options, Error> {
        let options = self.create_body(config)?.options(SessionKind::DevTools, config)?;
        Ok(Options { connection_is_use: true, ..options })
    }

    /// Finds the id of each extension that it names, of which there may be `most`.
    /// Errors: `Field`, and those of `find`.
    pub(crate) fn find_extensions<E: From<Error>>(
        &mut self,
        most: usize,
        find: impl Fn(&str) -> Result<String, E>,
    ) -> Result<(), E> {
        if self.extensions.as_ref().is_some_and(|extensions| extensions.len() > most) {
            let problem = format!("may have {most} members (`extensions.max_per_session`)");
            return Err(Error::invalid("extensions", problem).into());
        }
        for (at, Object(extension)) in self.extensions.iter_mut().flatten().enumerate() {
            let wanted = match (&extension.id, &extension.name) {
                (Some(wanted), None) | (None, Some(wanted)) => wanted,
                _ => return Err(Error::invalid(format!("extensions[{at}]"), "must have either `id` or `name`").into()),
            };
            extension.id = Some(find(wanted)?);
        }
        Ok(())
    }

    /// The same as the body of a create call.
    /// Errors: `Field`.
    pub(crate) fn create_body(self, config: &Config) -> Result<CreateBody, Error> {
        let longest = config.session.max_timeout.as_secs();
        // Whatever it says of the network narrows it, also an empty list.
        let network = self.network.filter(|network| *network != json!({})).map(|_| json!(true));
        let (proxy, proxy_name) = self.proxy.map_or((None, None), |Object(proxy)| (proxy.id, proxy.name));
        refuse([
            ("chrome_policy", &self.chrome_policy, "is not served: policies of browsers are the operator's"),
            ("gpu", &self.gpu, "is not served: browsers draw without a graphics card"),
            (
                "network",
                &network,
                "is not served: the operator's `egress.deny` and `egress.allow` say where pages may go",
            ),
            ("proxy.id", &proxy, PROXIES),
            ("proxy.name", &proxy_name, PROXIES),
            ("proxy_id", &self.proxy_id, PROXIES),
            ("stealth", &self.stealth, "is not served: a browser here does not hide what it is"),
            ("telemetry", &self.telemetry, "is not served: leave it out"),
            ("vaults", &self.vaults, "is not served: a profile keeps logins"),
            ("video_memory", &self.video_memory, "is not served: browsers draw without a graphics card"),
        ])?;
        if let Some(wanted) = &self.memory {
            check_memory(wanted, config.worker.memory)?;
        }
        let mut create_body = CreateBody::default();
        create_body.set_default("url", json!("about:blank"));
        // Kernel's browsers live for as long as they are used, whether a client is connected or not.
        create_body.set_default("keep_alive", json!(true));
        create_body.set_default("session_timeout", json!(longest));
        create_body.set("idle_timeout", "timeout_seconds", json!(self.timeout_seconds.unwrap_or(IDLE.min(longest))));
        let (locale, timezone) =
            self.location.map_or((None, None), |Object(location)| (location.locale, location.timezone));
        for (ours, theirs, value) in [
            ("headless", "headless", self.headless.map(Value::Bool)),
            ("kiosk", "kiosk_mode", self.kiosk_mode.map(Value::Bool)),
            ("app_name", "name", self.name.map(Value::String)),
            ("settings.locales", "location.locale", locale.map(|locale| json!([locale]))),
            ("settings.timezone", "location.timezone", timezone.map(Value::String)),
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
        if let Some(extensions) = self.extensions {
            let ids: Vec<String> = extensions.into_iter().filter_map(|Object(extension)| extension.id).collect();
            create_body.set("advanced.extension_ids", "extensions", json!(ids));
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

/// An extension that the browser is to have.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "KernelBrowserExtension")]
struct NamedExtension {
    /// Its id.
    id: Option<String>,
    /// What its uploader calls it.
    name: Option<String>,
}

/// The memory of a worker in the service's words: the largest of its sizes that the worker has, or the smallest.
pub(crate) fn memory(worker: ByteSize) -> String {
    let has = worker.bytes() >> 30;
    format!("{}GiB", MEMORY.into_iter().rfind(|size| *size <= has).unwrap_or(MEMORY[0]))
}

/// Refuses more memory than workers have.
fn check_memory(wanted: &str, worker: ByteSize) -> Result<(), Error> {
    let size = MEMORY.into_iter().find(|size| format!("{size}GiB") == wanted);
    let size = size.ok_or_else(|| FieldError::none_of("memory", MEMORY.map(|size| format!("{size}GiB"))))?;
    if size << 30 > worker.bytes() {
        let problem = format!("cannot be more than browsers have, which is {worker} (`worker.memory`): leave it out");
        return Err(Error::not_supported("memory", problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Flags, Host};
    use warmpool_core::error::{Fault as _, read_json};

    fn options(body: Value) -> Result<Options, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        read_json::<CreateBrowser, _>(body)?.options(&config)
    }

    #[test]
    fn what_has_a_counterpart_takes_effect() {
        let options = options(json!({
            "name": "shop", "tags": {"team": "search"}, "kiosk_mode": true, "timeout_seconds": 90, "start_url": "https://a.example/",
            "viewport": {"width": 800, "height": 600, "refresh_rate": 25}, "profile": {"name": "p", "save_changes": true},
            "stealth": false, "telemetry": {"browser": {"console": {"enabled": false}}}, "extensions": [], "region": "us-east",
            "location": {"locale": "de-de", "timezone": "Europe/Berlin"}, "proxy": {"mode": "direct"}, "memory": "2GiB",
        }))
        .unwrap();
        assert!(options.keep_alive && options.connection_is_use && options.launch.kiosk);
        let settings = &options.launch.settings;
        assert_eq!((settings.locales[0].as_str(), settings.timezone.as_deref()), ("de-DE", Some("Europe/Berlin")));
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
            (json!({"extensions": [{"name": "e", "colour": 1}]}), "extensions[0].colour"),
            (json!({"location": {"locale": "x"}}), "location.locale"),
            (json!({"location": {"timezone": "Berlin"}}), "location.timezone"),
            (json!({"memory": "8GiB"}), "memory"),
            (json!({"memory": "3GiB"}), "memory"),
            (json!({"network": {"allowed_hosts": []}}), "network"),
            (json!({"proxy": {"name": "p"}}), "proxy.name"),
            (json!({"proxy": {"mode": "best"}}), "proxy.mode"),
            (json!({"vaults": [{"id": "v"}]}), "vaults"),
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

    #[test]
    fn extensions_are_found_by_what_they_are_called_within_their_limit() {
        let named = |count: usize| {
            let extensions = vec![json!({"name": "mark"}); count];
            read_json::<CreateBrowser, _>(json!({"extensions": extensions})).unwrap()
        };
        let looked = std::cell::Cell::new(0);
        let find = |_: &str| {
            looked.set(looked.get() + 1);
            Ok::<_, Error>("ext_1".to_owned())
        };
        let mut fitting = named(2);
        fitting.find_extensions(2, find).unwrap();
        assert_eq!((fitting.extensions.unwrap()[1].0.id.as_deref(), looked.get()), (Some("ext_1"), 2));
        let refused = named(3).find_extensions(2, find).unwrap_err();
        assert_eq!((refused.field(), looked.get()), (Some("extensions"), 2), "nothing is looked for");
    }

    #[test]
    fn a_client_that_says_nothing_has_the_defaults_of_the_service() {
        let options = options(json!({})).unwrap();
        assert_eq!((options.idle_timeout, options.launch.url.as_deref()), (Some(60), Some("about:blank")));
    }

    #[test]
    fn memory_is_told_in_sizes_that_clients_know() {
        let words = |bytes: u64| memory(ByteSize(bytes));
        assert_eq!(words(256 << 20), "1GiB");
        assert_eq!(
            (words(2 << 30), words((8 << 30) - 1), words(64 << 30)),
            ("2GiB".into(), "6GiB".into(), "16GiB".into())
        );
    }
}
