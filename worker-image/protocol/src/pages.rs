use serde::{Deserialize, Serialize};

/// The most pages that are listed.
pub const MAX_PAGES: usize = 50;
/// The most that is listed of a title or an address, in characters.
pub const MAX_TEXT: usize = 2000;

/// A page of the browser: a tab, or a window where the engine has no tabs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Names it for as long as it is open.
    pub id: String,
    /// Its title; empty while it has none.
    pub title: String,
    /// Its address.
    pub url: String,
}

/// Body of `POST /pages/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum PageAction {
    /// Bring the page to the front.
    Show {},
    /// Go one step back in its history, if there is one.
    Back {},
    /// Go one step forward, if there is one.
    Forward {},
    /// Load it again.
    Reload {},
    /// Send it to an address. The daemon decides which ones are allowed.
    Open {
        /// The address.
        url: String,
    },
}

impl PageAction {
    /// Its name, and the address that goes with it.
    #[must_use]
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Show {} => ("show", None),
            Self::Back {} => ("back", None),
            Self::Forward {} => ("forward", None),
            Self::Reload {} => ("reload", None),
            Self::Open { url } => ("open", Some(url)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(body: Value) -> Result<PageAction, serde_json::Error> {
        serde_json::from_value(body)
    }

    #[test]
    fn only_what_can_be_done_is_understood() {
        assert_eq!(read(json!({"do": "back"})).unwrap().parts(), ("back", None));
        let open = read(json!({"do": "open", "url": "http://a.example/"})).unwrap();
        assert_eq!(open.parts(), ("open", Some("http://a.example/")));
        assert_eq!(serde_json::to_value(open).unwrap(), json!({"do": "open", "url": "http://a.example/"}));
        for wrong in [json!({}), json!({"do": "open"}), json!({"do": "close"}), json!({"do": "back", "url": "x"})] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
