//! The values of all settings, each from its strongest source.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use super::{
    default::{ComputedDefault, Lookup},
    fault::{ConfigError, Source},
    host::Host,
    setting::{DefaultValue, Setting},
    value::{InvalidValue, Value},
};

/// Every value some source names, the strongest of each setting; and the faults met so far.
#[derive(Debug)]
pub(super) struct Layers<'a> {
    host: &'a Host,
    env: HashMap<String, String>,
    named: HashMap<&'static str, (String, Source)>,
    origins: BTreeMap<&'static str, Source>,
    faults: Vec<ConfigError>,
}

impl<'a> Layers<'a> {
    /// What each source names, and the faults of reading it.
    pub(super) const fn new(
        host: &'a Host,
        env: HashMap<String, String>,
        named: HashMap<&'static str, (String, Source)>,
        faults: Vec<ConfigError>,
    ) -> Self {
        Self { host, env, named, origins: BTreeMap::new(), faults }
    }

    /// The text that holds for a setting, and its source.
    fn read(&self, setting: &'static Setting) -> (Cow<'_, str>, Source) {
        if let Some((text, source)) = self.named.get(setting.name) {
            return (Cow::Borrowed(text), source.clone());
        }
        match setting.default {
            DefaultValue::Is(text) => (Cow::Borrowed(text), Source::Default),
            DefaultValue::Unset(_) => (Cow::Borrowed(""), Source::Default),
            DefaultValue::Computed(compute, ..) => {
                let ComputedDefault { text, from } = compute(self);
                (Cow::Owned(text), Source::Computed(from))
            }
        }
    }

    /// The value that holds for a setting. Where it is wrong the fault is noted and a stand-in returned, so that
    /// the rest can still be checked; a configuration with faults is never handed out.
    #[expect(clippy::expect_used, reason = "names come from the table, and a test parses each of its texts")]
    pub(super) fn take<T: Value>(&mut self, name: &'static str) -> T {
        let setting = Setting::named(name).expect("a name of the table");
        let (text, source) = self.read(setting);
        let read = T::parse(&text).and_then(|value| match setting.min {
            Some(min) if value.below(&T::parse(min)?) => {
                Err(InvalidValue::new(format!("{} is too little", text.trim()), format!("write {min} or more")))
            }
            _ => Ok(value),
        });
        self.origins.insert(name, source);
        read.unwrap_or_else(|InvalidValue { what, remedy }| {
            self.fault(name, what, remedy);
            let (DefaultValue::Is(text) | DefaultValue::Unset(text) | DefaultValue::Computed(_, _, text)) =
                setting.default;
            T::parse(text).expect("a text of the table")
        })
    }

    /// Notes a fault of a setting that was taken before.
    pub(super) fn fault(&mut self, name: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let source = Setting::named(name).zip(self.origins.get(name)).map(|(setting, source)| source.describe(setting));
        self.faults.push(ConfigError {
            source: source.unwrap_or_default(),
            key: name.to_owned(),
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// Whether none of these settings has a fault, so that they may be compared.
    pub(super) fn sound(&self, names: &[&str]) -> bool {
        !self.faults.iter().any(|fault| names.contains(&fault.key.as_str()))
    }

    /// The sources of all settings taken, and the faults met.
    pub(super) fn finish(self) -> (BTreeMap<&'static str, Source>, Vec<ConfigError>) {
        (self.origins, self.faults)
    }
}

impl Lookup for Layers<'_> {
    fn host(&self) -> &Host {
        self.host
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(self.read(Setting::named(name)?).0)
    }

    fn named(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(|(text, _)| text.as_str())
    }
}
