//! Query parameters, of every route: which ones it takes, and what those of lists mean. Every fault names its parameter.

mod parameters;

use std::borrow::Cow;

use http::Method;
use serde_json::Value;
use url::form_urlencoded;

use crate::http::error::Error;
use parameters::{
    BROWSERLESS, EVENT_TOPICS, GRID_TOKEN, ITEMS, Parameter, SESSIONS, TASK, TASKS, THUMBNAILS, TOKEN, Times, VIEW,
    VIEW_TOKEN_ALONE, WORLD_REQUESTS,
};
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_core::ids::IntegrationKeyId;
use warmpool_core::sort::SortOrder;
use warmpool_keys::KeyId;
use warmpool_sessions::session::{SessionQuery, SortKey, Status};
use warmpool_tasks::task::{Kind as TaskKind, SortKey as TaskSortKey, Status as TaskStatus, TaskQuery};
use warmpool_worlds::{Environment, PatientRef, RequestQuery};

/// Sessions of one stream of thumbnails at most: more than a screen shows.
const MAX_THUMBNAILS: usize = 100;

/// What may stand behind a route's question mark.
enum Rule {
    /// These parameters and no others.
    These(&'static [Parameter]),
    /// Each parameter once; the route knows which there are, or leaves that to others. These are described.
    Once(&'static [Parameter]),
    /// It is not ours: the driver reads it.
    Drivers,
}

/// The rule of a route, by the path it was made with. One that is not named here takes no parameters.
fn rule(method: &Method, route: &str) -> Rule {
    let within = route.strip_prefix("/wd/hub").unwrap_or(route);
    Rule::These(match within {
        "/sessions" => SESSIONS,
        "/lam/tasks" => TASKS,
        "/lam/tasks/{id}" if *method != Method::DELETE => TASK,
        "/lam/tasks/{id}/items" => ITEMS,
        "/v1/requests" => WORLD_REQUESTS,
        "/console/api/events" => EVENT_TOPICS,
        "/console/api/thumbnails" => THUMBNAILS,
        "/sessions/{id}/devtools" | "/sessions/{id}/devtools/{*target}" => TOKEN,
        "/session/{id}/se/cdp" | "/active" | "/pressure" | "/devtools/{kind}/{target}" => GRID_TOKEN,
        "/sessions/{id}/stream/recording" | "/sessions/{id}/stream/recording/{name}" => VIEW_TOKEN_ALONE,
        "/sessions/{id}/stream/state" | "/sessions/{id}/stream/socket" => VIEW,
        // Pages that show a live view add what they like to its address.
        "/sessions/{id}/stream" => return Rule::Once(VIEW),
        // What clients of browserless say there is read by `dropin::browserless`, which refuses what it does not know.
        "/" | "/chromium" | "/chrome" | "/firefox" | "/webkit" | "/edge" => return Rule::Once(BROWSERLESS),
        path if path.starts_with("/json") => return Rule::Once(GRID_TOKEN),
        path if path.contains("/playwright") => return Rule::Once(&[]),
        "/session/{id}/{*command}" | "/sessions/{id}/webdriver/{token}/session/{driver}/{*command}" => {
            return Rule::Drivers;
        }
        _ => &[],
    })
}

/// The parameters of a route as OpenAPI has them. `path` is the route's, as the description writes it.
pub(super) fn parameters_of(method: &Method, path: &str) -> Vec<Value> {
    let route = path.replace("/devtools/{target}", "/devtools/{*target}").replace("{command}", "{*command}");
    match rule(method, &route) {
        Rule::These(parameters) | Rule::Once(parameters) => parameters.iter().map(Parameter::document).collect(),
        Rule::Drivers => Vec::new(),
    }
}

/// Checks the query of a request to `route`: of two values one would be passed over in silence, and so would a parameter
/// that nobody reads.
/// Errors: `Field` for a parameter that is given twice, and for one that the route does not have.
pub(super) fn check(method: &Method, route: &str, query: &str) -> Result<(), Error> {
    match rule(method, route) {
        Rule::These(takes) => pairs(query, takes).map(drop),
        Rule::Once(_) => {
            let mut seen = SeenParameters::default();
            form_urlencoded::parse(query.as_bytes()).try_for_each(|(name, _)| seen.check(&name))
        }
        Rule::Drivers => Ok(()),
    }
}

type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The parameters of a query, checked.
fn pairs<'a>(query: &'a str, takes: &[Parameter]) -> Result<Vec<Pair<'a>>, Error> {
    let mut seen = SeenParameters::default();
    let mut pairs = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if takes.iter().any(|taken| taken.times == Times::Once && taken.name == name) {
            seen.check(&name)?;
        } else if !takes.iter().any(|taken| taken.times != Times::Once && taken.name == list_name(&name)) {
            return Err(unknown(takes, &name));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn unknown(takes: &[Parameter], name: &str) -> Error {
    // The other name of a filter is for clients that know it already.
    let known = takes.iter().filter(|taken| taken.name != "raccoon_passcode");
    let known: Vec<String> = known
        .map(|taken| if taken.times == Times::Once { taken.name.to_owned() } else { format!("{}[]", taken.name) })
        .collect();
    let name: String = name.chars().take(100).collect();
    if known.is_empty() { Error::unknown(name, "this path takes no parameters") } else { Error::none_of(name, known) }
}

/// Parses the query of `GET /sessions`; also gives the key whose sessions it asks for.
pub(super) fn session_query(query: &str) -> Result<(SessionQuery, Option<KeyId>), Error> {
    let mut key = None;
    let mut parsed = SessionQuery {
        start_time: None,
        end_time: None,
        session_id: None,
        statuses: Vec::new(),
        engines: Vec::new(),
        service_passcode: None,
        page: 1,
        limit: 10,
        sort_by: SortKey::default(),
        sort_order: SortOrder::default(),
    };
    for (name, value) in pairs(query, SESSIONS)? {
        match list_name(&name) {
            "start_time" => parsed.start_time = Some(number(&name, &value, 0, u64::MAX)?),
            "end_time" => parsed.end_time = Some(number(&name, &value, 0, u64::MAX)?),
            "session_id" => parsed.session_id = Some(value.into_owned()),
            "key_id" => key = Some(key_id(&name, &value)?),
            "status" => {
                let status = Status::ALL.into_iter().find(|status| status.as_str() == value);
                parsed.statuses.push(status.ok_or_else(|| one_of(&name, Status::ALL.map(Status::as_str).as_slice()))?);
            }
            "browser_type" => {
                let engine = value.parse().ok();
                parsed.engines.push(engine.ok_or_else(|| one_of(&name, Engine::ALL.map(Engine::as_str).as_slice()))?);
            }
            "service_passcode" | "raccoon_passcode" => parsed.service_passcode = Some(value.into_owned()),
            "page" => parsed.page = number(&name, &value, 1, u64::MAX)?,
            "limit" => parsed.limit = number(&name, &value, 1, 100)?,
            "sort_by" => {
                parsed.sort_by = match &*value {
                    "timestamp" => SortKey::Timestamp,
                    "executionTime" | "execution_time" => SortKey::ExecutionTime,
                    "sessionId" | "session_id" => SortKey::SessionId,
                    "status" => SortKey::Status,
                    _ => return Err(one_of(&name, &["timestamp", "executionTime", "sessionId", "status"])),
                };
            }
            "sort_order" => parsed.sort_order = sort_order(&name, &value)?,
            _ => return Err(unknown(SESSIONS, &name)),
        }
    }
    Ok((parsed, key))
}

/// Parses the query of `GET /lam/tasks`; also gives the key whose tasks it asks for.
pub(super) fn task_query(query: &str) -> Result<(TaskQuery, Option<KeyId>), Error> {
    let mut key = None;
    let mut parsed = TaskQuery::default();
    for (name, value) in pairs(query, TASKS)? {
        match list_name(&name) {
            "executionType" => {
                let kind = value.parse().ok();
                parsed.kinds.push(kind.ok_or_else(|| one_of(&name, TaskKind::ALL.map(TaskKind::as_str).as_slice()))?);
            }
            "start_time" => parsed.start_time = Some(number(&name, &value, 0, u64::MAX)?),
            "end_time" => parsed.end_time = Some(number(&name, &value, 0, u64::MAX)?),
            "task_id" => parsed.task_id = Some(value.into_owned()),
            "key_id" => key = Some(key_id(&name, &value)?),
            "service_passcode" | "raccoon_passcode" => parsed.service_passcode = Some(value.into_owned()),
            "page" => parsed.page = number(&name, &value, 1, u64::MAX)?,
            "limit" => parsed.limit = number(&name, &value, 1, 100)?,
            "sort_by" => {
                let key = TaskSortKey::ALL.into_iter().find(|key| key.as_str() == value);
                parsed.sort_by =
                    key.ok_or_else(|| one_of(&name, TaskSortKey::ALL.map(TaskSortKey::as_str).as_slice()))?;
            }
            "sort_order" => parsed.sort_order = sort_order(&name, &value)?,
            _ => return Err(unknown(TASKS, &name)),
        }
    }
    Ok((parsed, key))
}

/// The topics that `GET /console/api/events` asks for, by their names.
pub(super) fn topics<T>(query: &str, topic: impl Fn(&str) -> Option<T>, known: &[&str]) -> Result<Vec<T>, Error> {
    let pairs = pairs(query, EVENT_TOPICS)?;
    pairs.iter().map(|(name, value)| topic(value).ok_or_else(|| one_of(name, known))).collect()
}

/// The sessions whose thumbnails `GET /console/api/thumbnails` asks for.
pub(super) fn thumbnail_sessions(query: &str) -> Result<Vec<String>, Error> {
    let pairs = pairs(query, THUMBNAILS)?;
    if pairs.len() > MAX_THUMBNAILS {
        return Err(Error::invalid("session", format!("may be given {MAX_THUMBNAILS} times at most")));
    }
    Ok(pairs.into_iter().map(|(_, id)| id.into_owned()).collect())
}

/// Parses the query of `GET /v1/requests`; `patients` knows whom an id may mean.
pub(super) fn world_request_query(
    query: &str,
    patients: impl Fn(&str) -> Vec<PatientRef>,
) -> Result<RequestQuery, Error> {
    let mut parsed = RequestQuery { page: 1, limit: 25, ..RequestQuery::default() };
    let small = |number| usize::try_from(number).unwrap_or(usize::MAX);
    for (name, value) in pairs(query, WORLD_REQUESTS)? {
        match &*name {
            "start_time" => parsed.start_ms = Some(number(&name, &value, 0, u64::MAX)?),
            "end_time" => parsed.end_ms = Some(number(&name, &value, 0, u64::MAX)?),
            "patient_id" => parsed.patients = Some(patients(&value)),
            "environment_type" => {
                let known = Environment::ALL.map(Environment::as_str);
                parsed.environment = Some(Environment::named(&value).ok_or_else(|| one_of(&name, &known))?);
            }
            "status" => {
                let classes = ["2xx", "4xx", "5xx"];
                let class = classes.iter().zip([2, 4, 5]).find(|(class, _)| **class == value);
                parsed.class = Some(class.ok_or_else(|| one_of(&name, &classes))?.1);
            }
            "key_id" => parsed.key = Some(IntegrationKeyId::from(&*value)),
            "page" => parsed.page = small(number(&name, &value, 1, u64::MAX)?),
            "limit" => parsed.limit = small(number(&name, &value, 1, 100)?),
            _ => return Err(unknown(WORLD_REQUESTS, &name)),
        }
    }
    Ok(parsed)
}

fn key_id(name: &str, value: &str) -> Result<KeyId, Error> {
    value.parse().map_err(|_| Error::invalid(name, "must be a key's id: twelve hexadecimal digits in lower case"))
}

fn sort_order(name: &str, value: &str) -> Result<SortOrder, Error> {
    value.parse().map_err(|()| one_of(name, &["ascend", "descend"]))
}

/// What `GET /lam/tasks/<id>/items` asks for.
#[derive(Debug)]
pub(super) struct ItemQuery {
    /// Items of this status only.
    pub(super) status: Option<TaskStatus>,
    /// Items behind the one of this number.
    pub(super) after: Option<u32>,
    /// At most this many.
    pub(super) limit: usize,
}

/// Parses the query of `GET /lam/tasks/<id>/items`, its `format` left out.
pub(super) fn item_query(query: &str) -> Result<ItemQuery, Error> {
    let mut parsed = ItemQuery { status: None, after: None, limit: 100 };
    for (name, value) in pairs(query, ITEMS)? {
        match &*name {
            "status" => {
                let names = TaskStatus::ALL.map(TaskStatus::as_str);
                parsed.status = Some(value.parse().map_err(|()| one_of(&name, &names))?);
            }
            "after" => parsed.after = u32::try_from(number(&name, &value, 0, u64::from(u32::MAX))?).ok(),
            "limit" => parsed.limit = usize::try_from(number(&name, &value, 1, 100)?).unwrap_or(100),
            _ => {}
        }
    }
    Ok(parsed)
}

/// The value of one parameter, decoded.
pub(super) fn value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    form_urlencoded::parse(query.as_bytes()).find(|(found, _)| found == name).map(|(_, value)| value)
}

/// The bare name of a list parameter that is written `name[]` or `name[0]`.
fn list_name(name: &str) -> &str {
    let is_index = |index: &str| index.bytes().all(|byte| byte.is_ascii_digit());
    let list = name.split_once('[').filter(|(_, rest)| rest.strip_suffix(']').is_some_and(is_index));
    list.map_or(name, |(bare, _)| bare)
}

/// The parameters that were there, each of which may be there once: of two values one would be passed over in silence.
#[derive(Default)]
struct SeenParameters(Vec<String>);

impl SeenParameters {
    fn check(&mut self, name: &str) -> Result<(), Error> {
        // Two names of one filter.
        let filter = if name == "raccoon_passcode" { "service_passcode" } else { name };
        if self.0.iter().any(|seen| seen == filter) {
            let name: String = name.chars().take(100).collect();
            return Err(Error::invalid(name, "is given twice: send one value"));
        }
        self.0.push(filter.to_owned());
        Ok(())
    }
}

pub(super) fn number(name: &str, value: &str, least: u64, most: u64) -> Result<u64, Error> {
    let range = match most {
        u64::MAX => format!("of at least {least}"),
        most => format!("from {least} to {most}"),
    };
    let wrong = || Error::invalid(name, format!("must be a whole number {range}"));
    let number: u64 = value.parse().map_err(|_| wrong())?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(wrong()) }
}

pub(super) fn one_of(name: &str, values: &[&str]) -> Error {
    Error::invalid(name, format!("must be one of {}", values.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    fn fault(route: &str, query: &str) -> Option<String> {
        let error = check(&Method::GET, route, query).err()?;
        assert_eq!(error.code().status(), 400);
        Some(error.field().unwrap_or_default().to_owned())
    }

    #[test]
    fn every_route_refuses_what_is_doubled_or_unknown() {
        for (route, query, field) in [
            ("/healthz", "x=1", Some("x")),
            ("/healthz", "", None),
            ("/sessions/create", "headless=true", Some("headless")),
            ("/sessions/{id}/some/new/route", "token=T", Some("token")),
            ("/sessions/{id}/devtools", "token=T", None),
            ("/sessions/{id}/devtools", "token=T&token=U", Some("token")),
            ("/sessions/{id}/devtools", "token=T&t%6fken=U", Some("token")),
            ("/lam/tasks/{id}/items", "limit=1&limit=2", Some("limit")),
            ("/lam/tasks/{id}/items", "limit=1&after=2&status=success&format=json", None),
            ("/lam/tasks/{id}", "format=csv&format=json", Some("format")),
            ("/lam/tasks/{id}", "form=csv", Some("form")),
            ("/sessions", "status=running&status[]=failure&limit=1", None),
            ("/sessions", "limit[]=1", Some("limit[]")),
            ("/sessions/{id}/stream", "token=T&utm=x", None),
            ("/sessions/{id}/stream", "token=T&enable_actions=false&enable_actions=true", Some("enable_actions")),
            ("/sessions/{id}/stream/socket", "token=T&utm=x", Some("utm")),
            ("/chromium", "token=T&timeout=1&timeout=2", Some("timeout")),
            ("/wd/hub/session/{id}/se/cdp", "token=T", None),
            ("/wd/hub/session/{id}/{*command}", "a=1&a=2", None),
        ] {
            assert_eq!(fault(route, query).as_deref(), field, "{route}?{query}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let (query, key) = session_query("").unwrap();
        assert_eq!(key, None);
        assert_eq!((query.page, query.limit), (1, 10));
        assert_eq!((query.sort_by, query.sort_order), (SortKey::Timestamp, SortOrder::Descend));
    }

    #[test]
    fn lists_may_be_repeated_or_indexed() {
        let query = session_query("status=running&status[]=failure&status%5B1%5D=completed").unwrap().0;
        assert_eq!(query.statuses, [Status::Running, Status::Failure, Status::Completed]);
    }

    #[test]
    fn task_types_may_be_repeated_or_indexed() {
        for query in [
            "executionType[]=run&executionType[]=extract",
            "executionType%5B%5D=run&executionType%5B%5D=extract",
            "executionType[0]=run&executionType[1]=extract",
            "executionType=run&executionType=extract",
        ] {
            assert_eq!(task_query(query).unwrap().0.kinds, [TaskKind::Run, TaskKind::Extract], "{query}");
        }
    }

    #[test]
    fn a_task_query_has_the_contracts_defaults_and_bounds() {
        assert_eq!(task_query("").unwrap().0, TaskQuery::default());
        let defaults = TaskQuery::default();
        assert_eq!((defaults.page, defaults.limit, defaults.sort_order), (1, 10, SortOrder::Descend));
        assert_eq!(task_query("page=1&limit=100&start_time=0").unwrap().0.limit, 100);
        for name in ["service_passcode", "raccoon_passcode"] {
            assert_eq!(task_query(&format!("{name}=ann")).unwrap().0.service_passcode.as_deref(), Some("ann"));
        }
        for (query, field) in [
            ("page=0", "page"),
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit[]=5", "limit[]"),
            ("start_time=1.5", "start_time"),
            ("end_time=-1", "end_time"),
            ("executionType[]=walk", "executionType[]"),
            ("sort_by=size", "sort_by"),
            ("sort_order=up", "sort_order"),
            ("status=running", "status"),
            ("page=1&page=2", "page"),
            ("service_passcode=a&raccoon_passcode=a", "raccoon_passcode"),
            ("executionType[x]=run", "executionType[x]"),
        ] {
            assert_eq!(task_query(query).unwrap_err().field(), Some(field), "{query}");
        }
    }

    #[test]
    fn faults_name_their_parameter() {
        for (query, field) in [
            ("page=0", "page"),
            ("limit=101", "limit"),
            ("limit=ten", "limit"),
            ("sort_by=size", "sort_by"),
            ("sort_order=up", "sort_order"),
            ("status=lost", "status"),
            ("browser_type=opera", "browser_type"),
            ("start_time=-1", "start_time"),
            ("offset=3", "offset"),
            ("limit=1&limit=1", "limit"),
        ] {
            assert_eq!(session_query(query).unwrap_err().field(), Some(field), "{query}");
        }
    }
}
