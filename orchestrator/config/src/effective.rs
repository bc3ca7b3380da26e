//! The effective configuration as TOML text.

use std::fmt::Write as _;

use super::{Config, table::SECTIONS};

/// The settings that hold, as TOML, each with its source as a comment.
pub(super) fn effective(config: &Config) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let _ = writeln!(text, "{}[{}]", if text.is_empty() { "" } else { "\n" }, section.name);
        for setting in section.settings {
            let source = config.source(setting.name).map(|source| source.describe(setting)).unwrap_or_default();
            let _ = match config.toml(setting) {
                Some(value) => writeln!(text, "{} = {value}  # {source}", setting.key()),
                None => writeln!(text, "# {} is not set  # {source}", setting.key()),
            };
        }
    }
    text
}
