//! The order of a list.

use std::cmp::Ordering;
use std::str::FromStr;

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// Smallest first.
    Ascend,
    /// Largest first.
    #[default]
    Descend,
}

impl SortOrder {
    /// Turns an ascending order into this one.
    pub const fn apply(self, order: Ordering) -> Ordering {
        match self {
            Self::Ascend => order,
            Self::Descend => order.reverse(),
        }
    }
}

impl FromStr for SortOrder {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "ascend" => Ok(Self::Ascend),
            "descend" => Ok(Self::Descend),
            _ => Err(()),
        }
    }
}
