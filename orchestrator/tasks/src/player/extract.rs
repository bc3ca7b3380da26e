//! Extracts results from pages.
//!
//! One script, the same for all engines, reads the live page. The page's HTML would not do: scripts make much of what people
//! extract, shadow roots contain it, or XPath selects it. The script returns texts in the order of the plan; `assemble` makes
//! objects of them and `convert` gives them their types.

mod alone;
mod assemble;
mod convert;

pub use alone::Extraction;
use assemble::Room;

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::navigation;
use super::page::{DocumentState, Readiness, explain};
use super::playback::{Playback, StepTimeout};
use super::retry::Retry;
use crate::script::schema::{Check, Field, Plan, Shape};
use crate::script::selector::Selectors;
use crate::script::work::Pagination;
use crate::script::{FailureCode, StepError};
use warmpool_core::blocking;
use warmpool_reading::Reading;

/// The function that reads a page.
const FUNCTION: &str = include_str!("extract/extract.js");

/// How much of a page is read, and until when.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Bytes of what is read, and of the results.
    pub bytes: u64,
    /// Elements, where the page's main content is wanted.
    pub elements: usize,
    /// When the results have to be there.
    pub until: Instant,
}

/// The results of one page.
struct ExtractedPage {
    rows: Vec<Value>,
    place: DocumentState,
}

/// Reads as a step of a run.
pub(super) async fn step(
    playback: &mut Playback<'_>,
    plan: &Plan,
    member: Option<&str>,
    timeout: StepTimeout,
) -> Result<(), StepError> {
    let reading = read(playback, plan, timeout, true).await?;
    validate(plan.validate.as_ref(), &reading.rows, timeout.deadline)?;
    playback.pages += 1;
    match (member, plan.rows.is_some()) {
        (None, _) => {
            for row in reading.rows {
                playback.push_output(row)?;
            }
        }
        (Some(member), true) => playback.push_output(json!({member: reading.rows}))?,
        (Some(member), false) => playback.push_output(json!({member: reading.rows.into_iter().next()}))?,
    }
    playback.report_rows();
    Ok(())
}

/// Reads the page that is open, and those that follow.
pub(super) async fn pages(
    playback: &mut Playback<'_>,
    plan: &Plan,
    next: Option<&Pagination>,
) -> Result<(), StepError> {
    let mut visited = Visited::default();
    loop {
        let timeout = StepTimeout::start(playback.limits.step_timeout);
        playback.page()?.set_timeouts(timeout.duration).await?;
        let reading = match read(playback, plan, timeout, playback.pages == 0).await {
            // A last page may well be empty.
            Err(error) if playback.pages > 0 && error.code == FailureCode::NoMatch => break,
            reading => reading?,
        };
        if !visited.read(&reading.place.href) {
            break;
        }
        playback.pages += 1;
        if plan.validate.as_ref().is_some_and(|check| !check.whole) {
            validate(plan.validate.as_ref(), &reading.rows, timeout.deadline)?;
        }
        for row in reading.rows {
            playback.push_output(row)?;
        }
        playback.report_rows();
        match next {
            Some(next) if playback.pages < next.pages => {
                if !turn(playback, &next.selectors, &reading.place, &mut visited).await? {
                    break;
                }
            }
            _ => break,
        }
    }
    match &plan.validate {
        Some(check) if check.whole => {
            let timeout = StepTimeout::start(playback.limits.step_timeout);
            validate(Some(check), &playback.output, timeout.deadline)
        }
        _ => Ok(()),
    }
}

/// The addresses of an extraction's pages. A link to a page behind the last one may lead back to one that was read.
#[derive(Debug, Default)]
struct Visited {
    /// Those that were read, and those that links asked for.
    seen: HashSet<String>,
    /// Where the last link led, until that page is read.
    led_to: Option<String>,
}

impl Visited {
    /// A link to `asked` has led to `here`. Returns whether that page was not read before.
    fn follow(&mut self, asked: String, here: String) -> bool {
        let is_new = !self.seen.contains(&here);
        self.seen.insert(asked);
        self.led_to = Some(here);
        is_new
    }

    /// A page was read at `here`. Returns false where a link led there by way of another page, and it was read before. Behind a button,
    /// another page may have the same address.
    fn read(&mut self, here: &str) -> bool {
        let led_to = self.led_to.take();
        self.seen.insert(here.to_owned()) || led_to.is_none_or(|led_to| led_to == here)
    }
}

/// Goes to the next page. Returns false when no unread page is left.
async fn turn(
    playback: &mut Playback<'_>,
    selectors: &Selectors,
    here: &DocumentState,
    visited: &mut Visited,
) -> Result<bool, StepError> {
    #[derive(Deserialize)]
    struct NextPage {
        href: Option<String>,
        click: bool,
    }
    let navigation = StepTimeout::start(playback.limits.navigation_timeout);
    let page = playback.page()?;
    let next: NextPage =
        page.call("next_page", vec![json!(selectors)]).await.map_err(|error| explain(error, selectors))?;
    match next.href {
        Some(href) if visited.seen.contains(&href) => Ok(false),
        Some(href) => {
            page.set_timeouts(navigation.duration).await?;
            navigation::open(page, &href).await?;
            // A page that cannot be asked yet is asked again when it is read.
            let here = page.document_state().await.map_or_else(|_| href.clone(), |state| state.href);
            Ok(visited.follow(href, here))
        }
        None if !next.click => Ok(false),
        None => {
            // A button: whatever it does, the page shows something else afterwards, or is at its end.
            let before: String = page.script("", "return page.text_of(document.body);", Vec::new()).await?;
            let timeout = StepTimeout::start(playback.limits.step_timeout);
            let page = playback.page()?;
            let found = match page.find(selectors, Readiness::Enabled, None, timeout.deadline).await {
                Err(error) if matches!(error.code, FailureCode::NotReady | FailureCode::NoMatch) => return Ok(false),
                found => found?,
            };
            found.element.click().await?;
            let mut retry = Retry::until(timeout.deadline);
            let changed = loop {
                let attempt = async {
                    let now = page.document_state().await?;
                    let text: String = page.script("", "return page.text_of(document.body);", Vec::new()).await?;
                    if now.ready == "complete" && (now.differs_from(here) || text != before) {
                        return Ok(());
                    }
                    Err(StepError::passing(FailureCode::Timeout, "the next page did not come"))
                };
                if let Some(result) = retry.attempt(attempt).await {
                    break result;
                }
            };
            match changed {
                Err(error) if error.code == FailureCode::Timeout => Ok(false),
                other => other.map(|()| true),
            }
        }
    }
}

/// Reads the page by a plan, and waits until it has content.
async fn read(
    playback: &mut Playback<'_>,
    plan: &Plan,
    timeout: StepTimeout,
    must_match: bool,
) -> Result<ExtractedPage, StepError> {
    let (bytes, elements) = (playback.output_left(), playback.limits.max_elements);
    let limit = Limit { bytes, elements, until: timeout.deadline };
    let request = plan_json(plan);
    let mut retry = Retry::until(timeout.deadline);
    let result = loop {
        let page = playback.page()?;
        if let Some(result) = retry.attempt(read_now(page, plan, &request, limit)).await {
            break result;
        }
    };
    match result {
        Err(error) if error.code == FailureCode::TooLarge => Err(playback.output_too_large()),
        Err(error) if error.code == FailureCode::NoMatch && must_match => Err(error),
        other => other,
    }
}

async fn read_now(
    page: &super::page::Page,
    plan: &Plan,
    request: &Value,
    limit: Limit,
) -> Result<ExtractedPage, StepError> {
    let arguments = vec![request.clone(), json!(limit.bytes)];
    let answer: Answer = page.script(FUNCTION, "return extract(...arguments);", arguments).await?;
    page.check_came(&answer.r#where).await?;
    results(plan, answer, limit).await
}

/// What the script answers.
#[derive(Deserialize)]
struct Answer {
    rows: Vec<Vec<Value>>,
    matched: usize,
    r#where: DocumentState,
}

/// The results, of what the script answered.
async fn results(plan: &Plan, mut answer: Answer, limit: Limit) -> Result<ExtractedPage, StepError> {
    if answer.matched == 0 && has_selectors(plan) {
        let what = match &plan.rows {
            Some(rows) => format!("nothing matches `rows`, which is {rows}, on `{}`", answer.r#where.href),
            None => format!("none of the schema's selectors matches anything on `{}`", answer.r#where.href),
        };
        return Err(StepError::passing(FailureCode::NoMatch, what));
    }
    for (at, _) in plan.fields.iter().enumerate().filter(|(_, (_, field))| field.is_article()) {
        for html in answer.rows.iter_mut().filter_map(|row| row.get_mut(at)) {
            *html = article(html.take(), &answer.r#where.href, limit.elements).await?;
        }
    }
    let mut room = Room::new(limit);
    let rows = answer.rows.iter().map(|row| assemble::object(&plan.fields, row, &mut room).map(Value::Object));
    let rows = blocking::in_place(|| rows.collect::<Result<Vec<Value>, _>>())?;
    Ok(ExtractedPage { rows, place: answer.r#where })
}

/// The main content of a page, which is here as HTML.
async fn article(html: Value, url: &str, most: usize) -> Result<Value, StepError> {
    let Value::String(html) = html else { return Ok(Value::Null) };
    let failed = |message: String| StepError::new(FailureCode::InvalidResult, message);
    let reading = Reading::of_html(html, url.to_owned(), most).await.map_err(|error| failed(error.to_string()))?;
    serde_json::to_value(reading).map_err(|error| failed(error.to_string()))
}

fn has_selectors(plan: &Plan) -> bool {
    plan.rows.is_some() || plan.fields.iter().any(|(_, field)| field.selectors.is_some())
}

/// The plan as the script reads it.
fn plan_json(plan: &Plan) -> Value {
    json!({"rows": plan.rows, "fields": fields_json(&plan.fields)})
}

fn fields_json(fields: &[(String, Field)]) -> Vec<Value> {
    fields.iter().map(|(_, field)| field_json(field)).collect()
}

fn field_json(field: &Field) -> Value {
    let mut json = match &field.shape {
        Shape::Value(source, _) => json!({"kind": "value", "source": source}),
        Shape::List(item) => json!({"kind": "list", "item": field_json(item)}),
        Shape::Table { .. } => json!({"kind": "table"}),
        Shape::Nested(fields) => json!({"kind": "nested", "fields": fields_json(fields)}),
        Shape::Builtin(builtin) => json!({"kind": "builtin", "builtin": builtin}),
    };
    json["selectors"] = json!(field.selectors);
    json
}

/// Checks results against a JSON Schema.
/// Errors: `InvalidResult`, `Timeout`.
fn validate(check: Option<&Check>, rows: &[Value], until: Instant) -> Result<(), StepError> {
    let Some(check) = check else { return Ok(()) };
    let complain = |number: Option<usize>, value: &Value| {
        if check.validator.is_valid(value) {
            return Ok(());
        }
        let which = number.map_or_else(|| "the output".to_owned(), |number| format!("result {number}"));
        let message = format!("{which} does not fit `validate`");
        // Where a schema refers to itself, the library remembers what is valid, but not while it looks for an error: that would take
        // twice as long with each level of the value. Asked for its errors, it finds all of them first.
        if !check.refers_to_itself
            && let Err(error) = check.validator.validate(value)
        {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!(" at `{place}`") };
            let invalid = StepError::new(FailureCode::InvalidResult, format!("{message}{place}"));
            return Err(invalid.quoting(&error.to_string()));
        }
        Err(StepError::new(FailureCode::InvalidResult, message))
    };
    blocking::in_place(|| {
        if check.whole {
            return complain(None, &Value::Array(rows.to_vec()));
        }
        rows.iter().enumerate().try_for_each(|(number, row)| {
            // The first one was read in time.
            if number > 0 && Instant::now() >= until {
                let message = "the results were not checked in time: `validate` takes too long on them";
                return Err(StepError::new(FailureCode::Timeout, message));
            }
            complain(Some(number), row)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::script::schema;
    use crate::script::template::Redactor;
    use crate::script::{Allowance, Values};

    fn plan(validate: Value) -> Plan {
        let plan = json!({"schema": {"a": "h1"}, "validate": validate});
        schema::parse("", &plan, &mut Allowance::default()).unwrap()
    }

    /// Checks results, and has the time for it.
    fn validate(check: Option<&Check>, rows: &[Value]) -> Result<(), StepError> {
        super::validate(check, rows, Instant::now() + Duration::from_secs(600))
    }

    #[test]
    fn links_that_lead_back_end_an_extraction() {
        let mut visited = Visited::default();
        let mut follow = |asked: &str, led_to: &str, here: &str| {
            visited.follow(asked.to_owned(), led_to.to_owned()) && visited.read(here)
        };
        assert!(follow("?page=1", "?page=1", "?page=1"));
        assert!(follow("?page=2", "?page=two", "?page=two"), "a redirect to a page that was not read");
        assert!(!follow("?page=3", "?page=two", "?page=two"), "a server leads back");
        assert!(!follow("?page=4", "?page=4", "?page=1"), "a script leads back");
        assert!(
            ["?page=2", "?page=3", "?page=4"].iter().all(|asked| visited.seen.contains(*asked)),
            "nothing is asked for twice"
        );
        assert!(visited.read("?page=two") && visited.read("?page=two"), "a button leads to more at the same address");
    }

    #[test]
    fn a_check_of_many_results_ends_with_its_time() {
        let plan = plan(json!({"properties": {"a": {"type": "string"}}}));
        let late = |rows: &[Value]| super::validate(plan.validate.as_ref(), rows, Instant::now());
        let row = json!({"a": "x"});
        assert!(late(std::slice::from_ref(&row)).is_ok(), "it came in time");
        assert_eq!(late(&[row.clone(), row]).unwrap_err().code, FailureCode::Timeout);
    }

    #[test]
    fn results_are_checked_one_by_one_or_together() {
        let rows = [json!({"a": "x"}), json!({"a": 3})];
        let each = plan(json!({"properties": {"a": {"type": "string"}}}));
        let error = validate(each.validate.as_ref(), &rows).unwrap_err();
        assert_eq!(error.code, FailureCode::InvalidResult);
        assert!(error.message.starts_with("result 1 does not fit `validate` at `/a`"), "{}", error.message);
        let all = plan(json!({"type": "array", "minItems": 3}));
        assert!(validate(all.validate.as_ref(), &rows).is_err());
        assert!(validate(plan(json!({"type": "array", "minItems": 2})).validate.as_ref(), &rows).is_ok());
    }

    #[test]
    fn what_does_not_fit_is_quoted_without_its_secrets() {
        let secrets = serde_json::Map::from_iter([("word".to_owned(), json!("say \"sesame\""))]);
        let redactor = Redactor::new(&Values { inputs: serde_json::Map::new(), secrets });
        let plan = plan(json!({"properties": {"a": {"type": "number"}}}));
        for before in ["", &"x".repeat(590)] {
            let rows = [json!({"a": format!("{before}say \"sesame\"")})];
            let shown = validate(plan.validate.as_ref(), &rows).unwrap_err().hidden(|text| redactor.text(text));
            assert!(shown.contains("[secr") && !shown.contains("say"), "{shown}");
        }
    }

    #[test]
    fn patterns_of_a_json_schema_cannot_explode() {
        let plan = plan(json!({"properties": {"a": {"pattern": "^(a+)+$"}}}));
        let row = json!({"a": "a".repeat(50_000) + "!"});
        assert!(validate(plan.validate.as_ref(), &[row]).is_err());
    }

    #[test]
    fn a_schema_that_refers_to_itself_takes_no_longer_with_each_level() {
        let both = json!({"additionalProperties": {"$ref": "#"}});
        let plan = plan(json!({"allOf": [both, both], "not": {"const": 2}}));
        let nested = |inner: i32| (0..100).fold(json!(inner), |value, _| json!({"a": value}));
        assert!(validate(plan.validate.as_ref(), &[nested(1)]).is_ok());
        let error = validate(plan.validate.as_ref(), &[nested(2)]).unwrap_err();
        assert_eq!(error.message, "result 0 does not fit `validate`");
    }
}
