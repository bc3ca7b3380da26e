//! How much a record or an item can hold of results: each is one value of the store.

use serde::Serialize;

use warmpool_store::MAX_VALUE_BYTES;

/// Bytes for what comes to a record only at its end, such as the time of that, and a note of what was left out.
const SPARE: usize = 2 << 10;

/// Bytes of JSON for what a record or an item is still to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordRoom {
    bytes: usize,
}

impl RecordRoom {
    /// What is left beside a record or an item without results.
    pub(super) fn beside(bare: &impl Serialize) -> Self {
        Self { bytes: MAX_VALUE_BYTES - SPARE }.without(bare)
    }

    /// What is left once a value has its place, which it gets in any case.
    pub(super) fn without(self, value: &impl Serialize) -> Self {
        Self { bytes: self.bytes.saturating_sub(length(value)) }
    }

    /// Takes the place of a member of a list. Returns whether there was one.
    pub(super) fn take(&mut self, member: &impl Serialize) -> bool {
        let left = self.bytes.checked_sub(length(member) + 1);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    /// Whether a text of so many bytes has room.
    pub(super) const fn holds(self, bytes: usize) -> bool {
        bytes <= self.bytes
    }
}

/// Bytes of a value as JSON. One that cannot be written fits nowhere.
fn length(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX / 2, |text| text.len())
}

/// Cuts a text that takes more than so many bytes as JSON, where one byte may be six.
pub(super) fn shorten(text: &mut String, most: usize) {
    let mut bytes = 0;
    let end = text.char_indices().find_map(|(at, character)| {
        bytes += length(&character) - 2;
        (bytes > most).then_some(at)
    });
    if let Some(end) = end {
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_as_long_as_its_json() {
        for (text, shown) in
            [("abcdef", "abcd…"), ("a\u{1}b", "a…"), ("\"\"\"", "\"\"…"), ("éü€", "éü…"), ("abc", "abc")]
        {
            let mut cut = text.to_owned();
            shorten(&mut cut, 4);
            assert_eq!(cut, shown, "{text:?}");
        }
    }

    #[test]
    fn what_has_no_room_takes_none() {
        let mut room = RecordRoom::beside(&json!("x".repeat(MAX_VALUE_BYTES - SPARE - 12)));
        assert!(!room.take(&json!("123456789")));
        assert!(room.take(&json!("1234567")));
        assert_eq!((room.holds(0), room.holds(1)), (true, false));
        assert_eq!(room.without(&json!({})), room, "there is never less than none");
    }
}
