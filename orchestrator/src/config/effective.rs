//! The effective configuration as TOML text.

use std::fmt::Write as _;

use super::{
    Config,
    table::{SECTIONS, SETTINGS},
};

/// The settings that hold, as TOML, each with its source as a comment.
pub(super) fn effective(config: &Config) -> String {
    let mut text = String::new();
    for (section, _) in SECTIONS {
        let _ = writeln!(text, "{}[{section}]", if text.is_empty() { "" } else { "\n" });
        for setting in SETTINGS.iter().filter(|setting| setting.section() == *section) {
            let source = config.source(setting.name).map(|source| source.of(setting)).unwrap_or_default();
            let _ = match config.toml(setting.name) {
                Some(value) => writeln!(text, "{} = {value}  # {source}", setting.key()),
                None => writeln!(text, "# {} is not set  # {source}", setting.key()),
            };
        }
    }
    text
}
