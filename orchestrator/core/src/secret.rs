//! Texts that no log shows, and the comparison of secrets.

use std::fmt;

use subtle::ConstantTimeEq as _;

/// Whether two secrets are the same, in a time that tells only whether their lengths differ.
#[must_use]
pub fn equal(left: impl AsRef<[u8]>, right: impl AsRef<[u8]>) -> bool {
    left.as_ref().ct_eq(right.as_ref()).into()
}

/// A text that must not be logged: `Debug` and `Display` hide it. It compares as [`equal`] does.
#[derive(Clone, Eq)]
pub struct Secret(String);

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        equal(&self.0, &other.0)
    }
}

impl Secret {
    /// Hides a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, to be shown once to the one it belongs to.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_equal_or_not() {
        assert!(equal("token", "token") && equal([1, 2], [1, 2]) && equal("", ""));
        assert!(!equal("token", "tokem") && !equal("token", "toke") && !equal("", "t"));
    }
}
