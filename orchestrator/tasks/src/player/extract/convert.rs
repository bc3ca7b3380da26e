//! Converts texts of a page to numbers, dates, booleans and matches.

use jiff::civil::{Date, DateTime};
use jiff::fmt::rfc2822;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::{Timestamp, Zoned};
use regex::{Captures, Regex};
use serde_json::{Number, Value};

use super::assemble::Room;
use crate::script::StepError;
use crate::script::schema::{Conversion, Group};

/// Texts that mean no.
const NO: [&str; 9] = ["", "0", "false", "no", "off", "none", "null", "n", "unchecked"];

/// Formats of dates and times that pages use, beside ISO 8601 and RFC 2822.
const FORMS: [&str; 16] = [
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y",
    "%B %d, %Y",
    "%b %d, %Y",
    "%b. %d, %Y",
    "%B %d %Y",
    "%d %B %Y",
    "%d %b %Y",
    "%A, %B %d, %Y",
    "%A, %d %B %Y",
    "%a, %d %b %Y",
    "%Y%m%d",
];

/// Converts a text to its type; `None` when it does not fit.
/// Errors: `TooLarge`, `Timeout`.
pub(super) fn convert(how: &Conversion, read: &Value, room: &mut Room) -> Result<Option<Value>, StepError> {
    let text = read.as_str();
    let converted = match how {
        Conversion::Keep => Some(read.clone()),
        Conversion::Number { decimal } => text.and_then(|text| number(text, *decimal)).map(Value::Number),
        Conversion::Boolean { pattern } => Some(Value::Bool(boolean(read, pattern.as_ref(), room)?)),
        Conversion::Date { format } => text.and_then(|text| date(text, format.as_deref())).map(Value::String),
        Conversion::Regex { pattern, group, all } => match (pattern, text) {
            (Some(pattern), Some(text)) => found(pattern, group, *all, text, room)?,
            _ => None,
        },
    };
    room.check_time()?;
    Ok(converted)
}

fn boolean(read: &Value, pattern: Option<&Regex>, room: &Room) -> Result<bool, StepError> {
    Ok(match (read, pattern) {
        (Value::Bool(state), _) => *state,
        (Value::String(text), Some(pattern)) => {
            room.check_search(text, 0, |text, at| pattern.find_at(text, at).map(|found| found.end()))?;
            pattern.is_match(text)
        }
        (Value::String(text), None) => !NO.contains(&text.trim().to_lowercase().as_str()),
        _ => false,
    })
}

/// The first number in a text, with whatever stands around it and between its thousands.
fn number(text: &str, decimal: Option<char>) -> Option<Number> {
    let text = text.replace('\u{2212}', "-");
    let start = text.find(|character: char| character.is_ascii_digit())?;
    let before = text[..start].trim_end_matches(['.', ',']);
    // `-5`, `- 5`, `-€5`, and `.5`, but not the dash of `3-5` or `A-5`.
    let sign = before.trim_end_matches(|c: char| c.is_whitespace() || "$€£¥".contains(c));
    let negative = sign.strip_suffix('-').is_some_and(|rest| !rest.ends_with(char::is_alphanumeric))
        || (sign.ends_with('(') && text[start..].trim_end().ends_with(')'));
    let leading = text[..start].ends_with('.') || (text[..start].ends_with(',') && decimal == Some(','));
    let is_part =
        |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '’' | '_' | '\u{a0}' | '\u{202f}' | ' ');
    let end = text[start..].find(|c: char| !is_part(c)).map_or(text.len(), |at| start + at);
    let digits = text[start..end].trim_end_matches(|c: char| !c.is_ascii_digit());
    let digits = cut_at_wide_gap(digits);
    let mark = decimal.or_else(|| decimal_mark(digits));
    let mut plain = String::from(if negative { "-" } else { "" });
    if leading {
        plain.push_str("0.");
    }
    let mut seen = leading;
    for character in digits.chars() {
        if character.is_ascii_digit() {
            plain.push(character);
        } else if Some(character) == mark && !seen {
            plain.push('.');
            seen = true;
        }
    }
    if let Some(rest) = exponent(&text[end..]).filter(|_| end == start + digits.len()) {
        plain.push_str(rest);
    }
    if let Ok(whole) = plain.parse::<i64>() {
        return Some(whole.into());
    }
    plain.parse::<f64>().ok().and_then(Number::from_f64)
}

/// A space stands between thousands only: `1 234` is one number and `2 345678` are two.
fn cut_at_wide_gap(digits: &str) -> &str {
    let is_space = |c: char| matches!(c, ' ' | '\u{a0}' | '\u{202f}');
    for (at, space) in digits.char_indices().filter(|(_, c)| is_space(*c)) {
        let rest = &digits[at + space.len_utf8()..];
        let run = rest.bytes().take_while(u8::is_ascii_digit).count();
        if run != 3 {
            return digits[..at].trim_end_matches(|c: char| !c.is_ascii_digit());
        }
    }
    digits
}

/// `e-5` right after the digits.
fn exponent(rest: &str) -> Option<&str> {
    let body = rest.strip_prefix(['e', 'E'])?;
    let digits = body.strip_prefix(['+', '-']).unwrap_or(body);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    (count > 0 && count <= 3).then(|| &rest[..rest.len() - digits.len() + count])
}

/// What stands before the fraction, as far as the number itself tells: the last mark, unless it stands more than once,
/// or alone before three digits.
fn decimal_mark(digits: &str) -> Option<char> {
    let last = digits.rfind(['.', ','])?;
    let mark = if digits[last..].starts_with('.') { '.' } else { ',' };
    let other = if mark == '.' { ',' } else { '.' };
    if digits.matches(mark).count() > 1 {
        return None;
    }
    let after = digits.len() - last - 1;
    let grouped = after == 3 && !digits.starts_with("0.") && !digits.starts_with("0,");
    // `1.234,567` and `1,234.567` have both marks; `1,234` has one, and `1.234` is what most programs write.
    if digits.contains(other) || mark == '.' || !grouped { Some(mark) } else { None }
}

fn date(text: &str, format: Option<&str>) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(format) = format {
        return broken_down(&BrokenDownTime::parse(format, &text).ok()?);
    }
    // The forms with an offset first, since the civil ones would leave it out.
    if let Ok(zoned) = text.parse::<Zoned>() {
        return Some(iso(&zoned));
    }
    if text.parse::<Timestamp>().is_ok()
        && let Ok(parsed) = jiff::fmt::temporal::Pieces::parse(&text)
        && let (Some(time), Some(offset)) = (parsed.time(), parsed.to_numeric_offset())
    {
        let moment = offset.to_timestamp(parsed.date().to_datetime(time)).ok()?;
        return Some(moment.display_with_offset(offset).to_string());
    }
    if let Ok(zoned) = rfc2822::parse(&text) {
        return Some(iso(&zoned));
    }
    if text.len() == 10
        && let Ok(day) = text.parse::<Date>()
    {
        return Some(day.to_string());
    }
    if let Ok(moment) = text.parse::<DateTime>() {
        return Some(moment.to_string());
    }
    FORMS.iter().find_map(|form| broken_down(&BrokenDownTime::parse(form, &text).ok()?))
}

fn iso(zoned: &Zoned) -> String {
    zoned.timestamp().display_with_offset(zoned.offset()).to_string()
}

fn broken_down(parsed: &BrokenDownTime) -> Option<String> {
    if let (Some(offset), Ok(moment)) = (parsed.offset(), parsed.to_timestamp()) {
        return Some(moment.display_with_offset(offset).to_string());
    }
    if parsed.hour().is_some() {
        return parsed.to_datetime().ok().map(|moment| moment.to_string());
    }
    parsed.to_date().ok().map(|day| day.to_string())
}

fn found(pattern: &Regex, group: &Group, all: bool, text: &str, room: &mut Room) -> Result<Option<Value>, StepError> {
    let pick = |captures: Captures<'_>| {
        let matched = match group {
            Group::First => captures.get(1).or_else(|| captures.get(0)),
            Group::Number(number) => captures.get(*number),
            Group::Name(name) => captures.name(name),
        };
        matched.map(|matched| matched.as_str().to_owned())
    };
    let end = |captures: &Captures<'_>| captures.get(0).map_or(text.len(), |found| found.end());
    let search = |text: &str, at| pattern.captures_at(text, at).map(|captures| end(&captures));
    let mut found = pattern.captures_iter(text);
    let mut next = |from: usize, room: &Room| room.check_search(text, from, search).map(|()| found.next());
    if !all {
        return Ok(next(0, room)?.and_then(pick).map(Value::String));
    }
    let mut matches = Vec::new();
    let mut from = 0;
    while let Some(captures) = next(from, room)? {
        from = end(&captures);
        // Each search takes time in proportion to the text, and there may be as many as the text has characters.
        room.check_time()?;
        if let Some(matched) = pick(captures) {
            room.take(matched.len() + 2)?;
            matches.push(Value::String(matched));
        }
    }
    Ok(Some(Value::Array(matches)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::player::extract::Limit;

    fn convert(how: &Conversion, read: &Value) -> Option<Value> {
        let limit = Limit { bytes: 1 << 20, elements: 0, until: Instant::now() + Duration::from_secs(600) };
        super::convert(how, read, &mut Room::new(limit)).unwrap()
    }

    #[test]
    fn numbers_are_found_in_common_notations() {
        for (text, expected) in [
            ("42", json!(42)),
            ("€ 1.234,56", json!(1234.56)),
            ("$1,234.56", json!(1234.56)),
            ("1,234,567", json!(1_234_567)),
            ("1.234.567", json!(1_234_567)),
            ("1,234", json!(1234)),
            ("1.234", json!(1.234)),
            ("12,5 kg", json!(12.5)),
            ("0,125", json!(0.125)),
            ("1 234,50 €", json!(1234.5)),
            ("1\u{202f}234", json!(1234)),
            ("1'234.5", json!(1234.5)),
            ("2 345678", json!(2)),
            ("4 of 5", json!(4)),
            ("-7.5%", json!(-7.5)),
            ("\u{2212}3", json!(-3)),
            ("-$5", json!(-5)),
            ("(12)", json!(-12)),
            ("pages 3-5", json!(3)),
            ("A-5", json!(5)),
            (".5", json!(0.5)),
            ("1e3", json!(1000.0)),
            ("6.02e23", json!(6.02e23)),
            ("Price: 10.", json!(10)),
        ] {
            assert_eq!(number(text, None).map(Value::Number), Some(expected), "{text}");
        }
        assert_eq!(number("1.234", Some(',')).map(Value::Number), Some(json!(1234)));
        assert_eq!(number("1,234", Some(',')).map(Value::Number), Some(json!(1.234)));
        for text in ["", "none", "€", "."] {
            assert_eq!(number(text, None), None, "{text}");
        }
    }

    #[test]
    fn dates_and_times_become_iso() {
        for (text, expected) in [
            ("2024-02-29", "2024-02-29"),
            ("2024-02-29T10:30:00Z", "2024-02-29T10:30:00+00:00"),
            ("2024-02-29T10:30:00+02:00", "2024-02-29T10:30:00+02:00"),
            ("2024-02-29 10:30", "2024-02-29T10:30:00"),
            ("Thu, 29 Feb 2024 10:30:00 +0100", "2024-02-29T10:30:00+01:00"),
            ("February 29, 2024", "2024-02-29"),
            ("Feb 29, 2024", "2024-02-29"),
            ("29 February 2024", "2024-02-29"),
            ("Thursday, February 29, 2024", "2024-02-29"),
            ("29.02.2024", "2024-02-29"),
            ("29.02.2024 10:30", "2024-02-29T10:30:00"),
        ] {
            assert_eq!(date(text, None).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(date("02/29/2024", Some("%m/%d/%Y")).as_deref(), Some("2024-02-29"));
        for text in ["", "soon", "30.02.2024", "02/03/2024"] {
            assert_eq!(date(text, None), None, "{text}");
        }
    }

    #[test]
    fn booleans_come_from_states_words_or_matches() {
        let word = |text: &str| convert(&Conversion::Boolean { pattern: None }, &json!(text));
        assert_eq!((word("In stock"), word(" No ")), (Some(json!(true)), Some(json!(false))));
        let pattern = Conversion::Boolean { pattern: Some(Regex::new("(?i)in stock").unwrap()) };
        assert_eq!(convert(&pattern, &json!("sold out")), Some(json!(false)));
        assert_eq!(convert(&pattern, &json!(true)), Some(json!(true)));
        assert_eq!(convert(&Conversion::Boolean { pattern: None }, &Value::Null), Some(json!(false)));
    }

    #[test]
    fn expressions_find_what_they_name() {
        let find = |pattern: &str, group: Group, all: bool| {
            let how = Conversion::Regex { pattern: Some(Regex::new(pattern).unwrap()), group, all };
            convert(&how, &json!("SKU 12-ab, SKU 34-cd"))
        };
        assert_eq!(find(r"\d+", Group::First, false), Some(json!("12")));
        assert_eq!(find(r"SKU (\d+)", Group::First, true), Some(json!(["12", "34"])));
        assert_eq!(find(r"(\d+)-(?<tail>\w+)", Group::Name("tail".to_owned()), false), Some(json!("ab")));
        assert_eq!(find(r"x", Group::Number(0), false), None);
        assert_eq!(find(r"x", Group::Number(0), true), Some(json!([])));
    }

    #[test]
    fn expressions_run_in_linear_time() {
        let how = Conversion::Regex { pattern: Some(Regex::new("(a+)+$").unwrap()), group: Group::First, all: false };
        assert_eq!(convert(&how, &json!("a".repeat(100_000) + "!")), None);
    }

    proptest! {
        #[test]
        fn no_text_breaks_a_reader(text in r"([0-9]|[-.,' eE+€()]|\PC){0,24}") {
            let _ = number(&text, None);
            let _ = date(&text, None);
            let _ = convert(&Conversion::Boolean { pattern: None }, &json!(text));
        }

        #[test]
        fn whole_numbers_stay_what_they_are(value in any::<i32>()) {
            prop_assert_eq!(number(&value.to_string(), None), Some(value.into()));
        }
    }
}
