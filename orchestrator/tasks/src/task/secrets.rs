//! What a task is given that no record, log or answer holds: the values of its secrets, and what its browser begins with.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use warmpool_protocol::StorageState;

use crate::Error;
use warmpool_api::{Members, Object};
use warmpool_core::error::{FieldFault as _, ServiceFault as _};
use warmpool_sessions::session::GivenState;

/// The most bytes that the values of secrets may have as JSON.
const MAX_VALUES: usize = 32 << 10;
/// The most bytes that a state may have as JSON.
const MAX_STATE: usize = 64 << 10;
/// The most bytes that both may have encrypted, with what stands around them.
pub(super) const MAX_STORED: usize = MAX_VALUES + MAX_STATE + (1 << 10);

/// What a task is given and nobody is shown. It prints as a placeholder.
#[derive(Clone, Default)]
pub struct TaskSecrets {
    /// The values of `{{secret.name}}`.
    pub(super) values: Map<String, Value>,
    /// What its browser begins with.
    pub(super) state: Option<GivenState>,
}

impl fmt::Debug for TaskSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskSecrets(..)")
    }
}

/// As the store has them, before they are encrypted.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    values: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<StorageState>,
}

impl TaskSecrets {
    /// Checks what a client has sent.
    /// Errors: `Field`.
    pub(super) fn check(values: Option<Members>, state: Option<Object<StorageState>>) -> Result<Self, Error> {
        let values = values.map(|members| members.0).unwrap_or_default();
        // Nothing of their content may get into a message.
        if let Some((name, _)) = values.iter().find(|(_, value)| !value.is_string()) {
            return Err(Error::invalid(format!("secrets.{name}"), "must be a string"));
        }
        if length(&values) > MAX_VALUES {
            return Err(Error::invalid("secrets", format!("may have {MAX_VALUES} bytes as JSON at most")));
        }
        let state = state.map(|Object(state)| state);
        if state.as_ref().is_some_and(|state| length(state) > MAX_STATE) {
            let problem = format!("may have {MAX_STATE} bytes as JSON in a task: keep a larger one in a profile");
            return Err(Error::invalid("state", problem));
        }
        let state = state.map(GivenState::new).transpose()?;
        Ok(Self { values, state })
    }

    /// Whether there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.state.is_none()
    }

    /// As JSON.
    pub(super) fn to_json(&self) -> Result<Vec<u8>, Error> {
        let state = self.state.clone().map(GivenState::into_state);
        serde_json::to_vec(&Stored { values: self.values.clone(), state }).map_err(Error::internal)
    }

    /// Reads them from JSON. An earlier release has kept the values alone.
    pub(super) fn from_json(text: &[u8]) -> Result<Self, Error> {
        let stored = serde_json::from_slice(text)
            .or_else(|_| serde_json::from_slice(text).map(|values| Stored { values, state: None }));
        let Stored { values, state } = stored.map_err(|_| Error::internal("the secrets of a task cannot be read"))?;
        Ok(Self { values, state: state.map(GivenState::new).transpose()? })
    }
}

fn length(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use warmpool_core::error::Fault as _;

    fn state(value: &str) -> Object<StorageState> {
        let cookie = json!({"name": "login", "value": value, "domain": "shop.example", "path": "/"});
        Object(serde_json::from_value(json!({"cookies": [cookie]})).unwrap())
    }

    #[test]
    fn come_back_from_json() {
        let values = json!({"pin": "1234"}).as_object().unwrap().clone();
        let secrets = TaskSecrets::check(Some(Members(values.clone())), Some(state("ann"))).unwrap();
        let read = TaskSecrets::from_json(&secrets.to_json().unwrap()).unwrap();
        assert_eq!((read.values, read.state), (secrets.values, secrets.state));
        let earlier = TaskSecrets::from_json(&serde_json::to_vec(&values).unwrap()).unwrap();
        assert_eq!((earlier.values, earlier.state), (values, None));
        assert!(TaskSecrets::from_json(b"[]").is_err());
    }

    #[test]
    fn are_bounded_and_not_printed() {
        let error = TaskSecrets::check(None, Some(state(&"x".repeat(MAX_STATE)))).unwrap_err();
        assert_eq!(error.field(), Some("state"));
        assert!(!format!("{:?}", TaskSecrets::check(None, Some(state("ann"))).unwrap()).contains("ann"));
    }
}
