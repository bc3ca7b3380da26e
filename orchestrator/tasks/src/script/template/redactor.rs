//! Hides the secrets of a task in whatever leaves it.

mod forms;

use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::Anchored;
use aho_corasick::automaton::Automaton as _;
use aho_corasick::nfa::contiguous::{Builder, NFA};
use serde_json::Value;

use super::Values;

/// What stands in an output where a secret would.
pub(super) const HIDDEN: &str = "[secret]";
/// How often a secret in an address may be encoded: an address within an address within an address.
const LEVELS: usize = 3;

/// Takes secrets out of whatever leaves a task, in each of their [`forms`].
///
/// In addresses a secret is percent-encoded, by rules that differ from part to part of an address, and from program to program. So
/// they are looked for in what the text says once it is decoded, and what is hidden is where that stands in the text.
pub(crate) struct Redactor {
    /// In all their forms.
    secrets: BTreeSet<String>,
    plain: Finder,
    /// The same for what was decoded, as [`Layer`] does it. A secret that looks as if it were encoded is decoded there, too.
    decoded: Finder,
}

impl Redactor {
    /// Hides every secret of `values`, also within objects and lists.
    pub(crate) fn new(values: &Values) -> Self {
        fn collect(value: &Value, secrets: &mut BTreeSet<String>) {
            match value {
                Value::Null | Value::Bool(_) => {}
                Value::Number(number) => drop(secrets.insert(number.to_string())),
                Value::String(text) => drop(secrets.insert(text.clone())),
                Value::Array(items) => items.iter().for_each(|item| collect(item, secrets)),
                Value::Object(members) => members.values().for_each(|member| collect(member, secrets)),
            }
        }
        let mut secrets = BTreeSet::new();
        values.secrets.values().for_each(|value| collect(value, &mut secrets));
        let secrets = forms::of(&secrets);
        let mut decoded: BTreeSet<Vec<u8>> = BTreeSet::new();
        for secret in &secrets {
            let mut form = without_plus(secret.as_bytes());
            decoded.insert(form.clone());
            for _ in 0..LEVELS {
                form = Layer::decode(&form).bytes;
                decoded.insert(form.clone());
            }
        }
        decoded.retain(|form| !form.trim_ascii().is_empty());
        Self { plain: Finder::new(&secrets), decoded: Finder::new(&decoded), secrets }
    }

    /// Whether there is nothing to hide.
    pub(crate) fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// A text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        if self.secrets.is_empty() {
            return text.to_owned();
        }
        let mut hidden = self.plain.find(text.as_bytes());
        let mut layers: Vec<Layer> = Vec::new();
        for _ in 0..LEVELS {
            let above = layers.last().map_or(text.as_bytes(), |layer| &layer.bytes);
            if !above.iter().any(|byte| matches!(byte, b'%' | b'+')) {
                break;
            }
            layers.push(Layer::decode(above));
            let bytes = layers.last().map_or(text.as_bytes(), |layer| &layer.bytes);
            hidden.extend(self.decoded.find(bytes).into_iter().map(|place| original(&layers, place)));
        }
        without(text, hidden)
    }

    /// A value without secrets, also in the names of its members.
    pub(crate) fn value(&self, value: Value) -> Value {
        if self.secrets.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Number(number) => {
                let text = number.to_string();
                if self.secrets.contains(&text) { Value::String(HIDDEN.to_owned()) } else { Value::Number(number) }
            }
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.value(item)).collect()),
            Value::Object(members) => {
                let shown = members.into_iter().map(|(name, member)| (self.text(&name), self.value(member)));
                Value::Object(shown.collect())
            }
            Value::Null | Value::Bool(_) => value,
        }
    }
}

/// Finds all secrets in one pass, whatever they are, and those within others as well.
struct Finder(Option<NFA>);

impl Finder {
    fn new<T: AsRef<[u8]>>(secrets: &BTreeSet<T>) -> Self {
        // They are shorter by far than what it can have.
        Self(Builder::new().build(secrets).ok())
    }

    /// Where they are. Those that overlap are one place, and nothing is left of either.
    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let begun = self.0.as_ref().and_then(|nfa| Some((nfa, nfa.start_state(Anchored::No).ok()?)));
        // Nothing is shown rather than a secret.
        let Some((nfa, mut state)) = begun else { return std::iter::once(0..text.len()).collect() };
        let mut places: Vec<Range<usize>> = Vec::new();
        for (at, byte) in text.iter().enumerate() {
            state = nfa.next_state(Anchored::No, state, *byte);
            if !nfa.is_match(state) {
                continue;
            }
            // The first of those that end here is the longest.
            let end = at + 1;
            let mut start = end - nfa.pattern_len(nfa.match_pattern(state, 0));
            while let Some(last) = places.pop_if(|last| last.end > start) {
                start = start.min(last.start);
            }
            places.push(start..end);
        }
        places
    }
}

/// A text with its percent-encoding taken off once. A plus in it is a blank, since nobody knows where it is one.
struct Layer {
    bytes: Vec<u8>,
    /// Which of these bytes were encoded, and so were three.
    escapes: Vec<usize>,
}

impl Layer {
    fn decode(text: &[u8]) -> Self {
        let mut layer = Self { bytes: Vec::with_capacity(text.len()), escapes: Vec::new() };
        let mut rest = text;
        while let Some((first, others)) = rest.split_first() {
            let (byte, others) = match rest {
                [b'%', high, low, others @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    layer.escapes.push(layer.bytes.len());
                    (digit(*high) << 4 | digit(*low), others)
                }
                _ => (*first, others),
            };
            layer.bytes.push(byte);
            rest = others;
        }
        layer.bytes = without_plus(&layer.bytes);
        layer
    }

    /// Where a byte stood before.
    fn before(&self, at: usize) -> usize {
        at + 2 * self.escapes.partition_point(|escape| *escape < at)
    }
}

fn without_plus(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect()
}

fn digit(hex: u8) -> u8 {
    char::from(hex).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or_default()
}

/// Where something stands in the text that was decoded to these layers.
fn original(layers: &[Layer], place: Range<usize>) -> Range<usize> {
    layers.iter().rev().fold(place, |place, layer| layer.before(place.start)..layer.before(place.end))
}

/// A text without some of its parts, which may overlap.
fn without(text: &str, mut parts: Vec<Range<usize>>) -> String {
    parts.sort_unstable_by_key(|part| (part.start, part.end));
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    let mut parts = parts.into_iter().peekable();
    while let Some(Range { start, mut end }) = parts.next() {
        while let Some(next) = parts.next_if(|next| next.start < end) {
            end = end.max(next.end);
        }
        // No secret ends within a character, but a part of one that was decoded may.
        let start = (0..=start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0).max(from);
        let end = (end..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        shown.push_str(&text[from..start]);
        shown.push_str(HIDDEN);
        from = end.max(from);
    }
    shown.push_str(&text[from..]);
    shown
}

#[cfg(test)]
mod tests {
    use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    // The sets of the URL standard, section 1.3.
    const FRAGMENT: AsciiSet = CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`');
    const QUERY: AsciiSet = CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');
    const SPECIAL_QUERY: AsciiSet = QUERY.add(b'\'');
    const PATH: AsciiSet = QUERY.add(b'?').add(b'^').add(b'`').add(b'{').add(b'}');
    const USERINFO: AsciiSet =
        PATH.add(b'/').add(b':').add(b';').add(b'=').add(b'@').add(b'[').add(b'\\').add(b']').add(b'|');
    const COMPONENT: AsciiSet = USERINFO.add(b'$').add(b'%').add(b'&').add(b'+').add(b',');
    const FORM: AsciiSet = COMPONENT.add(b'!').add(b'\'').add(b'(').add(b')').add(b'~');
    // `encodeURIComponent`, and `encodeURI`.
    const SCRIPT: AsciiSet = NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'!')
        .remove(b'~')
        .remove(b'*')
        .remove(b'\'')
        .remove(b'(')
        .remove(b')');
    const WHOLE: AsciiSet = SCRIPT
        .remove(b';')
        .remove(b',')
        .remove(b'/')
        .remove(b'?')
        .remove(b':')
        .remove(b'@')
        .remove(b'&')
        .remove(b'=')
        .remove(b'+')
        .remove(b'$')
        .remove(b'#');
    const SETS: [&AsciiSet; 10] =
        [CONTROLS, &FRAGMENT, &QUERY, &SPECIAL_QUERY, &PATH, &USERINFO, &COMPONENT, &FORM, &SCRIPT, &WHOLE];

    fn redactor(secrets: Value) -> Redactor {
        Redactor::new(&Values { inputs: Map::new(), secrets: secrets.as_object().cloned().unwrap_or_default() })
    }

    /// Every form that a text takes where it is encoded once.
    fn forms(text: &str) -> Vec<String> {
        let percent = SETS.map(|set| utf8_percent_encode(text, set).to_string());
        let form: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        percent.into_iter().chain([form]).collect()
    }

    /// A text whose escapes have small letters, as some programs write them.
    fn small(text: &str) -> String {
        let mut letters = text.to_owned().into_bytes();
        for at in 0..letters.len().saturating_sub(2) {
            if letters[at] == b'%' && letters[at + 1..at + 3].iter().all(u8::is_ascii_hexdigit) {
                letters[at + 1..at + 3].make_ascii_lowercase();
            }
        }
        String::from_utf8(letters).unwrap()
    }

    #[test]
    fn hiding_secrets_reads_nothing_that_it_wrote() {
        let secrets: Map<String, Value> = "[]cerst".chars().map(|c| (c.to_string(), json!(c.to_string()))).collect();
        assert_eq!(redactor(json!(secrets)).text(&"[".repeat(1000)), HIDDEN.repeat(1000));
    }

    #[test]
    fn secrets_are_removed_from_results() {
        let redactor = redactor(json!({"a": "hunter2", "b": "hunter2 & more", "c": 4711, "d": " "}));
        let shown = redactor.value(json!({"x hunter2": ["is hunter2 & more.", 4711, 47, "hunter2+%26+more", "a b"]}));
        assert_eq!(shown, json!({"x [secret]": ["is [secret].", "[secret]", 47, "[secret]", "a b"]}));
    }

    #[test]
    fn secrets_are_removed_from_addresses() {
        let redactor = redactor(json!({"a": "p@ss w+rd/é", "b": "100%25 sure"}));
        for (text, shown) in [
            ("https://a.test/?q=p@ss%20w+rd/%C3%A9#x", "https://a.test/?q=[secret]#x"),
            ("https://a.test/p%40ss%20w%2Brd%2f%c3%a9/", "https://a.test/[secret]/"),
            ("https://a.test/?p%40ss+w%2Brd%2F%C3%A9&b=1+1", "https://a.test/?[secret]&b=1+1"),
            ("?next=%2Fin%3Fq%3Dp%2540ss%2Bw%252Brd%252F%25C3%25A9", "?next=%2Fin%3Fq%3D[secret]"),
            ("?100%25%20sure", "?[secret]"),
            ("50% of p%40ss, é and %zz", "50% of p%40ss, é and %zz"),
        ] {
            assert_eq!(redactor.text(text), shown);
        }
        let none = self::redactor(json!({}));
        assert_eq!(none.text("a%20b"), "a%20b");
    }

    #[test]
    fn secrets_are_removed_from_json() {
        let secret = "a \"b\" \\ \n\u{1}c";
        let text = json!({"value": [secret]}).to_string();
        assert_eq!(redactor(json!({"s": secret})).text(&text), r#"{"value":["[secret]"]}"#);
        assert_eq!(redactor(json!({"s": "\""})).text(r#""\"""#), "[secret][secret][secret]");
    }

    #[test]
    fn secrets_are_removed_as_pages_show_them() {
        let redactor = redactor(json!({"a": "s3cret\n", "b": "two\nlines", "c": "Tenant7", "d": "4711\n", "e": "1\n"}));
        let shown = redactor.value(json!([
            " s3cret!",
            "twolines",
            "two lines",
            "https://tenant7.test/?two%20lines",
            4711,
            "1"
        ]));
        let hidden = json!([" [secret]!", "[secret]", "[secret]", "https://[secret].test/?[secret]", "[secret]", "1"]);
        assert_eq!(shown, hidden);
    }

    #[test]
    fn secrets_that_overlap_leave_nothing() {
        let redactor = redactor(json!({"a": "abc", "b": "cde", "c": "bc", "d": "xabcdey"}));
        assert_eq!(redactor.text("-abcde-bc-xabcde-"), "-[secret]-[secret]-x[secret]-");
    }

    #[test]
    fn long_texts_are_read_once() {
        // Looked for from each place anew, these would take hours.
        let long = "a".repeat(30_000);
        let redactor = redactor(json!({"a": "aa", "b": format!("{long}b"), "c": "%".repeat(10_000)}));
        assert_eq!(redactor.text(&"a".repeat(2 << 20)), HIDDEN);
        assert!(redactor.text(&"%2525".repeat(400_000)).starts_with(HIDDEN));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn no_secret_survives(secret in "[a-zA-Z0-9 &%/+é]{4,12}", before in "[a-z ]{0,9}", after in "[a-z ]{0,9}") {
            prop_assume!(!secret.trim().is_empty() && !HIDDEN.contains(&secret));
            let shown = redactor(json!({"s": secret})).text(&format!("{before}{secret}{after}"));
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }

        #[test]
        fn no_secret_survives_in_a_field(secret in r"[ \t\r\n]{0,2}[a-z]{3,5}[ \t\r\na-z]{0,9}[a-z]") {
            let redactor = redactor(json!({"s": secret}));
            let line = secret.replace(['\r', '\n'], "");
            let area = secret.replace("\r\n", "\n").replace('\r', "\n");
            for value in [line, area, secret] {
                let words = value.split_whitespace().collect::<Vec<_>>().join(" ");
                for shown in [words, value.trim().to_owned(), value] {
                    prop_assert_eq!(redactor.text(&format!("_{shown}|")), format!("_{HIDDEN}|"), "{:?}", shown);
                }
            }
        }

        #[test]
        fn nothing_of_a_secret_survives_in_an_address(secret in r#"[a-zA-Z &%/+é?#="<>'()!$:@-]{4,12}"#) {
            prop_assume!(secret.contains(|letter| letter != '+' && letter != ' '));
            let redactor = redactor(json!({"s": secret}));
            for once in forms(&secret) {
                for twice in forms(&once).into_iter().chain([once]) {
                    for text in [small(&twice), twice] {
                        let shown = redactor.text(&format!("_{text}|"));
                        prop_assert_eq!(shown, format!("_{HIDDEN}|"), "{}", text);
                    }
                }
            }
        }

        #[test]
        fn no_text_breaks_it(text in "[%+0-9a-fé€ ]{0,40}", secret in "[%+0-9a-fé€ ]{1,4}") {
            let _ = redactor(json!({"s": secret})).text(&text);
        }
    }
}
