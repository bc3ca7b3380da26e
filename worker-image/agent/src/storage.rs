//! What browsers keep for sites: the script that reads and writes it in a document of an origin, the same for all engines.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use url::Url;
use warmpool_protocol::OriginStorage;

/// A function of a text that promises another one; see the file.
pub(crate) const PAGE_SCRIPT: &str = include_str!("storage/page.js");

/// What is asked of the script.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request<'a> {
    /// What the origin keeps, as long as it has no more bytes than this; with the tab's own storage where that counts.
    Read { session: bool, limit: u64 },
    /// Writes what all tabs share.
    Write(&'a OriginStorage),
    /// Writes the tab's own storage.
    WriteSession(&'a OriginStorage),
}

impl Request<'_> {
    /// The request as a text. Fails with a reason where it cannot be one.
    pub(crate) fn text(self) -> Result<String, String> {
        /// Not made of JSON's values, which would copy an origin that may be large.
        #[derive(Serialize)]
        struct Writing<T> {
            write: T,
            session: bool,
        }
        let text = match self {
            Self::Read { session, limit } => {
                serde_json::to_string(&json!({"read": {"session": session, "limit": limit}}))
            }
            Self::Write(origin) => serde_json::to_string(&Writing { write: origin, session: false }),
            Self::WriteSession(origin) => {
                let own = json!({"sessionStorage": origin.session_storage});
                serde_json::to_string(&Writing { write: own, session: true })
            }
        };
        text.map_err(|error| error.to_string())
    }
}

/// What the script answers.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Answer {
    /// What the origin keeps, where that was asked.
    #[serde(default)]
    origin: Option<Box<RawValue>>,
    /// What the script could not read or write, each as a sentence.
    #[serde(default)]
    pub(crate) skipped: Vec<String>,
}

impl Answer {
    /// Reads an answer. Fails with a reason when it makes no sense.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("the answer of the page cannot be read: {error}"))
    }

    /// What the origin keeps. Fails with a reason when it makes no sense.
    pub(crate) fn into_origin(self, origin: &str) -> Result<(OriginStorage, Vec<String>), String> {
        let text = self.origin.as_deref().map_or("null", RawValue::get);
        let read: OriginStorage =
            serde_json::from_str(text).map_err(|error| format!("what {origin} keeps cannot be read: {error}"))?;
        Ok((OriginStorage { origin: origin.to_owned(), ..read }, within(origin, self.skipped)))
    }
}

/// Sentences of what was left out at an origin.
pub(crate) fn within(origin: &str, skipped: Vec<String>) -> Vec<String> {
    skipped.into_iter().map(|what| format!("{origin}: left out: {what}")).collect()
}

/// The origin of an address, if it is one of the web.
pub(crate) fn origin(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(url.origin().ascii_serialization())
}
