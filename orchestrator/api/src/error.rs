//! Calls that failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_core::error::Code;

/// The body of a call that failed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    /// What is wrong.
    pub error: ErrorDetail,
}

/// Why a call failed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    // As text, so that a reader has the message also where a later release has further codes.
    /// The name of a [`Code`].
    #[schemars(with = "Code")]
    pub code: String,
    /// What to do, for people.
    pub message: String,
    /// The field at fault, by its path, or the parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The id under which the daemon's log has the cause.
    pub request_id: String,
}
