//! The types of requests: what lists call them, and Chromium's bits.

/// A name of a list, and the bit.
const NAMES: [(&str, i32); 12] = [
    ("other", 1),
    ("script", 1 << 1),
    ("image", 1 << 2),
    ("stylesheet", 1 << 3),
    ("object", 1 << 4),
    ("xmlhttprequest", 1 << 5),
    ("object-subrequest", 1 << 6),
    ("subdocument", 1 << 7),
    ("ping", 1 << 8),
    ("media", 1 << 9),
    ("font", 1 << 10),
    ("websocket", 1 << 12),
];

/// The types of a rule that names none. Pages and their popups are not among them.
pub(crate) const ALL: i32 = (1 << 13) - 1 - (1 << 11);

/// The bit of a type; none where a list means something else by the name.
pub(crate) fn bit(name: &str) -> Option<i32> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, bit)| *bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_without_types_is_for_each_of_them() {
        assert_eq!(NAMES.iter().map(|(_, bit)| bit).sum::<i32>(), ALL);
        assert_eq!(bit("popup"), None);
    }
}
