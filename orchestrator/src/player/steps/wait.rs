//! Waiting for what is, or is not, in the page.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::super::page::{Found, Need, Page, explain};
use super::super::retry::Retry;
use super::super::stage::Clock;
use crate::script::fault::{FailureCode, Fault};
use crate::script::selector::Selectors;
use crate::script::step::{Assertion, WaitForElement};

/// Waits until an element is there.
pub(crate) async fn for_element(page: &Page, selectors: &Selectors, clock: Clock) -> Result<Found, Fault> {
    page.find(selectors, Need::Present, None, clock.deadline).await
}

/// Whether an element is there now.
pub(super) async fn is_there(page: &Page, selectors: &Selectors) -> Result<(), Fault> {
    #[derive(Deserialize)]
    struct Wire {
        found: usize,
    }
    let wire: Wire = page.call("exists", vec![json!(selectors)]).await.map_err(|fault| explain(fault, selectors))?;
    if wire.found > 0 { Ok(()) } else { Err(explain(Fault::passing(FailureCode::NoMatch, ""), selectors)) }
}

/// Waits until so many elements are there as the step says.
pub(super) async fn for_elements(page: &Page, wait: &WaitForElement, clock: Clock) -> Result<(), Fault> {
    #[derive(Deserialize)]
    struct Wire {
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
    let mut retry = Retry::until(clock.deadline);
    loop {
        let attempt = async {
            let answer = page.call("compares", vec![json!(wait.selectors), condition.clone()]).await;
            let wire: Wire = answer.map_err(|fault| explain(fault, &wait.selectors))?;
            if wire.holds {
                return Ok(());
            }
            let not = if wait.visible { "" } else { "not " };
            let what = format!(
                "{} elements match {}, and the step waits until it is {not}{} {}{}",
                wire.found,
                wait.selectors,
                wait.operator.as_str(),
                wait.count,
                if wait.properties.is_empty() && wait.attributes.is_empty() {
                    ""
                } else {
                    " with what it says of them"
                },
            );
            let code = if wire.found == 0 && wait.visible { FailureCode::NoMatch } else { FailureCode::Timeout };
            Err(Fault::passing(code, what))
        };
        if let Some(result) = retry.attempt(attempt).await {
            return result;
        }
    }
}

/// Waits until an expression, or what it promises, is true. One that throws is tried again: what it looks for may be
/// on its way.
pub(super) async fn for_expression(page: &Page, expression: &str, clock: Clock) -> Result<(), Fault> {
    #[derive(Deserialize)]
    struct Wire {
        holds: bool,
        error: Option<String>,
    }
    let script = format!(
        "const done = arguments[arguments.length - 1];\
         Promise.resolve().then(() => (\n{expression}\n)).then((value) => done({{ holds: Boolean(value) }}), \
         (error) => done({{ holds: false, error: String(error).slice(0, 300) }}));"
    );
    let mut retry = Retry::until(clock.deadline);
    loop {
        let attempt = async {
            let answer = page.client.execute_async(&script, Vec::new()).await;
            let answer = answer.map_err(|error| match Fault::from(error) {
                fault if fault.code == FailureCode::ScriptError => fault.about("the expression cannot be run"),
                fault => fault,
            })?;
            // Firefox answers with nothing where the page left in the middle.
            let left = |_| Fault::passing(FailureCode::ScriptError, "the page left while the expression was looked at");
            let wire = Wire::deserialize(answer).map_err(left)?;
            match (wire.holds, wire.error) {
                (true, _) => Ok(()),
                (false, Some(error)) => {
                    Err(Fault::passing(FailureCode::ScriptError, format!("the expression threw {error}")))
                }
                (false, None) => {
                    Err(Fault::passing(FailureCode::Timeout, "the expression did not become true in time"))
                }
            }
        };
        if let Some(result) = retry.attempt(attempt).await {
            return result;
        }
    }
}

/// Waits until a text is as it must be.
pub(super) async fn for_text(
    page: &Page,
    selectors: Option<&Selectors>,
    assertion: &Assertion,
    clock: Clock,
) -> Result<(), Fault> {
    #[derive(Deserialize)]
    struct Wire {
        texts: Vec<String>,
    }
    let mut retry = Retry::until(clock.deadline);
    loop {
        let attempt = async {
            let answer = page.call("texts", vec![json!(selectors)]).await;
            let wire: Wire = match selectors {
                Some(selectors) => answer.map_err(|fault| explain(fault, selectors))?,
                None => answer?,
            };
            if wire.texts.iter().any(|text| holds(assertion, text)) {
                return Ok(());
            }
            let found = match (wire.texts.first(), selectors) {
                (None, Some(selectors)) => return Err(explain(Fault::passing(FailureCode::NoMatch, ""), selectors)),
                (first, _) => first.map(|text| text.chars().take(200).collect::<String>()).unwrap_or_default(),
            };
            let place = selectors.map_or_else(|| "the page".to_owned(), ToString::to_string);
            Err(Fault::passing(
                FailureCode::AssertionFailed,
                format!("the text of {place} {}; it begins `{found}`", complaint(assertion)),
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

fn complaint(assertion: &Assertion) -> String {
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
    clock: Clock,
) -> Result<(), Fault> {
    let handle = match selectors {
        Some(selectors) => page.find(selectors, Need::Visible, None, clock.deadline).await?.handle,
        None => Value::Null,
    };
    page.call::<IgnoredAny>("scroll", vec![handle, json!(x), json!(y)]).await?;
    Ok(())
}
