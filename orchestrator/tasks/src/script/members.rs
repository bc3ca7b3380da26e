//! The members of a body that say what a task does, as schemas. `work`, `step` and `schema` read them, and check more than
//! a schema can say.

#![expect(dead_code, reason = "only the schemas of these types are needed")]

use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::schema::Builtin;

/// The members of a run's body that describe its work.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(crate) struct RunMembers {
    /// A recording as the Recorder exports it. Either this or `steps` is needed.
    recording: Option<RecordingMembers>,
    /// Steps without the rest of a recording.
    #[schemars(length(min = 1, max = 2000))]
    steps: Option<Vec<StepMembers>>,
    title: Option<String>,
    selector_attribute: Option<String>,
}

/// The members of an extract's body that describe its work.
#[derive(JsonSchema)]
pub(crate) struct ExtractMembers {
    /// The page to read. Either this, or `recording` or `steps` that lead to one, is needed.
    url: Option<String>,
    /// What to play before the page is read.
    recording: Option<RecordingMembers>,
    /// What to play before the page is read, without the rest of a recording.
    #[schemars(length(min = 1, max = 2000))]
    steps: Option<Vec<StepMembers>>,
    /// The fields of each result by their names: a selector, or an object with `selector`, `type` and more.
    schema: Option<Map<String, Value>>,
    /// The elements of which each gives one result; without it the page gives one.
    rows: Option<SelectorsSchema>,
    /// What every page has, as further fields.
    builtins: Option<Vec<Builtin>>,
    /// What leads to the next page.
    next: Option<NextPage>,
    /// The element to wait for.
    wait_for: Option<SelectorsSchema>,
    /// A JSON Schema that each result must fit.
    validate: Option<SchemaOfResults>,
}

/// A recording as Chrome DevTools' Recorder exports it. Further members are left alone.
#[derive(JsonSchema)]
#[schemars(rename = "Recording", rename_all = "camelCase")]
struct RecordingMembers {
    title: Option<String>,
    selector_attribute: Option<String>,
    /// Time for a step that names none, in milliseconds.
    #[schemars(range(min = 1, max = 30000))]
    timeout: Option<f64>,
    #[schemars(length(min = 1, max = 2000))]
    steps: Vec<StepMembers>,
}

/// One step of a recording. Which members it has depends on its type; members that a later Recorder may add are left alone.
#[derive(JsonSchema)]
#[schemars(rename = "Step", rename_all = "camelCase")]
struct StepMembers {
    r#type: StepType,
    /// Of a custom step: `lam:extract`, `lam:screenshot`, `lam:pdf`, `lam:assertText`, `lam:ifExists`, `lam:upload`,
    /// `lam:waitForDownload` or `lam:sleep`.
    name: Option<String>,
    /// The parameters of a custom step.
    parameters: Option<Map<String, Value>>,
    /// Time for the step, in milliseconds.
    #[schemars(range(min = 1, max = 30000))]
    timeout: Option<f64>,
}

/// What a step does.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
enum StepType {
    Navigate,
    SetViewport,
    Click,
    DoubleClick,
    Hover,
    Change,
    KeyDown,
    KeyUp,
    Scroll,
    EmulateNetworkConditions,
    Close,
    WaitForElement,
    WaitForExpression,
    CustomStep,
}

/// A selector, or a list of alternatives of which each is one selector or a chain of them.
#[derive(JsonSchema)]
#[schemars(rename = "Selectors", untagged)]
enum SelectorsSchema {
    One(String),
    Alternatives(#[schemars(length(min = 1))] Vec<SelectorChain>),
}

/// A selector, or a chain in which each part looks inside what the part before it found.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum SelectorChain {
    One(String),
    Chain(Vec<String>),
}

/// The selector of what leads to the next page, and how many pages are read at most.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum NextPage {
    Selector(SelectorsSchema),
    Pages(NextPages),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NextPages {
    selector: SelectorsSchema,
    #[schemars(range(min = 1, max = 1000), extend("default" = 10))]
    pages: Option<u64>,
}

/// A JSON Schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum SchemaOfResults {
    Object(Map<String, Value>),
    Boolean(bool),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use schemars::schema_for;

    use super::super::work::TaskWork;
    use super::*;

    #[test]
    fn the_members_are_those_that_are_read() {
        for (schema, read) in
            [(schema_for!(RunMembers), TaskWork::RUN_MEMBERS), (schema_for!(ExtractMembers), TaskWork::EXTRACT_MEMBERS)]
        {
            let described: BTreeSet<&str> =
                schema.get("properties").unwrap().as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(described, read.iter().copied().collect());
        }
    }
}
