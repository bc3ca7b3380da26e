//! Webhooks as clients read of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What verifies the messages that a key's sessions and tasks send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookSecret {
    /// The secret of the key: `whsec_` and base64. It is the same for as long as the key has its id.
    pub secret: String,
}
