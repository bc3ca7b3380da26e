//! What a task is to do.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::allowance::Allowance;
use super::failure::{FailureCode, StepError};
use super::fields::{self, wrong};
use super::recording::Recording;
use super::schema::{self, Plan};
use super::selector::Selectors;
use super::step;
use super::template::{self, FillError, Templates, Values};
use crate::Error;
use warmpool_core::error::FieldFault as _;

/// How many pages are read where `next` does not say it.
const DEFAULT_PAGES: u64 = 10;

/// No extraction reads more pages.
const MOST_PAGES: u64 = 1_000;

/// The checked work of a task. It serializes as it was sent, so that the store can keep it.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one for each task, and it is not moved around")]
pub(crate) enum TaskWork {
    /// A recording to play.
    Run(Run),
    /// A page to read.
    Extract(Extract),
}

/// A recording to play.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    source: Value,
    pub(crate) recording: Recording,
}

/// A page to read.
#[derive(Debug, Clone)]
pub(crate) struct Extract {
    source: Value,
    /// The page to open first.
    pub(crate) url: Option<String>,
    /// What to play before it is read.
    pub(crate) recording: Recording,
    /// The element to wait for.
    pub(crate) wait_for: Option<Selectors>,
    /// What to read.
    pub(crate) plan: Plan,
    /// How to go on.
    pub(crate) next: Option<Pagination>,
}

/// How an extraction goes from page to page.
#[derive(Debug, Clone)]
pub(crate) struct Pagination {
    /// What leads to the next page.
    pub(crate) selectors: Selectors,
    /// How many pages are read at most.
    pub(crate) pages: usize,
}

impl TaskWork {
    /// The members of a run's body that say what to do; all others belong to the task around it.
    pub(crate) const RUN_MEMBERS: &'static [&'static str] = &["recording", "steps", "title", "selectorAttribute"];

    /// The members of an extract's body that say what to do; all others belong to the task around it.
    pub(crate) const EXTRACT_MEMBERS: &'static [&'static str] =
        &["url", "recording", "steps", "schema", "rows", "builtins", "next", "wait_for", "validate"];

    /// Reads a run: an object with nothing but [`TaskWork::RUN_MEMBERS`].
    /// Errors: `Field`, by the member's path.
    pub(crate) fn parse_run(body: &Value) -> Result<Run, Error> {
        only(body, Self::RUN_MEMBERS)?;
        let recording = recording(body, &mut Allowance::default())?.ok_or_else(|| {
            wrong("steps", "is missing: send an exported recording as `recording`, or its steps as `steps`")
        })?;
        Ok(Run { source: body.clone(), recording })
    }

    /// Reads an extract: an object with nothing but [`TaskWork::EXTRACT_MEMBERS`].
    /// Errors: `Field`, by the member's path.
    pub(crate) fn parse_extract(body: &Value) -> Result<Extract, Error> {
        only(body, Self::EXTRACT_MEMBERS)?;
        let url = match body.get("url") {
            None | Some(Value::Null) => None,
            Some(Value::String(url)) => Some(step::page("url", url.clone())?),
            Some(_) => return Err(wrong("url", "must be a string")),
        };
        let mut allowance = Allowance::default();
        let recording = recording(body, &mut allowance)?;
        if url.is_none() && recording.is_none() {
            return Err(wrong("url", "is missing: name the page to read, or the `steps` that lead to it"));
        }
        let some = |name: &str| body.get(name).filter(|value| !value.is_null());
        let plan =
            schema::MEMBERS.iter().filter_map(|name| some(name).map(|value| ((*name).to_owned(), value.clone())));
        Ok(Extract {
            source: body.clone(),
            url,
            recording: recording.unwrap_or_default(),
            wait_for: some("wait_for").map(|value| Selectors::parse("wait_for", value)).transpose()?,
            plan: schema::parse("", &Value::Object(plan.collect()), &mut allowance)?,
            next: some("next").map(next).transpose()?,
        })
    }

    /// Every `{{input.name}}` and `{{secret.name}}`.
    pub(crate) fn templates(&self) -> Templates<'_> {
        Templates::of(self.source())
    }

    /// The same work with every template filled, of at most so many bytes.
    pub(crate) fn filled(&self, values: &Values, most: u64) -> Result<Self, StepError> {
        self.templates().fits(values, most).map_err(|error| match error {
            FillError::Missing(slot) => StepError::new(FailureCode::MissingInput, missing(&slot)),
            FillError::TooLong(most) => StepError::new(
                FailureCode::InvalidInput,
                format!("with its inputs filled in, the work is longer than {most} bytes (`tasks.max_body`)"),
            ),
        })?;
        let filled = template::fill(self.source(), values)
            .map_err(|slot| StepError::new(FailureCode::MissingInput, missing(&slot)))?;
        let filled = match self {
            Self::Run(_) => Self::parse_run(&filled).map(Self::Run),
            Self::Extract(_) => Self::parse_extract(&filled).map(Self::Extract),
        };
        filled.map_err(|error| StepError::new(FailureCode::InvalidInput, format!("with its inputs filled in, {error}")))
    }

    const fn source(&self) -> &Value {
        match self {
            Self::Run(run) => &run.source,
            Self::Extract(extract) => &extract.source,
        }
    }
}

fn missing(slot: &template::Placeholder) -> String {
    format!("`{{{{{slot}}}}}` has no value: send it as `{}`", slot.field())
}

/// Refuses members that are not in `known`.
fn only(body: &Value, known: &[&str]) -> Result<(), Error> {
    let Value::Object(members) = body else {
        return Err(wrong("", "must be an object"));
    };
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::none_of(name, known.iter().copied())),
    }
}

/// A whole export, or its steps alone.
fn recording(body: &Value, allowance: &mut Allowance) -> Result<Option<Recording>, Error> {
    let some = |name: &str| body.get(name).filter(|value| !value.is_null());
    match (some("recording"), some("steps")) {
        (Some(_), Some(_)) => Err(wrong("steps", "and `recording` are two recordings: send one")),
        (Some(export), None) => Recording::parse("recording", export, allowance).map(Some),
        (None, Some(steps)) => {
            Ok(Some(Recording { timeout: None, steps: Recording::steps("steps", steps, allowance)? }))
        }
        (None, None) => Ok(None),
    }
}

fn next(value: &Value) -> Result<Pagination, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NextMembers {
        selector: Value,
        pages: Option<u64>,
    }
    let given: NextMembers = match value {
        Value::Object(_) => fields::read("next", value)?,
        selector => NextMembers { selector: selector.clone(), pages: None },
    };
    let pages = given.pages.unwrap_or(DEFAULT_PAGES);
    if !(1..=MOST_PAGES).contains(&pages) {
        return Err(wrong("next.pages", &format!("must be from 1 to {MOST_PAGES}")));
    }
    let selectors = Selectors::parse("next.selector", &given.selector)?;
    Ok(Pagination { selectors, pages: usize::try_from(pages).unwrap_or(usize::MAX) })
}

impl Serialize for TaskWork {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::template::Redactor;
    use super::*;
    use warmpool_core::error::Fault as _;

    #[test]
    fn what_cannot_be_read_is_cut_after_its_secrets_are_hidden() {
        let secrets = json!({"k": "open sesame"}).as_object().cloned().unwrap_or_default();
        let values = Values { inputs: serde_json::Map::new(), secrets };
        let redactor = Redactor::new(&values);
        for before in [494, 1_434] {
            let schema = json!({"type": format!("{}{{{{secret.k}}}}", "x".repeat(before))});
            let body =
                json!({"url": "http://a.test/", "schema": {"a": "h1"}, "validate": {"properties": {"a": schema}}});
            // What is to be filled in is checked once it is.
            let extract = Extract {
                source: body,
                ..TaskWork::parse_extract(&json!({"url": "http://a.test/", "schema": {"a": "h1"}})).unwrap()
            };
            let error = TaskWork::Extract(extract).filled(&values, 10_000).map(drop).unwrap_err();
            let shown = error.hidden(|text| redactor.text(text));
            assert!(shown.contains("is not a JSON Schema") && !shown.contains("xope"), "{shown}");
        }
    }

    #[test]
    fn work_is_kept_as_it_was_sent() {
        let body = json!({"title": "x", "steps": [{"type": "navigate", "url": "{{input.site}}/", "later": true}]});
        let work = TaskWork::Run(TaskWork::parse_run(&body).unwrap());
        assert_eq!(serde_json::to_value(&work).unwrap(), body);
        let body = json!({"url": "http://a.test/", "schema": {"a": "h1"}, "next": ".more"});
        let work = TaskWork::Extract(TaskWork::parse_extract(&body).unwrap());
        assert_eq!(serde_json::to_value(&work).unwrap(), body);
    }

    #[test]
    fn errors_name_the_wrong_member() {
        let steps = json!([{"type": "close"}]);
        for (body, field) in [
            (json!({}), "steps"),
            (json!({"recording": {"title": "x"}}), "recording.steps"),
            (json!({"recording": {"steps": steps}, "steps": steps}), "steps"),
            (json!({"steps": steps, "speed": 1}), "speed"),
            (json!({"steps": [{"type": "dance"}]}), "steps[0].type"),
        ] {
            assert_eq!(TaskWork::parse_run(&body).map(drop).unwrap_err().field(), Some(field), "{body}");
        }
        let schema = json!({"a": "h1"});
        for (body, field) in [
            (json!({"schema": schema}), "url"),
            (json!({"url": "ftp://a", "schema": schema}), "url"),
            (json!({"url": "http://a.test"}), "schema"),
            (json!({"url": "http://a.test", "schema": {"a": {"type": "x"}}}), "schema.a.type"),
            (json!({"url": "http://a.test", "schema": schema, "next": {"selector": "a", "pages": 0}}), "next.pages"),
            (json!({"url": "http://a.test", "schema": schema, "next": {"pages": 1}}), "next"),
            (json!({"url": "http://a.test", "schema": schema, "wait_for": ""}), "wait_for"),
            (json!({"url": "http://a.test", "schema": schema, "speed": 1}), "speed"),
        ] {
            assert_eq!(TaskWork::parse_extract(&body).map(drop).unwrap_err().field(), Some(field), "{body}");
        }
    }

    #[test]
    fn templates_need_values_that_fit() {
        let body = json!({"steps": [{"type": "navigate", "url": "{{input.site}}"}, {"type": "keyDown", "key": "{{secret.k}}"}]});
        let work = TaskWork::Run(TaskWork::parse_run(&body).unwrap());
        let values = |site: Value, key: Value| Values {
            inputs: json!({"site": site}).as_object().cloned().unwrap_or_default(),
            secrets: json!({"k": key}).as_object().cloned().unwrap_or_default(),
        };
        let check = |values: Values| work.templates().check(&values, 1000);
        let error = check(values(json!("http://a.test"), Value::Null)).unwrap_err();
        assert_eq!(error.field(), Some("secrets.k"));
        assert!(check(values(json!("http://a.test"), json!("a"))).is_ok());
        let failure = |values: Values, most: u64| work.filled(&values, most).map(drop).unwrap_err().code;
        assert_eq!(failure(Values::default(), 1000), FailureCode::MissingInput);
        assert_eq!(failure(values(json!("file:///etc/passwd"), json!("a")), 1000), FailureCode::InvalidInput);
        assert_eq!(failure(values(json!("http://a.test"), json!("a")), 10), FailureCode::InvalidInput);
    }
}
