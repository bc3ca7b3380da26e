//! Query parameters of lists, checked: every fault names its parameter.

use url::form_urlencoded;

use crate::engine::Engine;
use crate::error::Error;
use crate::session::{SessionQuery, SortKey, SortOrder, Status};

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
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match list_name(&name) {
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

/// The bare name of a list parameter that is written `name[]` or `name[0]`.
fn list_name(name: &str) -> &str {
    name.split_once('[').filter(|(_, rest)| rest.ends_with(']')).map_or(name, |(bare, _)| bare)
}

fn number(name: &str, value: &str, least: u64, most: u64) -> Result<u64, Error> {
    let range = match most {
        u64::MAX => format!("of at least {least}"),
        most => format!("from {least} to {most}"),
    };
    let wrong = || Error::field(name, format!("`{name}` must be a whole number {range}"));
    let number: u64 = value.parse().map_err(|_| wrong())?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(wrong()) }
}

fn one_of(name: &str, values: &[&str]) -> Error {
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
        ] {
            assert_eq!(session_query(query).unwrap_err().named_field(), Some(field), "{query}");
        }
    }
}
