//! Selenium's upload while it arrives: `{"file": "<a zip in base64>"}` becomes the zip, piece by piece, so that a large
//! file takes no memory.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Error;
use warmpool_core::error::FieldFault as _;

/// The longest name of a member, in bytes.
const MAX_NAME: usize = 256;

/// Reads such a body in pieces.
#[derive(Debug, Default)]
pub(super) struct Archive {
    place: BodyPosition,
    name: Vec<u8>,
    /// The half of an escape that came with an earlier piece.
    escape: Vec<u8>,
    /// Characters of base64 that make no whole bytes yet.
    coded: Vec<u8>,
    padded: bool,
    found: bool,
    /// How deep in a value of no interest.
    depth: usize,
    in_text: bool,
}

/// Where in the body the next byte is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum BodyPosition {
    /// Before the object.
    #[default]
    Start,
    /// Before a member, or the end of an object that has none yet.
    First,
    /// Before a member.
    Member,
    /// In a member's name.
    Name,
    /// Behind it.
    Colon,
    /// Before its value.
    Value,
    /// In the text that is the file.
    File,
    /// In a value of no interest.
    Other,
    /// Behind a value.
    Comma,
    /// Behind the object.
    End,
}

impl Archive {
    /// Takes a piece of the body. Returns what it has of the zip.
    /// Errors: `InvalidBody` for what is no such object, `Field` when `file` is no base64.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Vec<u8>, Error> {
        let mut rest = piece;
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            match self.place {
                BodyPosition::File => {
                    // Most of the body: whole runs at once.
                    let run = 1 + tail.iter().take_while(|byte| !matches!(byte, b'"' | b'\\')).count();
                    if self.escape.is_empty() && !matches!(byte, b'"' | b'\\') {
                        let run = &piece[piece.len() - tail.len() - 1..][..run];
                        self.coded.extend(run.iter().filter(|byte| !byte.is_ascii_whitespace()));
                        rest = &tail[run.len() - 1..];
                    } else if let Some(character) = self.character(byte)? {
                        if !character.is_ascii_whitespace() {
                            self.coded.push(character);
                        }
                    } else if self.escape.is_empty() {
                        self.place = BodyPosition::Comma;
                    }
                }
                BodyPosition::Name => match self.character(byte)? {
                    Some(_) if self.name.len() == MAX_NAME => return Err(wrong("a name in it is too long")),
                    Some(character) => self.name.push(character),
                    None if self.escape.is_empty() => self.place = BodyPosition::Colon,
                    None => {}
                },
                BodyPosition::Other => self.pass(byte),
                _ if byte.is_ascii_whitespace() => {}
                place => self.structure(place, byte)?,
            }
        }
        self.decode(false)
    }

    /// Ends the body. Returns the rest of the zip.
    /// Errors: those of [`Archive::feed`].
    pub(super) fn finish(mut self) -> Result<Vec<u8>, Error> {
        if self.place != BodyPosition::End {
            return Err(wrong("it ends too early"));
        }
        if !self.found {
            return Err(missing());
        }
        self.decode(true)
    }

    /// The next byte between names and values.
    fn structure(&mut self, place: BodyPosition, byte: u8) -> Result<(), Error> {
        self.place = match (place, byte) {
            (BodyPosition::Start, b'{') => BodyPosition::First,
            (BodyPosition::First, b'}') | (BodyPosition::Comma, b'}') => BodyPosition::End,
            (BodyPosition::First | BodyPosition::Member, b'"') => {
                self.name.clear();
                BodyPosition::Name
            }
            (BodyPosition::Colon, b':') => BodyPosition::Value,
            (BodyPosition::Value, b'"') if self.name == b"file" => {
                if std::mem::replace(&mut self.found, true) {
                    return Err(Error::invalid("file", "is given twice: send one value"));
                }
                BodyPosition::File
            }
            (BodyPosition::Value, _) if self.name == b"file" => return Err(missing()),
            (BodyPosition::Value, byte) if !matches!(byte, b',' | b'}' | b']' | b':') => {
                (self.depth, self.in_text) = (0, false);
                self.place = BodyPosition::Other;
                self.pass(byte);
                return Ok(());
            }
            (BodyPosition::Comma, b',') => BodyPosition::Member,
            _ => return Err(wrong("a character in it is out of place")),
        };
        Ok(())
    }

    /// Passes over a byte of a value of no interest.
    fn pass(&mut self, byte: u8) {
        if self.in_text {
            match (self.escape.pop(), byte) {
                (Some(_), _) => {}
                (None, b'\\') => self.escape.push(byte),
                (None, b'"') => self.in_text = false,
                (None, _) => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' if self.depth == 0 => self.place = BodyPosition::End,
            b',' if self.depth == 0 => self.place = BodyPosition::Member,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    /// The next character of a text; `None` in the middle of an escape, and at the text's end, when no escape is open.
    fn character(&mut self, byte: u8) -> Result<Option<u8>, Error> {
        if self.escape.is_empty() {
            return Ok(match byte {
                b'"' => None,
                b'\\' => {
                    self.escape.push(byte);
                    None
                }
                byte => Some(byte),
            });
        }
        self.escape.push(byte);
        let character = match *self.escape.as_slice() {
            [_, b'u'] | [_, b'u', _] | [_, b'u', _, _] | [_, b'u', _, _, _] => return Ok(None),
            [_, b'u', ref digits @ ..] => {
                // A number may have a sign, and an escape may not.
                let digits = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit));
                let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                // What is no ASCII is neither in base64 nor in the name that is looked for.
                code.map(|code| u8::try_from(code).ok().filter(u8::is_ascii).unwrap_or(b'?'))
            }
            [_, b'n'] => Some(b'\n'),
            [_, b'r'] => Some(b'\r'),
            [_, b't'] => Some(b'\t'),
            [_, b'b' | b'f'] => Some(b' '),
            [_, escaped @ (b'"' | b'\\' | b'/')] => Some(escaped),
            _ => None,
        };
        self.escape.clear();
        character.map(Some).ok_or_else(|| wrong("an escape in it is none of JSON's"))
    }

    /// Decodes what is whole of the base64; at the end that has to be all.
    fn decode(&mut self, all: bool) -> Result<Vec<u8>, Error> {
        let whole = if all { self.coded.len() } else { self.coded.len() / 4 * 4 };
        if whole == 0 {
            return Ok(Vec::new());
        }
        let fault = |cause: &str| Error::invalid("file", format!("is not base64: {cause}"));
        if std::mem::replace(&mut self.padded, self.coded[..whole].contains(&b'=')) {
            return Err(fault("something follows its padding"));
        }
        let decoded = STANDARD.decode(&self.coded[..whole]).map_err(|error| fault(&error.to_string()))?;
        self.coded.drain(..whole);
        Ok(decoded)
    }
}

fn wrong(what: &str) -> Error {
    Error::InvalidBody { message: format!("the body is not JSON: {what}") }
}

fn missing() -> Error {
    Error::invalid("file", "must be the file, as a zip in base64")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use warmpool_core::error::Fault as _;

    fn read(text: &[u8], step: usize) -> Result<Vec<u8>, Error> {
        let mut archive = Archive::default();
        let mut zip = Vec::new();
        for piece in text.chunks(step) {
            zip.extend(archive.feed(piece)?);
        }
        zip.extend(archive.finish()?);
        Ok(zip)
    }

    fn field_of(text: &str) -> String {
        let error = read(text.as_bytes(), 3).unwrap_err();
        error.field().map_or_else(|| error.code().as_str().to_owned(), str::to_owned)
    }

    #[test]
    fn every_way_to_write_it_is_read() {
        for text in [
            r#"{"file":"aGVsbG8gd29ybGQ="}"#,
            r#" { "file" : "aGVsbG8g\nd29y\r\nbGQ=" } "#,
            r#"{"file":"aGVsbG8gd29ybGQ\u003d"}"#,
            r#"{"f\u0069le":"aGVsbG8gd29ybGQ="}"#,
            r#"{"a":{"b":["}",{"c":"\"]"}]},"file":"aGVsbG8gd29ybGQ=","z":-1.5e3}"#,
            r#"{"a":"\\","b":null,"c":true,"file":"aGVsbG8gd29ybGQ="}"#,
        ] {
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(read(text.as_bytes(), step).unwrap(), b"hello world", "{text} by {step}");
            }
        }
        assert_eq!(read(br#"{"file":"\/\/\/\/"}"#, 2).unwrap(), [255, 255, 255]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, field) in [
            ("", "invalid_body"),
            ("[]", "invalid_body"),
            ("{", "invalid_body"),
            (r#"{"file":"aGVs"#, "invalid_body"),
            (r#"{"file":"aGVs"} x"#, "invalid_body"),
            (r#"{"file":"aG\x"}"#, "invalid_body"),
            (r#"{"file":"aGV\u+073"}"#, "invalid_body"),
            (r#"{"file" "aGVs"}"#, "invalid_body"),
            ("{}", "file"),
            (r#"{"other":"aGVs"}"#, "file"),
            (r#"{"file":7}"#, "file"),
            (r#"{"file":"no base64!"}"#, "file"),
            (r#"{"file":"aGV"}"#, "file"),
            (r#"{"file":"aG==aGVs"}"#, "file"),
            (r#"{"file":"aGVs","file":"aGVs"}"#, "file"),
            (r#"{"file":"a\u00e9Vs"}"#, "file"),
        ] {
            assert_eq!(field_of(text), field, "{text}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            let object = prop::collection::btree_map(".{0,6}", inner.clone(), 0..4);
            let object = object.prop_map(|members| Value::Object(members.into_iter().collect()));
            prop_oneof![prop::collection::vec(inner, 0..4).prop_map(Value::from), object]
        })
    }

    proptest! {
        /// As a parser that reads the whole would have it, wherever the pieces end and whatever stands beside.
        #[test]
        fn pieces_make_the_whole(
            zip in prop::collection::vec(any::<u8>(), 0..200),
            beside in prop::collection::btree_map("[a-eg-z\"\\\\]{0,6}", value(), 0..4),
            step in 1_usize..50,
            pretty: bool,
        ) {
            let mut body = Value::Object(beside.into_iter().collect());
            body["file"] = json!(STANDARD.encode(&zip));
            let text = if pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) };
            prop_assert_eq!(read(&text.unwrap(), step).unwrap(), zip);
        }
    }
}
