use serde::{Deserialize, Serialize};

/// The colours that pages are to prefer: the media feature `prefers-color-scheme`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColorScheme {
    /// Dark text on a light ground.
    Light,
    /// Light text on a dark ground.
    Dark,
    /// No wish, which the standard has pages take for `light`.
    NoPreference,
}

impl ColorScheme {
    /// Whether pages are to be dark.
    #[must_use]
    pub const fn is_dark(self) -> bool {
        matches!(self, Self::Dark)
    }
}

/// Whether pages are to move less: the media feature `prefers-reduced-motion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReducedMotion {
    /// They are.
    Reduce,
    /// No wish.
    NoPreference,
}

impl ReducedMotion {
    /// Whether pages are to move less.
    #[must_use]
    pub const fn is_reduced(self) -> bool {
        matches!(self, Self::Reduce)
    }
}
