//! The forms in which a secret may stand in what leaves a task: a page does not keep it as it was sent.

use std::collections::BTreeSet;

use serde_json::Value;
use url::Host;

/// A form that is not the secret itself has at least this many characters: a shorter one would hide what is no secret.
const SHORTEST: usize = 3;

/// All forms of these secrets. Blank ones have none.
pub(super) fn of(secrets: &BTreeSet<String>) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for secret in secrets.iter().filter(|secret| !secret.trim().is_empty()) {
        forms.extend(changed(secret).into_iter().filter(|form| form.chars().nth(SHORTEST - 1).is_some()));
        forms.insert(secret.clone());
    }
    let quoted: Vec<String> = forms.iter().flat_map(|form| quoted(form)).collect();
    forms.extend(quoted);
    forms
}

/// What pages and addresses make of a text.
fn changed(text: &str) -> BTreeSet<String> {
    let without = |dropped: &[char]| text.replace(dropped, "");
    let forms = [
        text.to_owned(),
        // A field of several lines has one way to end them, and a field of one line has none.
        text.replace("\r\n", "\n").replace('\r', "\n"),
        without(&['\r', '\n']),
        // Browsers drop these from addresses, and write hosts in small ASCII letters.
        without(&['\r', '\n', '\t']),
        text.trim().to_lowercase(),
        host(text.trim()).unwrap_or_default(),
    ];
    // Pages, and what is read from them, leave out the blanks around a text and all but one of those within.
    let shown = forms.iter().flat_map(|form| [form.trim_matches(is_blank).to_owned(), on_one_line(form)]);
    shown.chain(forms.iter().cloned()).collect()
}

fn host(text: &str) -> Option<String> {
    match Host::parse(text) {
        Ok(Host::Domain(domain)) => Some(domain),
        Ok(Host::Ipv4(_) | Host::Ipv6(_)) | Err(_) => None,
    }
}

/// What scripts take for a blank.
const fn is_blank(letter: char) -> bool {
    letter == '\u{feff}' || letter != '\u{85}' && letter.is_whitespace()
}

fn on_one_line(text: &str) -> String {
    text.split(is_blank).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A text within JSON, which messages may quote, and within HTML: as a text, and as an attribute of older and newer browsers.
fn quoted(text: &str) -> [String; 4] {
    let json = Value::from(text).to_string();
    let html = text.replace('&', "&amp;").replace('\u{a0}', "&nbsp;");
    let tags = |html: &str| html.replace('<', "&lt;").replace('>', "&gt;");
    let attribute = html.replace('"', "&quot;");
    [json[1..json.len() - 1].to_owned(), tags(&html), tags(&attribute), attribute]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(secret: &str) -> BTreeSet<String> {
        super::of(&BTreeSet::from([secret.to_owned()]))
    }

    #[test]
    fn a_secret_has_the_forms_that_pages_give_it() {
        for (secret, form) in [
            ("s3cret\n", "s3cret"),
            ("two\r\nlines", "twolines"),
            ("two\r\nlines", "two\nlines"),
            ("two\r\nlines", "two lines"),
            (" a  b\u{a0}\tc ", "a b c"),
            ("a\tb/\nc", "ab/c"),
            ("Tenant7", "tenant7"),
            ("Bücher", "xn--bcher-kva"),
            ("a<b>&\"c\"", "a&lt;b&gt;&amp;\"c\""),
            ("a<b>&\"c\"", "a<b>&amp;&quot;c&quot;"),
            ("a\"\nb", "a\\\"\\nb"),
            ("a&b \n", "a&amp;b"),
        ] {
            assert!(of(secret).contains(form), "{form:?} of {secret:?}: {:?}", of(secret));
        }
    }

    #[test]
    fn forms_that_would_hide_everything_are_none() {
        assert_eq!(of(" \n\t"), BTreeSet::new());
        for secret in ["a\n", " a b", "A", "\n\n1"] {
            let short = of(secret).into_iter().filter(|form| form.chars().count() < SHORTEST && form != secret);
            assert_eq!(short.collect::<Vec<_>>(), [""; 0], "{secret:?}");
        }
        assert!(of("a").contains("a") && of("123\n").contains("123"), "a short secret itself is hidden");
    }
}
