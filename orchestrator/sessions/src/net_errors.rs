//! Tells clients of Chromium what the network's error was.
//!
//! Chromium has one error for whatever a SOCKS proxy answers. The daemon knows its own answer, and puts Chromium's own name for it
//! in that error's place. Every name is as long or shorter and ends a string of JSON, so blanks behind the string make up for
//! the rest: messages keep their lengths, and nothing is parsed.

use memchr::memmem;

/// What Chromium says.
const VAGUE: &[u8] = b"net::ERR_SOCKS_CONNECTION_FAILED";
/// What Chromium says, to the end of its string.
const VAGUE_STRING: &[u8] = b"net::ERR_SOCKS_CONNECTION_FAILED\"";
/// No less than this is looked for at the end of what was read: a message does not end like this, so nothing waits.
const SHORTEST_BEGINNING: usize = b"net::".len();

/// Puts the name in the place of Chromium's in these messages. Returns how many bytes at their end may be the beginning of
/// Chromium's.
pub(crate) fn name_in_place(name: &str, bytes: &mut [u8]) -> usize {
    let mut from = 0;
    while let Some(at) = memmem::find(&bytes[from..], VAGUE_STRING) {
        let place = from + at..from + at + VAGUE_STRING.len();
        from = place.end;
        let place = &mut bytes[place];
        if let Some((ours, blanks)) = place.split_at_mut_checked(name.len() + 1) {
            ours[..name.len()].copy_from_slice(name.as_bytes());
            ours[name.len()] = b'"';
            blanks.fill(b' ');
        }
    }
    let rest = &bytes[from..];
    let begun = (SHORTEST_BEGINNING..VAGUE_STRING.len()).rev().find(|count| rest.ends_with(&VAGUE_STRING[..*count]));
    begun.unwrap_or(0)
}

/// A driver's answer with the name in the place of Chromium's, if it has that.
pub(crate) fn named(name: &str, answer: &[u8]) -> Option<Vec<u8>> {
    let at = memmem::find(answer, VAGUE)?;
    Some([&answer[..at], name.as_bytes(), &answer[at + VAGUE.len()..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        br#"{"a":"net::ERR_SOCKS_CONNECTION_FAILED","b":1}{"text":"Failed: net::ERR_SOCKS_CONNECTION_FAILED at"}"#;

    #[test]
    fn an_error_is_named_and_nothing_changes_its_length() {
        for name in [
            "net::ERR_NETWORK_ACCESS_DENIED",
            "net::ERR_ADDRESS_UNREACHABLE",
            "net::ERR_CONNECTION_REFUSED",
            "net::ERR_CONNECTION_TIMED_OUT",
            "net::ERR_NAME_NOT_RESOLVED",
            "net::ERR_PROXY_CONNECTION_FAILED",
        ] {
            let mut bytes = STREAM.to_vec();
            assert_eq!(name_in_place(name, &mut bytes), 0, "{name}");
            let text = String::from_utf8(bytes).unwrap();
            let blanks = " ".repeat(VAGUE.len() - name.len());
            assert!(text.starts_with(&format!(r#"{{"a":"{name}"{blanks},"b":1}}"#)), "{text}");
            assert!(text.ends_with("net::ERR_SOCKS_CONNECTION_FAILED at\"}") && text.len() == STREAM.len(), "{text}");
        }
    }

    #[test]
    fn what_may_be_its_beginning_is_kept() {
        for (text, kept) in [
            (&b"{\"a\":\"net::ERR_SOCKS"[..], 14),
            (b"{\"a\":\"net::", 5),
            (b"{\"a\":\"net:", 0),
            (b"net::ERR_SOCKS_CONNECTION_FAILED", 32),
            (b"net::ERR_SOCKS_CONNECTION_FAILED\"", 0),
            (b"", 0),
        ] {
            assert_eq!(name_in_place("net::ERR_CONNECTION_REFUSED", &mut text.to_vec()), kept, "{text:?}");
        }
    }

    #[test]
    fn a_drivers_message_has_the_name() {
        let answer = br#"{"value":{"message":"unknown error: net::ERR_SOCKS_CONNECTION_FAILED\n  (Session"}}"#;
        let expected = br#"{"value":{"message":"unknown error: net::ERR_NAME_NOT_RESOLVED\n  (Session"}}"#;
        assert_eq!(named("net::ERR_NAME_NOT_RESOLVED", answer).as_deref(), Some(&expected[..]));
        assert_eq!(named("net::ERR_NAME_NOT_RESOLVED", b"{}"), None);
    }
}
