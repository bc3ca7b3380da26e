//! Durations as Go writes them, which is how Selenoid's clients do.

use std::time::Duration;

/// Parses `1m30s`, `90s`, `1.5h`, `500ms`. `None` for anything else, negative ones included.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim().strip_prefix('+').unwrap_or(text.trim());
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match &rest[..end] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number * seconds;
        rest = &rest[end..];
    }
    Duration::try_from_secs_f64(total).ok()
}

/// Whole seconds, rounded up: a session must not end before its time.
pub(super) fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        for (text, millis) in [
            ("1m30s", 90_000),
            ("90s", 90_000),
            ("1.5h", 5_400_000),
            ("500ms", 500),
            ("1h2m3s4ms", 3_723_004),
            ("0", 0),
        ] {
            assert_eq!(parse(text).map(|duration| duration.as_millis()), Some(millis), "{text}");
        }
        for text in ["", "90", "1 m", "-5s", "s", "1d", "1m30", "..s", "99999999999999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(seconds(Duration::from_millis(1_001)), 2);
    }
}
