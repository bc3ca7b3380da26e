//! The members by which a row of a fleet's results says of which item it is.

use std::borrow::Cow;

use serde_json::json;

use crate::task::record::Item;

/// What each row of a fleet begins with.
pub(super) const COLUMNS: [&str; 4] = ["item", "item.status", "item.error", "item.message"];

/// What stands before the name of an input.
const INPUT: &str = "input.";
/// What stands before the name of a field that would pass for one of the item's own members.
const OF_FIELD: &str = "value.";

/// An item's own members, by which its rows can be joined with what was sent: their names, and their values as JSON text.
pub(super) fn members(item: &Item) -> Vec<(String, String)> {
    let error = item.error.as_ref();
    let values = [
        json!(item.index),
        json!(item.status),
        json!(error.map(|error| &error.code)),
        json!(error.map(|error| &error.message)),
    ];
    let own = COLUMNS.iter().zip(values).map(|(name, value)| ((*name).to_owned(), value.to_string()));
    let inputs = item.inputs.iter().map(|(name, value)| (format!("{INPUT}{name}"), value.to_string()));
    own.chain(inputs).collect()
}

/// What a field is called in a row of a fleet. No page and no schema takes the name of one of the item's members, and two fields never
/// get the same one.
pub(super) fn field_name(name: &str) -> Cow<'_, str> {
    let mut bare = name;
    while let Some(rest) = bare.strip_prefix(OF_FIELD) {
        bare = rest;
    }
    let is_taken = COLUMNS.contains(&bare) || bare.starts_with(INPUT);
    if is_taken { Cow::Owned(format!("{OF_FIELD}{name}")) } else { Cow::Borrowed(name) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_make_way_for_the_items_own_members() {
        for (name, called) in [
            ("title", "title"),
            ("items", "items"),
            ("value", "value"),
            ("value.title", "value.title"),
            ("item", "value.item"),
            ("item.error", "value.item.error"),
            ("input.q", "value.input.q"),
            ("value.item", "value.value.item"),
        ] {
            assert_eq!(field_name(name), called);
        }
    }

    proptest! {
        #[test]
        fn no_two_fields_are_one(names in proptest::collection::hash_set("(value\\.|item|input\\.|\\.status){1,4}", 2..5)) {
            let called: std::collections::HashSet<_> = names.iter().map(|name| field_name(name)).collect();
            prop_assert_eq!(called.len(), names.len());
            prop_assert!(called.iter().all(|name| !COLUMNS.contains(&&**name) && !name.starts_with(INPUT)));
        }
    }
}
