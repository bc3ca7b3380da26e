//! An extraction without a task: for somebody who has a page open, and reads it by the same language.

use serde_json::{Value, json};

use super::super::page::{FUNCTIONS, Page, understand};
use super::{FUNCTION, Limit, plan_json, read_now, results};
use crate::Error;
use crate::script::schema::{self, Plan};
use crate::script::template::Templates;
use crate::script::{Allowance, FailureCode, StepError};
use warmpool_api::Members;
use warmpool_core::error::FieldFault as _;

/// What is read of a page, checked.
#[derive(Debug)]
pub struct Extraction(Plan);

impl Extraction {
    /// Reads `schema`, `rows`, `builtins` and `validate`, as an extraction has them.
    /// Errors: `Field`, named below `at`.
    pub fn parse(at: &str, members: Members) -> Result<Self, Error> {
        let given = Value::Object(members.0);
        if let Some(slot) = Templates::of(&given).slot() {
            return Err(Error::invalid(at, format!("has the template `{slot}`, and no inputs: only tasks have them")));
        }
        schema::parse(at, &given, &mut Allowance::default()).map(Self)
    }

    /// The function that reads the page, in JavaScript.
    #[must_use]
    pub fn function() -> String {
        format!("function (plan, limit) {{\n{FUNCTIONS}\n{FUNCTION}\nreturn extract(plan, limit);\n}}")
    }

    /// What that function takes; `limit` is the most bytes that are read.
    #[must_use]
    pub fn arguments(&self, limit: u64) -> Vec<Value> {
        vec![plan_json(&self.0), json!(limit)]
    }

    /// The data, of what the function answered: an object, or one for each of `rows`.
    /// Errors: what is wrong, in words.
    pub async fn data(&self, answer: Value, limit: Limit) -> Result<Value, String> {
        let said = |error: StepError| match error.code {
            FailureCode::TooLarge => "the page has more than the answer may have".to_owned(),
            _ => error.text(),
        };
        let answer = understand(Ok(answer)).map_err(said)?;
        let rows = results(&self.0, answer, limit).await.map_err(said)?.rows;
        self.checked(rows, limit).map_err(said)
    }

    /// The data of the page as it is now.
    pub(in crate::player) async fn read(&self, page: &Page, limit: Limit) -> Result<Value, StepError> {
        self.checked(read_now(page, &self.0, &plan_json(&self.0), limit).await?.rows, limit)
    }

    fn checked(&self, mut rows: Vec<Value>, limit: Limit) -> Result<Value, StepError> {
        super::validate(self.0.validate.as_ref(), &rows, limit.until)?;
        Ok(if self.0.rows.is_some() { Value::Array(rows) } else { rows.pop().unwrap_or_default() })
    }
}
