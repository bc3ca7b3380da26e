//! References: the names by which those who drive a page speak of its elements.
//!
//! What a reference stands for is the driver's own reference, which it gives to one node of one document and never to
//! another. So nothing has to be left in the page, no page can turn a reference to another element, and one whose element
//! has left is known.

use std::collections::{BTreeMap, HashMap};

use fantoccini::wd::WindowHandle;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Control, ControlError};
use crate::player::page::ELEMENT;
use crate::script::selector::Selectors;
use crate::script::{FailureCode, StepError};

/// So many references are known; the oldest are forgotten.
const MOST: usize = 50_000;

/// An element that was shown.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    window: WindowHandle,
    /// The frames around it, from the outermost on.
    frames: Vec<Value>,
    handle: Value,
}

/// The elements that were shown, by their numbers.
#[derive(Debug, Default)]
pub(super) struct References {
    numbers: HashMap<String, u64>,
    shown: BTreeMap<u64, Shown>,
    last: u64,
}

impl References {
    /// The number of an element: the one that it has, or a new one.
    pub(super) fn number(&mut self, window: &WindowHandle, frames: &[Value], handle: &Value) -> u64 {
        let id = handle[ELEMENT].as_str().unwrap_or_default();
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        self.last += 1;
        self.numbers.insert(id.to_owned(), self.last);
        let shown = Shown { window: window.clone(), frames: frames.to_vec(), handle: handle.clone() };
        self.shown.insert(self.last, shown);
        if self.shown.len() > MOST
            && let Some((_, oldest)) = self.shown.pop_first()
        {
            self.numbers.remove(oldest.handle[ELEMENT].as_str().unwrap_or_default());
        }
        self.last
    }
}

/// The number in a reference, if the text is one.
fn number(target: &str) -> Option<u64> {
    let digits = target.strip_prefix('e')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// An element to act on.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) handle: Value,
    pub(super) selectors: Selectors,
}

impl Target {
    pub(super) fn new(handle: Value, shown: &str) -> Self {
        Self { selectors: Selectors::element(handle.clone(), format!("`{shown}`")), handle }
    }
}

impl Control {
    /// The element that a reference or a selector names, and lets commands reach its frame.
    /// Errors: `Stale`, `UnknownReference`, and `Failed` where a selector is none or finds more than one element.
    pub(super) async fn resolve(&mut self, target: &str) -> Result<Target, ControlError> {
        self.page.leave_frames().await?;
        match number(target) {
            Some(number) => self.shown(target, number).await,
            None => self.selected(target).await,
        }
    }

    /// The frames around the element that a reference names.
    pub(super) fn frames_around(&self, target: &str) -> Vec<Value> {
        let shown = number(target).and_then(|number| self.references.shown.get(&number));
        shown.map(|shown| shown.frames.clone()).unwrap_or_default()
    }

    async fn shown(&mut self, target: &str, number: u64) -> Result<Target, ControlError> {
        #[derive(Deserialize)]
        struct Attached {
            attached: bool,
        }
        let unknown = || ControlError::UnknownReference { target: target.to_owned() };
        let stale = || ControlError::Stale { target: target.to_owned() };
        let shown = self.references.shown.get(&number).cloned().ok_or_else(unknown)?;
        if shown.window != self.window {
            return Err(ControlError::failed(format!(
                "the element `{target}` is in another tab: choose that by browser_tabs, or take a new snapshot by browser_snapshot"
            )));
        }
        let gone = |error: StepError| match error.code {
            FailureCode::NoMatch => stale(),
            _ => error.into(),
        };
        for frame in &shown.frames {
            self.page.enter_frame(frame).await.map_err(gone)?;
        }
        let attached: Attached = self.call("attached", vec![shown.handle.clone()]).await.map_err(gone)?;
        if attached.attached { Ok(Target::new(shown.handle, target)) } else { Err(stale()) }
    }

    async fn selected(&mut self, target: &str) -> Result<Target, ControlError> {
        #[derive(Deserialize)]
        struct Found {
            found: usize,
            element: Value,
        }
        let selectors = Selectors::parse("target", &json!(target));
        let selectors = selectors.map_err(|error| ControlError::failed(error.to_string()))?;
        let found: Result<Found, StepError> = self.call("how_many", vec![json!(selectors)]).await;
        match found {
            Ok(Found { found: 1, element }) => Ok(Target::new(element, target)),
            Ok(Found { found: 0, .. }) => Err(ControlError::failed(format!(
                "nothing on the page matches `{target}`: use a reference of browser_snapshot, such as e5, or another selector"
            ))),
            Ok(Found { found, .. }) => Err(ControlError::failed(format!(
                "`{target}` matches {found} elements: use a reference of browser_snapshot, or a selector that matches one"
            ))),
            Err(error) => Err(self.why(error).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_from_selectors() {
        for (text, is) in
            [("e1", Some(1)), ("e", None), ("em", None), ("e1x", None), ("#e1", None), ("e99999999999999999999", None)]
        {
            assert_eq!(number(text), is, "{text}");
        }
    }

    #[test]
    fn an_element_keeps_its_number() {
        let window = WindowHandle::try_from("w".to_owned()).unwrap();
        let mut references = References::default();
        let handle = |id: &str| json!({ELEMENT: id});
        assert_eq!(references.number(&window, &[], &handle("a")), 1);
        assert_eq!(references.number(&window, &[], &handle("b")), 2);
        assert_eq!(references.number(&window, &[], &handle("a")), 1);
    }
}
