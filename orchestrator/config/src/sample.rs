//! The sample configuration file, written by a test from the table of settings.

use std::fmt::Write as _;

use super::{
    setting::{DefaultValue, Setting},
    table::SECTIONS,
    value::{TomlForm, quoted},
};

/// The sample configuration file: every setting as a comment, with its default or an example.
pub(crate) fn sample() -> String {
    let mut text = String::from(
        "# Configuration of warmpool; start it with `warmpool serve --config FILE`.\n\
         # Every setting stands here with its default. A flag (--section-key) wins over an environment variable\n\
         # (WARMPOOL_SECTION_KEY), and both win over this file. Durations: \"300ms\", \"30s\", \"5m\", \"24h\", or whole seconds.\n\
         # Sizes: \"64KiB\", \"512MiB\", \"2GiB\", or bytes.\n",
    );
    for section in SECTIONS {
        let _ = write!(text, "\n[{}]\n", section.name);
        comment(&mut text, section.about);
        for setting in section.settings {
            text.push('\n');
            comment(&mut text, setting.help);
            let value = match setting.default {
                DefaultValue::Is(value) => value,
                DefaultValue::Unset(example) => {
                    text.push_str("# Not set by default. For example:\n");
                    example
                }
                DefaultValue::Computed(_, words, example) => {
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

/// A value as TOML has it.
fn literal(setting: &Setting, value: &str) -> String {
    match setting.toml_form {
        TomlForm::Number | TomlForm::Switch | TomlForm::Tables => value.to_owned(),
        TomlForm::Text | TomlForm::Quantity => quoted(value),
        TomlForm::List => format!("[{}]", value.split(',').map(quoted).collect::<Vec<_>>().join(", ")),
    }
}
