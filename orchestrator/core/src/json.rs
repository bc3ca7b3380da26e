//! How much memory JSON takes once it is read.

/// What an object takes that has a member, in bytes: its members stand in nodes of eleven.
const OBJECT: usize = 640;
/// What any other value takes, and a member more.
const VALUE: usize = 96;

/// How many times as many bytes as its text may have JSON may take in memory.
const MOST: usize = 4;

/// Whether JSON that others chose may be read as [`Value`](serde_json::Value), where its text may have `limit` bytes: values that
/// are short as text take a hundred times as much.
#[must_use]
pub fn may_be_read(json: &[u8], limit: usize) -> bool {
    unpacked(json) <= limit.saturating_mul(MOST)
}

/// About how much memory these bytes take once they are read as [`Value`](serde_json::Value), in bytes.
fn unpacked(json: &[u8]) -> usize {
    let (mut bytes, mut is_text, mut is_escaped) = (json.len(), false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' if !is_text => bytes = bytes.saturating_add(OBJECT),
            b'[' | b',' if !is_text => bytes = bytes.saturating_add(VALUE),
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_takes_is_told_from_its_text() {
        let text = br#"{"a":"{{{,,,[[[\"{,"}"#;
        assert_eq!(unpacked(text), text.len() + OBJECT, "what stands in a text is text");
        assert!(unpacked("{\"\":0},".repeat(1000).as_bytes()) > 700_000);
        assert!(unpacked("[],".repeat(1000).as_bytes()) > 150_000);
        assert!(may_be_read(&text.repeat(10), 2000) && !may_be_read(&text.repeat(10), 1000));
        assert!(unpacked("x".repeat(1 << 20).as_bytes()) <= 1 << 20);
    }
}
