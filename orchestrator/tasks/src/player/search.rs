//! How long a search for a client's expression takes in a page's text.

use tokio::time::Instant;

/// A text of this size is searched at once, in bytes: the largest expression takes two or three seconds for it.
const PIECE: usize = 16 << 10;
/// How many times as long as its pieces a text may take at once, since in a piece fewer ways to match are open.
const SLOWER: u32 = 3;

/// Whether a search from `from` on ends in time, as far as can be told. Nothing stops one that has begun, and a large expression
/// takes hours for a long text; so the text is searched piece by piece first, which takes nearly as long as all of it at once.
///
/// `search` looks for the expression in a text from a place on, and returns the end of what it finds.
pub(super) fn ends_in_time(
    text: &str,
    from: usize,
    until: Instant,
    search: impl Fn(&str, usize) -> Option<usize>,
) -> bool {
    if text.len().saturating_sub(from) <= PIECE {
        return true;
    }
    let begun = Instant::now();
    let mut at = from;
    while at < text.len() {
        // What was before the piece may matter to the expression, so that only its end is not the text's own.
        let end = (at + PIECE..text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
        let found = search(&text[..end], at);
        if found.is_some_and(|found| found < end) {
            // The search of the whole text ends there, too.
            return true;
        }
        at = end;
        if Instant::now() >= until {
            return false;
        }
    }
    begun.elapsed().saturating_mul(SLOWER) <= until.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use regex::Regex;

    use super::*;

    fn in_time(pattern: &str, text: &str, until: Instant) -> bool {
        let pattern = Regex::new(pattern).unwrap();
        ends_in_time(text, 0, until, |text, at| pattern.find_at(text, at).map(|found| found.end()))
    }

    #[test]
    fn a_search_that_would_take_too_long_does_not_begin() {
        // Each letter begins another way to match, and none of them ends before the text does.
        let (slow, text) = ("a[ab]{300}[c-z]", "ab".repeat(1 << 20));
        assert!(!in_time(slow, &text, Instant::now()));
        assert!(in_time(slow, &text[..1000], Instant::now()), "a short text is just searched");
        assert!(in_time("b", &text, Instant::now()), "what is found at once takes no longer in more text");
        assert!(in_time("x", &text, Instant::now() + Duration::from_secs(600)));
        // Where a piece ends is no end of the text.
        assert!(!in_time(r"\z|a[ab]{300}[c-z]", &text, Instant::now()));
        assert!(!in_time(r"\A[b]|a[ab]{300}[c-z]", &text, Instant::now()));
    }

    #[test]
    fn the_pieces_are_the_whole_text() {
        let text = "é".repeat(PIECE) + "x";
        let pieces = RefCell::new(Vec::new());
        let search = |text: &str, at: usize| {
            pieces.borrow_mut().push(text[at..].to_owned());
            None
        };
        assert!(ends_in_time(&text, 0, Instant::now() + Duration::from_secs(600), search));
        assert_eq!(pieces.borrow().concat(), text);
    }
}
