//! Shows a page as people with screen readers meet it: roles, names, states, and references to act on.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Control, ControlError, PageLocation};
use crate::player::page::{DocumentState, handle};
use crate::script::{FailureCode, StepError};

/// Frames in frames are shown so deep.
const MAX_FRAMES: usize = 5;
/// Elements of one document are shown so deep, as `control.js` does. A page may write anything into its answer.
const DEEPEST: usize = 400;

/// One line of what a script found.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    /// How deep it stands.
    #[serde(rename = "d")]
    depth: usize,
    /// None where it is text alone.
    #[serde(rename = "r")]
    role: Option<String>,
    #[serde(rename = "n")]
    name: Option<String>,
    #[serde(rename = "s")]
    states: Vec<String>,
    #[serde(rename = "t")]
    text: Option<String>,
    /// The place of its element.
    #[serde(rename = "e")]
    element: usize,
    #[serde(rename = "u")]
    url: Option<String>,
    #[serde(rename = "p")]
    placeholder: Option<String>,
    #[serde(rename = "f")]
    is_frame: bool,
}

/// What a script found in one document.
#[derive(Debug, Deserialize)]
struct Tree {
    lines: Vec<Line>,
    elements: Vec<Value>,
    cut: bool,
}

/// A snapshot under way.
struct Drawing {
    text: String,
    elements: usize,
    is_cut: bool,
    depth: Option<usize>,
    boxes: bool,
}

/// The whole page, as a script found it.
#[derive(Debug, Deserialize)]
struct Found {
    tree: Tree,
    r#where: DocumentState,
}

/// A page as it was seen.
#[derive(Debug)]
pub struct PageSnapshot {
    /// Where it is.
    pub place: PageLocation,
    /// What it shows, or one element of it, in YAML.
    pub snapshot: String,
}

impl Control {
    /// Looks at the page, or at one element of it. `depth` leaves out what stands deeper; `boxes` adds where each stands.
    pub async fn look(
        &mut self,
        target: Option<&str>,
        depth: Option<usize>,
        boxes: bool,
    ) -> Result<PageSnapshot, ControlError> {
        let drawing = Drawing { text: String::new(), elements: 0, is_cut: false, depth, boxes };
        match target {
            None => self.look_at_page(drawing).await,
            Some(target) => self.look_at_element(drawing, target).await,
        }
    }

    async fn look_at_page(&mut self, mut drawing: Drawing) -> Result<PageSnapshot, ControlError> {
        let mut found = self.find_page(&drawing).await;
        if found.as_ref().is_err_and(|error| error.code == FailureCode::NoMatch) {
            self.find_window().await?;
            found = self.find_page(&drawing).await;
        }
        let drawn = async {
            let Found { tree, r#where } = found?;
            self.page.check_came(&r#where).await?;
            self.write(&mut drawing, tree, &mut Vec::new(), 0).await?;
            self.page.leave_frames().await?;
            Ok(r#where)
        };
        match drawn.await {
            Ok(place) => Ok(drawing.end(place)),
            Err(error) => Err(self.why(error).await),
        }
    }

    async fn find_page(&mut self, drawing: &Drawing) -> Result<Found, StepError> {
        self.prepare().await?;
        self.call("look", self.wanted(drawing, Value::Null, 0)).await
    }

    async fn look_at_element(&mut self, mut drawing: Drawing, target: &str) -> Result<PageSnapshot, ControlError> {
        self.ready().await?;
        let place = match self.page.document_state().await {
            Ok(place) => place,
            Err(error) => return Err(self.why(error).await),
        };
        let root = self.resolve(target).await?.handle;
        let mut frames = self.frames_around(target);
        if let Err(error) = self.draw(&mut drawing, root, &mut frames, 0).await {
            return Err(self.why(error).await);
        }
        self.page.leave_frames().await?;
        Ok(drawing.end(place))
    }

    /// What a script is to find: from which element on, and how much.
    fn wanted(&self, drawing: &Drawing, root: Value, indent: usize) -> Vec<Value> {
        let left = self.limits.max_elements.saturating_sub(drawing.elements);
        let deepest = drawing.depth.map(|depth| depth.saturating_sub(indent));
        vec![root, json!(left), json!(deepest), json!(drawing.boxes)]
    }

    /// Draws a document or a part of it, and its frames where they stand.
    async fn draw(
        &mut self,
        drawing: &mut Drawing,
        root: Value,
        frames: &mut Vec<Value>,
        indent: usize,
    ) -> Result<(), StepError> {
        let tree: Tree = self.call("snapshot", self.wanted(drawing, root, indent)).await?;
        self.write(drawing, tree, frames, indent).await
    }

    /// Writes what a script found, and draws its frames where they stand. Boxed, since frames hold frames.
    fn write<'a>(
        &'a mut self,
        drawing: &'a mut Drawing,
        tree: Tree,
        frames: &'a mut Vec<Value>,
        indent: usize,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), StepError>> + Send + 'a>> {
        Box::pin(async move {
            drawing.elements += tree.elements.len();
            let handles: Vec<Option<Value>> = tree.elements.iter().map(handle).collect();
            drawing.is_cut |= tree.cut;
            for (at, line) in tree.lines.iter().enumerate() {
                if drawing.text.len() as u64 > self.limits.max_answer {
                    drawing.is_cut = true;
                    return Ok(());
                }
                let handle = handles.get(line.element).and_then(Option::as_ref).filter(|_| line.role.is_some());
                let number = handle.map(|handle| self.references.number(&self.window, frames, handle));
                let depth = depth_of(line, indent);
                let is_entered = line.is_frame && frames.len() < MAX_FRAMES;
                let has_below = is_entered || tree.lines.get(at + 1).is_some_and(|next| next.depth > line.depth);
                write_line(&mut drawing.text, line, depth, number, has_below);
                if let (true, Some(handle)) = (is_entered, handle) {
                    self.draw_frame(drawing, handle.clone(), frames, depth + 1).await?;
                }
            }
            Ok(())
        })
    }

    /// Draws a frame. One that cannot be looked at stays empty.
    async fn draw_frame(
        &mut self,
        drawing: &mut Drawing,
        handle: Value,
        frames: &mut Vec<Value>,
        indent: usize,
    ) -> Result<(), StepError> {
        if self.page.enter_frame(&handle).await.is_ok() {
            frames.push(handle);
            let drawn = self.draw(drawing, Value::Null, frames, indent).await;
            frames.pop();
            match drawn {
                Err(error) if !error.is_passing => return Err(error),
                _ => {}
            }
        }
        self.page.leave_frames().await?;
        for frame in frames.iter() {
            self.page.enter_frame(frame).await?;
        }
        Ok(())
    }
}

impl Drawing {
    fn end(mut self, place: DocumentState) -> PageSnapshot {
        if self.is_cut {
            self.text.push_str("- text: \"… the rest is left out: take a snapshot of one element by `target`\"\n");
        }
        if self.text.is_empty() {
            self.text.push_str("- text: \"\"\n");
        }
        PageSnapshot { place: place.into(), snapshot: self.text }
    }
}

/// How deep a line of a document stands that itself stands so deep.
fn depth_of(line: &Line, indent: usize) -> usize {
    indent + line.depth.min(DEEPEST)
}

/// Writes one line, and what belongs to it below. A page can put nothing into it but quoted text: roles and states are
/// words.
fn write_line(into: &mut String, line: &Line, depth: usize, number: Option<u64>, has_below: bool) {
    let indent = depth * 2;
    let text = line.text.as_deref().filter(|text| !text.is_empty());
    let Some(role) = &line.role else {
        let _ = writeln!(into, "{:indent$}- text: {}", "", quoted(text.unwrap_or_default()));
        return;
    };
    let role = if role.bytes().all(|byte| byte.is_ascii_lowercase()) { role.as_str() } else { "generic" };
    let _ = write!(into, "{:indent$}- {role}", "");
    if let Some(name) = line.name.as_deref().filter(|name| !name.is_empty()) {
        let _ = write!(into, " {}", quoted(name));
    }
    let is_plain = |state: &&String| state.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=,-".contains(&byte));
    for state in line.states.iter().filter(is_plain) {
        let _ = write!(into, " [{state}]");
    }
    if let Some(number) = number {
        let _ = write!(into, " [ref=e{number}]");
    }
    let below = [("/url", &line.url), ("/placeholder", &line.placeholder)];
    let has_below = has_below || below.iter().any(|(_, value)| value.is_some());
    match text {
        Some(text) if !has_below => {
            let _ = write!(into, ": {}", quoted(text));
        }
        Some(_) => into.push(':'),
        None if has_below => into.push(':'),
        None => {}
    }
    into.push('\n');
    if has_below {
        let indent = indent + 2;
        for (name, value) in below {
            if let Some(value) = value {
                let _ = writeln!(into, "{:indent$}- {name}: {}", "", quoted(value));
            }
        }
        if let Some(text) = text {
            let _ = writeln!(into, "{:indent$}- text: {}", "", quoted(text));
        }
    }
}

/// A text in double quotes, as YAML and JSON read it, on one line.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn(line: Value, number: Option<u64>) -> String {
        let mut text = String::new();
        write_line(&mut text, &serde_json::from_value(line).unwrap(), 1, number, false);
        text
    }

    #[test]
    fn a_line_has_role_name_states_and_reference() {
        for (line, text) in [
            (json!({"r": "button", "n": "Buy", "s": ["disabled"]}), "  - button \"Buy\" [disabled] [ref=e7]\n"),
            (json!({"r": "paragraph", "t": "Tea"}), "  - paragraph [ref=e7]: \"Tea\"\n"),
            (json!({"r": "link", "n": "A", "u": "http://a/"}), "  - link \"A\" [ref=e7]:\n    - /url: \"http://a/\"\n"),
        ] {
            assert_eq!(drawn(line, Some(7)), text);
        }
        assert_eq!(drawn(json!({"t": "Tea"}), None), "  - text: \"Tea\"\n");
    }

    #[test]
    fn no_page_indents_a_line_further_than_it_can_be_written() {
        let mut text = String::new();
        let line: Line = serde_json::from_value(json!({"d": u64::MAX, "r": "button"})).unwrap();
        write_line(&mut text, &line, depth_of(&line, MAX_FRAMES * (DEEPEST + 1)), None, true);
        assert!(text.len() < 10_000, "{}", text.len());
    }

    proptest! {
        #[test]
        fn no_page_writes_a_line_or_a_reference_of_its_own(words in r#"[a-z"\\\[\]=\n:. -]{0,30}"#) {
            let line = json!({"r": words, "n": words, "s": [words], "t": words, "u": words});
            let text = drawn(line, None);
            let lines: Vec<&str> = text.lines().collect();
            prop_assert!(lines.len() <= 3, "{text}");
            let outside: String = text.split('"').step_by(2).collect();
            prop_assert!(text.contains('\\') || !outside.contains("[ref="), "{text}");
        }
    }
}
