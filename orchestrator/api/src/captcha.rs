//! Challenges that pages of a session show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_protocol::CaptchaKind;

/// Who is to solve a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CaptchaSolver")]
pub enum SolvedBy {
    /// A person in the live view.
    Person,
    /// The configured solver.
    Solver,
}

impl SolvedBy {
    /// The name in JSON and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Solver => "solver",
        }
    }
}

/// A challenge that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingCaptcha {
    /// What it asks for.
    #[schemars(with = "String")]
    pub kind: CaptchaKind,
    /// The address of the document that shows it.
    pub url: String,
    /// When it was found, in Unix milliseconds.
    pub since: u64,
    /// Who is to solve it.
    pub by: SolvedBy,
    /// The tab that it is in, for the live view.
    #[serde(skip)]
    pub page: Option<String>,
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
    /// The name in JSON and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
    /// What it asked for.
    #[schemars(with = "String")]
    pub kind: CaptchaKind,
    /// The address of the document that showed it.
    pub url: String,
    /// When it was found, in Unix milliseconds.
    pub since: u64,
    /// When it ended.
    pub ended_at: u64,
    /// Who was to solve it.
    pub by: SolvedBy,
    /// How it ended.
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
