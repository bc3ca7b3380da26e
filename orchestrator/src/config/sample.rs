//! The settings as TOML text: the sample file, and the effective configuration.

use std::fmt::Write as _;

use super::{
    Config,
    table::{Preset, SECTIONS, SETTINGS, Setting},
    value::{Shape, quoted},
};

/// The sample configuration file: every setting as a comment, with its default or an example.
pub fn sample() -> String {
    let mut text = String::from(
        "# Configuration of warmpool; start it with `warmpool serve --config FILE`.\n\
         # Every setting stands here with its default. A flag (--section-key) wins over an environment variable\n\
         # (WARMPOOL_SECTION_KEY), and both win over this file. Durations: \"300ms\", \"30s\", \"5m\", \"24h\", or whole seconds.\n\
         # Sizes: \"64KiB\", \"512MiB\", \"2GiB\", or bytes.\n",
    );
    for (section, about) in SECTIONS {
        let _ = write!(text, "\n[{section}]\n");
        comment(&mut text, about);
        for setting in SETTINGS.iter().filter(|setting| setting.section() == *section) {
            text.push('\n');
            comment(&mut text, setting.help);
            let value = match setting.preset {
                Preset::Is(value) => value,
                Preset::Unset(example) => {
                    text.push_str("# Not set by default. For example:\n");
                    example
                }
                Preset::Found(_, words, example) => {
                    let _ = writeln!(text, "# Default: {words}. For example:");
                    example
                }
            };
            let _ = writeln!(text, "#{} = {}", setting.key(), literal(setting, value));
        }
    }
    text
}

fn comment(text: &mut String, lines: &[&str]) {
    for line in lines {
        let _ = writeln!(text, "# {}", line.trim());
    }
}

fn literal(setting: &Setting, value: &str) -> String {
    match setting.shape {
        Shape::Number | Shape::Switch => value.to_owned(),
        Shape::Text | Shape::Quantity => quoted(value),
        Shape::List | Shape::Lines => format!("[{}]", quoted(value)),
    }
}

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
