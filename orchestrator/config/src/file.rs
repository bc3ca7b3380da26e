//! The configuration file: TOML, a table for each section.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::{
    fault::{ConfigError, Source},
    setting::Setting,
    table::{self, SECTIONS},
    value::TomlForm,
};
use warmpool_core::error::closest;

type Entries = Vec<(&'static str, (String, Source))>;

/// Reads the settings a file names. Every syntax error, unknown name and wrong type becomes a fault.
pub(super) fn read(path: &str, text: &str) -> (Entries, Vec<ConfigError>) {
    let mut reader = Reader { path, text, entries: Vec::new(), faults: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().unwrap_or_default();
        reader.fault(&at, "", format!("is not TOML: {}", error.message()), "correct the syntax".to_owned());
    }
    // After a syntax error what follows may be torn, and its faults would only mislead.
    if errors.is_empty() {
        reader.sections(table.get_ref());
    }
    (reader.entries, reader.faults)
}

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    entries: Entries,
    faults: Vec<ConfigError>,
}

impl Reader<'_> {
    fn line(&self, at: &Range<usize>) -> usize {
        self.text.bytes().take(at.start).filter(|byte| *byte == b'\n').count() + 1
    }

    fn fault(&mut self, at: &Range<usize>, key: &str, what: String, remedy: String) {
        let source = format!("{}:{}", self.path, self.line(at));
        self.faults.push(ConfigError { source, key: key.to_owned(), what, remedy });
    }

    fn sections(&mut self, table: &DeTable<'_>) {
        let known = || SECTIONS.iter().map(|section| section.name);
        for (name, value) in table {
            let (section, at) = (name.get_ref().as_ref(), name.span());
            match value.get_ref() {
                DeValue::Table(keys) if known().any(|known| known == section) => self.keys(section, keys),
                DeValue::Table(_) => {
                    let remedy = match closest(section, known()) {
                        Some(meant) => format!("did you mean [{meant}]?"),
                        None => format!("the sections are {}", known().collect::<Vec<_>>().join(", ")),
                    };
                    self.fault(&at, section, "no such section".to_owned(), remedy);
                }
                _ => {
                    let remedy = match table::all().find(|setting| setting.key() == section) {
                        Some(meant) => format!("write it under [{}]", meant.section()),
                        None => "write settings under a section, such as [server]".to_owned(),
                    };
                    self.fault(&at, section, "stands outside of every section".to_owned(), remedy);
                }
            }
        }
    }

    fn keys(&mut self, section: &str, keys: &DeTable<'_>) {
        for (key, value) in keys {
            let name = format!("{section}.{}", key.get_ref());
            let Some(setting) = Setting::named(&name) else {
                let remedy = suggestion(section, key.get_ref(), &name);
                self.fault(&key.span(), &name, "no such setting".to_owned(), remedy);
                continue;
            };
            match text_of(value.get_ref(), setting.toml_form) {
                Some(text) => {
                    let source = Source::File { path: self.path.to_owned(), line: self.line(&key.span()) };
                    self.entries.push((setting.name, (text, source)));
                }
                None => {
                    let what = format!("is {}", kind(value.get_ref()));
                    self.fault(&key.span(), setting.name, what, format!("write {}", wanted(setting)));
                }
            }
        }
    }
}

/// What may have been meant by an unknown key: one of its section, of another, or by its full name.
fn suggestion(section: &str, key: &str, name: &str) -> String {
    let near = || table::all().filter(|setting| setting.section() == section);
    if let Some(meant) = closest(key, near().map(Setting::key)) {
        return format!("did you mean {meant}?");
    }
    let elsewhere = table::all().find(|setting| setting.key() == key).map(|setting| setting.name);
    match elsewhere.or_else(|| closest(name, table::all().map(|setting| setting.name))) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("[{section}] has {}", near().map(Setting::key).collect::<Vec<_>>().join(", ")),
    }
}

/// A TOML value as the text a flag would give, if its type fits the setting.
fn text_of(value: &DeValue<'_>, form: TomlForm) -> Option<String> {
    match (form, value) {
        (_, DeValue::String(text)) if !matches!(form, TomlForm::Number | TomlForm::Switch) => Some(text.to_string()),
        (TomlForm::Number | TomlForm::Quantity, DeValue::Integer(number)) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
        }
        (TomlForm::Number, DeValue::Float(number)) => Some(number.as_str().to_owned()),
        (TomlForm::Switch, DeValue::Boolean(switch)) => Some(switch.to_string()),
        (TomlForm::List, DeValue::Array(items)) => {
            let items: Option<Vec<_>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            items.map(|items| items.join(","))
        }
        (TomlForm::Tables, DeValue::Array(items)) => {
            let items = items.iter().map(|item| toml::Value::deserialize(ValueDeserializer::from(item.clone())));
            items.collect::<Result<_, _>>().ok().map(|items| toml::Value::Array(items).to_string())
        }
        _ => None,
    }
}

fn wanted(setting: &Setting) -> Cow<'static, str> {
    match setting.toml_form {
        TomlForm::Text => "a string".into(),
        TomlForm::Number => "a number".into(),
        TomlForm::Switch => "true or false, without quotes".into(),
        TomlForm::Quantity => "a string with a unit, or a whole number".into(),
        TomlForm::List => "an array of strings".into(),
        TomlForm::Tables => format!("one [[{}]] table for each", setting.name).into(),
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array of other things",
        DeValue::Table(_) => "a table",
    }
}
