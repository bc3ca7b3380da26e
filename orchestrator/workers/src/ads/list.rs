//! One list of rules: its text, and which of its lines are no rules.

use std::{fs, io};

use adblock::lists::{FilterParseError, ParseOptions, parse_filter};
use rust_embed::RustEmbed;

use warmpool_config::BUILT_IN_AD_LIST;

/// Broken rules of a list that the log names one by one.
const NAMED: usize = 20;

/// What `scripts/ad-list` fetched. Empty in a daemon that was built without it.
#[derive(RustEmbed)]
#[folder = "../ads"]
#[allow_missing = true]
struct Files;

/// The text of a list.
pub(super) fn read(name: &str) -> io::Result<String> {
    let bytes = if name == BUILT_IN_AD_LIST {
        Files::get("easylist.txt").map(|file| file.data.into_owned()).unwrap_or_default()
    } else {
        fs::read(name).map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What the lines of a list are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) rules: usize,
    pub(super) broken: usize,
    /// The first broken rules, by the numbers of their lines, with what is wrong.
    first: Vec<(usize, String)>,
}

/// Counts the rules of a list, and those that cannot be read.
pub(super) fn check(text: &str) -> Checked {
    let mut checked = Checked::default();
    for (index, line) in text.lines().enumerate() {
        match parse_filter(line, false, ParseOptions::default()) {
            Ok(_) => checked.rules += 1,
            // An empty line or a comment.
            Err(FilterParseError::Empty | FilterParseError::Unsupported) => {}
            Err(error) => {
                checked.broken += 1;
                if checked.first.len() < NAMED {
                    checked.first.push((index + 1, error.to_string()));
                }
            }
        }
    }
    checked
}

impl Checked {
    /// Tells the operator of broken rules in a list of their own. The built-in list has rules of kinds that are not
    /// supported, such as those for popups, and nobody can mend them.
    pub(super) fn log(&self, name: &str) {
        if self.broken == 0 || name == BUILT_IN_AD_LIST {
            return;
        }
        tracing::warn!(list = name, broken = self.broken, "rules of this list cannot be read and are skipped");
        for (line, reason) in &self.first {
            tracing::warn!(list = name, line, reason, "a broken rule");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rules_are_counted_with_their_lines() {
        let checked = check("[Adblock Plus 2.0]\n! a comment\n\n||ads.example^\n||x.example^$nonsense\n##.ad\n##\n");
        assert_eq!((checked.rules, checked.broken), (2, 2));
        let lines: Vec<_> = checked.first.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [5, 7]);
    }
}
