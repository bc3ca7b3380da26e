//! Answers what Firefox asks of ads over the control channel.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::ads::{AdBlocker, Names};

/// A question, with its number.
#[derive(Deserialize)]
pub(super) struct Question {
    pub(super) question: u64,
    about: About,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum About {
    /// Whether a request may go on.
    Request { url: String, source: String, kind: String, method: String },
    /// What the document at this address hides.
    Page { page: String },
    /// The generic rules for names that are new in a document.
    Names { names: Names, exceptions: HashSet<String> },
}

/// The answer to a question.
pub(super) fn answer(blocker: &AdBlocker, question: Question) -> Value {
    match question.about {
        About::Request { url, source, kind, method } => blocker.blocks(&url, &source, &kind, &method).into(),
        About::Page { page } => {
            let hidden = blocker.hidden(&page);
            json!({"css": hidden.css, "generic": hidden.generic, "exceptions": hidden.exceptions})
        }
        About::Names { names, exceptions } => blocker.generic_css(&names, &exceptions).into(),
    }
}
