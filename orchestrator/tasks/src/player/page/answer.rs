//! What scripts answer, in which a page may have changed anything.

use fantoccini::error::CmdError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ELEMENT;
use crate::script::selector::Selectors;
use crate::script::{FailureCode, StepError};

/// No driver gives an element a longer name, in bytes.
const LONGEST_ID: usize = 256;

/// The driver's reference to an element, of what a script gave. It is kept for each element that is shown, also for those in a frame
/// once more; so it has nothing else that a page may have added.
pub(in crate::player) fn handle(given: &Value) -> Option<Value> {
    let id = given[ELEMENT].as_str().filter(|id| id.len() <= LONGEST_ID)?;
    Some(json!({ELEMENT: id}))
}

/// Names the selectors that an error is about.
pub(crate) fn explain(error: StepError, selectors: &Selectors) -> StepError {
    match error.code {
        FailureCode::NoMatch if error.is_silent() => error.about(&format!("nothing matches {selectors}")),
        FailureCode::NotReady => error.about(&format!("what matches {selectors} cannot be used")),
        FailureCode::InvalidSelector => error.about(&format!("{selectors} cannot be read")),
        _ => error,
    }
}

/// Reads a script's answer: its result or its error.
pub(in crate::player) fn understand<T: DeserializeOwned>(answer: Result<Value, CmdError>) -> Result<T, StepError> {
    #[derive(Deserialize)]
    struct ScriptFailure {
        code: FailureCode,
        message: String,
    }
    let answer = answer?;
    let changed = || StepError::passing(FailureCode::ScriptError, "the page changed a script's answer");
    if let Some(error) = answer.get("fault") {
        let ScriptFailure { code, message } = ScriptFailure::deserialize(error).map_err(|_| changed())?;
        let is_passing = match code {
            FailureCode::InvalidSelector | FailureCode::TooLarge | FailureCode::NotSupported => false,
            FailureCode::NoMatch | FailureCode::NotReady | FailureCode::ScriptError => true,
            // No script gives another one: a page must not say that its browser is gone.
            _ => return Err(changed()),
        };
        return Err(StepError { is_passing, ..StepError::new(code, "").quoting(&message) });
    }
    T::deserialize(answer).map_err(|_| changed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_no_failure_but_those_of_scripts() {
        let failure = |code: &str| {
            understand::<Value>(Ok(json!({"fault": {"code": code, "message": "x".repeat(5000)}}))).unwrap_err()
        };
        for code in ["no_match", "not_ready", "invalid_selector", "not_supported", "too_large", "script_error"] {
            let error = failure(code);
            assert_eq!((error.code.as_str(), error.text().len()), (code, 600));
        }
        for code in ["browser_died", "cancelled", "driver_error", "task_timeout", "refused_by_policy", "nonsense"] {
            let error = failure(code);
            assert_eq!((error.code, error.is_passing), (FailureCode::ScriptError, true), "{code}");
        }
        let error = understand::<Value>(Ok(json!({"fault": 1}))).unwrap_err();
        assert_eq!(error.code, FailureCode::ScriptError);
    }

    #[test]
    fn of_a_handle_the_name_alone_is_kept() {
        assert_eq!(handle(&json!({ELEMENT: "f.1.e.2", "more": "x"})), Some(json!({ELEMENT: "f.1.e.2"})));
        for given in [json!(null), json!("e"), json!({ELEMENT: 1}), json!({ELEMENT: "x".repeat(257)})] {
            assert_eq!(handle(&given), None, "{given}");
        }
    }
}
