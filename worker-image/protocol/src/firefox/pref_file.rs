//! The files that hold a profile's preferences, `prefs.js` and `user.js`, in the grammar of Firefox's own parser
//! (`modules/libpref/parser`). Firefox passes over what it cannot read; here, that is an error, so that nobody has to
//! know where Firefox would go on.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::fmt::Write as _;

use serde_json::Value;

/// What begins an entry. Each sets a preference; in a file of a profile they differ in nothing that a client needs.
const KEYWORDS: [&str; 3] = ["user_pref", "sticky_pref", "pref"];

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Unreadable {
    /// Where, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: &'static str,
}

/// Reads the preferences of a file, in their order.
///
/// # Errors
///
/// The first place that is not in the grammar.
pub fn read(text: &str) -> Result<Vec<(String, Value)>, Unreadable> {
    let mut reader = Reader { rest: text, line: 1 };
    let mut found = Vec::new();
    while reader.skip()? {
        found.push(reader.entry()?);
    }
    Ok(found)
}

/// One preference as a line of such a file, or `None` when no file can hold the value.
#[must_use]
pub fn line(name: &str, value: &Value) -> Option<String> {
    let value = match value {
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => i32::try_from(number.as_i64()?).ok()?.to_string(),
        Value::String(text) => quoted(text)?,
        _ => return None,
    };
    Some(format!("user_pref({}, {value});\n", quoted(name)?))
}

/// A text as Firefox reads it back, unless it has a zero, which ends a text for Firefox.
fn quoted(text: &str) -> Option<String> {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '\0' => return None,
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            letter if letter.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    Some(quoted)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn wrong(&self, problem: &'static str) -> Unreadable {
        Unreadable { line: self.line, problem }
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        let ends_line = letter == '\n' || (letter == '\r' && !self.rest.starts_with('\n'));
        self.line += usize::from(ends_line);
        Some(letter)
    }

    /// Passes over blanks and comments; `false` at the end.
    fn skip(&mut self) -> Result<bool, Unreadable> {
        loop {
            let mut letters = self.rest.chars();
            match (letters.next(), letters.next()) {
                (None, _) => return Ok(false),
                (Some(' ' | '\t' | '\u{b}' | '\u{c}' | '\r' | '\n'), _) => drop(self.next()),
                (Some('#'), _) | (Some('/'), Some('/')) => {
                    while self.next().is_some_and(|letter| letter != '\n' && letter != '\r') {}
                }
                (Some('/'), Some('*')) => {
                    let end = self.rest[2..].find("*/").ok_or_else(|| self.wrong("a comment has no end"))?;
                    let after = self.rest.len() - (2 + end + 2);
                    while self.rest.len() > after {
                        self.next();
                    }
                }
                _ => return Ok(true),
            }
        }
    }

    fn expect(&mut self, wanted: char, problem: &'static str) -> Result<(), Unreadable> {
        if !self.skip()? || !self.rest.starts_with(wanted) {
            return Err(self.wrong(problem));
        }
        self.next();
        Ok(())
    }

    fn word(&mut self) -> &str {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let (word, rest) = self.rest.split_at(self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn entry(&mut self) -> Result<(String, Value), Unreadable> {
        if !KEYWORDS.contains(&self.word()) {
            return Err(self.wrong("`user_pref(`, `sticky_pref(` or `pref(` wanted"));
        }
        self.expect('(', "`(` wanted")?;
        self.skip()?;
        let name = self.text()?;
        self.expect(',', "`,` wanted")?;
        self.skip()?;
        let value = self.value()?;
        // What may follow, `sticky` and `locked`, stands in the files of an installation only.
        self.expect(')', "`)` wanted")?;
        self.expect(';', "`;` wanted")?;
        Ok((name, value))
    }

    fn value(&mut self) -> Result<Value, Unreadable> {
        match self.rest.chars().next() {
            Some('"' | '\'') => self.text().map(Value::String),
            Some('-' | '+' | '0'..='9') => self.number(),
            _ => match self.word() {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err(self.wrong("a text, a whole number, `true` or `false` wanted")),
            },
        }
    }

    fn number(&mut self) -> Result<Value, Unreadable> {
        let digits = usize::from(self.rest.starts_with(['-', '+']));
        let length = self.rest[digits..].find(|letter: char| !letter.is_ascii_digit());
        let (written, rest) = self.rest.split_at(length.map_or(self.rest.len(), |length| digits + length));
        let number = written.parse::<i32>().map_err(|_| self.wrong("a whole number of 32 bits wanted"))?;
        self.rest = rest;
        Ok(Value::from(number))
    }

    fn text(&mut self) -> Result<String, Unreadable> {
        let Some(quote @ ('"' | '\'')) = self.rest.chars().next() else { return Err(self.wrong("a text wanted")) };
        self.next();
        let mut text = String::new();
        loop {
            let letter = self.next().ok_or_else(|| self.wrong("a text has no end"))?;
            let letter = match letter {
                letter if letter == quote => return Ok(text),
                '\\' => self.escaped()?,
                letter => letter,
            };
            if letter == '\0' {
                return Err(self.wrong("a text has a zero in it"));
            }
            text.push(letter);
        }
    }

    fn escaped(&mut self) -> Result<char, Unreadable> {
        match self.next() {
            Some(letter @ ('"' | '\'' | '\\')) => Ok(letter),
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('x') => Ok(char::from(u8::try_from(self.hexadecimal(2)?).unwrap_or_default())),
            Some('u') => {
                let mut units = vec![self.hexadecimal(4)?];
                if (0xd800..0xdc00).contains(&units[0]) && self.rest.starts_with("\\u") {
                    self.rest = &self.rest[2..];
                    units.push(self.hexadecimal(4)?);
                }
                match char::decode_utf16(units).collect::<Result<Vec<_>, _>>().as_deref() {
                    Ok([letter]) => Ok(*letter),
                    _ => Err(self.wrong("half of a surrogate pair")),
                }
            }
            _ => Err(self.wrong("an escape that Firefox does not know")),
        }
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u16, Unreadable> {
        let wrong = self.wrong("an escape without its digits");
        let written = self.rest.get(..digits).filter(|written| written.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let value = u16::from_str_radix(written.ok_or_else(|| wrong.clone())?, 16).map_err(|_| wrong)?;
        self.rest = &self.rest[digits..];
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_firefox_reads_is_read() {
        let text = "# a comment\n// another; user_pref(\"no\", 1);\n/* user_pref(\"no\", 2); */\r\n\
            user_pref(\"a.b\", 1);user_pref('single', 'a\"b');\n\
            pref ( \"spaced\" /* here */ , // and here\n -7 ) ;\n\
            sticky_pref(\"yes\", true); user_pref(\"\\x61\\u0062\\uD83D\\uDE00\", \"\\n\\r\\\\\\'\\\"\");\n\
            user_pref(\"plus\", +12);\u{b}\u{c}";
        let wanted = [
            ("a.b", json!(1)),
            ("single", json!("a\"b")),
            ("spaced", json!(-7)),
            ("yes", json!(true)),
            ("ab\u{1f600}", json!("\n\r\\'\"")),
            ("plus", json!(12)),
        ];
        assert_eq!(read(text).unwrap(), wanted.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn what_firefox_cannot_read_is_an_error() {
        for (text, line) in [
            ("lockPref(\"a\", 1);", 1),
            ("user_pref(\"a\", 1)", 1),
            ("user_pref(\"a\" 1);", 1),
            ("\nuser_pref(a, 1);", 2),
            ("user_pref(\"a\", 1.5);", 1),
            ("user_pref(\"a\", 4294967296);", 1),
            ("user_pref(\"a\", getPref(\"a\"));", 1),
            ("user_pref(\"a\", \"x", 1),
            ("user_pref(\"a\", \"\\t\");", 1),
            ("user_pref(\"a\\x00\", 1);", 1),
            ("user_pref(\"a\0\", 1);", 1),
            ("user_pref(\"\\ud800\", 1);", 1),
            ("user_pref(\"a\", 1, locked);", 1),
            ("user_pref(\"a\", 1);\r\n/* x", 2),
            ("\u{feff}user_pref(\"a\", 1);", 1),
            ("user_prefs(\"a\", 1);", 1),
        ] {
            assert_eq!(read(text).map_err(|error| error.line), Err(line), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_line_reads_as_what_was_written(name in "[^\\x00]{0,20}", text in "\\PC{0,20}|[\\x01-\\x7f]{0,20}", number: i32) {
            for value in [json!(text), json!(number), json!(true)] {
                let line = line(&name, &value).unwrap();
                prop_assert_eq!(line.matches('\n').count(), 1);
                prop_assert_eq!(read(&line).unwrap(), [(name.clone(), value)]);
            }
        }

        #[test]
        fn nothing_makes_the_reader_panic(text in "(user_pref|pref|\\(|\\)|\"|'|\\\\|u|x|d8|/|\\*|;|,|1|\\PC|\n){0,40}") {
            let _ = read(&text);
        }
    }

    #[test]
    fn values_of_other_kinds_have_no_line() {
        for value in [json!(1.5), json!(null), json!([]), json!(1u64 << 31), json!("a\0")] {
            assert_eq!(line("a", &value), None, "{value}");
        }
    }
}
