//! What browsers keep for sites: the script that reads and writes it in a document of an origin, the same for all engines, and what
//! was read of it so far.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;
use url::Url;
use warmpool_protocol::{OriginStorage, StorageQuery, StorageState};

/// A function of a text that promises another one; see the file.
pub(crate) const PAGE_SCRIPT: &str = include_str!("storage/page.js");

/// What is asked of the script.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request<'a> {
    /// What the origin keeps, as long as it has no more bytes than `limit`, and than `message` in a message of DevTools; with the
    /// tab's own storage where that counts.
    Read { session: bool, limit: u64, message: Option<usize> },
    /// Writes what the origin had stored.
    Write(&'a OriginStorage, Tab),
}

/// Where an origin's storage is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    /// The first tab: its session storage is written as well.
    First,
    /// A tab that nobody sees: only what all tabs share is written.
    Other,
}

impl Request<'_> {
    /// The request as a text. Fails with a reason where it cannot be one.
    pub(crate) fn text(self) -> Result<String, String> {
        /// Not made of JSON's values, which would copy an origin that may be large.
        #[derive(Serialize)]
        struct Writing<'a> {
            write: &'a OriginStorage,
            session: bool,
        }
        let text = match self {
            Self::Read { session, limit, message } => {
                let mut read = json!({"session": session, "limit": limit});
                if let Some(message) = message {
                    read["message"] = message.into();
                }
                serde_json::to_string(&json!({"read": read}))
            }
            Self::Write(origin, tab) => serde_json::to_string(&Writing { write: origin, session: tab == Tab::First }),
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
    /// Whose document it was, where the script ran in one.
    #[serde(default)]
    at: Option<String>,
    /// Whether there is more that may be read another time.
    #[serde(default)]
    partly: bool,
    /// What the script could not read or write, each as a sentence.
    #[serde(default)]
    pub(crate) skipped: Vec<String>,
}

impl Answer {
    /// Reads an answer. Fails with a reason when it makes no sense.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("the answer of the page cannot be read: {error}"))
    }

    /// Whether it comes from another origin, or from a document that has none.
    pub(crate) fn is_elsewhere(&self, origin: &str) -> bool {
        self.at.as_deref().is_some_and(|at| at != origin)
    }

    /// What the origin of its document keeps; none where the document has no origin. Fails with a reason when it makes no sense.
    pub(crate) fn of_its_document(&self) -> Result<Option<OriginStorage>, String> {
        self.at.as_deref().and_then(origin).map(|at| self.origin(&at)).transpose()
    }

    /// What the origin keeps. Fails with a reason when it makes no sense, or comes from another origin: a tab may have gone elsewhere
    /// since it was asked.
    pub(crate) fn origin(&self, origin: &str) -> Result<OriginStorage, String> {
        if self.is_elsewhere(origin) {
            return Err("its page had gone elsewhere".to_owned());
        }
        let text = self.origin.as_deref().map_or("null", RawValue::get);
        let read: OriginStorage =
            serde_json::from_str(text).map_err(|error| format!("what it keeps cannot be read: {error}"))?;
        Ok(OriginStorage { origin: origin.to_owned(), ..read })
    }
}

/// What was read of a browser so far, and how much more that may be.
pub(crate) struct Reading {
    pub(crate) state: StorageState,
    /// The bytes that more origins may have.
    left: u64,
    until: Instant,
}

impl Reading {
    pub(crate) fn new(StorageQuery { limit, time_ms, .. }: StorageQuery) -> Self {
        let until = Instant::now() + Duration::from_millis(time_ms);
        Self { state: StorageState::default(), left: limit, until }
    }

    /// The request for the next origin.
    pub(crate) fn request(&self, session: bool, message: Option<usize>) -> Request<'static> {
        Request::Read { session, limit: self.left, message }
    }

    /// Waits for what an origin answers, for so long at most, and no longer than there is time.
    pub(crate) async fn wait<T>(
        &self,
        most: Duration,
        answer: impl Future<Output = Result<T, impl std::fmt::Display>>,
    ) -> Result<T, String> {
        let until = self.until.min(Instant::now() + most);
        match tokio::time::timeout_at(until, answer).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it took too long".to_owned()),
        }
    }

    /// Takes in what an origin has answered, or why it did not.
    pub(crate) fn take(&mut self, origin: String, answer: Result<Answer, String>) {
        let read = answer.and_then(|answer| answer.origin(&origin).map(|read| (read, answer)));
        let (read, answer) = match read {
            Ok(read) => read,
            Err(reason) => return self.state.leave_unread(origin, &reason),
        };
        let length = read.json_length();
        if length > self.left {
            return self.state.leave_unread(origin, &"with it the state would be larger than it may be");
        }
        self.left -= length;
        self.state.warnings.extend(within(&origin, answer.skipped));
        if answer.partly {
            self.state.unread.push(origin);
        }
        self.state.origins.push(read);
    }

    /// Notes that a tab did not tell what it keeps for itself of an origin, and why. What all tabs share may have been read.
    pub(crate) fn leave_tab_unread(&mut self, origin: String, reason: &str) {
        self.state.warnings.extend(within(&origin, vec![format!("the session storage of its tab: {reason}")]));
        if !self.state.unread.contains(&origin) {
            self.state.unread.push(origin);
        }
    }

    /// Ends reading. Of the origins that were not written whole, what is read is no more than a part.
    pub(crate) fn end<'a>(mut self, unwritten: impl IntoIterator<Item = &'a String>) -> StorageState {
        for origin in unwritten {
            let is_read = self.state.origins.iter().any(|read| read.origin == *origin);
            if is_read && !self.state.unread.contains(origin) {
                self.state.leave_unread(origin.clone(), &"not all of it was put into this browser");
            }
        }
        self.state
    }
}

/// Sentences of what was left out at an origin.
pub(crate) fn within(origin: &str, skipped: Vec<String>) -> Vec<String> {
    skipped.into_iter().map(|what| format!("{origin}: left out: {what}")).collect()
}

/// The origins of a browser that are more than what its tabs show.
#[derive(Debug, Default)]
pub(crate) struct KnownOrigins {
    /// Those that have stored something, or were given something.
    pub(crate) keeping: BTreeSet<String>,
    /// Those that were not given all that they should have been.
    pub(crate) unwritten: BTreeSet<String>,
}

/// The origin of an address, if it is one of the web.
pub(crate) fn origin(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: StorageQuery = StorageQuery { limit: 1000, everywhere: true, time_ms: 1000 };

    fn answer(text: &str) -> Result<Answer, String> {
        Answer::read(text)
    }

    fn item(bytes: usize) -> String {
        format!(
            r#"{{"origin": {{"origin": "", "localStorage": [{{"name": "a", "value": "{}"}}]}}}}"#,
            "x".repeat(bytes)
        )
    }

    #[test]
    fn what_comes_from_elsewhere_is_nobodys() {
        let mut reading = Reading::new(QUERY);
        let text = r#"{"at": "https://evil.example", "origin": {"origin": "", "localStorage": []}}"#;
        reading.take("https://bank.example".to_owned(), answer(text));
        assert_eq!(
            (reading.state.origins.len(), reading.state.unread.as_slice()),
            (0, &["https://bank.example".to_owned()][..])
        );
        reading.take("https://evil.example".to_owned(), answer(text));
        assert_eq!(reading.state.origins[0].origin, "https://evil.example");
    }

    #[test]
    fn an_answer_that_makes_no_sense_spoils_no_other() {
        let mut reading = Reading::new(QUERY);
        reading.take(
            "https://a.b".to_owned(),
            answer(r#"{"origin": {"localStorage": [{"name": "\ud800", "value": ""}]}}"#),
        );
        reading.take("https://c.d".to_owned(), answer("nonsense"));
        reading.take("https://e.f".to_owned(), answer(&item(1)));
        let state = reading.end([]);
        assert_eq!(state.unread, ["https://a.b", "https://c.d"]);
        assert_eq!(state.origins.iter().map(|at| at.origin.as_str()).collect::<Vec<_>>(), ["https://e.f"]);
    }

    #[test]
    fn all_origins_share_one_limit() {
        let mut reading = Reading::new(QUERY);
        for name in ["a", "b", "c"] {
            reading.take(format!("https://{name}.example"), answer(&item(if name == "b" { 600 } else { 400 })));
        }
        let state = reading.end(&["https://a.example".to_owned(), "https://x.example".to_owned()]);
        assert_eq!(state.origins.len(), 2);
        assert_eq!(state.unread, ["https://b.example", "https://a.example"], "the first was not given all of it");
        assert_eq!(state.warnings.len(), 2, "{:?}", state.warnings);
    }

    #[test]
    fn what_was_read_in_part_says_so() {
        let mut reading = Reading::new(QUERY);
        let text =
            r#"{"origin": {"origin": "", "localStorage": []}, "partly": true, "skipped": ["private files: too many"]}"#;
        reading.take("https://a.b".to_owned(), answer(text));
        assert_eq!((reading.state.origins.len(), reading.state.unread.len(), reading.state.warnings.len()), (1, 1, 1));
    }

    #[test]
    fn a_tab_that_tells_nothing_leaves_its_origin_unread() {
        let mut reading = Reading::new(QUERY);
        reading.take("https://a.b".to_owned(), answer(&item(1)));
        reading.take("https://c.d".to_owned(), answer("nonsense"));
        for origin in ["https://a.b", "https://c.d"] {
            reading.leave_tab_unread(origin.to_owned(), "it took too long");
        }
        let state = reading.end([]);
        assert_eq!(
            (state.origins.len(), state.unread.as_slice()),
            (1, &["https://c.d", "https://a.b"].map(str::to_owned)[..])
        );
        assert_eq!(state.warnings[1], "https://a.b: left out: the session storage of its tab: it took too long");
    }

    #[test]
    fn a_document_without_an_origin_is_elsewhere() {
        let nobodys = answer(r#"{"at": "null"}"#).unwrap();
        assert!(nobodys.is_elsewhere("https://a.b") && nobodys.origin("https://a.b").is_err());
        assert!(!answer(&item(1)).unwrap().is_elsewhere("https://a.b"), "not every engine reads in a document");
    }

    #[tokio::test(start_paused = true)]
    async fn time_ends_for_all_origins_together() {
        let reading = Reading::new(QUERY);
        let never = || std::future::pending::<Result<(), String>>();
        let began = Instant::now();
        for _ in 0..5 {
            assert!(reading.wait(Duration::from_millis(400), never()).await.is_err());
        }
        assert_eq!(began.elapsed().as_millis() / 10, 100);
    }
}
