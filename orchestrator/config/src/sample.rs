//! The sample configuration file, written by a test from the table of settings.

use std::fmt::Write as _;

use super::{
    setting::{DefaultValue, Setting},
    table::SECTIONS,
    value::{ValueForm, quoted},
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
            let value = match setting.preset {
                DefaultValue::Is(value) => value,
                DefaultValue::Unset(example) => {
                    text.push_str("# Not set by default. For example:\n");
                    example
                }
                DefaultValue::Found(_, words, example) => {
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
        ValueForm::Number | ValueForm::Switch | ValueForm::Tables => value.to_owned(),
        ValueForm::Text | ValueForm::Quantity => quoted(value),
        ValueForm::List => format!("[{}]", quoted(value)),
    }
}
