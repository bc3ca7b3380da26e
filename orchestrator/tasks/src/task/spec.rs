//! The specification of a task: the work, the browser for it, and the rules around it. It is stored with the task.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use warmpool_protocol::Launch;

use crate::Error;
use crate::player::Limits;
use crate::script::template;
use crate::script::{FailureCode, TaskWork, Values};
use warmpool_api::task::TaskKind;
use warmpool_config::Config;
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::ids::{ExtensionId, TaskId};
use warmpool_core::metadata::Metadata;
use warmpool_profiles::ProfileChoice;
use warmpool_sessions::session::{Options, SessionKind};
use warmpool_workers::egress::Location;

/// A session outlives its task's time by this much, for the last screenshot.
const SESSION_MARGIN: Duration = Duration::from_secs(60);

/// How much of a first page's address is worked out before it is opened, in bytes.
const MAX_ADDRESS: usize = 8 << 10;

/// What a task does, checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskSpec {
    /// What it asks for: a run, an extract, or a fleet of one of them.
    pub kind: TaskKind,
    /// What is to be done, once or for each item: a run or an extract.
    pub work_kind: TaskKind,
    /// The work as it was sent.
    pub work: Value,
    /// On which engine.
    pub engine: Engine,
    /// Headed or headless.
    pub mode: Mode,
    /// The settings to make true.
    pub launch: Launch,
    /// Time for the work, or for one item, in milliseconds.
    pub timeout_ms: u64,
    /// What templates are filled with; for a fleet, what all items share.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Whether it may be run again after it was interrupted.
    #[serde(default)]
    pub safe_to_repeat: bool,
    /// The end user it is for.
    #[serde(default)]
    pub service_passcode: Option<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// What its sender calls it.
    #[serde(default)]
    pub name: Option<String>,
    /// Where its sender wants to hear of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// Where its pages are to be asked for, if through an upstream proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Location>,
    /// The profile that its browser begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileChoice>,
    /// The extensions that its browser loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<ExtensionId>,
    /// What makes it a fleet.
    #[serde(default)]
    pub fleet: Option<FleetRules>,
}

/// The rules by which a fleet carries out its items.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FleetRules {
    /// What the templates of each item are filled with.
    pub items: Vec<Map<String, Value>>,
    /// Items at once.
    pub concurrency: usize,
    /// How often a failed item is tried again.
    pub retries: u32,
    /// Before the first of these tries, in milliseconds; each further one waits twice as long.
    pub backoff_ms: u64,
    /// Which failures are worth another try; none means those that may pass by themselves.
    #[serde(default)]
    pub retry_on: Vec<String>,
    /// The number of failed items after which no further ones begin; 0 sets no limit.
    #[serde(default)]
    pub stop_after_failures: u32,
    /// Time between two items that open the same host, in milliseconds.
    #[serde(default)]
    pub host_delay_ms: u64,
    /// What lies between two items.
    #[serde(default)]
    pub isolation: Isolation,
}

/// What lies between two items of a fleet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Each has a fresh browser context, where the engine has such; a browser may serve several, one after another. Where a
    /// profile or a state is there to begin with, each has a container.
    #[default]
    Context,
    /// Each has a container of its own.
    Container,
}

impl FleetRules {
    /// How long to wait before the next try; none when the failure is final.
    pub(super) fn backoff(&self, attempts: u32, code: &str) -> Option<Duration> {
        let transient = || code == "no_worker" || FailureCode::parse(code).is_some_and(FailureCode::is_transient);
        let worth = if self.retry_on.is_empty() { transient() } else { self.retry_on.iter().any(|on| on == code) };
        let again = worth && attempts <= self.retries;
        again.then(|| Duration::from_millis(self.backoff_ms.saturating_mul(1 << (attempts - 1).min(10))))
    }
}

impl TaskSpec {
    /// Reads the work.
    /// Errors: those of [`TaskWork::parse_run`] and [`TaskWork::parse_extract`].
    pub(super) fn parse_work(&self) -> Result<TaskWork, Error> {
        match self.work_kind {
            TaskKind::Extract => TaskWork::parse_extract(&self.work).map(TaskWork::Extract),
            TaskKind::Run | TaskKind::Fleet => TaskWork::parse_run(&self.work).map(TaskWork::Run),
        }
    }

    /// The values of templates, in one item of a fleet or in the whole task.
    pub(super) fn values(&self, item: Option<&Map<String, Value>>, secrets: &Map<String, Value>) -> Values {
        let mut inputs = self.inputs.clone();
        inputs.extend(item.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        Values { inputs, secrets: secrets.clone() }
    }

    /// The life that a session needs for one run, extract or item.
    pub(super) const fn life(&self) -> Duration {
        Duration::from_millis(self.timeout_ms).saturating_add(SESSION_MARGIN)
    }

    /// Whether its browsers begin with what a profile or a state has.
    pub(super) const fn begins_signed_in(&self) -> bool {
        self.profile.is_some() || self.launch.storage
    }

    /// How many runs, extracts or items one session may carry out.
    pub(super) fn per_session(&self, config: &Config) -> usize {
        // A context of its own would know nothing of what the browser began with.
        match &self.fleet {
            Some(rules) if !self.begins_signed_in() && rules.isolation == Isolation::Context => {
                config.tasks.items_per_session
            }
            _ => 1,
        }
    }

    pub(super) fn session(&self, task: TaskId, config: &Config) -> Options {
        let items = u32::try_from(self.per_session(config)).unwrap_or(u32::MAX);
        let life = self.life().saturating_mul(items);
        Options {
            kind: SessionKind::Task,
            engine: self.engine,
            mode: self.mode,
            launch: self.launch.clone(),
            session_timeout: life.min(config.session.max_timeout).as_secs(),
            idle_timeout: None,
            recording: false,
            logs: false,
            keep_alive: true,
            service_passcode: self.service_passcode.clone(),
            metadata: self.metadata.clone(),
            app_name: None,
            one_connection: false,
            connection_is_use: false,
            name: None,
            screen: None,
            proxy: self.proxy.clone(),
            profile: self.profile.clone(),
            extensions: self.extensions.clone(),
            webhook_url: self.webhook_url.clone(),
            task: Some(task),
            state: None,
            playwright: None,
            queue_wait: None,
        }
    }

    /// How far its work may go.
    pub(super) fn limits(&self, config: &Config) -> Limits {
        let tasks = &config.tasks;
        Limits {
            task_timeout: Duration::from_millis(self.timeout_ms),
            step_timeout: tasks.step_timeout,
            navigation_timeout: tasks.navigation_timeout,
            max_elements: config.pages.max_elements,
            max_work: tasks.max_body.bytes(),
            max_output: tasks.max_output.bytes(),
            max_artifacts: tasks.max_artifacts,
            max_artifact_bytes: tasks.max_artifact_size.bytes(),
        }
    }

    /// The host that an item opens first, as far as it is known beforehand.
    pub(super) fn first_host(&self, inputs: &Map<String, Value>) -> Option<String> {
        let page = template::with_inputs(self.first_page()?, inputs, MAX_ADDRESS);
        url::Url::parse(&page).ok()?.host_str().map(str::to_owned)
    }

    /// The page that the work opens first, with its templates as they were sent.
    pub(super) fn first_page(&self) -> Option<&str> {
        let navigates = |step: &&Value| step["type"] == "navigate";
        let steps = self.work["steps"].as_array().or_else(|| self.work["recording"]["steps"].as_array());
        let of_steps = || steps?.iter().find(navigates)?["url"].as_str();
        self.work["url"].as_str().or_else(of_steps)
    }

    /// The title of the recording.
    pub(super) fn title(&self) -> Option<&str> {
        self.work["title"].as_str().or_else(|| self.work["recording"]["title"].as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::accept::new_record;
    use super::*;

    fn rules(retries: u32, retry_on: &[&str]) -> FleetRules {
        FleetRules {
            items: Vec::new(),
            concurrency: 1,
            retries,
            backoff_ms: 100,
            retry_on: retry_on.iter().map(|on| (*on).to_owned()).collect(),
            stop_after_failures: 0,
            host_delay_ms: 0,
            isolation: Isolation::Context,
        }
    }

    #[test]
    fn transient_failures_are_retried_with_growing_pauses() {
        let rules = rules(2, &[]);
        assert_eq!(rules.backoff(1, "timeout"), Some(Duration::from_millis(100)));
        assert_eq!(rules.backoff(2, "browser_died"), Some(Duration::from_millis(200)));
        assert_eq!(rules.backoff(3, "timeout"), None, "two retries are two");
        assert_eq!(rules.backoff(1, "no_match"), None, "what is missing stays missing");
        assert_eq!(self::rules(1, &["no_match"]).backoff(1, "no_match"), Some(Duration::from_millis(100)));
        assert_eq!(self::rules(1, &["no_match"]).backoff(1, "timeout"), None, "a list of causes is the whole list");
    }

    #[test]
    fn the_host_of_an_item_is_that_of_its_first_page() {
        let spec = |work: Value| -> TaskSpec {
            serde_json::from_value(json!({"kind": "fleet", "work_kind": "extract", "work": work, "engine": "chromium",
                "mode": "headless", "launch": {"url": null}, "timeout_ms": 1}))
            .unwrap()
        };
        let inputs = json!({"host": "a.example", "n": 3}).as_object().unwrap().clone();
        let host = |work| spec(work).first_host(&inputs);
        let work = json!({"url": "http://{{input.host}}/{{input.n}}"});
        assert_eq!(host(work.clone()).as_deref(), Some("a.example"));
        let owner = "0123456789ab".parse().unwrap();
        let page = new_record(TaskId::from_number(1), owner, &spec(work)).page;
        assert_eq!(page.as_deref(), Some("http://{{input.host}}/{{input.n}}"), "a record has inputs beside it");
        let steps = json!([{"type": "setViewport"}, {"type": "navigate", "url": "https://b.example/"}]);
        assert_eq!(host(json!({"steps": steps})).as_deref(), Some("b.example"));
        assert_eq!(host(json!({"recording": {"steps": []}})), None);
    }
}
