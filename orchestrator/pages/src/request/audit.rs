//! What a call says that audits a page, in Lighthouse's own words.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;
use warmpool_api::Object;

use super::wire::unwrap;
use crate::Error;
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::session::page_address;

/// The language of results: the daemon contains no other.
const LANGUAGES: [&str; 2] = ["en", "en-US"];

/// The page that is audited, and how.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["url"]))]
pub struct PerformanceBody {
    /// The address of the page: `http` or `https`.
    url: String,
    /// Lighthouse's configuration.
    config: Option<Object<AuditConfig>>,
    /// Lighthouse has no budgets any more: nothing else than an empty list can be given.
    budgets: Option<Vec<Value>>,
}

/// A configuration of Lighthouse's: what of it is data. Code of one's own has no place in it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditConfig {
    /// `lighthouse:default`, which is what every configuration adds to.
    extends: Option<String>,
    /// What is measured, and as whom.
    settings: Option<Object<AuditSettings>>,
    /// Categories of one's own, made of Lighthouse's audits.
    categories: Option<Map<String, Value>>,
    /// Groups of audits within categories.
    groups: Option<Map<String, Value>>,
    /// Cannot be given: it names code.
    #[schemars(skip)]
    audits: Option<Vec<Value>>,
    /// Cannot be given: it names code.
    #[schemars(skip)]
    artifacts: Option<Vec<Value>>,
    /// Cannot be given: it names code.
    #[schemars(skip)]
    plugins: Option<Vec<Value>>,
}

/// Declares the settings: each is passed on as it is.
macro_rules! settings {
    ($($(#[doc = $about:literal])+ $name:ident: $kind:ty,)+) => {
        /// Lighthouse's settings.
        #[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields, default, rename_all = "camelCase")]
        pub(crate) struct AuditSettings {$(
            $(#[doc = $about])+
            #[serde(skip_serializing_if = "Option::is_none")]
            $name: Option<$kind>,
        )+}
    };
}

settings! {
    /// `mobile`, which is the default, or `desktop`. Screen and user agent follow from it where they are left out.
    form_factor: FormFactor,
    /// The categories that are wanted: `performance`, `accessibility`, `best-practices`, `seo`.
    only_categories: Vec<String>,
    /// The audits that are wanted.
    only_audits: Vec<String>,
    /// The audits that are not wanted.
    skip_audits: Vec<String>,
    /// The network and the processor that the page is to have.
    throttling: Object<Throttling>,
    /// How it gets them: computed from a fast load (`simulate`, the default), by the browser (`devtools`), or not at all (`provided`).
    throttling_method: ThrottlingMethod,
    /// The screen.
    screen_emulation: Object<ScreenEmulation>,
    /// The user agent; `false` leaves the browser its own.
    emulated_user_agent: SwitchOrText,
    /// Headers that every request of the page has.
    extra_headers: BTreeMap<String, String>,
    /// Patterns of addresses that the browser does not ask for, with `*` for anything.
    blocked_url_patterns: Vec<String>,
    /// How long nothing may be painted, in milliseconds: 30,000 where it is left out.
    max_wait_for_fcp: u64,
    /// How long the page may take to load and to come to rest, in milliseconds: 45,000 where it is left out.
    max_wait_for_load: u64,
    /// How long to wait once something was painted, in milliseconds.
    pause_after_fcp_ms: u64,
    /// How long to wait after the page's `load`, in milliseconds.
    pause_after_load_ms: u64,
    /// How long the network has to rest, in milliseconds.
    network_quiet_threshold_ms: u64,
    /// How long the processor has to rest, in milliseconds.
    cpu_quiet_threshold_ms: u64,
    /// Whether the picture of the whole page is left out.
    disable_full_page_screenshot: bool,
    /// Whether the storage of the page's origin is left as it is.
    disable_storage_reset: bool,
    /// The kinds of storage that are cleared, by DevTools' names.
    clear_storage_types: Vec<String>,
    /// Whether the page is opened without an empty one before it.
    skip_about_blank: bool,
    /// Whether the page is only looked at, without opening it again or resizing it.
    use_passive_gathering: bool,
    /// Whether a page of an error, such as 404, is audited, too.
    ignore_status_code: bool,
    /// What an earlier audit found of the servers, for `simulate`.
    precomputed_lantern_data: Map<String, Value>,
    /// `en` or `en-US`: the language of the result.
    locale: String,
    /// `json`.
    output: Output,
    /// A name for the way in which Lighthouse was run, kept in the result.
    channel: String,
}

/// What a page is audited as.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormFactor {
    Mobile,
    Desktop,
}

/// How a page gets its network and its processor.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ThrottlingMethod {
    Simulate,
    Devtools,
    Provided,
}

/// What a page's network and processor are like.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct Throttling {
    /// The round trip, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ms: Option<f64>,
    /// In kilobits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput_kbps: Option<f64>,
    /// What a request takes longer by `devtools`, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_latency_ms: Option<f64>,
    /// By `devtools`, in kilobits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    download_throughput_kbps: Option<f64>,
    /// By `devtools`, in kilobits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    upload_throughput_kbps: Option<f64>,
    /// How many times slower the processor is.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_slowdown_multiplier: Option<f64>,
}

/// A screen.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct ScreenEmulation {
    /// In CSS pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    /// In CSS pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    /// Its pixels to a pixel of CSS.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_scale_factor: Option<f64>,
    /// Whether it is that of a mobile device.
    #[serde(skip_serializing_if = "Option::is_none")]
    mobile: Option<bool>,
    /// Whether the browser's own window is the screen.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled: Option<bool>,
}

/// A switch, or a text in its place.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SwitchOrText {
    Switch(bool),
    Text(String),
}

/// A form of the result, or a list of forms.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Output {
    One(String),
    Several(Vec<String>),
}

impl PerformanceBody {
    /// The page's address, and the configuration that Lighthouse gets.
    /// Errors: `Field`.
    pub(crate) fn checked(self) -> Result<(Url, Value), Error> {
        if self.url.is_empty() {
            return Err(Error::invalid("url", "is missing: send the address of the page"));
        }
        let address = page_address(&self.url).map_err(|wrong| Error::invalid("url", wrong.to_string()))?;
        let url = Url::parse(&address).map_err(|wrong| Error::invalid("url", wrong.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::invalid("url", "must be http or https: Lighthouse audits what a site serves"));
        }
        if self.budgets.is_some_and(|budgets| !budgets.is_empty()) {
            return Err(Error::not_supported(
                "budgets",
                "cannot be given: Lighthouse has none since its version 12. Compare the result's numbers with yours",
            ));
        }
        Ok((url, unwrap(self.config).unwrap_or_default().checked()?))
    }
}

impl AuditConfig {
    /// The configuration as Lighthouse gets it.
    fn checked(self) -> Result<Value, Error> {
        if self.extends.is_some_and(|extends| extends != "lighthouse:default") {
            return Err(Error::invalid("config.extends", "must be lighthouse:default"));
        }
        for (name, given) in [("audits", self.audits), ("artifacts", self.artifacts), ("plugins", self.plugins)] {
            if given.is_some_and(|given| !given.is_empty()) {
                return Err(Error::not_supported(
                    format!("config.{name}"),
                    "cannot be given, because it names code: choose among Lighthouse's own audits by `config.settings.onlyAudits`",
                ));
            }
        }
        let settings: AuditSettings = unwrap(self.settings).unwrap_or_default();
        settings.check()?;
        let mut config = json!({"extends": "lighthouse:default", "settings": settings});
        for (name, given) in [("categories", self.categories), ("groups", self.groups)] {
            if let Some(given) = given {
                config[name] = Value::Object(given);
            }
        }
        Ok(config)
    }
}

impl AuditSettings {
    fn check(&self) -> Result<(), Error> {
        if self.locale.as_deref().is_some_and(|locale| !LANGUAGES.contains(&locale)) {
            let problem =
                format!("must be {}: the daemon has Lighthouse's English words alone", LANGUAGES.join(" or "));
            return Err(Error::not_supported("config.settings.locale", problem));
        }
        let is_json = match &self.output {
            None => true,
            Some(Output::One(form)) => form == "json",
            Some(Output::Several(forms)) => forms.iter().all(|form| form == "json"),
        };
        if !is_json {
            return Err(Error::not_supported(
                "config.settings.output",
                "must be json: Lighthouse's own viewer makes a report of it",
            ));
        }
        let is_no_header = |(name, value): (&String, &String)| {
            http::HeaderName::try_from(name).is_err() || http::HeaderValue::try_from(value).is_err()
        };
        if self.extra_headers.iter().flatten().any(is_no_header) {
            return Err(Error::invalid("config.settings.extraHeaders", "has what is no name or value of a header"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    fn checked(body: Value) -> Result<(Url, Value), Error> {
        serde_json::from_value::<PerformanceBody>(body).unwrap().checked()
    }

    #[test]
    fn settings_are_passed_on_as_they_are() {
        let settings = json!({
            "formFactor": "desktop",
            "onlyCategories": ["seo"],
            "throttling": {"cpuSlowdownMultiplier": 2.0},
            "throttlingMethod": "devtools",
            "screenEmulation": {"disabled": true},
            "emulatedUserAgent": false,
            "maxWaitForLoad": 1000,
            "output": "json",
            "locale": "en-US",
        });
        let config = json!({"extends": "lighthouse:default", "settings": settings});
        let body = json!({"url": "https://a.example/tea", "config": config, "budgets": []});
        assert_eq!(checked(body).unwrap(), ("https://a.example/tea".parse().unwrap(), config.clone()));
        let (_, plain) = checked(json!({"url": "http://a.example"})).unwrap();
        assert_eq!(plain, json!({"extends": "lighthouse:default", "settings": {}}));
    }

    #[test]
    fn code_files_and_other_forms_are_refused_by_their_names() {
        let configured = |config: Value| json!({"url": "http://a.example/", "config": config});
        let set = |settings: Value| configured(json!({"settings": settings}));
        for (body, field) in [
            (json!({}), "url"),
            (json!({"url": "file:///etc/passwd"}), "url"),
            (json!({"url": "data:text/html,x"}), "url"),
            (json!({"url": "about:blank"}), "url"),
            (json!({"url": "http://a.example/", "budgets": [{"path": "/*"}]}), "budgets"),
            (configured(json!({"extends": "./mine.js"})), "config.extends"),
            (configured(json!({"audits": ["./mine.js"]})), "config.audits"),
            (configured(json!({"artifacts": [{"id": "A", "gatherer": "x"}]})), "config.artifacts"),
            (configured(json!({"plugins": ["lighthouse-plugin-tea"]})), "config.plugins"),
            (set(json!({"output": "html"})), "config.settings.output"),
            (set(json!({"output": ["json", "csv"]})), "config.settings.output"),
            (set(json!({"locale": "de"})), "config.settings.locale"),
            (set(json!({"extraHeaders": {"a b": "c"}})), "config.settings.extraHeaders"),
        ] {
            assert_eq!(checked(body.clone()).unwrap_err().field(), Some(field), "{body}");
        }
    }

    #[test]
    fn settings_that_reach_beyond_the_page_do_not_exist() {
        for name in ["auditMode", "gatherMode", "debugNavigation", "port", "colour"] {
            let body = json!({"url": "http://a.example/", "config": {"settings": {name: "/tmp"}}});
            assert!(serde_json::from_value::<PerformanceBody>(body).is_err(), "{name}");
        }
    }
}
