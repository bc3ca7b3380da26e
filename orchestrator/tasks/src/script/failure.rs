//! How a task can fail.

use serde::Deserialize;

/// What pages and browsers say is cut here in a failure, in characters.
const WORDS: usize = 600;
/// What Warmpool says is cut here: it names selectors and addresses.
const MESSAGE: usize = 1_500;
/// As much of what is cut is kept until its secrets are hidden, in bytes: a secret within the first characters is there as a whole.
const KEPT: usize = 64 << 10;

macro_rules! codes {
    ($($(#[$about:meta])* $variant:ident = $text:literal,)+) => {
        /// Why a task failed, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub(crate) enum FailureCode { $($(#[$about])* #[serde(rename = $text)] $variant),+ }

        impl FailureCode {
            /// Each of them.
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The code in JSON.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The failure of this code, if there is one.
            pub(crate) fn parse(code: &str) -> Option<Self> {
                match code { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

codes! {
    /// A template has no value.
    MissingInput = "missing_input",
    /// A template's value does not fit where it stands.
    InvalidInput = "invalid_input",
    /// No selector matched in time.
    NoMatch = "no_match",
    /// An element was found, and could not be used in time: hidden, disabled or moving.
    NotReady = "not_ready",
    /// A selector or an expression cannot be read by the browser.
    InvalidSelector = "invalid_selector",
    /// A page could not be opened.
    NavigationFailed = "navigation_failed",
    /// The egress policy refuses the page's address.
    RefusedByPolicy = "refused_by_policy",
    /// The proxy gave the page no connection.
    ProxyFailed = "proxy_failed",
    /// The page's site has no certificate that the browser takes, or speaks no TLS with it.
    TlsFailed = "tls_failed",
    /// The page did not go where the recording says.
    NavigationMismatch = "navigation_mismatch",
    /// What was waited for did not come in time.
    Timeout = "timeout",
    /// The text is not what it should be.
    AssertionFailed = "assertion_failed",
    /// A script of the page or of the recording threw.
    ScriptError = "script_error",
    /// A field that must have a value has none.
    MissingField = "missing_field",
    /// The result does not fit the JSON Schema.
    InvalidResult = "invalid_result",
    /// The output or an artifact is larger than it may be.
    TooLarge = "too_large",
    /// This engine cannot do that.
    NotSupported = "not_supported",
    /// The browser or its driver ended.
    BrowserDied = "browser_died",
    /// The browser's driver refused.
    DriverError = "driver_error",
    /// The task's time is over.
    TaskTimeout = "task_timeout",
    /// Somebody cancelled the task.
    Cancelled = "cancelled",
}

impl FailureCode {
    /// Whether a page that never came is the reason, and a way to it that is closed.
    pub(crate) const fn is_of_the_way(self) -> bool {
        matches!(self, Self::RefusedByPolicy | Self::ProxyFailed | Self::TlsFailed)
    }

    /// Whether the same task may well succeed when it is tried again.
    pub(crate) const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::NavigationFailed
                | Self::ProxyFailed
                | Self::Timeout
                | Self::TaskTimeout
                | Self::BrowserDied
                | Self::DriverError
        )
    }
}

/// An error of a step. Each step decides whether it tries again.
#[derive(Debug, Clone)]
pub(crate) struct StepError {
    /// For programs.
    pub(crate) code: FailureCode,
    /// For people. May hold secrets until it becomes a failure. It is cut when they are hidden, not before: the beginning of a secret
    /// would not be known as one.
    pub(crate) message: String,
    /// What page or browser said, which stands behind the message. It is cut in the same way.
    pub(crate) words: String,
    /// Whether the same may succeed a moment later.
    pub(crate) is_passing: bool,
}

impl StepError {
    /// A lasting error.
    pub(crate) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), words: String::new(), is_passing: false }
    }

    /// An error that may be gone a moment later.
    pub(crate) fn passing(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), words: String::new(), is_passing: true }
    }

    /// The same error with what page or browser said.
    pub(crate) fn quoting(mut self, words: &str) -> Self {
        kept(words).clone_into(&mut self.words);
        self
    }

    /// Whether it has nothing to say but its code.
    pub(crate) const fn is_silent(&self) -> bool {
        self.message.is_empty() && self.words.is_empty()
    }

    /// All that it says, with its secrets hidden by `hide`.
    pub(crate) fn hidden(&self, hide: impl Fn(&str) -> String) -> String {
        let words: String = hide(&self.words).chars().take(WORDS).collect();
        let mut message = hide(&self.message);
        if let Some((end, _)) = message.char_indices().nth(MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        match (message.is_empty(), words.is_empty()) {
            (true, _) => words,
            (false, true) => message,
            (false, false) => format!("{message}: {words}"),
        }
    }

    /// All that it says, where there are no secrets.
    pub(crate) fn text(&self) -> String {
        self.hidden(str::to_owned)
    }

    /// The same error with `what` before its message.
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = if self.message.is_empty() { what.to_owned() } else { format!("{what}: {}", self.message) };
        self
    }
}

/// As much of a text as is kept until its secrets are hidden.
pub(super) fn kept(text: &str) -> &str {
    let end = (0..=KEPT.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::script::Values;
    use crate::script::selector::Selectors;
    use crate::script::template::Redactor;

    #[test]
    fn the_guide_lists_every_code() {
        let guide = include_str!("../../../../examples/tasks/README.md");
        let list = guide.split("\n\n").find(|part| part.starts_with("The code of a step")).unwrap();
        let listed: Vec<_> = list.split('`').skip(1).step_by(2).map(|code| (code, FailureCode::parse(code))).collect();
        for code in FailureCode::ALL {
            assert!(listed.contains(&(code.as_str(), Some(*code))), "{code:?} is missing in: {list}");
        }
        assert!(listed.iter().all(|(_, code)| code.is_some()), "{listed:?}");
    }

    #[test]
    fn a_secret_is_hidden_before_words_are_cut() {
        let secrets = Map::from_iter([("pin".to_owned(), json!("open \"sesame\"")), ("b".to_owned(), json!("a b/c"))]);
        let redactor = Redactor::new(&Values { inputs: Map::new(), secrets });
        let error = |words: &str| StepError::new(FailureCode::ScriptError, "it threw").quoting(words);
        for secret in ["open \"sesame\"", r#"open \"sesame\""#, "a%20b%2Fc"] {
            for before in [WORDS - 3, WORDS - 10, 9] {
                let error = error(&format!("{}{secret} and more", "é".repeat(before)));
                let shown = error.hidden(|text| redactor.text(text));
                assert!(!shown.contains("op") && !shown.contains("a%"), "{shown}");
                assert!(shown.chars().count() <= WORDS + "it threw: ".len());
            }
        }
        assert_eq!(error(&"é".repeat(KEPT)).text(), format!("it threw: {}", "é".repeat(WORDS)));
    }

    #[test]
    fn a_secret_is_hidden_before_selectors_are_cut() {
        let secrets = Map::from_iter([("pin".to_owned(), json!("open sesame"))]);
        let redactor = Redactor::new(&Values { inputs: Map::new(), secrets });
        for before in [MESSAGE - 26, MESSAGE - 20, 294, 290, 9] {
            let selector = json!([format!("text/{}open sesame{}", "é".repeat(before), "é".repeat(2_000))]);
            let selectors = Selectors::parse("s", &json!([selector])).unwrap();
            let error =
                StepError::new(FailureCode::NoMatch, format!("nothing matches {selectors}")).quoting("it is gone");
            let shown = error.hidden(|text| redactor.text(text));
            assert!(!shown.contains("ope") && shown.ends_with("…: it is gone"), "{shown}");
            assert!(shown.chars().count() <= MESSAGE + "…: it is gone".chars().count(), "{shown}");
        }
    }

    #[test]
    fn an_error_says_what_it_has() {
        let error = |message: &str, words: &str| StepError::new(FailureCode::NoMatch, message).quoting(words);
        assert_eq!(error("a", "b").text(), "a: b");
        assert_eq!(error("a", "").text(), "a");
        assert_eq!(error("", "b").about("x").text(), "x: b");
        assert!(error("", "").is_silent());
    }
}
