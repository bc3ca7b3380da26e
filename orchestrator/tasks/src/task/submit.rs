//! What the calls that make tasks may say, and what tasks they ask for.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod request;

use serde_json::{Map, Value, json};

use super::secrets::TaskSecrets;
use super::spec::{FleetRules, Isolation, TaskSpec};
use crate::Error;
use crate::script::{FailureCode, TaskWork};
use request::{COMMON_MEMBERS, Common, FLEET_MEMBERS};
pub use request::{RetryRequest, SubmitExtract, SubmitFleet, SubmitRun};
use warmpool_api::task::TaskKind;
use warmpool_api::{Members, Object};
use warmpool_config::Config;
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::clock::millis;
use warmpool_core::error::{FieldFault as _, read_json};
use warmpool_core::metadata::Metadata;
use warmpool_profiles::{ProfileChoice, check_name};
use warmpool_protocol::Launch;
use warmpool_sessions::session::{SessionKind, advanced, check_text, check_webhook, launch};

/// The inputs of a task, or of one item, as JSON, in bytes: they stand in its record.
const MAX_INPUTS: usize = 16 << 10;
/// The most causes in `retry.on`.
const MAX_CAUSES: usize = 32;

/// The body of a call that makes a task, divided into the work and what is around it.
#[derive(Debug)]
pub struct SubmitRequest {
    kind: TaskKind,
    work: Map<String, Value>,
    common: Common,
}

impl SubmitRequest {
    /// Reads the body of the call that makes a task of this kind.
    /// Errors: `Field`.
    pub fn read(kind: TaskKind, body: Members) -> Result<Self, Error> {
        let of_work: &[&str] = match kind {
            TaskKind::Run => TaskWork::RUN_MEMBERS,
            TaskKind::Extract => TaskWork::EXTRACT_MEMBERS,
            TaskKind::Fleet => &[],
        };
        let (mut work, mut rest) = (Map::new(), Map::new());
        for (name, value) in body.0 {
            let is_of_fleet = FLEET_MEMBERS.contains(&name.as_str());
            if of_work.contains(&name.as_str()) {
                work.insert(name, value);
            } else if kind != TaskKind::Fleet && is_of_fleet {
                return Err(Error::unknown(name, "only POST /lam/fleet has it"));
            } else if !is_of_fleet && !COMMON_MEMBERS.contains(&name.as_str()) {
                let others = if kind == TaskKind::Fleet { FLEET_MEMBERS.as_slice() } else { of_work };
                return Err(Error::none_of(name, COMMON_MEMBERS.iter().chain(others).copied()));
            } else {
                rest.insert(name, value);
            }
        }
        Ok(Self { kind, work, common: read_json(Value::Object(rest))? })
    }

    /// How many seconds the answer may wait for the task's end.
    #[must_use]
    pub const fn wait(&self) -> Option<u64> {
        self.common.wait
    }

    /// Checks what is around the work and fills in the defaults. The work is checked when it is accepted, since that takes time.
    /// Returns by itself what nobody is shown.
    /// Errors: `Field`, and `Session` when no upstream proxy is where `advanced.proxy` wants it.
    pub fn check(self, config: &Config) -> Result<(TaskSpec, TaskSecrets), Error> {
        let Self { kind, work, mut common } = self;
        let engine = common.browser_type.unwrap_or(Engine::Chromium);
        let advanced = advanced(common.advanced.take(), SessionKind::Task, config)?;
        let secrets = TaskSecrets::check(common.secrets.take(), common.state.take())?;
        let longest = millis(config.tasks.max_timeout);
        let timeout_ms = common.timeout.map_or(Some(millis(config.tasks.timeout)), |given| u64::try_from(given).ok());
        let timeout_ms = timeout_ms.filter(|timeout| (1..=longest).contains(timeout)).ok_or_else(|| {
            Error::invalid("timeout", format!("must be from 1 to {longest} milliseconds (`tasks.max_timeout`)"))
        })?;
        let profile = profile(kind, common.profile.take())?;
        if profile.is_some() && secrets.state.is_some() {
            return Err(Error::invalid("state", "must be left out where `profile` says what the browser begins with"));
        }
        let launch = launch(None, common.settings.take(), engine, &advanced)?;
        let launch = Launch { storage: secrets.state.is_some(), ..launch };
        let service_passcode = check_text("service_passcode", common.service_passcode.take())?;
        let metadata = Metadata::check(common.metadata.take().map(|members| members.0).unwrap_or_default())?;
        let name = check_text("name", common.name.take())?;
        let webhook_url = check_webhook(common.webhook_url.take(), config)?;
        let mut spec = TaskSpec {
            kind,
            work_kind: kind,
            work: Value::Object(work),
            engine,
            mode: Mode::from_headless(common.headless.unwrap_or(true)),
            launch,
            timeout_ms,
            inputs: Map::new(),
            safe_to_repeat: common.safe_to_repeat.unwrap_or(false),
            service_passcode,
            metadata,
            name,
            webhook_url,
            proxy: advanced.proxy,
            extensions: advanced.extensions,
            profile,
            fleet: None,
        };
        if kind == TaskKind::Fleet {
            if spec.begins_signed_in() && common.isolation == Some(Isolation::Context) {
                let problem =
                    "must be `container` or left out beside a `profile` or a `state`: a context begins with nothing";
                return Err(Error::invalid("isolation", problem));
            }
            (spec.work_kind, spec.work) = fleet_work(&mut common)?;
            spec.fleet = Some(rules(common, config)?);
        } else {
            spec.inputs = inputs("inputs", common.inputs.unwrap_or(Value::Null))?;
        }
        Ok((spec, secrets))
    }
}

/// The profile that the browser is to begin with. The items of a fleet run side by side, and one session at a time may write one.
fn profile(kind: TaskKind, profile: Option<Object<ProfileChoice>>) -> Result<Option<ProfileChoice>, Error> {
    let Some(Object(profile)) = profile else { return Ok(None) };
    check_name("profile.name", &profile.name).map_err(warmpool_sessions::Error::from)?;
    if kind == TaskKind::Fleet && profile.is_written() {
        return Err(Error::invalid("profile.mode", "must be `read` for a fleet, whose items may run at the same time"));
    }
    Ok(Some(profile))
}

impl RetryRequest {
    /// What nobody is shown, checked.
    /// Errors: `Field`.
    pub fn secrets(self) -> Result<TaskSecrets, Error> {
        TaskSecrets::check(self.secrets, self.state)
    }
}

fn fleet_work(common: &mut Common) -> Result<(TaskKind, Value), Error> {
    match (common.run.take(), common.extract.take()) {
        (Some(run), None) if run.is_object() => Ok((TaskKind::Run, run)),
        (None, Some(extract)) if extract.is_object() => Ok((TaskKind::Extract, extract)),
        (Some(_), None) => Err(Error::invalid("run", "must be an object: what POST /lam/run takes as its work")),
        (None, Some(_)) => {
            Err(Error::invalid("extract", "must be an object: what POST /lam/extract takes as its work"))
        }
        (None, None) => {
            Err(Error::invalid("run", "is missing: a fleet needs it or `extract`, to say what to do for each item"))
        }
        (Some(_), Some(_)) => Err(Error::invalid("extract", "excludes `run`: send one of them")),
    }
}

fn rules(common: Common, config: &Config) -> Result<FleetRules, Error> {
    let items = match (common.inputs, common.urls) {
        (Some(Value::Array(rows)), None) => {
            let rows = rows.into_iter().enumerate();
            rows.map(|(index, row)| inputs(&format!("inputs[{index}]"), row)).collect::<Result<Vec<_>, _>>()?
        }
        (None, Some(urls)) => {
            let item = |(index, url)| inputs(&format!("urls[{index}]"), json!({"url": url}));
            urls.into_iter().enumerate().map(item).collect::<Result<_, _>>()?
        }
        (Some(_), Some(_)) => return Err(Error::invalid("urls", "excludes `inputs`: send one of them")),
        _ => {
            return Err(Error::invalid("inputs", "must be an array with an object for each item; or send `urls`"));
        }
    };
    let most = config.tasks.max_items;
    if items.is_empty() || items.len() > most {
        return Err(Error::invalid("inputs", format!("must be 1 to {most} items (`tasks.max_items`)")));
    }
    let retry = common.retry.map(|retry| retry.0).unwrap_or_default();
    let bounded = |field: &str, value: u64, least: u64, most: u64| match value {
        value if (least..=most).contains(&value) => Ok(value),
        _ => Err(Error::invalid(field, format!("must be from {least} to {most}"))),
    };
    let hour = 3_600_000;
    let causes = retry.on.unwrap_or_default();
    if causes.len() > MAX_CAUSES || causes.iter().any(|cause| cause.len() > 64) {
        return Err(Error::invalid("retry.on", format!("takes {MAX_CAUSES} codes of failures at most")));
    }
    if let Some(cause) =
        causes.iter().find(|cause| cause.as_str() != "no_worker" && FailureCode::parse(cause).is_none())
    {
        let codes = "timeout, navigation_failed, no_worker, …";
        return Err(Error::invalid("retry.on", format!("takes codes of failures ({codes}), and `{cause}` is none")));
    }
    let concurrency = common.concurrency.unwrap_or(config.tasks.workers);
    Ok(FleetRules {
        concurrency: usize::try_from(bounded("concurrency", concurrency as u64, 1, 1000)?).unwrap_or(1),
        retries: u32::try_from(bounded("retry.max", u64::from(retry.max.unwrap_or(1)), 0, 10)?).unwrap_or(0),
        backoff_ms: bounded("retry.backoff", retry.backoff.unwrap_or(1000), 0, hour)?,
        retry_on: causes,
        stop_after_failures: common.stop_after_failures.unwrap_or(0),
        host_delay_ms: bounded("host_delay", common.host_delay.unwrap_or(0), 0, hour)?,
        isolation: common.isolation.unwrap_or_default(),
        items,
    })
}

/// Inputs: an object that fits into a record.
fn inputs(field: &str, value: Value) -> Result<Map<String, Value>, Error> {
    let inputs = match value {
        Value::Null => Map::new(),
        Value::Object(inputs) => inputs,
        _ => return Err(Error::invalid(field, "must be an object")),
    };
    if serde_json::to_vec(&inputs).map_or(0, |text| text.len()) > MAX_INPUTS {
        return Err(Error::invalid(field, format!("may have {MAX_INPUTS} bytes as JSON at most")));
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Flags, Host};
    use warmpool_core::error::Fault as _;

    fn check(kind: TaskKind, body: Value) -> Result<TaskSpec, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        SubmitRequest::read(kind, read_json(body)?)?.check(&config).map(|(spec, _)| spec)
    }

    #[test]
    fn defaults_are_the_settings() {
        let spec = check(TaskKind::Run, json!({"steps": [], "timeout": null, "inputs": null})).unwrap();
        assert_eq!((spec.engine, spec.mode), (Engine::Chromium, Mode::Headless));
        assert_eq!(spec.timeout_ms, 300_000);
        assert_eq!(spec.work, json!({"steps": []}));
        assert!(!spec.safe_to_repeat);
    }

    #[test]
    fn faults_name_their_field() {
        for (kind, body, field) in [
            (TaskKind::Run, json!({"colour": 1}), "colour"),
            (TaskKind::Run, json!({"urls": []}), "urls"),
            (TaskKind::Run, json!({"isolation": "container"}), "isolation"),
            (TaskKind::Run, json!({"timeout": 0}), "timeout"),
            (TaskKind::Run, json!({"timeout": -1}), "timeout"),
            (TaskKind::Run, json!({"timeout": 3_600_001}), "timeout"),
            (TaskKind::Run, json!({"inputs": []}), "inputs"),
            (TaskKind::Run, json!({"inputs": {"a": "x".repeat(20_000)}}), "inputs"),
            (TaskKind::Run, json!({"secrets": {"pin": 1234}}), "secrets.pin"),
            (TaskKind::Run, json!({"secrets": "x"}), "secrets"),
            (TaskKind::Run, json!({"browser_type": "opera"}), "browser_type"),
            (TaskKind::Run, json!({"settings": {"zoom": 1}}), "settings.zoom"),
            (TaskKind::Run, json!({"advanced": {"solve_captchas": true}}), "advanced.solve_captchas"),
            (TaskKind::Fleet, json!({"inputs": [{}]}), "run"),
            (TaskKind::Fleet, json!({"run": [], "inputs": [{}]}), "run"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "extract": {}, "inputs": [{}]}), "extract"),
            (TaskKind::Fleet, json!({"run": {"steps": []}}), "inputs"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "inputs": []}), "inputs"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "inputs": [{}, 3]}), "inputs[1]"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "urls": ["x"]}), "urls"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "urls": ["", "x".repeat(20_000)]}), "urls[1]"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "concurrency": 0}), "concurrency"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "isolation": "none"}), "isolation"),
            (TaskKind::Fleet, json!({"urls": ["x"], "extract": {}, "isolation": "context", "state": {}}), "isolation"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "retry": {"max": 11}}), "retry.max"),
            (TaskKind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "retry": {"times": 1}}), "retry.times"),
        ] {
            let error = check(kind, body.clone()).unwrap_err();
            assert_eq!(error.field(), Some(field), "{body}: {error}");
        }
    }
}
