//! One setting as the table has it: its names, its help, its default.

use super::default::ComputeDefault;
use super::value::TomlForm;

/// One section of the table.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: &'static str,
    /// What it is about, a line each.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the sample file shows it, which a test writes"))]
    pub(super) about: &'static [&'static str],
    pub(super) settings: &'static [Setting],
}

/// One setting, as text.
#[derive(Debug)]
pub(super) struct Setting {
    /// Section and key, such as `server.listen`.
    pub(super) name: &'static str,
    /// What it does, a line each.
    pub(super) help: &'static [&'static str],
    /// What holds when no source names it.
    pub(super) default: DefaultValue,
    /// The smallest allowed value, in the setting's own notation.
    pub(super) min: Option<&'static str>,
    /// How it may be written in TOML.
    pub(super) toml_form: TomlForm,
    /// The placeholder for its value in the flags' help.
    pub(super) placeholder: &'static str,
}

/// What holds when no source names a setting.
#[derive(Debug)]
pub(super) enum DefaultValue {
    /// This text.
    Is(&'static str),
    /// Nothing; the text is an example.
    Unset(&'static str),
    /// What the function computes; then the words for it, and an example.
    Computed(ComputeDefault, &'static str, &'static str),
}

impl Setting {
    /// Its section, such as `server`.
    pub(super) fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its key within the section, such as `listen`.
    pub(super) fn key(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(_, key)| key)
    }

    /// Its environment variable, such as `WARMPOOL_SERVER_LISTEN`.
    pub(super) fn env(&self) -> String {
        format!("WARMPOOL_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// Its flag without the dashes, such as `server-listen`.
    pub(super) fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }
}
