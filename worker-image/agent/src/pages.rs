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
use tokio::time::sleep;
use warmpool_protocol::{Page, PageAction};

use crate::body::{Body, BodyError, empty};
use crate::engine::Engine;
use crate::error::ApiError;

/// Between two looks at the browser.
const LOOK: Duration = Duration::from_millis(250);

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
pub(crate) async fn act(engine: &Engine, page: &str, action: PageAction) -> Result<Response<Body>, ApiError> {
    if !engine.act(page, &action).await? {
        return Err(ApiError::not_found("no such page"));
    }
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
