//! Waits for elements to be, or not to be, in the page.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::super::page::{Found, Page, Readiness, explain};
use super::super::playback::StepTimeout;
use super::super::retry::Retry;
use crate::script::selector::Selectors;
use crate::script::step::{Assertion, WaitForElement};
use crate::script::{FailureCode, StepError};

/// Waits until an element is there.
pub(crate) async fn for_element(page: &Page, selectors: &Selectors, timeout: StepTimeout) -> Result<Found, StepError> {
    page.find(selectors, Readiness::Present, None, timeout.deadline).await
}

/// Whether an element is there now.
pub(super) async fn is_there(page: &Page, selectors: &Selectors) -> Result<(), StepError> {
    #[derive(Deserialize)]
    struct Existence {
        found: usize,
    }
    let answer: Existence =
        page.call("exists", vec![json!(selectors)]).await.map_err(|error| explain(error, selectors))?;
    if answer.found > 0 { Ok(()) } else { Err(explain(StepError::passing(FailureCode::NoMatch, ""), selectors)) }
}

/// Waits until as many elements are there as the step says.
pub(super) async fn for_elements(page: &Page, wait: &WaitForElement, timeout: StepTimeout) -> Result<(), StepError> {
    #[derive(Deserialize)]
    struct Comparison {
        holds: bool,
        found: usize,
    }
    let condition = json!({
        "operator": wait.operator.as_str(),
        "count": wait.count,
        "visible": wait.visible,
        "properties": wait.properties,
        "attributes": wait.attributes,
    });
    let mut retry = Retry::until(timeout.deadline);
    loop {
        let attempt = async {
            let answer = page.call("compares", vec![json!(wait.selectors), condition.clone()]).await;
            let answer: Comparison = answer.map_err(|error| explain(error, &wait.selectors))?;
            if answer.holds {
                return Ok(());
            }
            let not = if wait.visible { "" } else { "not " };
            let what = format!(
                "{} elements match {}, and the step waits until it is {not}{} {}{}",
                answer.found,
                wait.selectors,
                wait.operator.as_str(),
                wait.count,
                if wait.properties.is_empty() && wait.attributes.is_empty() {
                    ""
                } else {
                    " with what it says of them"
                },
            );
            let code = if answer.found == 0 && wait.visible { FailureCode::NoMatch } else { FailureCode::Timeout };
            Err(StepError::passing(code, what))
        };
        if let Some(result) = retry.attempt(attempt).await {
            return result;
        }
    }
}

/// Waits until an expression, or what it promises, is true. One that throws is tried again: what it looks for may be
/// on its way.
pub(super) async fn for_expression(page: &Page, expression: &str, timeout: StepTimeout) -> Result<(), StepError> {
    #[derive(Deserialize)]
    struct Evaluation {
        holds: bool,
        error: Option<String>,
    }
    let script = format!(
        "const done = arguments[arguments.length - 1];\
         Promise.resolve().then(() => (\n{expression}\n)).then((value) => done({{ holds: Boolean(value) }}), \
         (error) => done({{ holds: false, error: String(error).slice(0, 300) }}));"
    );
    let mut retry = Retry::until(timeout.deadline);
    loop {
        let attempt = async {
            let answer = page.client.execute_async(&script, Vec::new()).await;
            let answer = answer.map_err(|error| match StepError::from(error) {
                error if error.code == FailureCode::ScriptError => error.about("the expression cannot be run"),
                error => error,
            })?;
            // Firefox answers with nothing where the page left in the middle.
            let left =
                |_| StepError::passing(FailureCode::ScriptError, "the page left while the expression was looked at");
            let answer = Evaluation::deserialize(answer).map_err(left)?;
            match (answer.holds, answer.error) {
                (true, _) => Ok(()),
                (false, Some(error)) => {
                    Err(StepError::passing(FailureCode::ScriptError, format!("the expression threw {error}")))
                }
                (false, None) => {
                    Err(StepError::passing(FailureCode::Timeout, "the expression did not become true in time"))
                }
            }
        };
        if let Some(result) = retry.attempt(attempt).await {
            return result;
        }
    }
}

/// Waits until a text matches.
pub(super) async fn for_text(
    page: &Page,
    selectors: Option<&Selectors>,
    assertion: &Assertion,
    timeout: StepTimeout,
) -> Result<(), StepError> {
    #[derive(Deserialize)]
    struct Texts {
        texts: Vec<String>,
    }
    let mut retry = Retry::until(timeout.deadline);
    loop {
        let attempt = async {
            let answer = page.call("texts", vec![json!(selectors)]).await;
            let answer: Texts = match selectors {
                Some(selectors) => answer.map_err(|error| explain(error, selectors))?,
                None => answer?,
            };
            if answer.texts.iter().any(|text| holds(assertion, text)) {
                return Ok(());
            }
            let found = match (answer.texts.first(), selectors) {
                (None, Some(selectors)) => {
                    return Err(explain(StepError::passing(FailureCode::NoMatch, ""), selectors));
                }
                (first, _) => first.map(|text| text.chars().take(200).collect::<String>()).unwrap_or_default(),
            };
            let place = selectors.map_or_else(|| "the page".to_owned(), ToString::to_string);
            Err(StepError::passing(
                FailureCode::AssertionFailed,
                format!("the text of {place} {}; it begins `{found}`", mismatch(assertion)),
            ))
        };
        if let Some(result) = retry.attempt(attempt).await {
            return result;
        }
    }
}

fn holds(assertion: &Assertion, text: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match assertion {
        Assertion::Contains(wanted) => text.contains(&plain(wanted)),
        Assertion::Equals(wanted) => text == plain(wanted),
        Assertion::Matches(pattern) => pattern.as_ref().is_some_and(|pattern| pattern.is_match(text)),
    }
}

fn mismatch(assertion: &Assertion) -> String {
    match assertion {
        Assertion::Contains(wanted) => format!("does not hold `{wanted}`"),
        Assertion::Equals(wanted) => format!("is not `{wanted}`"),
        Assertion::Matches(Some(pattern)) => format!("does not match `{pattern}`"),
        Assertion::Matches(None) => "matches nothing".to_owned(),
    }
}

/// Scrolls an element, or the page.
pub(super) async fn scroll(
    page: &Page,
    selectors: Option<&Selectors>,
    (x, y): (f64, f64),
    timeout: StepTimeout,
) -> Result<(), StepError> {
    let handle = match selectors {
        Some(selectors) => page.find(selectors, Readiness::Visible, None, timeout.deadline).await?.handle,
        None => Value::Null,
    };
    page.call::<IgnoredAny>("scroll", vec![handle, json!(x), json!(y)]).await?;
    Ok(())
}
