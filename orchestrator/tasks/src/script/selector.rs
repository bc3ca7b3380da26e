//! Selectors as the Recorder writes them.
//!
//! A step has alternatives. Each is one selector, or a chain in which every part but the first looks inside what the
//! part before it found: inside its shadow root where it has one.

use serde::Serialize;
use serde_json::Value;

use super::failure::kept;
use super::fields::wrong;
use crate::Error;

/// No selector is longer, in bytes.
const MAX_LENGTH: usize = 10_000;

/// How one part finds elements. Serializes as the script in the page reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub(crate) enum SelectorPart {
    /// A CSS selector.
    Css {
        /// The selector.
        css: String,
    },
    /// The accessible name, the role, or both.
    Aria {
        /// The name, as a whole.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// The innermost elements with this text.
    Text {
        /// The text, or a piece of it.
        text: String,
    },
    /// An XPath expression.
    Xpath {
        /// The expression.
        xpath: String,
    },
    /// One element, by what the driver calls it. No recording has such.
    Element {
        /// The driver's reference, as WebDriver writes one in JSON.
        element: Value,
    },
    /// A CSS selector that is looked for in every shadow root too.
    Pierce {
        /// The selector.
        css: String,
    },
}

impl SelectorPart {
    fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some(("aria", rest)) => Self::aria(rest),
            Some(("text", rest)) => Self::Text { text: rest.to_owned() },
            Some(("xpath", rest)) => Self::Xpath { xpath: rest.to_owned() },
            Some(("pierce", rest)) => Self::Pierce { css: rest.to_owned() },
            Some(("css", rest)) => Self::Css { css: rest.to_owned() },
            _ => Self::Css { css: text.to_owned() },
        }
    }

    /// `Name[role="button"]`; the name may stand in brackets too.
    fn aria(text: &str) -> Self {
        let (mut name, mut role) = (None, None);
        let mut rest = text.trim_end();
        while let Some((before, key, value)) = last_attribute(rest) {
            match key {
                "role" if role.is_none() => role = Some(value),
                "name" if name.is_none() => name = Some(value),
                _ => break,
            }
            rest = before.trim_end();
        }
        let own = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        if !own.is_empty() {
            name = Some(own);
        }
        Self::Aria { name, role }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Css { css } | Self::Pierce { css } => css.trim().is_empty(),
            Self::Aria { name, role } => name.is_none() && role.is_none(),
            Self::Text { text } => text.trim().is_empty(),
            Self::Xpath { xpath } => xpath.trim().is_empty(),
            Self::Element { .. } => false,
        }
    }
}

/// Splits `before[key="value"]`.
fn last_attribute(text: &str) -> Option<(&str, &str, String)> {
    let inside = text.strip_suffix(']')?;
    let (open, quote) = ["=\"", "='"]
        .into_iter()
        .filter_map(|mark| inside.rfind(mark).map(|at| (at, mark.as_bytes()[1])))
        .max_by_key(|(at, _)| *at)?;
    let value = inside.get(open + 2..)?.strip_suffix(char::from(quote))?;
    let start = inside[..open].rfind('[')?;
    let key = inside[start + 1..open].trim();
    Some((&text[..start], key, value.to_owned()))
}

/// The alternatives of one step, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Selectors {
    chains: Vec<Vec<SelectorPart>>,
    #[serde(skip)]
    shown: String,
}

impl std::fmt::Display for Selectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Selectors {
    /// Reads a list of alternatives as the Recorder writes it. `field` is the list's path.
    /// Errors: `Field`.
    pub(crate) fn parse_list(field: &str, value: &Value) -> Result<Self, Error> {
        let list = value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| wrong(field, "must be a list with at least one selector"))?;
        let chains = list.iter().enumerate().map(|(index, one)| chain(&format!("{field}[{index}]"), one));
        Ok(Self { chains: chains.collect::<Result<_, _>>()?, shown: show(list) })
    }

    /// One element, by the driver's reference; messages call it `shown`.
    pub(crate) fn element(element: Value, shown: String) -> Self {
        Self { chains: vec![vec![SelectorPart::Element { element }]], shown }
    }

    /// The driver's reference, where they are that.
    pub(crate) fn as_element(&self) -> Option<&Value> {
        match self.chains.as_slice() {
            [chain] => match chain.as_slice() {
                [SelectorPart::Element { element }] => Some(element),
                _ => None,
            },
            _ => None,
        }
    }

    /// Reads one selector, or a list of alternatives.
    /// Errors: `Field`.
    pub(crate) fn parse(field: &str, value: &Value) -> Result<Self, Error> {
        match value {
            Value::Array(_) => Self::parse_list(field, value),
            one => Ok(Self { chains: vec![chain(field, one)?], shown: show(std::slice::from_ref(one)) }),
        }
    }
}

/// The alternatives for a message: a few. The message is cut where its secrets are hidden.
fn show(list: &[Value]) -> String {
    let one = |value: &Value| match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    let mut shown: Vec<String> = list.iter().take(3).map(one).collect();
    if list.len() > 3 {
        shown.push(format!("{} more", list.len() - 3));
    }
    kept(&shown.join(", ")).to_owned()
}

fn chain(field: &str, value: &Value) -> Result<Vec<SelectorPart>, Error> {
    let parts: Vec<&Value> = match value {
        Value::String(_) => vec![value],
        Value::Array(parts) if !parts.is_empty() => parts.iter().collect(),
        _ => return Err(wrong(field, "must be a selector, or a list of selectors that lead into shadow roots")),
    };
    let mut chain = Vec::with_capacity(parts.len());
    for part in parts {
        let text = part.as_str().ok_or_else(|| wrong(field, "must hold strings alone"))?;
        let parsed = SelectorPart::parse(text);
        if parsed.is_empty() {
            return Err(wrong(field, "is empty"));
        }
        if text.len() > MAX_LENGTH {
            return Err(wrong(field, "is too long"));
        }
        chain.push(parsed);
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use warmpool_core::error::Fault as _;

    use super::*;

    fn aria(name: Option<&str>, role: Option<&str>) -> SelectorPart {
        SelectorPart::Aria { name: name.map(str::to_owned), role: role.map(str::to_owned) }
    }

    #[test]
    fn every_form_of_the_recorder_is_read() {
        for (text, part) in [
            ("#a > b", SelectorPart::Css { css: "#a > b".to_owned() }),
            ("a[href='x/y']", SelectorPart::Css { css: "a[href='x/y']".to_owned() }),
            ("aria/Log in", aria(Some("Log in"), None)),
            ("aria/Log  in[role=\"button\"]", aria(Some("Log in"), Some("button"))),
            ("aria/[role='button']", aria(None, Some("button"))),
            ("aria/[name=\"a \\\"b\"][role=\"link\"]", aria(Some("a \\\"b"), Some("link"))),
            ("aria/Price [EUR]", aria(Some("Price [EUR]"), None)),
            ("aria/x[foo=\"y\"]", aria(Some("x[foo=\"y\"]"), None)),
            ("text/Buy now", SelectorPart::Text { text: "Buy now".to_owned() }),
            ("xpath///*[@id=\"a\"]", SelectorPart::Xpath { xpath: "//*[@id=\"a\"]".to_owned() }),
            ("pierce/#a", SelectorPart::Pierce { css: "#a".to_owned() }),
        ] {
            assert_eq!(SelectorPart::parse(text), part, "{text}");
        }
    }

    #[test]
    fn alternatives_and_chains_are_kept_apart() {
        let selectors = Selectors::parse_list("s", &json!([["#host", "button"], "text/Go"])).unwrap();
        assert_eq!(
            serde_json::to_value(&selectors).unwrap(),
            json!([[{"by": "css", "css": "#host"}, {"by": "css", "css": "button"}], [{"by": "text", "text": "Go"}]])
        );
        assert_eq!(selectors.to_string(), "`[\"#host\",\"button\"]`, `text/Go`");
    }

    #[test]
    fn errors_name_what_is_no_selector() {
        for (value, field) in [
            (json!([]), "s"),
            (json!("#a"), "s"),
            (json!([1]), "s[0]"),
            (json!(["#a", []]), "s[1]"),
            (json!(["#a", ["#a", 1]]), "s[1]"),
            (json!([" "]), "s[0]"),
            (json!(["aria/"]), "s[0]"),
        ] {
            assert_eq!(Selectors::parse_list("s", &value).unwrap_err().field(), Some(field), "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in r#"(aria/|text/|\[|\]|role=|name=|"|'|=|[a-zé ])*"#) {
            let _ = Selectors::parse_list("s", &json!([text]));
        }
    }
}
