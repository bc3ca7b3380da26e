//! The parameters that routes take. What is accepted and what is described come from here.

use serde_json::{Value, json};

use warmpool_core::browser::Engine;
use warmpool_sessions::session::Status;
use warmpool_tasks::task::{Kind as TaskKind, SortKey as TaskSortKey, Status as TaskStatus};
use warmpool_worlds::Environment;

/// One parameter of a route.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// How often it may be there.
    pub(super) times: Times,
    about: &'static str,
    values: Values,
}

/// How often a parameter may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Once,
    /// As often as wanted, also as `name[]` or `name[0]`. The text is the form that the description names.
    Many(&'static str),
}

#[derive(Debug)]
enum Values {
    Text,
    Flag,
    /// From the first number to the second, if there is one; and what stands for it where it is left out.
    Number(u64, Option<u64>, Option<u64>),
    /// One of these names; the first is meant where it is left out, if the flag says so.
    Name(fn() -> Vec<&'static str>, bool),
}

const fn once(name: &'static str, values: Values, about: &'static str) -> Parameter {
    Parameter { name, times: Times::Once, about, values }
}

const START: Parameter =
    once("start_time", Values::Number(0, None, None), "Only what was made after this moment, in Unix milliseconds.");
const END: Parameter =
    once("end_time", Values::Number(0, None, None), "Only what was made before this moment, in Unix milliseconds.");
const PASSCODE: Parameter = once("service_passcode", Values::Text, "Only those of this end user.");
const OTHER_PASSCODE: Parameter = once("raccoon_passcode", Values::Text, "Another name of `service_passcode`.");
const KEY_ID: Parameter =
    once("key_id", Values::Text, "Only what this key made; an operator's key may name any, and `all`.");
const PAGE: Parameter = once("page", Values::Number(1, None, Some(1)), "Which page.");
const LIMIT: Parameter = once("limit", Values::Number(1, Some(100), Some(10)), "How many entries a page holds.");
const SORT_ORDER: Parameter = once("sort_order", Values::Name(|| vec!["descend", "ascend"], true), "In which order.");
const KEY_TOKEN: Parameter = once("token", Values::Text, "A service key, where the client can set no header.");
const VIEW_TOKEN: Parameter = once("token", Values::Text, "The token of the live view, or of a link to it.");
const ACTIONS: Parameter = once("enable_actions", Values::Flag, "Whether the viewer may take the session over.");
const FORMAT: Parameter = once(
    "format",
    Values::Name(|| vec!["json", "ndjson", "csv"], true),
    "The form of the answer; the header `Accept` may ask for it, too.",
);

pub(super) const SESSIONS: &[Parameter] = &[
    START,
    END,
    once("session_id", Values::Text, "Only the session of this id."),
    KEY_ID,
    PASSCODE,
    OTHER_PASSCODE,
    Parameter {
        name: "status",
        times: Times::Many("status"),
        about: "Only sessions with one of these.",
        values: Values::Name(|| Status::ALL.map(Status::as_str).to_vec(), false),
    },
    Parameter {
        name: "browser_type",
        times: Times::Many("browser_type"),
        about: "Only sessions with one of these.",
        values: Values::Name(|| Engine::ALL.map(Engine::as_str).to_vec(), false),
    },
    PAGE,
    LIMIT,
    once(
        "sort_by",
        Values::Name(|| vec!["timestamp", "executionTime", "sessionId", "status"], true),
        "What the order is by.",
    ),
    SORT_ORDER,
];
pub(super) const TASKS: &[Parameter] = &[
    START,
    END,
    once("task_id", Values::Text, "Only the task of this id."),
    KEY_ID,
    Parameter {
        name: "executionType",
        times: Times::Many("executionType[]"),
        about: "Only tasks of these types.",
        values: Values::Name(|| TaskKind::ALL.map(TaskKind::as_str).to_vec(), false),
    },
    PASSCODE,
    OTHER_PASSCODE,
    PAGE,
    LIMIT,
    once(
        "sort_by",
        Values::Name(
            || {
                let mut names = vec!["timestamp"];
                names.extend(TaskSortKey::ALL.map(TaskSortKey::as_str).iter().filter(|name| **name != "timestamp"));
                names
            },
            true,
        ),
        "What the order is by.",
    ),
    SORT_ORDER,
];
pub(super) const TASK: &[Parameter] = &[FORMAT];
pub(super) const ITEMS: &[Parameter] = &[
    once(
        "status",
        Values::Name(|| TaskStatus::ALL.map(TaskStatus::as_str).to_vec(), false),
        "Only items of this status.",
    ),
    once(
        "after",
        Values::Number(0, Some(u32::MAX as u64), None),
        "Only items behind this number: `next` of the page before.",
    ),
    once("limit", Values::Number(1, Some(100), Some(100)), "How many items the answer holds."),
    FORMAT,
];
pub(super) const WORLD_REQUESTS: &[Parameter] = &[
    START,
    END,
    once("patient_id", Values::Text, "Only requests for this patient."),
    once(
        "environment_type",
        Values::Name(|| Environment::ALL.map(Environment::as_str).to_vec(), false),
        "Only requests for this kind of scene.",
    ),
    once("status", Values::Name(|| vec!["2xx", "4xx", "5xx"], false), "Only requests that were answered so."),
    once("key_id", Values::Text, "Only requests with this integration key."),
    PAGE,
    once("limit", Values::Number(1, Some(100), Some(25)), "How many requests a page holds."),
];
/// The console's; its topics are in `console::events`.
pub(super) const EVENT_TOPICS: &[Parameter] =
    &[Parameter { name: "topic", times: Times::Many("topic"), about: "What to follow.", values: Values::Text }];
pub(super) const THUMBNAILS: &[Parameter] = &[Parameter {
    name: "session",
    times: Times::Many("session"),
    about: "A session on the page.",
    values: Values::Text,
}];
pub(super) const TOKEN: &[Parameter] =
    &[once("token", Values::Text, "The session's token, as the URL of its create call has it.")];
pub(super) const GRID_TOKEN: &[Parameter] = &[KEY_TOKEN];
pub(super) const VIEW_TOKEN_ALONE: &[Parameter] = &[VIEW_TOKEN];
pub(super) const VIEW: &[Parameter] = &[
    VIEW_TOKEN,
    once("theme", Values::Name(|| vec!["system", "dark", "light"], true), "The colours of the page."),
    ACTIONS,
];
/// What `dropin::browserless` reads. It has the meaning of each, and refuses all others.
pub(super) const BROWSERLESS: &[Parameter] = &[
    KEY_TOKEN,
    once("timeout", Values::Number(0, None, None), "`session_timeout`, in milliseconds."),
    once("idle_timeout", Values::Number(0, None, None), "`idle_timeout`, in seconds."),
    once("keep_alive", Values::Flag, "Whether the session outlives this connection."),
    once("headless", Values::Text, "Whether the browser has no display: `true` where it is left out."),
    once("blockAds", Values::Flag, "`advanced.block_ads`."),
    once("trackingId", Values::Text, "`app_name`: 1 to 31 letters, digits, `-` or `_`."),
    once("launch", Values::Text, "An object of launch options as JSON, or that in base64."),
];

impl Parameter {
    /// As OpenAPI has it.
    pub(super) fn document(&self) -> Value {
        let one = self.values.schema();
        let (name, schema) = match self.times {
            Times::Once => (self.name, one),
            Times::Many(form) => (form, json!({"type": "array", "items": one})),
        };
        json!({"name": name, "in": "query", "required": false, "description": self.about, "schema": schema})
    }
}

impl Values {
    fn schema(&self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Number(least, most, default) => {
                let mut schema = json!({"type": "integer", "minimum": least});
                if let Some(most) = most {
                    schema["maximum"] = json!(most);
                }
                if let Some(default) = default {
                    schema["default"] = json!(default);
                }
                schema
            }
            Self::Name(names, has_default) => {
                let names = names();
                let mut schema = json!({"type": "string", "enum": names});
                if *has_default {
                    schema["default"] = json!(names.first());
                }
                schema
            }
        }
    }
}
