//! What is done to elements: by the same steps as in tasks, with the driver's own pointer and keyboard.

use std::time::Duration;

use fantoccini::actions::{InputSource as _, KeyAction, KeyActions, MouseActions, PointerAction};
use serde::Deserialize;
use serde_json::{Value, json};

use super::reference::Target;
use super::{Control, ControlError, QUIET};
use crate::player::page::{Readiness, explain};
use crate::player::retry::Retry;
use crate::player::steps::{field, pointer};
use crate::script::StepError;
use crate::script::step::{Click, Device, Key};

/// A button of the mouse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Button {
    /// The first one.
    #[default]
    Left,
    /// The wheel.
    Middle,
    /// The one for menus.
    Right,
}

impl Button {
    /// As the Pointer Events count them.
    const fn number(self) -> u64 {
        match self {
            Self::Left => 0,
            Self::Middle => 1,
            Self::Right => 2,
        }
    }
}

/// A key that is held while another is pressed, or the mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modifier {
    /// Alt.
    Alt,
    /// Control.
    Control,
    /// The key of the system.
    Meta,
    /// Shift.
    Shift,
}

impl Modifier {
    /// The key's value in an action (W3C WebDriver, section 17.4.2).
    const fn key(self) -> char {
        match self {
            Self::Shift => '\u{E008}',
            Self::Control => '\u{E009}',
            Self::Alt => '\u{E00A}',
            Self::Meta => '\u{E03D}',
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name {
            "Shift" => Some(Self::Shift),
            "Control" | "ControlOrMeta" => Some(Self::Control),
            "Alt" => Some(Self::Alt),
            "Meta" => Some(Self::Meta),
            _ => None,
        }
    }
}

/// A field of a form, and what it is to hold.
#[derive(Debug, Clone)]
pub struct FormField {
    /// A reference or a selector.
    pub target: String,
    /// What it is.
    pub kind: FieldKind,
    /// A text, an option, or `true` and `false`.
    pub value: String,
}

/// What a field of a form is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Text is typed there.
    Text,
    /// It is set or not.
    Checkbox,
    /// An option is chosen.
    Options,
}

/// Enter.
const ENTER: char = '\u{E007}';

impl Control {
    /// Clicks on an element. A file input is not opened, since a person would have to choose: it waits for files.
    /// Returns whether it does.
    pub async fn click(
        &mut self,
        target: &str,
        button: Button,
        twice: bool,
        held: &[Modifier],
    ) -> Result<bool, ControlError> {
        self.ready().await?;
        let target = self.resolve(target).await?;
        #[derive(Deserialize)]
        struct Chooser {
            element: Value,
        }
        if let Ok(Chooser { element }) = self.call("chooser", vec![target.handle.clone()]).await
            && !element.is_null()
        {
            self.chooser = Some(element);
            return Ok(true);
        }
        self.chooser = None;
        let done = self.push(&target, button, if twice { 2 } else { 1 }, held).await;
        self.acted(done).await?;
        Ok(false)
    }

    async fn push(
        &mut self,
        target: &Target,
        button: Button,
        count: usize,
        held: &[Modifier],
    ) -> Result<(), StepError> {
        let timeout = self.timeout();
        self.wait_until_free(target, timeout.deadline).await?;
        self.hold(held, true).await?;
        let click = Click {
            selectors: target.selectors.clone(),
            offset: None,
            button: button.number(),
            device: Device::Mouse,
            duration: Duration::ZERO,
            count,
        };
        let done = pointer::click(&mut self.page, &click, timeout).await;
        if !held.is_empty() && self.dialog().await.is_none() {
            self.hold(held, false).await?;
        }
        done
    }

    /// Waits until nothing lies over an element where it would be clicked.
    async fn wait_until_free(&self, target: &Target, deadline: tokio::time::Instant) -> Result<(), StepError> {
        let mut retry = Retry::until(deadline);
        loop {
            let attempt = async {
                let found = self.page.find_now(&target.selectors, Readiness::Enabled, None).await?;
                let (x, y) = found.point;
                let free = self.call::<Value>("over", vec![found.handle, json!(x), json!(y)]).await;
                free.map(drop).map_err(|error| explain(error, &target.selectors))
            };
            if let Some(result) = retry.attempt(attempt).await {
                return result;
            }
        }
    }

    async fn hold(&mut self, held: &[Modifier], down: bool) -> Result<(), StepError> {
        if held.is_empty() {
            return Ok(());
        }
        self.holds_keys = true;
        let keys = held.iter().fold(KeyActions::new("keyboard".to_owned()), |keys, modifier| {
            let value = modifier.key();
            keys.then(if down { KeyAction::Down { value } } else { KeyAction::Up { value } })
        });
        self.page.client.perform_actions(keys).await?;
        self.holds_keys = down;
        Ok(())
    }

    /// Moves the pointer onto an element.
    pub async fn hover(&mut self, target: &str) -> Result<(), ControlError> {
        self.ready().await?;
        let (target, timeout) = (self.resolve(target).await?, self.timeout());
        let done = pointer::hover(&mut self.page, &target.selectors, timeout).await;
        self.acted(done).await
    }

    /// Drags one element onto another.
    pub async fn drag(&mut self, from: &str, to: &str) -> Result<(), ControlError> {
        self.ready().await?;
        // The frame of the end is that in which the pointer counts.
        let to = self.resolve(to).await?;
        let from = self.resolve(from).await?;
        let done = self.drag_now(&from, &to).await;
        self.acted(done).await
    }

    async fn drag_now(&mut self, from: &Target, to: &Target) -> Result<(), StepError> {
        #[derive(Deserialize)]
        struct Dropped {
            dropped: bool,
        }
        let deadline = self.timeout().deadline;
        let end = self.page.find(&to.selectors, Readiness::Visible, None, deadline).await?;
        let start = self.page.find(&from.selectors, Readiness::Visible, None, deadline).await?;
        let moved = self.call::<Dropped>("drop", vec![start.handle, end.handle]).await;
        if moved.map_err(|error| explain(error, &from.selectors))?.dropped {
            return Ok(());
        }
        let onto = |element, milliseconds| PointerAction::MoveToElement {
            element,
            duration: Some(Duration::from_millis(milliseconds)),
            x: 0.0,
            y: 0.0,
        };
        let moves = [
            onto(start.element, 0),
            PointerAction::Down { button: 0 },
            PointerAction::Pause { duration: Duration::from_millis(50) },
            // Pages take the first steps for the beginning of a drag.
            PointerAction::MoveBy { duration: Some(Duration::from_millis(50)), x: 4.0, y: 4.0 },
            onto(end.element, 200),
            PointerAction::Pause { duration: Duration::from_millis(50) },
            PointerAction::Up { button: 0 },
        ];
        let mouse = moves.into_iter().fold(MouseActions::new("mouse".to_owned()), MouseActions::then);
        self.page.client.perform_actions(mouse).await?;
        Ok(())
    }

    /// Sets the text of a field, or types it at the end where `slowly` says so, and presses Enter where `submit` does.
    pub async fn type_text(
        &mut self,
        target: &str,
        text: &str,
        slowly: bool,
        submit: bool,
    ) -> Result<(), ControlError> {
        self.ready().await?;
        let target = self.resolve(target).await?;
        let timeout = self.timeout();
        let done = async {
            if slowly {
                let found = self.page.find(&target.selectors, Readiness::Enabled, None, timeout.deadline).await?;
                found.element.send_keys(text).await?;
            } else {
                field::change(&mut self.page, &target.selectors, text, timeout).await?;
            }
            if submit { self.tap(&[], ENTER).await } else { Ok(()) }
        }
        .await;
        self.acted(done).await
    }

    /// Fills fields, one after the other.
    pub async fn fill(&mut self, fields: &[FormField]) -> Result<(), ControlError> {
        #[derive(Deserialize)]
        struct Checked {
            checked: bool,
        }
        for field in fields {
            self.ready().await?;
            let target = self.resolve(&field.target).await?;
            let timeout = self.timeout();
            let done = match field.kind {
                FieldKind::Text | FieldKind::Options => {
                    field::change(&mut self.page, &target.selectors, &field.value, timeout).await
                }
                FieldKind::Checkbox => {
                    let wanted = field.value == "true";
                    match self.call::<Checked>("is_checked", vec![target.handle.clone()]).await {
                        Ok(is) if is.checked == wanted => Ok(()),
                        Ok(_) => self.push(&target, Button::Left, 1, &[]).await,
                        Err(error) => Err(error),
                    }
                }
            };
            if let Err(error) = done {
                return Err(self.why(error).await);
            }
        }
        self.settle(QUIET).await;
        Ok(())
    }

    /// Chooses options, by their values or what people read.
    pub async fn select(&mut self, target: &str, values: &[String]) -> Result<(), ControlError> {
        self.ready().await?;
        let target = self.resolve(target).await?;
        let deadline = self.timeout().deadline;
        let done = async {
            let found = self.page.find(&target.selectors, Readiness::Enabled, None, deadline).await?;
            let chosen = self.call::<Value>("choose", vec![found.handle, json!(values)]).await;
            chosen.map(drop).map_err(|error| explain(error, &target.selectors))
        }
        .await;
        self.acted(done).await
    }

    /// Presses a key, also together with others, as `Control+a`.
    pub async fn press(&mut self, keys: &str) -> Result<(), ControlError> {
        let (held, key) = combination(keys)?;
        self.ready().await?;
        let done = self.tap(&held, key).await;
        self.acted(done).await
    }

    async fn tap(&self, held: &[Modifier], key: char) -> Result<(), StepError> {
        let down = held.iter().map(|modifier| KeyAction::Down { value: modifier.key() });
        let up = held.iter().rev().map(|modifier| KeyAction::Up { value: modifier.key() });
        let tap = [KeyAction::Down { value: key }, KeyAction::Up { value: key }];
        let keys = down.chain(tap).chain(up).fold(KeyActions::new("keyboard".to_owned()), KeyActions::then);
        self.page.client.perform_actions(keys).await?;
        Ok(())
    }

    /// Hands files of the session, by their paths in it, to the file input that waits for some; otherwise to `target`, or
    /// to the only one on the page. No paths close the chooser.
    pub async fn upload(&mut self, paths: &[String], target: Option<&str>) -> Result<(), ControlError> {
        #[derive(Deserialize)]
        struct Inputs {
            elements: Vec<Value>,
        }
        self.ready().await?;
        let waiting = self.chooser.take();
        if paths.is_empty() {
            return Ok(());
        }
        let target = match (target, waiting) {
            (Some(target), _) => self.resolve(target).await?,
            (None, Some(handle)) => Target::new(handle, "the file input"),
            (None, None) => {
                let inputs: Inputs = self.call("file_inputs", Vec::new()).await?;
                match &inputs.elements[..] {
                    [only] => Target::new(only.clone(), "the file input"),
                    found => {
                        return Err(ControlError::failed(format!(
                            "the page has {} file inputs: click the one that is meant by browser_click, or name it as `target`",
                            found.len()
                        )));
                    }
                }
            }
        };
        let timeout = self.timeout();
        let done = async {
            let input = field::file_input(&self.page, &target.selectors, paths.len(), timeout).await?;
            input.send_keys(&paths.join("\n")).await?;
            Ok(())
        }
        .await;
        self.acted(done).await
    }
}

/// The keys that are held, and the one that is pressed.
fn combination(keys: &str) -> Result<(Vec<Modifier>, char), ControlError> {
    let wrong = |problem: &str| {
        ControlError::failed(format!(
            "the key {keys:?} {problem}: name one as Enter, ArrowDown or a, also with others as Control+a"
        ))
    };
    let (held, key) = match keys.strip_suffix("++") {
        Some(held) => (held, "+"),
        None => keys.rsplit_once('+').filter(|(_, key)| !key.is_empty()).unwrap_or(("", keys)),
    };
    let held = held
        .split('+')
        .filter(|name| !name.is_empty())
        .map(|name| Modifier::parse(name).ok_or_else(|| wrong("is held by no keyboard")));
    let held: Vec<Modifier> = held.collect::<Result<_, _>>()?;
    match Key::parse("key", key) {
        Ok(Key::Press(key)) => Ok((held, key)),
        Ok(_) => Err(wrong("can be pressed by no driver")),
        Err(_) => Err(wrong("is not known")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_may_be_held_together() {
        for (keys, held, key) in [
            ("Enter", &[][..], '\u{E007}'),
            ("a", &[], 'a'),
            ("+", &[], '+'),
            ("Control+a", &[Modifier::Control], 'a'),
            ("Control++", &[Modifier::Control], '+'),
            ("Control+Shift+ArrowLeft", &[Modifier::Control, Modifier::Shift], '\u{E012}'),
        ] {
            assert_eq!(combination(keys).unwrap(), (held.to_vec(), key), "{keys}");
        }
        for keys in ["", "Nonsense", "Hyper+a", "CapsLock"] {
            assert!(combination(keys).is_err(), "{keys:?}");
        }
    }
}
