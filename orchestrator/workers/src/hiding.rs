//! What the record and the messages of a session may not tell, such as the secrets of the task that it carries out.

use std::fmt;
use std::sync::{Arc, OnceLock};

use url::Url;

/// Takes out of a text what may not be told.
pub type Hide = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Hides what may not be told, once somebody has said what that is. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Hiding(Arc<OnceLock<Hide>>);

impl fmt::Debug for Hiding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hiding").finish_non_exhaustive()
    }
}

impl Hiding {
    /// Hides it from now on. The first one holds.
    pub(crate) fn begin(&self, hide: Hide) {
        let _ = self.0.set(hide);
    }

    /// A text as it may be told.
    pub(crate) fn text(&self, text: &str) -> String {
        self.0.get().map_or_else(|| text.to_owned(), |hide| hide(text))
    }

    /// The address of a document as it may be told: where something is hidden, its origin alone, since what is hidden may stand
    /// anywhere behind that, or be cut at the end.
    pub(crate) fn address(&self, url: &str) -> String {
        self.0.get().map_or_else(|| url.to_owned(), |hide| hide(&origin(url)))
    }
}

fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "null".to_owned(), |url| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_hidden_until_somebody_says_what() {
        let hiding = Hiding::default();
        let (address, shared) = ("https://word.test:8443/word?key=wo", hiding.clone());
        assert_eq!((hiding.text("a word"), hiding.address(address)), ("a word".to_owned(), address.to_owned()));
        shared.begin(Arc::new(|text: &str| text.replace("word", "[secret]")));
        assert_eq!(hiding.text("a word"), "a [secret]");
        assert_eq!(hiding.address(address), "https://[secret].test:8443");
        assert_eq!(
            (hiding.address("data:text/html,word"), hiding.address("word")),
            ("null".to_owned(), "null".to_owned())
        );
    }
}
