//! `POST /lam/run`, `/lam/extract`, `/lam/fleet`, and another try of what failed: what a body may say.

mod request;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::App;
use super::auth::Caller;
use super::body::{self, Members};
use super::headers::{MAX_IDEMPOTENCY_KEY, idempotency_key};
use super::openapi::{Access, EVENTS, Operation, Routes};
use super::route::{Policy, Traffic};
use super::task_reply::{Delivery, answer};
use super::tasks::ID as TASK_ID;
use crate::http::error::Error;
use request::{COMMON_MEMBERS, Common, FLEET_MEMBERS, RetryRequest, SubmitExtract, SubmitFleet, SubmitRun};
use warmpool_api::task::TaskView;
use warmpool_config::Config;
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::error::{Code, FieldFault as _, ServiceFault as _};
use warmpool_sessions::session::{Kind as SessionKind, advanced, check_text, launch};
use warmpool_tasks::task::{FleetRules, Kind, MAX_SECRETS, SubmitOptions, TaskSpec};
use warmpool_tasks::{FailureCode, TaskWork};

/// The inputs of a task, or of one item, as JSON, in bytes: they stand in its record.
const MAX_INPUTS: usize = 16 << 10;
/// The most causes in `retry.on`.
const MAX_CAUSES: usize = 32;

/// Whether an item of a fleet may fail with this code.
fn is_cause(code: &str) -> bool {
    code == "no_worker" || serde_json::from_value::<FailureCode>(json!(code)).is_ok()
}

const POLICY: Policy = Policy::rest(Access::Key, &[TASK_ID]).of(Traffic::Work).suggested();

fn operation<T: JsonSchema>(id: &'static str, summary: &'static str, example: Value) -> Operation {
    Operation::new(id, summary, POLICY)
        .about(
            "The task is on the disk before the answer comes. The answer is the task at once (202), the task at its end (200) \
             where the call waits for it, or server-sent events until its end with `Accept: text/event-stream`: `task`, \
             `progress`, `item` and `end`.",
        )
        .reads::<T>(example)
        .header(
            "Idempotency-Key",
            "All calls with the same value make one task.",
            json!({"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY}),
        )
        .header("Prefer", "`wait=N`: wait up to N seconds for the task's end.", json!({"type": "string"}))
        .writes::<TaskView>("The task at its end, or events until then.")
        .writes_text(EVENTS, "Events until the end.")
        .writes_at::<TaskView>(202, "The accepted task.")
        .fails(&[
            Code::NotSupported,
            Code::IdempotencyKeyReused,
            Code::TaskQueueFull,
            Code::EngineNotInstalled,
            Code::ProxyUnavailable,
            Code::Draining,
            Code::StoreBusy,
            Code::OutcomeUnknown,
            Code::DiskNearlyFull,
        ])
}

pub(super) fn routes(routes: Routes) -> Routes {
    let steps = json!([{"type": "navigate", "url": "{{input.url}}"}]);
    let inputs = json!({"url": "https://example.com/"});
    let run_example = json!({"steps": steps, "inputs": inputs});
    let extract_example = json!({"url": "{{input.url}}", "schema": {"title": "h1"}, "inputs": inputs});
    let fleet_example =
        json!({"extract": {"url": "{{input.url}}", "schema": {"title": "h1"}}, "urls": ["https://example.com/"]});
    routes
        .post("/lam/run", run, operation::<SubmitRun>("submit_run", "Play a recording", run_example))
        .post(
            "/lam/extract",
            extract,
            operation::<SubmitExtract>("submit_extract", "Read a page by a schema", extract_example),
        )
        .post("/lam/fleet", fleet, operation::<SubmitFleet>("submit_fleet", "Do either for many inputs", fleet_example))
        .post(
            "/lam/tasks/{id}/retry",
            retry,
            operation::<RetryRequest>("retry_task", "Make a new task of all that has not succeeded", json!({}))
                .fails(&[Code::UnknownTask, Code::Conflict]),
        )
}

/// `POST /lam/run`
pub(super) async fn run(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    submit(&app, key, Kind::Run, &headers, body).await
}

/// `POST /lam/extract`
pub(super) async fn extract(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    submit(&app, key, Kind::Extract, &headers, body).await
}

/// `POST /lam/fleet`
pub(super) async fn fleet(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    submit(&app, key, Kind::Fleet, &headers, body).await
}

async fn submit(
    app: &App,
    key: warmpool_keys::KeyId,
    kind: Kind,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let mut text = body::json_text(app, headers, body, app.config.tasks.max_body.bytes(), "tasks.max_body").await?;
    let (work, common) = read(kind, text.parse::<Members>()?.0)?;
    let delivery = Delivery::of(headers, common.wait, &app.config)?;
    let (order, secrets) = order(kind, work, common, &app.config)?;
    let extras = SubmitOptions {
        secrets,
        idempotency: idempotency_key(headers)?,
        request: format!("{kind} {}", String::from_utf8_lossy(&text)),
        retry_of: None,
    };
    let accepted = app.tasks.accept(key, order, extras).await?;
    // Free the body before waiting for the task.
    drop(text);
    answer(app, accepted, delivery).await.map_err(Into::into)
}

/// `POST /lam/tasks/<id>/retry`: a new task of what did not succeed.
pub(super) async fn retry(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let mut text = body::json_text(&app, &headers, body, app.config.tasks.max_body.bytes(), "tasks.max_body").await?;
    let again: RetryRequest = text.parse()?;
    let delivery = Delivery::of(&headers, again.wait, &app.config)?;
    let task = super::tasks::task_id(&id)?;
    let spec = app.tasks.retry_spec(task, &key).await?;
    let extras = SubmitOptions {
        secrets: secrets(again.secrets)?,
        idempotency: idempotency_key(&headers)?,
        request: format!("retry {id} {}", String::from_utf8_lossy(&text)),
        retry_of: Some(task),
    };
    let accepted = app.tasks.accept(key, spec, extras).await?;
    drop(text);
    answer(&app, accepted, delivery).await.map_err(Into::into)
}

/// Divides a body into the work and its options.
fn read(kind: Kind, members: Map<String, Value>) -> Result<(Map<String, Value>, Common), Error> {
    let of_work: &[&str] = match kind {
        Kind::Run => TaskWork::RUN_MEMBERS,
        Kind::Extract => TaskWork::EXTRACT_MEMBERS,
        Kind::Fleet => &[],
    };
    let (mut work, mut rest) = (Map::new(), Map::new());
    for (name, value) in members {
        if of_work.contains(&name.as_str()) {
            work.insert(name, value);
        } else if kind != Kind::Fleet && FLEET_MEMBERS.contains(&name.as_str()) {
            return Err(Error::unknown(name, "only POST /lam/fleet has it"));
        } else if !COMMON_MEMBERS.contains(&name.as_str()) && !FLEET_MEMBERS.contains(&name.as_str()) {
            let others = if kind == Kind::Fleet { FLEET_MEMBERS.as_slice() } else { of_work };
            return Err(Error::none_of(name, COMMON_MEMBERS.iter().chain(others).copied()));
        } else {
            rest.insert(name, value);
        }
    }
    let common = body::parse(&serde_json::to_vec(&rest).map_err(Error::internal)?)?;
    Ok((work, common))
}

/// Checks the options and fills in the defaults. The work itself is checked when it is accepted.
fn order(
    kind: Kind,
    work: Map<String, Value>,
    mut common: Common,
    config: &Config,
) -> Result<(TaskSpec, Map<String, Value>), Error> {
    let engine = common.browser_type.unwrap_or(Engine::Chromium);
    let advanced = advanced(common.advanced.take(), SessionKind::Task, config)?;
    let secrets = secrets(common.secrets.take())?;
    let longest = u64::try_from(config.tasks.max_timeout.as_millis()).unwrap_or(u64::MAX);
    let default = u64::try_from(config.tasks.timeout.as_millis()).unwrap_or(longest);
    let timeout_ms = common.timeout.map_or(Some(default), |timeout| u64::try_from(timeout).ok());
    let timeout_ms = timeout_ms.filter(|timeout| (1..=longest).contains(timeout)).ok_or_else(|| {
        Error::invalid("timeout", format!("must be from 1 to {longest} milliseconds (`tasks.max_timeout`)"))
    })?;
    let launch = launch(None, common.settings.take(), &advanced)?;
    let service_passcode = check_text("service_passcode", common.service_passcode.take())?;
    let name = check_text("name", common.name.take())?;
    let mut order = TaskSpec {
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
        name,
        proxy: advanced.proxy,
        fleet: None,
    };
    if kind == Kind::Fleet {
        (order.work_kind, order.work) = fleet_work(&mut common)?;
        order.fleet = Some(rules(common, config)?);
        // Told by the body's own path, which the work does not know.
        let within = order.work_kind.as_str();
        order.parse_work().map_err(|error| error.map_field(|error| error.within(within)))?;
    } else {
        order.inputs = inputs("inputs", common.inputs.unwrap_or(Value::Null))?;
    }
    Ok((order, secrets))
}

fn fleet_work(common: &mut Common) -> Result<(Kind, Value), Error> {
    match (common.run.take(), common.extract.take()) {
        (Some(run), None) if run.is_object() => Ok((Kind::Run, run)),
        (None, Some(extract)) if extract.is_object() => Ok((Kind::Extract, extract)),
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
            urls.into_iter().map(|url| Map::from_iter([("url".to_owned(), Value::from(url))])).collect()
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
    if let Some(cause) = causes.iter().find(|cause| !is_cause(cause)) {
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

fn secrets(members: Option<Members>) -> Result<Map<String, Value>, Error> {
    let secrets = members.map(|members| members.0).unwrap_or_default();
    // Nothing of their content may get into a message.
    if let Some((name, _)) = secrets.iter().find(|(_, value)| !value.is_string()) {
        return Err(Error::invalid(format!("secrets.{name}"), "must be a string"));
    }
    if serde_json::to_vec(&secrets).map_or(0, |text| text.len()) > MAX_SECRETS {
        return Err(Error::invalid("secrets", format!("may have {MAX_SECRETS} bytes as JSON at most")));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Flags, Host};
    use warmpool_core::error::Fault as _;

    fn check(kind: Kind, body: Value) -> Result<TaskSpec, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        let members = body::parse::<Members>(body.to_string().as_bytes())?.0;
        let (work, common) = read(kind, members)?;
        order(kind, work, common, &config).map(|(order, _)| order)
    }

    #[test]
    fn defaults_are_the_settings() {
        let order = check(Kind::Run, json!({"steps": [], "timeout": null, "inputs": null})).unwrap();
        assert_eq!((order.engine, order.mode), (Engine::Chromium, Mode::Headless));
        assert_eq!(order.timeout_ms, 300_000);
        assert_eq!(order.work, json!({"steps": []}));
        assert!(!order.safe_to_repeat);
    }

    #[test]
    fn faults_name_their_field() {
        for (kind, body, field) in [
            (Kind::Run, json!({"colour": 1}), "colour"),
            (Kind::Run, json!({"urls": []}), "urls"),
            (Kind::Run, json!({"isolation": "container"}), "isolation"),
            (Kind::Run, json!({"timeout": 0}), "timeout"),
            (Kind::Run, json!({"timeout": -1}), "timeout"),
            (Kind::Run, json!({"timeout": 3_600_001}), "timeout"),
            (Kind::Run, json!({"inputs": []}), "inputs"),
            (Kind::Run, json!({"inputs": {"a": "x".repeat(20_000)}}), "inputs"),
            (Kind::Run, json!({"secrets": {"pin": 1234}}), "secrets.pin"),
            (Kind::Run, json!({"secrets": "x"}), "secrets"),
            (Kind::Run, json!({"browser_type": "opera"}), "browser_type"),
            (Kind::Run, json!({"settings": {"zoom": 1}}), "settings.zoom"),
            (Kind::Run, json!({"advanced": {"solve_captchas": true}}), "advanced.solve_captchas"),
            (Kind::Fleet, json!({"inputs": [{}]}), "run"),
            (Kind::Fleet, json!({"run": [], "inputs": [{}]}), "run"),
            (Kind::Fleet, json!({"run": {"steps": []}, "extract": {}, "inputs": [{}]}), "extract"),
            (Kind::Fleet, json!({"run": {"steps": []}}), "inputs"),
            (Kind::Fleet, json!({"run": {"steps": []}, "inputs": []}), "inputs"),
            (Kind::Fleet, json!({"run": {"steps": []}, "inputs": [{}, 3]}), "inputs[1]"),
            (Kind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "urls": ["x"]}), "urls"),
            (Kind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "concurrency": 0}), "concurrency"),
            (Kind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "isolation": "none"}), "isolation"),
            (Kind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "retry": {"max": 11}}), "retry.max"),
            (Kind::Fleet, json!({"run": {"steps": []}, "inputs": [{}], "retry": {"times": 1}}), "retry.times"),
        ] {
            let error = check(kind, body.clone()).unwrap_err();
            assert_eq!(error.field(), Some(field), "{body}: {error}");
        }
    }
}
