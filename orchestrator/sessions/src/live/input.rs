//! Turns a viewer's input for a browser without a display into DevTools commands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The longest text of one message, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// The most touch points at once.
const MAX_TOUCHES: usize = 10;
/// The most keys that one viewer holds down; no keyboard has as many.
const MAX_KEYS: usize = 256;

/// A button of a pointer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Button {
    #[default]
    None,
    Left,
    Middle,
    Right,
    Back,
    Forward,
}

/// A phase of a pointer's movement. `Cancel` ends a touch that the viewer's own page took over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    Down,
    Move,
    Up,
    Cancel,
}

/// One touch point on the page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct TouchPoint {
    id: u32,
    x: f64,
    y: f64,
}

/// One input. Positions are in CSS pixels of the picture; modifiers are DevTools' bits (Alt 1, Control 2, Meta 4, Shift 8).
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
pub(super) enum Input {
    Mouse {
        phase: Phase,
        x: f64,
        y: f64,
        #[serde(default)]
        button: Button,
        #[serde(default)]
        buttons: u8,
        #[serde(default)]
        clicks: u8,
        #[serde(default)]
        modifiers: u8,
    },
    Wheel {
        x: f64,
        y: f64,
        dx: f64,
        dy: f64,
        #[serde(default)]
        modifiers: u8,
    },
    Touch {
        phase: Phase,
        touches: Vec<TouchPoint>,
        #[serde(default)]
        modifiers: u8,
    },
    Key {
        down: bool,
        key: String,
        code: String,
        #[serde(default)]
        key_code: u16,
        #[serde(default)]
        text: String,
        #[serde(default)]
        repeat: bool,
        #[serde(default)]
        location: u8,
        #[serde(default)]
        modifiers: u8,
    },
    /// Text without a key of its own: from an input method, a phone's keyboard or a clipboard.
    Text { text: String },
    /// Text that an input method is still composing.
    Compose { text: String },
}

/// A DevTools command.
pub(super) type Command = (&'static str, Value);

/// The keys and the button that one viewer holds down.
#[derive(Debug, Default)]
pub(super) struct HeldInput {
    keys: BTreeMap<String, (String, u16)>,
    button: Option<(Button, f64, f64)>,
}

impl HeldInput {
    /// The command for an input; `None` for an invalid one.
    pub(super) fn command(&mut self, input: Input) -> Option<Command> {
        Some(match input {
            Input::Mouse { phase, x, y, button, buttons, clicks, modifiers } => {
                if !(is_position(x) && is_position(y)) {
                    return None;
                }
                let kind = match phase {
                    Phase::Down => "mousePressed",
                    Phase::Move => "mouseMoved",
                    Phase::Up | Phase::Cancel => "mouseReleased",
                };
                match phase {
                    Phase::Down => self.button = Some((button, x, y)),
                    Phase::Move => {}
                    Phase::Up | Phase::Cancel => self.button = None,
                }
                let params = json!({
                    "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": clicks,
                    "modifiers": modifiers,
                });
                ("Input.dispatchMouseEvent", params)
            }
            Input::Wheel { x, y, dx, dy, modifiers } => {
                if ![x, y, dx, dy].into_iter().all(is_position) {
                    return None;
                }
                let params = json!({
                    "type": "mouseWheel", "x": x, "y": y, "deltaX": dx, "deltaY": dy, "modifiers": modifiers,
                });
                ("Input.dispatchMouseEvent", params)
            }
            Input::Touch { phase, touches, modifiers } => {
                if touches.len() > MAX_TOUCHES
                    || !touches.iter().all(|touch| is_position(touch.x) && is_position(touch.y))
                {
                    return None;
                }
                let kind = match phase {
                    Phase::Down => "touchStart",
                    Phase::Move => "touchMove",
                    Phase::Up => "touchEnd",
                    Phase::Cancel => "touchCancel",
                };
                let touches = if matches!(phase, Phase::Up | Phase::Cancel) { Vec::new() } else { touches };
                ("Input.dispatchTouchEvent", json!({"type": kind, "touchPoints": touches, "modifiers": modifiers}))
            }
            Input::Key { down, key, code, key_code, text, repeat, location, modifiers } => {
                if key.len() > 64 || code.len() > 64 || text.len() > 64 {
                    return None;
                }
                if down {
                    // It would not be released.
                    if self.keys.len() >= MAX_KEYS && !self.keys.contains_key(&code) {
                        return None;
                    }
                    self.keys.insert(code.clone(), (key.clone(), key_code));
                } else {
                    self.keys.remove(&code);
                }
                let kind = match (down, text.is_empty()) {
                    (false, _) => "keyUp",
                    (true, true) => "rawKeyDown",
                    (true, false) => "keyDown",
                };
                let mut params = json!({
                    "type": kind, "key": key, "code": code, "windowsVirtualKeyCode": key_code,
                    "nativeVirtualKeyCode": key_code, "autoRepeat": repeat, "location": location,
                    "modifiers": modifiers, "isKeypad": location == 3,
                });
                if down && !text.is_empty() {
                    params["text"] = text.as_str().into();
                    params["unmodifiedText"] = text.into();
                }
                if down && let Some(command) = editing(&params) {
                    params["commands"] = json!([command]);
                }
                ("Input.dispatchKeyEvent", params)
            }
            Input::Text { text } if text.len() <= MAX_TEXT => ("Input.insertText", json!({"text": text})),
            Input::Compose { text } if text.len() <= MAX_TEXT => {
                let end = text.encode_utf16().count();
                let params = json!({"text": text, "selectionStart": end, "selectionEnd": end});
                ("Input.imeSetComposition", params)
            }
            Input::Text { .. } | Input::Compose { .. } => return None,
        })
    }

    /// The commands that release everything.
    pub(super) fn release(&mut self) -> Vec<Command> {
        let mut commands: Vec<Command> = std::mem::take(&mut self.keys)
            .into_iter()
            .map(|(code, (key, key_code))| {
                let params = json!({"type": "keyUp", "key": key, "code": code, "windowsVirtualKeyCode": key_code});
                ("Input.dispatchKeyEvent", params)
            })
            .collect();
        if let Some((button, x, y)) = self.button.take() {
            let params = json!({"type": "mouseReleased", "x": x, "y": y, "button": button, "clickCount": 1});
            commands.push(("Input.dispatchMouseEvent", params));
        }
        commands
    }
}

/// Without a window, shortcuts alone do not edit: DevTools also needs the name of the editing command.
fn editing(params: &Value) -> Option<&'static str> {
    const CONTROL: u64 = 2;
    const META: u64 = 4;
    const SHIFT: u64 = 8;
    let modifiers = params["modifiers"].as_u64()?;
    if modifiers & (CONTROL | META) == 0 {
        return None;
    }
    let shift = modifiers & SHIFT != 0;
    match (params["code"].as_str()?, shift) {
        ("KeyA", false) => Some("selectAll"),
        ("KeyC", false) => Some("copy"),
        ("KeyX", false) => Some("cut"),
        ("KeyZ", false) => Some("undo"),
        ("KeyZ", true) | ("KeyY", false) => Some("redo"),
        _ => None,
    }
}

/// Whether a position can lie in a picture. It rejects infinity, which JSON cannot represent.
fn is_position(number: f64) -> bool {
    number.is_finite() && number.abs() < 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: Value) -> Input {
        serde_json::from_value(input).unwrap()
    }

    #[test]
    fn pressed_keys_are_released() {
        let mut held = HeldInput::default();
        let down = json!({"input": "mouse", "phase": "down", "x": 1.5, "y": 2, "button": "left", "clicks": 1});
        let (method, params) = held.command(read(down)).unwrap();
        assert_eq!((method, &params["type"]), ("Input.dispatchMouseEvent", &json!("mousePressed")));
        let key = json!({"input": "key", "down": true, "key": "a", "code": "KeyA", "key_code": 65, "text": "a"});
        let (_, params) = held.command(read(key)).unwrap();
        assert_eq!((&params["type"], &params["text"]), (&json!("keyDown"), &json!("a")));
        let released: Vec<_> = held.release().into_iter().map(|(_, params)| params["type"].clone()).collect();
        assert_eq!(released, ["keyUp", "mouseReleased"]);
        assert!(held.release().is_empty());
    }

    #[test]
    fn a_viewer_holds_no_more_keys_than_a_keyboard_has() {
        let mut held = HeldInput::default();
        let key = |number: usize, down| json!({"input": "key", "down": down, "key": "a", "code": format!("K{number}")});
        let pressed = (0..10_000).filter_map(|number| held.command(read(key(number, true)))).count();
        assert_eq!((pressed, held.keys.len()), (MAX_KEYS, MAX_KEYS));
        assert!(held.command(read(key(0, true))).is_some(), "it repeats");
        held.command(read(key(0, false))).unwrap();
        assert!(held.command(read(key(9999, true))).is_some());
        assert_eq!(held.release().len(), MAX_KEYS);
    }

    #[test]
    fn shortcuts_name_their_editing_command() {
        let mut held = HeldInput::default();
        let key = |modifiers| json!({"input": "key", "down": true, "key": "c", "code": "KeyC", "key_code": 67, "modifiers": modifiers});
        let (_, params) = held.command(read(key(2))).unwrap();
        assert_eq!(params["commands"], json!(["copy"]));
        let (_, params) = held.command(read(key(0))).unwrap();
        assert!(params.get("commands").is_none());
    }

    #[test]
    fn invalid_input_makes_no_command() {
        let mut held = HeldInput::default();
        let far = json!({"input": "mouse", "phase": "move", "x": 1e9, "y": 0});
        assert_eq!(held.command(read(far)), None);
        let input: Vec<_> = (0..11).map(|id| json!({"id": id, "x": 0, "y": 0})).collect();
        assert_eq!(held.command(read(json!({"input": "touch", "phase": "down", "touches": input}))), None);
        assert!(serde_json::from_value::<Input>(json!({"input": "mouse", "phase": "down"})).is_err());
    }
}
