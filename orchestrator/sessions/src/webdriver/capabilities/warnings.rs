//! What a client asks for that has no effect, in words.

use super::standard::shown;

/// How many warnings there are at most, so that no client fills its own answer or the log.
const MOST: usize = 16;

/// Warnings for the client, each of them once.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Warnings(Vec<String>);

impl Warnings {
    /// Notes that `name` has no effect.
    pub(super) fn idle(&mut self, name: &str, reason: &str) {
        let warning = format!("`{}` has no effect: {reason}", shown(name));
        if self.0.len() < MOST && !self.0.contains(&warning) {
            self.0.push(warning);
        }
    }

    /// Adds those of another.
    pub(super) fn extend(&mut self, other: Self) {
        for warning in other.0 {
            if self.0.len() < MOST && !self.0.contains(&warning) {
                self.0.push(warning);
            }
        }
    }

    pub(super) fn into_texts(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_told_once_and_are_not_many() {
        let mut warnings = Warnings::default();
        warnings.idle("a:b", "it is nobody's");
        let mut others = Warnings::default();
        others.idle("a:b", "it is nobody's");
        for number in 0..1000 {
            others.idle(&format!("c:{number}{}", "x".repeat(1000)), "it is nobody's");
        }
        warnings.extend(others);
        let texts = warnings.into_texts();
        assert_eq!((texts.len(), texts[0].as_str()), (MOST, "`a:b` has no effect: it is nobody's"));
        assert!(texts.iter().all(|text| text.len() < 200));
    }
}
