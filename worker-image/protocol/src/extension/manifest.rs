//! What an extension says of itself.

use serde_json::{Map, Value};

use super::ExtensionError;

/// The longest name or version that is shown, in characters.
const MAX_SHOWN: usize = 200;
/// The most permissions that are shown.
const MAX_PERMISSIONS: usize = 200;
/// What stands around the name of a text.
const MESSAGE: (&str, &str) = ("__MSG_", "__");

/// What a manifest says, as far as anybody here needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// 2 or 3.
    pub manifest_version: u8,
    /// The extension's name; of one with several languages, in the default one.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The language of its texts where there is no better one.
    pub default_locale: Option<String>,
    /// What it may do, and before version 3 where.
    pub permissions: Vec<String>,
    /// Which sites it may reach and change: of its host permissions and its content scripts.
    pub hosts: Vec<String>,
    /// Its id in Firefox, where it names one.
    pub gecko_id: Option<String>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// [`ExtensionError::Manifest`].
    pub fn parse(text: &[u8]) -> Result<Self, ExtensionError> {
        let wrong = |problem: String| ExtensionError::Manifest(problem);
        let object = read_object(text).map_err(wrong)?;
        let required = |name: &str| match object.get(name) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(shown(text)),
            Some(_) => Err(wrong(format!("must have a text as `{name}`"))),
            None => Err(wrong(format!("has no `{name}`"))),
        };
        let manifest_version = match object.get("manifest_version").map(Value::as_u64) {
            Some(Some(version @ 2..=3)) => u8::try_from(version).unwrap_or_default(),
            Some(_) => return Err(wrong("must have 2 or 3 as `manifest_version`".to_owned())),
            None => return Err(wrong("has no `manifest_version`".to_owned())),
        };
        let list = |value: Option<&Value>| -> Vec<String> {
            let texts = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            texts.take(MAX_PERMISSIONS).map(shown).collect()
        };
        let mut hosts = list(object.get("host_permissions"));
        for script in object.get("content_scripts").and_then(Value::as_array).into_iter().flatten() {
            hosts.extend(list(script.get("matches")));
        }
        hosts.sort_unstable();
        hosts.dedup();
        hosts.truncate(MAX_PERMISSIONS);
        let gecko = object.get("browser_specific_settings").or_else(|| object.get("applications"));
        let gecko_id = gecko.and_then(|settings| settings["gecko"]["id"].as_str());
        Ok(Self {
            manifest_version,
            name: required("name")?,
            version: required("version")?,
            default_locale: object.get("default_locale").and_then(Value::as_str).map(str::to_owned),
            permissions: list(object.get("permissions")),
            hosts,
            gecko_id: gecko_id.map(shown),
        })
    }

    /// The same with its name from these texts, where it only says which of them it is.
    #[must_use]
    pub(super) fn named_by(mut self, texts: Option<&Map<String, Value>>) -> Self {
        let key = self.name.strip_prefix(MESSAGE.0).and_then(|rest| rest.strip_suffix(MESSAGE.1));
        let text = key.and_then(|key| {
            let (_, text) = texts?.iter().find(|(name, _)| name.eq_ignore_ascii_case(key))?;
            text["message"].as_str().filter(|text| !text.trim().is_empty())
        });
        if let Some(text) = text {
            self.name = shown(text);
        }
        self
    }
}

/// Reads an object of JSON, in which browsers allow a byte order mark and comments.
pub(super) fn read_object(text: &[u8]) -> Result<Map<String, Value>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "is not in UTF-8".to_owned())?;
    let text = without_comments(text.strip_prefix('\u{feff}').unwrap_or(text));
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("must be a JSON object".to_owned()),
        Err(error) => Err(format!("is not valid JSON: {error}")),
    }
}

/// The text with blanks in place of comments, so that errors name the right place.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', _) => {
                plain.push(c);
                while let Some(c) = rest.next() {
                    plain.push(c);
                    match c {
                        '\\' => plain.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => {
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    plain.push(if c == '\r' { c } else { ' ' });
                }
            }
            ('/', Some('*')) => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if c == '\n' {
                        plain.push(c);
                    }
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                plain.push(' ');
            }
            _ => plain.push(c),
        }
    }
    plain
}

/// A text as lists show it.
fn shown(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}
