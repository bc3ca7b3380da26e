//! Waits for elements to be, or not to be, in the page.

use regex::Regex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::page::{Found, Page, Readiness, explain};
use super::super::playback::StepTimeout;
use super::super::retry::Retry;
use super::super::search::ends_in_time;
use crate::script::selector::Selectors;
use crate::script::step::{Assertion, WaitForElement};
use crate::script::{FailureCode, StepError};
use warmpool_core::blocking;

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
         (error) => done({{ holds: false, error: String(error) }}));"
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
                    Err(StepError::passing(FailureCode::ScriptError, "the expression threw").quoting(&error))
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
    let wanted = Wanted::of(assertion);
    let mut retry = Retry::until(timeout.deadline);
    loop {
        let attempt = async {
            let answer = page.call("texts", vec![json!(selectors)]).await;
            let answer: Texts = match selectors {
                Some(selectors) => answer.map_err(|error| explain(error, selectors))?,
                None => answer?,
            };
            if blocking::in_place(|| wanted.is_in_any(&answer.texts, timeout.deadline))? {
                return Ok(());
            }
            let found = match (answer.texts.first(), selectors) {
                (None, Some(selectors)) => {
                    return Err(explain(StepError::passing(FailureCode::NoMatch, ""), selectors));
                }
                (first, _) => first.map(String::as_str).unwrap_or_default(),
            };
            let place = selectors.map_or_else(|| "the page".to_owned(), ToString::to_string);
            let begins = if found.is_empty() { "" } else { "; it begins" };
            let what = format!("the text of {place} {}{begins}", mismatch(assertion));
            Err(StepError::passing(FailureCode::AssertionFailed, what).quoting(found))
        };
        if let Some(result) = retry.attempt(attempt).await {
            return result;
        }
    }
}

/// What a text must be, with one space between its words as the page's texts have them.
enum Wanted<'a> {
    Contains(String),
    Equals(String),
    Matches(Option<&'a Regex>),
}

impl<'a> Wanted<'a> {
    fn of(assertion: &'a Assertion) -> Self {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        match assertion {
            Assertion::Contains(text) => Self::Contains(plain(text)),
            Assertion::Equals(text) => Self::Equals(plain(text)),
            Assertion::Matches(pattern) => Self::Matches(pattern.as_ref()),
        }
    }

    /// Whether one of these texts is so.
    /// Errors: `Timeout`.
    fn is_in_any(&self, texts: &[String], until: Instant) -> Result<bool, StepError> {
        for (number, text) in texts.iter().enumerate() {
            let is_late = number > 0 && Instant::now() >= until;
            let holds = match self {
                Self::Contains(wanted) => text.contains(wanted),
                Self::Equals(wanted) => text == wanted,
                Self::Matches(None) => false,
                Self::Matches(Some(pattern)) => {
                    let search = |text: &str, at| pattern.find_at(text, at).map(|found| found.end());
                    if is_late || !ends_in_time(text, 0, until, search) {
                        let message = "the text was not searched in time: `matches` takes too long on this page";
                        return Err(StepError::new(FailureCode::Timeout, message));
                    }
                    pattern.is_match(text)
                }
            };
            if holds {
                return Ok(true);
            }
        }
        Ok(false)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn holds(assertion: &Assertion, texts: &[&str], until: Instant) -> Result<bool, FailureCode> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Wanted::of(assertion).is_in_any(&texts, until).map_err(|error| error.code)
    }

    #[test]
    fn one_of_the_texts_is_enough() {
        let later = Instant::now() + Duration::from_secs(600);
        let matches = |pattern: &str| Assertion::Matches(Some(Regex::new(pattern).unwrap()));
        for (assertion, expected) in [
            (Assertion::Contains("b  c".to_owned()), true),
            (Assertion::Contains("b".to_owned()), true),
            (Assertion::Contains("d".to_owned()), false),
            (Assertion::Equals(" b c\n".to_owned()), true),
            (Assertion::Equals("b".to_owned()), false),
            (matches("^b c$"), true),
            (matches("^c"), false),
            (Assertion::Matches(None), false),
        ] {
            assert_eq!(holds(&assertion, &["a", "b c"], later), Ok(expected), "{assertion:?}");
        }
    }

    #[test]
    fn a_pattern_that_takes_too_long_is_stopped() {
        let slow = Assertion::Matches(Some(Regex::new("a[ab]{300}[c-z]").unwrap()));
        let long = "ab".repeat(1 << 20);
        assert_eq!(holds(&slow, &[&long], Instant::now()), Err(FailureCode::Timeout));
        assert_eq!(holds(&slow, &["a", "b"], Instant::now()), Err(FailureCode::Timeout), "in many short texts as well");
        assert_eq!(holds(&slow, &["a"], Instant::now()), Ok(false));
        let plain = Assertion::Contains("x".to_owned());
        assert_eq!(holds(&plain, &["a", "x"], Instant::now()), Ok(true), "what takes no time is not cut short");
    }
}
