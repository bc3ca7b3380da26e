//! Query parameters of lists, checked: every fault names its parameter.

use url::form_urlencoded;

use crate::engine::Engine;
use crate::error::Error;
use crate::session::{SessionQuery, SortKey, SortOrder, Status};
use crate::task::{Kind as TaskKind, SortKey as TaskSortKey, TaskQuery};

/// Parses the query of `GET /sessions`.
pub(super) fn session_query(query: &str) -> Result<SessionQuery, Error> {
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
    let mut once = Once::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let bare = list_name(&name);
        if !matches!(bare, "status" | "browser_type") {
            once.check(&name)?;
        }
        match bare {
            "start_time" => parsed.start_time = Some(number(&name, &value, 0, u64::MAX)?),
            "end_time" => parsed.end_time = Some(number(&name, &value, 0, u64::MAX)?),
            "session_id" => parsed.session_id = Some(value.into_owned()),
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
            "sort_order" => {
                parsed.sort_order = match &*value {
                    "ascend" => SortOrder::Ascend,
                    "descend" => SortOrder::Descend,
                    _ => return Err(one_of(&name, &["ascend", "descend"])),
                };
            }
            _ => {
                return Err(Error::UnknownField {
                    field: name.into_owned(),
                    message: "expected start_time, end_time, session_id, status, browser_type, service_passcode, \
                              page, limit, sort_by or sort_order"
                        .to_owned(),
                });
            }
        }
    }
    Ok(parsed)
}

/// Parses the query of `GET /lam/tasks`.
pub(super) fn task_query(query: &str) -> Result<TaskQuery, Error> {
    let mut parsed = TaskQuery::default();
    let mut once = Once::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let bare = list_name(&name);
        if bare != "executionType" {
            once.check(&name)?;
        }
        match bare {
            "executionType" => {
                let kind = value.parse().ok();
                parsed.kinds.push(kind.ok_or_else(|| one_of(&name, TaskKind::ALL.map(TaskKind::as_str).as_slice()))?);
            }
            // The others are no lists.
            _ if bare != name => return Err(unknown_task_parameter(&name)),
            "start_time" => parsed.start_time = Some(number(&name, &value, 0, u64::MAX)?),
            "end_time" => parsed.end_time = Some(number(&name, &value, 0, u64::MAX)?),
            "task_id" => parsed.task_id = Some(value.into_owned()),
            "service_passcode" | "raccoon_passcode" => parsed.service_passcode = Some(value.into_owned()),
            "page" => parsed.page = number(&name, &value, 1, u64::MAX)?,
            "limit" => parsed.limit = number(&name, &value, 1, 100)?,
            "sort_by" => {
                let key = TaskSortKey::ALL.into_iter().find(|key| key.as_str() == value);
                parsed.sort_by =
                    key.ok_or_else(|| one_of(&name, TaskSortKey::ALL.map(TaskSortKey::as_str).as_slice()))?;
            }
            "sort_order" => {
                parsed.sort_order = match &*value {
                    "ascend" => SortOrder::Ascend,
                    "descend" => SortOrder::Descend,
                    _ => return Err(one_of(&name, &["ascend", "descend"])),
                };
            }
            _ => return Err(unknown_task_parameter(&name)),
        }
    }
    Ok(parsed)
}

fn unknown_task_parameter(name: &str) -> Error {
    Error::UnknownField {
        field: name.to_owned(),
        message: "expected start_time, end_time, task_id, page, limit, executionType[], sort_by, sort_order or \
                  service_passcode"
            .to_owned(),
    }
}

/// The bare name of a list parameter that is written `name[]` or `name[0]`.
fn list_name(name: &str) -> &str {
    let is_index = |index: &str| index.bytes().all(|byte| byte.is_ascii_digit());
    let list = name.split_once('[').filter(|(_, rest)| rest.strip_suffix(']').is_some_and(is_index));
    list.map_or(name, |(bare, _)| bare)
}

/// The parameters that were there, each of which may be there once: of two values one would be passed over in silence.
#[derive(Default)]
struct Once(Vec<String>);

impl Once {
    fn check(&mut self, name: &str) -> Result<(), Error> {
        // Two names of one filter.
        let filter = if name == "raccoon_passcode" { "service_passcode" } else { name };
        if self.0.iter().any(|seen| seen == filter) {
            return Err(Error::field(name, format!("`{name}` is given twice: send one value")));
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
    let wrong = || Error::field(name, format!("`{name}` must be a whole number {range}"));
    let number: u64 = value.parse().map_err(|_| wrong())?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(wrong()) }
}

pub(super) fn one_of(name: &str, values: &[&str]) -> Error {
    Error::field(name, format!("`{name}` must be one of {}", values.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_contract() {
        let query = session_query("").unwrap();
        assert_eq!((query.page, query.limit), (1, 10));
        assert_eq!((query.sort_by, query.sort_order), (SortKey::Timestamp, SortOrder::Descend));
    }

    #[test]
    fn lists_may_be_repeated_or_indexed() {
        let query = session_query("status=running&status[]=failure&status%5B1%5D=completed").unwrap();
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
            assert_eq!(task_query(query).unwrap().kinds, [TaskKind::Run, TaskKind::Extract], "{query}");
        }
    }

    #[test]
    fn a_task_query_has_the_contracts_defaults_and_bounds() {
        assert_eq!(task_query("").unwrap(), TaskQuery::default());
        let defaults = TaskQuery::default();
        assert_eq!((defaults.page, defaults.limit, defaults.sort_order), (1, 10, SortOrder::Descend));
        assert_eq!(task_query("page=1&limit=100&start_time=0").unwrap().limit, 100);
        for name in ["service_passcode", "raccoon_passcode"] {
            assert_eq!(task_query(&format!("{name}=ann")).unwrap().service_passcode.as_deref(), Some("ann"));
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
            assert_eq!(task_query(query).unwrap_err().named_field(), Some(field), "{query}");
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
            assert_eq!(session_query(query).unwrap_err().named_field(), Some(field), "{query}");
        }
    }
}
