//! What a session's record keeps about its challenges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_protocol::{Captcha, CaptchaKind};

use warmpool_config::CaptchaMode;

/// Challenges that a session's record lists.
const MAX_LISTED: usize = 32;

/// Who is to solve a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CaptchaSolver")]
pub enum SolvedBy {
    Person,
    Solver,
}

impl SolvedBy {
    pub(super) const fn of(mode: CaptchaMode) -> Self {
        match mode {
            CaptchaMode::Solver => Self::Solver,
            CaptchaMode::Person | CaptchaMode::Off => Self::Person,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Solver => "solver",
        }
    }
}

/// A challenge that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WaitingCaptcha {
    #[schemars(with = "String")]
    pub kind: CaptchaKind,
    /// The address of the document that shows it.
    pub url: String,
    /// When it was found, in Unix milliseconds.
    pub since: u64,
    pub by: SolvedBy,
    /// The tab that it is in, for the live view.
    #[serde(skip)]
    pub page: Option<String>,
}

impl WaitingCaptcha {
    pub(super) fn new(captcha: &Captcha, by: SolvedBy) -> Self {
        let Captcha { kind, url, since, page, .. } = captcha.clone();
        Self { kind, url, since, by, page }
    }
}

/// How a challenge ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CaptchaOutcome")]
pub enum Outcome {
    /// The page has its answer.
    Solved,
    /// Its page went away first.
    Gone,
    /// The person gave it up, or did not come in time.
    GivenUp,
    /// There was no answer; `error` says why.
    Failed,
}

impl Outcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::Gone => "gone",
            Self::GivenUp => "given_up",
            Self::Failed => "failed",
        }
    }
}

/// A challenge that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaptchaRecord {
    #[schemars(with = "String")]
    pub kind: CaptchaKind,
    /// The address of the document that showed it.
    pub url: String,
    /// When it was found, in Unix milliseconds.
    pub since: u64,
    /// When it ended.
    pub ended_at: u64,
    pub by: SolvedBy,
    pub outcome: Outcome,
    /// The short name of what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The cost that the solver reports, in the solver's currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// Sound because a cost is never NaN.
impl Eq for CaptchaRecord {}

/// The challenges of a session that are over.
#[derive(Debug, Default)]
pub(super) struct History {
    records: Vec<CaptchaRecord>,
    /// How many were given to a solver, including the listed ones of an earlier process.
    count: usize,
}

impl History {
    /// Continues from the record of an earlier process.
    pub(super) const fn new(records: Vec<CaptchaRecord>) -> Self {
        let count = records.len();
        Self { records, count }
    }

    /// How many there have been.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, record: CaptchaRecord) {
        self.count += 1;
        if self.records.len() == MAX_LISTED {
            self.records.remove(0);
        }
        self.records.push(record);
    }

    pub(super) fn records(&self) -> Vec<CaptchaRecord> {
        self.records.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_the_count_is_not() {
        let record = |since| CaptchaRecord {
            kind: CaptchaKind::Image,
            url: "http://a.example/".to_owned(),
            since,
            ended_at: since + 1,
            by: SolvedBy::Solver,
            outcome: Outcome::Failed,
            error: Some("solver_key".to_owned()),
            cost: None,
        };
        let mut history = History::new(vec![record(0)]);
        (1..100).for_each(|since| history.add(record(since)));
        assert_eq!((history.count(), history.records().len()), (100, MAX_LISTED));
        assert_eq!(history.records().last().unwrap().since, 99);
        let json = serde_json::to_value(record(0)).unwrap();
        assert_eq!((&json["by"], &json["outcome"]), (&"solver".into(), &"failed".into()));
    }
}
