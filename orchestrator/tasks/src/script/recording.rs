//! A recording as Chrome DevTools' Recorder exports it.

use std::time::Duration;

use serde_json::Value;

use super::allowance::Allowance;
use super::fields::{join, wrong};
use super::step::{self, Step};
use crate::Error;

/// Steps to play, and how long each may take.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording {
    /// Time for a step that names none.
    pub(crate) timeout: Option<Duration>,
    pub(crate) steps: Vec<Step>,
}

impl Recording {
    /// Reads an export. Members that a later Recorder may add are left alone.
    /// Errors: `Field`.
    pub(crate) fn parse(at: &str, value: &Value, allowance: &mut Allowance) -> Result<Self, Error> {
        if !value.is_object() {
            return Err(wrong(at, "must be a recording: an object with `title` and `steps`"));
        }
        for name in ["title", "selectorAttribute"] {
            if value.get(name).is_some_and(|value| !value.is_string() && !value.is_null()) {
                return Err(wrong(&join(at, name), "must be a string"));
            }
        }
        let timeout = match value.get("timeout") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let field = join(at, "timeout");
                let number = value.as_f64().ok_or_else(|| wrong(&field, "must be a number of milliseconds"))?;
                Some(step::milliseconds(&field, number)?)
            }
        };
        Ok(Self { timeout, steps: Self::steps(&join(at, "steps"), &value["steps"], allowance)? })
    }

    /// Reads steps that stand alone.
    /// Errors: `Field`.
    pub(crate) fn steps(at: &str, value: &Value, allowance: &mut Allowance) -> Result<Vec<Step>, Error> {
        if value.as_array().is_some_and(Vec::is_empty) {
            return Err(wrong(at, "has no step"));
        }
        step::parse_list(at, value, 0, allowance)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use warmpool_core::error::Fault as _;

    use super::*;

    #[test]
    fn an_export_is_read() {
        let export = json!({"title": "Search", "timeout": 5000, "selectorAttribute": "data-testid", "steps": [
            {"type": "setViewport", "width": 1280, "height": 720, "deviceScaleFactor": 1, "isMobile": false,
                "hasTouch": false, "isLandscape": false},
            {"type": "navigate", "url": "http://localhost/", "assertedEvents":
                [{"type": "navigation", "url": "http://localhost/", "title": "Search"}]},
            {"type": "change", "value": "tea", "selectors": [["aria/Search"], ["#q"]], "target": "main"},
            {"type": "keyDown", "target": "main", "key": "Enter"},
            {"type": "keyUp", "key": "Enter", "target": "main"},
        ]});
        let recording = Recording::parse("recording", &export, &mut Allowance::default()).unwrap();
        assert_eq!((recording.timeout, recording.steps.len()), (Some(Duration::from_secs(5)), 5));
    }

    #[test]
    fn errors_name_what_is_no_recording() {
        for (value, field) in [
            (json!([]), "recording"),
            (json!({"title": "x"}), "recording.steps"),
            (json!({"title": 1, "steps": []}), "recording.title"),
            (json!({"title": "x", "steps": []}), "recording.steps"),
            (json!({"title": "x", "timeout": 0, "steps": []}), "recording.timeout"),
            (json!({"title": "x", "timeout": "1", "steps": []}), "recording.timeout"),
        ] {
            let error = Recording::parse("recording", &value, &mut Allowance::default()).unwrap_err();
            assert_eq!(error.field(), Some(field), "{value}");
        }
    }

    #[test]
    fn steps_within_steps_count() {
        let steps = |count: usize| vec![json!({"type": "close"}); count];
        let read = |steps: Vec<Value>| Recording::steps("steps", &json!(steps), &mut Allowance::default());
        let within = |steps: Vec<Value>| {
            let parameters = json!({"selectors": "a", "steps": steps});
            json!({"type": "customStep", "name": "lam:ifExists", "parameters": parameters})
        };
        assert!(read(steps(2000)).is_ok());
        assert_eq!(read(steps(2001)).unwrap_err().field(), Some("steps"));
        assert!(read(vec![within(steps(999)), within(steps(999))]).is_ok());
        let error = read(vec![within(steps(999)), within(steps(1000))]).unwrap_err();
        assert_eq!(error.field(), Some("steps[1].parameters.steps"));
        assert!(error.to_string().contains("2000"), "{error}");
    }

    #[test]
    fn the_regular_expressions_of_all_steps_count() {
        let asserts = |count: usize| {
            let step = json!({"type": "customStep", "name": "lam:assertText", "parameters": {"matches": "\\w+"}});
            Recording::steps("steps", &json!(vec![step; count]), &mut Allowance::default())
        };
        assert!(asserts(128).is_ok());
        assert_eq!(asserts(129).unwrap_err().field(), Some("steps[128].parameters.matches"));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop_oneof![
                Just("click".to_owned()),
                Just("customStep".to_owned()),
                Just("lam:extract".to_owned()),
                Just("lam:ifExists".to_owned()),
                "[a-z{}./]{0,8}"
            ]
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            let name = prop_oneof![
                Just("type".to_owned()),
                Just("selectors".to_owned()),
                Just("parameters".to_owned()),
                Just("name".to_owned()),
                Just("schema".to_owned()),
                Just("steps".to_owned()),
                Just("offsetX".to_owned()),
                Just("timeout".to_owned()),
                "[a-z]{1,3}"
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_json_breaks_the_reader(value in any_json()) {
            let _ = Recording::parse("recording", &value, &mut Allowance::default());
            let _ = Recording::steps("steps", &json!([value]), &mut Allowance::default());
        }
    }
}
