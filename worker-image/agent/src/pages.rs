//! The pages of the browser, for whoever watches it: which there are, and a hand's few acts on one of them.
//!
//! A browser with DevTools tells this itself. The others are asked here, by ways of the agent's own that clients and
//! pages do not meet, and only for as long as somebody reads the list.

use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::body::{Body, BodyError, empty};
use crate::engine::Engine;
use crate::error::ApiError;

/// The most pages that are told of.
pub(crate) const MAX_PAGES: usize = 50;
/// The most that is told of a title or an address, in characters.
pub(crate) const MAX_TEXT: usize = 2000;
/// Between two looks at the browser.
const LOOK: Duration = Duration::from_millis(250);

/// One page: a tab, or a window where the engine has no tabs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Page {
    /// Names it for as long as it is open.
    pub(crate) id: String,
    /// Its title; empty while it has none.
    pub(crate) title: String,
    /// Its address.
    pub(crate) url: String,
}

/// Body of `POST /pages/{id}`: what is to be done to a page.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Act {
    /// Bring it to the front.
    Show {},
    /// One step back in its history, if there is one.
    Back {},
    /// One step forward, if there is one.
    Forward {},
    /// Load it again.
    Reload {},
    /// Send it to an address. Which ones are allowed is the daemon's to say.
    Open {
        /// The address.
        url: String,
    },
}

impl Act {
    /// Its name, and the address that goes with it.
    pub(crate) fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Show {} => ("show", None),
            Self::Back {} => ("back", None),
            Self::Forward {} => ("forward", None),
            Self::Reload {} => ("reload", None),
            Self::Open { url } => ("open", Some(url)),
        }
    }
}

/// `GET /pages`: a line with the list of pages, the one in front first, and another at each change.
pub(crate) async fn stream(engine: Engine) -> Result<Response<Body>, ApiError> {
    let feed = Feed { next: Some(engine.pages().await?), told: Vec::new(), engine };
    let mut response = Response::new(StreamBody::new(lines(feed)).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

struct Feed {
    engine: Engine,
    next: Option<Vec<Page>>,
    told: Vec<Page>,
}

impl Feed {
    /// Looks until there is something else to see.
    async fn change(&self) -> Vec<Page> {
        loop {
            sleep(LOOK).await;
            match self.engine.pages().await {
                Ok(pages) if pages != self.told => return pages,
                // A browser that is being replaced cannot answer; the next one will.
                Ok(_) | Err(_) => {}
            }
        }
    }
}

fn lines(feed: Feed) -> impl Stream<Item = Result<Frame<Bytes>, BodyError>> {
    futures_util::stream::unfold(feed, |mut feed| async move {
        feed.told = match feed.next.take() {
            Some(pages) => pages,
            None => feed.change().await,
        };
        let mut line = serde_json::to_vec(&feed.told).unwrap_or_default();
        line.push(b'\n');
        Some((Ok(Frame::data(line.into())), feed))
    })
}

/// `POST /pages/{id}`.
pub(crate) async fn act(engine: &Engine, page: &str, act: Act) -> Result<Response<Body>, ApiError> {
    if !engine.act(page, &act).await? {
        return Err(ApiError::not_found("no such page"));
    }
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(body: Value) -> Result<Act, serde_json::Error> {
        serde_json::from_value(body)
    }

    #[test]
    fn only_what_can_be_done_is_understood() {
        assert_eq!(read(json!({"do": "back"})).unwrap().parts(), ("back", None));
        let open = read(json!({"do": "open", "url": "http://a.example/"})).unwrap();
        assert_eq!(open.parts(), ("open", Some("http://a.example/")));
        for wrong in [json!({}), json!({"do": "open"}), json!({"do": "close"}), json!({"do": "back", "url": "x"})] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
