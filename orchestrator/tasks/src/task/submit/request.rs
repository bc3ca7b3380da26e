//! What the bodies of tasks may say around their work.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::script::{ExtractMembers, RunMembers};
use crate::task::spec::Isolation;
use warmpool_api::{Members, Object};
use warmpool_core::browser::Engine;
use warmpool_core::metadata::MAX_LABELS;
use warmpool_profiles::ProfileChoice;
use warmpool_protocol::StorageState;
use warmpool_sessions::session::{Advanced, Settings};
use warmpool_webhooks::MAX_ADDRESS;

/// What all three bodies have beside the work. Every member may be left out or null.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Common {
    #[schemars(extend("default" = "chromium"))]
    pub(super) browser_type: Option<Engine>,
    /// Whether the browser runs without a display.
    #[schemars(extend("default" = true))]
    pub(super) headless: Option<bool>,
    pub(super) settings: Option<Object<Settings>>,
    pub(super) advanced: Option<Object<Advanced>>,
    /// What the browser begins with: cookies and storage in the shape of Playwright's `storageState`, at most 64 KiB as JSON. No
    /// record, log or answer holds it.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(super) state: Option<Object<StorageState>>,
    /// The profile that the browser begins with, and whether it is saved. A fleet only reads one.
    pub(super) profile: Option<Object<ProfileChoice>>,
    /// The values of `{{input.name}}`: at most 16 KiB as JSON.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(super) inputs: Option<Value>,
    /// The values of `{{secret.name}}`. No record, log or answer holds them.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub(super) secrets: Option<Members>,
    /// The end user on whose behalf the task is sent: an id or a name, and never a secret. Lists, the console, webhooks and backups
    /// show it.
    #[schemars(length(max = 1024))]
    pub(super) service_passcode: Option<String>,
    /// Labels of the task. A key has 1 to 64 letters, digits, `-`, `_`, `.` or `/`, and a value has 256 bytes at most.
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = MAX_LABELS))]
    pub(super) metadata: Option<Members>,
    /// What to call the task in the history.
    #[schemars(length(max = 1024))]
    pub(super) name: Option<String>,
    /// Where signed messages go when the task ends, and when a challenge in it waits for a person: see `GET /webhooks/secret`. It has
    /// 2048 bytes at most.
    #[schemars(length(max = MAX_ADDRESS))]
    pub(super) webhook_url: Option<String>,
    /// Milliseconds for the task, or for one item of a fleet.
    #[schemars(range(min = 1))]
    pub(super) timeout: Option<i64>,
    /// Whether the task runs again if the daemon ended while it ran; else it fails as `interrupted`.
    #[schemars(extend("default" = false))]
    pub(super) safe_to_repeat: Option<bool>,
    /// Seconds that the answer may wait for the task's end, as `Prefer: wait=N`.
    #[schemars(extend("default" = 0))]
    pub(super) wait: Option<u64>,
    // Of fleets alone.
    /// What to play for each item: the work of a run. Either this or `extract` is needed.
    #[schemars(with = "Option<RunMembers>")]
    pub(super) run: Option<Value>,
    /// What to read for each item: the work of an extract.
    #[schemars(with = "Option<ExtractMembers>")]
    pub(super) extract: Option<Value>,
    /// A page for each item, instead of `inputs`: the value of `{{input.url}}`, at most 16 KiB as JSON.
    #[schemars(length(min = 1))]
    pub(super) urls: Option<Vec<String>>,
    /// How many items run at once.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) concurrency: Option<usize>,
    pub(super) retry: Option<Object<Retry>>,
    /// The number of failed items after which no further ones begin; 0 sets no limit.
    #[schemars(extend("default" = 0))]
    pub(super) stop_after_failures: Option<u32>,
    /// Milliseconds between two items on one host.
    #[schemars(range(min = 0, max = 3600000), extend("default" = 0))]
    pub(super) host_delay: Option<u64>,
    #[schemars(extend("default" = "context"))]
    pub(super) isolation: Option<Isolation>,
}

/// The members of [`Common`] that all three bodies have.
pub(super) const COMMON_MEMBERS: [&str; 15] = [
    "browser_type",
    "headless",
    "settings",
    "advanced",
    "state",
    "profile",
    "inputs",
    "secrets",
    "service_passcode",
    "metadata",
    "name",
    "webhook_url",
    "timeout",
    "safe_to_repeat",
    "wait",
];

/// Those that only a fleet has.
pub(super) const FLEET_MEMBERS: [&str; 8] =
    ["run", "extract", "urls", "concurrency", "retry", "stop_after_failures", "host_delay", "isolation"];

/// When and how often an item is tried again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retry {
    /// How often at most.
    #[schemars(range(min = 0, max = 10), extend("default" = 1))]
    pub(super) max: Option<u32>,
    /// The first pause, in milliseconds; each pause is twice the last.
    #[schemars(range(min = 0, max = 3600000), extend("default" = 1000))]
    pub(super) backoff: Option<u64>,
    /// After which failures, by their codes, instead of those that may pass by themselves.
    #[schemars(length(max = 32))]
    pub(super) on: Option<Vec<String>>,
}

/// What a retry may bring: secrets and a state are not kept, so they have to be sent again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RetryTask")]
pub struct RetryRequest {
    /// The values of `{{secret.name}}`: they are not kept.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub(super) secrets: Option<Members>,
    /// The state that the browser begins with: it is not kept.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(super) state: Option<Object<StorageState>>,
    /// Seconds that the answer may wait for the task's end.
    #[schemars(extend("default" = 0))]
    pub wait: Option<u64>,
}

/// The schema of a body: those of [`Common`]'s members that it has, and those of its work.
macro_rules! body_schema {
    ($(#[doc = $about:literal])* $name:ident, $work:ty, $($common:expr),+) => {
        $(#[doc = $about])*
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut schema = Common::json_schema(generator);
                let work = <$work>::json_schema(generator);
                let names = [$($common.as_slice()),+].concat();
                if let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) {
                    members.retain(|name, _| names.contains(&name.as_str()));
                    members.extend(work.get("properties").and_then(Value::as_object).cloned().unwrap_or_default());
                }
                schema.insert("description".to_owned(), json!(concat!($($about),*).trim()));
                schema
            }
        }
    };
}

body_schema! {
    /// A recording to play, and what is around it.
    SubmitRun, RunMembers, COMMON_MEMBERS
}
body_schema! {
    /// A page to read, and what is around it.
    SubmitExtract, ExtractMembers, COMMON_MEMBERS
}
body_schema! {
    /// Either of both for many inputs. `inputs` has an object for each item.
    SubmitFleet, FleetInputs, COMMON_MEMBERS, FLEET_MEMBERS
}

/// A fleet's counterpart of a task's `inputs`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct FleetInputs {
    /// The values of `{{input.name}}` for each item: at most 16 KiB as JSON. Either this or `urls` is needed.
    #[schemars(length(min = 1))]
    inputs: Option<Vec<Map<String, Value>>>,
}
