//! What a call says that brings its own code.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Error;
use warmpool_core::error::FieldFault as _;

/// The code of a call, and what it is given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["code"]))]
pub struct CodeBody {
    /// An ECMAScript module. Its default export is a function, which gets `{page, context}`: a page of Puppeteer's, and `context`
    /// of this body.
    #[serde(default)]
    code: String,
    /// What the function gets as `context`.
    #[serde(default)]
    context: Option<Map<String, Value>>,
}

impl CodeBody {
    /// The body of a client that sends the code alone.
    #[must_use]
    pub const fn of_script(code: String) -> Self {
        Self { code, context: None }
    }

    /// The code and its context.
    /// Errors: `Field`.
    pub(crate) fn checked(self) -> Result<(String, Map<String, Value>), Error> {
        if self.code.trim().is_empty() {
            return Err(Error::invalid("code", "is needed: a module whose default export is a function"));
        }
        Ok((self.code, self.context.unwrap_or_default()))
    }
}
