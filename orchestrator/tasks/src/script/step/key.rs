//! The Recorder's names of keys, and their WebDriver codes.

use super::super::fields::wrong;
use super::super::template;
use crate::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// The key's value in an action (W3C WebDriver, section 17.4.2).
    Press(char),
    /// A key that keyboards have and WebDriver has not, by its name: a media key, or one that switches a lamp.
    Unreachable(String),
    /// Not known before its template is filled.
    Open,
}

/// Keys with a name, and WebDriver's value for them.
const NAMED: [(&str, char); 103] = [
    ("Cancel", '\u{E001}'),
    ("Help", '\u{E002}'),
    ("Backspace", '\u{E003}'),
    ("Tab", '\u{E004}'),
    ("Clear", '\u{E005}'),
    ("Enter", '\u{E007}'),
    ("\r", '\u{E007}'),
    ("\n", '\u{E007}'),
    ("NumpadEnter", '\u{E007}'),
    ("Shift", '\u{E008}'),
    ("ShiftLeft", '\u{E008}'),
    ("Control", '\u{E009}'),
    ("ControlLeft", '\u{E009}'),
    ("Alt", '\u{E00A}'),
    ("AltLeft", '\u{E00A}'),
    ("Pause", '\u{E00B}'),
    ("Escape", '\u{E00C}'),
    ("Space", ' '),
    ("PageUp", '\u{E00E}'),
    ("PageDown", '\u{E00F}'),
    ("End", '\u{E010}'),
    ("Home", '\u{E011}'),
    ("ArrowLeft", '\u{E012}'),
    ("ArrowUp", '\u{E013}'),
    ("ArrowRight", '\u{E014}'),
    ("ArrowDown", '\u{E015}'),
    ("Insert", '\u{E016}'),
    ("Delete", '\u{E017}'),
    ("Numpad0", '\u{E01A}'),
    ("Numpad1", '\u{E01B}'),
    ("Numpad2", '\u{E01C}'),
    ("Numpad3", '\u{E01D}'),
    ("Numpad4", '\u{E01E}'),
    ("Numpad5", '\u{E01F}'),
    ("Numpad6", '\u{E020}'),
    ("Numpad7", '\u{E021}'),
    ("Numpad8", '\u{E022}'),
    ("Numpad9", '\u{E023}'),
    ("NumpadMultiply", '\u{E024}'),
    ("NumpadAdd", '\u{E025}'),
    ("NumpadSubtract", '\u{E027}'),
    ("NumpadDecimal", '\u{E028}'),
    ("NumpadDivide", '\u{E029}'),
    ("F1", '\u{E031}'),
    ("F2", '\u{E032}'),
    ("F3", '\u{E033}'),
    ("F4", '\u{E034}'),
    ("F5", '\u{E035}'),
    ("F6", '\u{E036}'),
    ("F7", '\u{E037}'),
    ("F8", '\u{E038}'),
    ("F9", '\u{E039}'),
    ("F10", '\u{E03A}'),
    ("F11", '\u{E03B}'),
    ("F12", '\u{E03C}'),
    ("Meta", '\u{E03D}'),
    ("MetaLeft", '\u{E03D}'),
    ("ShiftRight", '\u{E050}'),
    ("ControlRight", '\u{E051}'),
    ("AltRight", '\u{E052}'),
    ("MetaRight", '\u{E053}'),
    ("Digit0", '0'),
    ("Digit1", '1'),
    ("Digit2", '2'),
    ("Digit3", '3'),
    ("Digit4", '4'),
    ("Digit5", '5'),
    ("Digit6", '6'),
    ("Digit7", '7'),
    ("Digit8", '8'),
    ("Digit9", '9'),
    ("KeyA", 'a'),
    ("KeyB", 'b'),
    ("KeyC", 'c'),
    ("KeyD", 'd'),
    ("KeyE", 'e'),
    ("KeyF", 'f'),
    ("KeyG", 'g'),
    ("KeyH", 'h'),
    ("KeyI", 'i'),
    ("KeyJ", 'j'),
    ("KeyK", 'k'),
    ("KeyL", 'l'),
    ("KeyM", 'm'),
    ("KeyN", 'n'),
    ("KeyO", 'o'),
    ("KeyP", 'p'),
    ("KeyQ", 'q'),
    ("KeyR", 'r'),
    ("KeyS", 's'),
    ("KeyT", 't'),
    ("KeyU", 'u'),
    ("KeyV", 'v'),
    ("KeyW", 'w'),
    ("KeyX", 'x'),
    ("KeyY", 'y'),
    ("KeyZ", 'z'),
    ("Semicolon", ';'),
    ("Equal", '='),
    ("NumpadEqual", '='),
    ("Comma", ','),
    ("Minus", '-'),
    ("Period", '.'),
];

/// More keys that are characters.
const MARKS: [(&str, char); 6] = [
    ("Slash", '/'),
    ("Backquote", '`'),
    ("BracketLeft", '['),
    ("Backslash", '\\'),
    ("BracketRight", ']'),
    ("Quote", '\''),
];

/// Keys that no driver can press.
const UNREACHABLE: &str = "Power Eject Abort CapsLock Conversion NonConvert Select Open PrintScreen ContextMenu F13 F14 F15 F16 \
    F17 F18 F19 F20 F21 F22 F23 F24 NumLock ScrollLock AudioVolumeMute AudioVolumeDown AudioVolumeUp MediaTrackNext \
    MediaTrackPrevious MediaStop MediaPlayPause AltGraph Props Accept ModeChange Print Execute Attn CrSel ExSel EraseEof \
    Play ZoomOut SoftLeft SoftRight Camera Call EndCall VolumeDown VolumeUp Dead Process Unidentified Fn FnLock";

/// Whether a driver would take a character for one of its special keys.
pub(crate) const fn is_special(character: char) -> bool {
    matches!(character, '\u{E000}'..='\u{E05D}')
}

impl Key {
    /// Reads a key by its code (`KeyA`), its value (`a`, `Enter`), or its character.
    /// Errors: `Field`.
    pub(crate) fn parse(field: &str, name: &str) -> Result<Self, Error> {
        if template::is_open(name) {
            return Ok(Self::Open);
        }
        if let Some((_, value)) = NAMED.iter().chain(&MARKS).find(|(known, _)| *known == name) {
            return Ok(Self::Press(*value));
        }
        if UNREACHABLE.split_whitespace().any(|known| known == name) || name == "\0" {
            return Ok(Self::Unreachable(name.to_owned()));
        }
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) if !is_special(only) && !only.is_control() => Ok(Self::Press(only)),
            _ => Err(wrong(field, "is not a key of the Recorder, such as Enter, ArrowDown, KeyA or a")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_code_value_and_character() {
        for (name, key) in [
            ("Enter", '\u{E007}'),
            ("KeyA", 'a'),
            ("a", 'a'),
            ("A", 'A'),
            ("Digit7", '7'),
            (" ", ' '),
            ("é", 'é'),
            ("Backslash", '\\'),
            ("MetaRight", '\u{E053}'),
        ] {
            assert_eq!(Key::parse("key", name).unwrap(), Key::Press(key));
        }
        assert_eq!(Key::parse("key", "CapsLock").unwrap(), Key::Unreachable("CapsLock".to_owned()));
        assert_eq!(Key::parse("key", "{{input.key}}").unwrap(), Key::Open);
        for name in ["", "ab", "enter", "\u{E007}", "KeyÄ"] {
            assert!(Key::parse("key", name).is_err(), "{name:?}");
        }
    }
}
