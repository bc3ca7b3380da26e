//! The body of a request for a key's new secret.

use std::time::Duration;

use axum::body::Body;
use http::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::App;
use super::body;
use crate::http::error::Error;
use warmpool_api::null_is_default;
use warmpool_core::error::FieldFault as _;

/// The longest that a replaced secret may go on working, in seconds.
const MAX_KEEP: u64 = 30 * 86_400;

/// How to change the secret.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RotateIntegrationKey")]
pub(super) struct Rotation {
    /// How long the old secret works on, in seconds.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Option<u64>", range(max = MAX_KEEP))]
    keep_old_for: u64,
}

impl Rotation {
    /// Reads how long the old secret works on.
    pub(super) async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Duration, Error> {
        let (wanted, _text): (Self, _) = body::json(app, headers, body).await?;
        if wanted.keep_old_for > MAX_KEEP {
            return Err(Error::invalid("keep_old_for", format!("must be from 0 to {MAX_KEEP} seconds")));
        }
        Ok(Duration::from_secs(wanted.keep_old_for))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn without_a_time_the_old_secret_ends_at_once() {
        for body in [json!({}), json!({"keep_old_for": null}), json!({"keep_old_for": 0})] {
            assert_eq!(serde_json::from_value::<Rotation>(body).unwrap().keep_old_for, 0);
        }
    }
}
