//! The steps of a call, in their order: the tab is prepared, the page is opened, styles and scripts are added, and what
//! the client waits for comes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::Error;
use crate::read::check_robots;
use crate::request::{PageRequest, Tag, time};
use crate::tab::{Tab, TabError};
use warmpool_core::error::FieldFault as _;

/// How long a step may take where the client does not say so.
pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// Between two looks whether something has come.
const LOOK: Duration = Duration::from_millis(100);
/// The most steps in which a page is scrolled to its end.
const MOST_STEPS: u64 = 500;

/// A part of a page, in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PageArea {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Brings the page to where the client wants it.
pub(crate) async fn open(tab: &Tab, request: &PageRequest, until: Instant) -> Result<(), Error> {
    tab.prepare(request).await?;
    if let Some(reader) = &request.robots {
        check_robots(tab, request, reader, until).await?;
    }
    let (limit, _) = limit(request.goto.timeout, until);
    pass(request, tab.open(&request.source, request, limit).await)?;
    pass(request, check_shown(tab, left(until)).await)?;
    for tag in request.styles.iter().chain(&request.scripts) {
        pass(request, add(tab, tag, left(until)).await)?;
    }
    if let Some(wait) = &request.wait_for_event {
        // It may come while something else is waited for.
        Look::Event(&wait.event).at(tab, left(until)).await?;
    }
    if let Some(pause) = request.wait_for_timeout {
        sleep(pause.min(left(until))).await;
    }
    if let Some(wait) = &request.wait_for_function {
        let every = wait.polling.as_ref().and_then(Value::as_u64).map_or(LOOK, Duration::from_millis);
        let waiting = Waiting::new("waitForFunction", "the function returned nothing true", wait.timeout, until);
        pass(request, waiting.poll(tab, every, &Look::Function(&wait.code)).await)?;
    }
    if let Some(wait) = &request.wait_for_selector {
        let wanted = match (wait.hidden, wait.visible) {
            (true, _) => "hidden",
            (false, true) => "visible",
            (false, false) => "present",
        };
        let waiting = Waiting::new("waitForSelector", "no such element came", wait.timeout, until);
        let look = Look::Element { field: "waitForSelector.selector", selector: &wait.selector, wanted };
        pass(request, waiting.poll(tab, LOOK, &look).await)?;
    }
    if let Some(wait) = &request.wait_for_event {
        let waiting = Waiting::new("waitForEvent", "no such event came", wait.timeout, until);
        pass(request, waiting.poll(tab, LOOK, &Look::Event(&wait.event)).await)?;
    }
    Ok(())
}

/// Waits until the first element of a selector is there; `field` names the selector.
pub(crate) async fn element(tab: &Tab, waiting: Waiting<'_>, field: &str, selector: &str) -> Result<(), Error> {
    waiting.poll(tab, LOOK, &Look::Element { field, selector, wanted: "present" }).await
}

/// What is looked for.
enum Look<'a> {
    /// The client's own function returns something true.
    Function(&'a str),
    /// An element is as it is wanted.
    Element { field: &'a str, selector: &'a str, wanted: &'a str },
    /// An event has been dispatched.
    Event(&'a str),
}

impl Look<'_> {
    /// Whether it is there now. `left` is the time that there is.
    async fn at(&self, tab: &Tab, left: Duration) -> Result<bool, Error> {
        let seen = match self {
            Self::Function(code) => match tab.evaluate(code, left).await {
                Ok(value) => return Ok(is_true(&value)),
                Err(TabError::Threw(words)) => {
                    return Err(Error::invalid("waitForFunction.fn", format!("failed: {words}")));
                }
                Err(error) => Err(error),
            },
            Self::Element { selector, wanted, .. } => tab.call("state", &[json!(selector), json!(wanted)], left).await,
            Self::Event(name) => tab.call("event", &[json!(name)], left).await,
        };
        let seen = match seen {
            Ok(seen) => seen,
            // A page may leave, or be busy, while it is looked at.
            Err(TabError::Late | TabError::Refused(_) | TabError::Threw(_)) => return Ok(false),
            Err(error) => return Err(error.when("look at the page", 0)),
        };
        match (self, seen["refused"].as_str()) {
            (Self::Element { field, .. }, Some(why)) => {
                Err(Error::invalid(*field, format!("is no CSS selector: {why}")))
            }
            _ => Ok(seen == true || seen["is"] == true),
        }
    }
}

/// The place of an element.
/// Errors: `Field` when there is none.
pub(crate) async fn place(tab: &Tab, selector: &str, limit: Duration) -> Result<PageArea, Error> {
    checked_place(&tab.call("place", &[json!(selector)], limit).await)
}

/// The place of an element, from what the page says of it.
/// Errors: `Field` when there is none.
pub(crate) fn checked_place(said: &Result<Value, TabError>) -> Result<PageArea, Error> {
    let place = match said {
        Ok(place) => place,
        Err(error) => return Err(error.clone().when("look for the element", 0)),
    };
    if let Some(why) = place["refused"].as_str() {
        return Err(Error::invalid("selector", format!("is no CSS selector: {why}")));
    }
    if place["absent"] == true {
        return Err(Error::invalid("selector", "has no element on the page: wait for it by `waitForSelector`"));
    }
    let of = |name: &str| place[name].as_f64().unwrap_or_default();
    let place = PageArea { x: of("x"), y: of("y"), width: of("width"), height: of("height") };
    if place.width < 1.0 || place.height < 1.0 {
        return Err(Error::invalid("selector", "has an element without a size, of which there is no picture"));
    }
    Ok(place)
}

/// Scrolls to the end of the page and back, for what loads as it comes into view.
pub(crate) async fn scroll(tab: &Tab, until: Instant) -> Result<(), Error> {
    let failed = |error: TabError| error.when("scroll the page", 0);
    let steps = tab.call("steps", &[], left(until)).await.map_err(failed)?.as_u64().unwrap_or(0);
    for step in (0..steps.min(MOST_STEPS)).chain([0]) {
        tab.call("scroll", &[json!(step)], left(until)).await.map_err(failed)?;
        sleep(LOOK).await;
    }
    Ok(())
}

/// Fails where the page stands for a refusal of the daemon's: it is none of the site's.
pub(crate) async fn check_shown(tab: &Tab, left: Duration) -> Result<(), Error> {
    let Ok(status) = tab.call("status", &[], left).await else { return Ok(()) };
    match status["mark"].as_str().and_then(|mark| tab.refusal(mark)) {
        Some(why) => Err(Error::NotOpened { reason: why.to_string() }),
        None => Ok(()),
    }
}

/// Adds a script or a style.
async fn add(tab: &Tab, tag: &Tag, left: Duration) -> Result<(), Error> {
    match tab.call("tag", std::slice::from_ref(&tag.value), left.min(WAIT)).await {
        Ok(done) => match done["refused"].as_str() {
            Some(why) => Err(Error::invalid(&tag.field, format!("cannot be added: {why}"))),
            None => Ok(()),
        },
        Err(TabError::Late) => {
            let message = format!("`{}` was not loaded within {} ms", tag.field, left.min(WAIT).as_millis());
            Err(Error::Late { message, field: Some(tag.field.clone()) })
        }
        Err(error) => Err(error.when(&format!("add `{}`", tag.field), 0)),
    }
}

/// What is waited for, and for how long.
pub(crate) struct Waiting<'a> {
    field: &'a str,
    what: &'a str,
    limit: Duration,
    /// Whether that is its own time, and not what is left of the call's.
    is_own: bool,
}

impl<'a> Waiting<'a> {
    /// `what` says what did not happen when the time is over; `timeout` is the client's own time.
    pub(crate) fn new(field: &'a str, what: &'a str, timeout: Option<u64>, until: Instant) -> Self {
        let (limit, is_own) = limit(timeout, until);
        Self { field, what, limit, is_own }
    }

    /// The same by a time that is checked already.
    pub(crate) fn within(field: &'a str, what: &'a str, time: Option<Duration>, until: Instant) -> Self {
        let (limit, is_own) = bounded(time, until);
        Self { field, what, limit, is_own }
    }

    /// Looks until it has come.
    async fn poll(&self, tab: &Tab, every: Duration, look: &Look<'_>) -> Result<(), Error> {
        let end = Instant::now() + self.limit;
        loop {
            if look.at(tab, left(end).max(LOOK)).await? {
                return Ok(());
            }
            if left(end).is_zero() {
                return Err(Error::late(self.field, self.what, (self.limit, self.is_own)));
            }
            sleep(every.max(LOOK).min(left(end))).await;
        }
    }
}

/// Lets what did not come in time pass where the client wants the best that there is.
fn pass(request: &PageRequest, outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::Late { .. } | Error::NotOpened { .. }) if request.best_attempt => Ok(()),
        outcome => outcome,
    }
}

/// How long a step may take, and whether that is its own time.
fn limit(given: Option<u64>, until: Instant) -> (Duration, bool) {
    bounded(time(given, WAIT), until)
}

fn bounded(own: Option<Duration>, until: Instant) -> (Duration, bool) {
    let left = left(until);
    own.filter(|own| *own < left).map_or((left, false), |own| (own, true))
}

pub(crate) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// Whether JavaScript takes a value for true.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_is_that_of_javascript() {
        for value in [json!(null), json!(false), json!(0), json!("")] {
            assert!(!is_true(&value), "{value}");
        }
        for value in [json!(true), json!(-1), json!("0"), json!([]), json!({})] {
            assert!(is_true(&value), "{value}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_own_time_or_the_calls() {
        let until = Instant::now() + Duration::from_secs(60);
        for (given, after, is_own) in
            [(Some(500), 500, true), (None, 30_000, true), (Some(0), 60_000, false), (Some(90_000), 60_000, false)]
        {
            assert_eq!(limit(given, until), (Duration::from_millis(after), is_own), "{given:?}");
        }
    }
}
