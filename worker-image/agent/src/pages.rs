//! The pages of the browser for live views: a list of them, and a few actions on each.
//!
//! A browser with DevTools lists its pages itself. The agent asks the others over channels of its own, which clients and
//! pages do not see, and only for as long as somebody reads the list.

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

/// Time between two requests for the list.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// `GET /pages`: a line with the list of pages, the one in front first, and another at each change.
pub(crate) async fn stream(engine: Engine) -> Result<Response<Body>, ApiError> {
    let feed = PageFeed { next: Some(engine.pages().await?), last: Vec::new(), engine };
    let mut response = Response::new(StreamBody::new(lines(feed)).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

struct PageFeed {
    engine: Engine,
    next: Option<Vec<Page>>,
    last: Vec<Page>,
}

impl PageFeed {
    /// Asks until the list has changed.
    async fn change(&self) -> Vec<Page> {
        loop {
            sleep(POLL_INTERVAL).await;
            match self.engine.pages().await {
                Ok(pages) if pages != self.last => return pages,
                // A browser that is being replaced cannot answer; the next one will.
                Ok(_) | Err(_) => {}
            }
        }
    }
}

fn lines(feed: PageFeed) -> impl Stream<Item = Result<Frame<Bytes>, BodyError>> {
    futures_util::stream::unfold(feed, |mut feed| async move {
        feed.last = match feed.next.take() {
            Some(pages) => pages,
            None => feed.change().await,
        };
        let mut line = serde_json::to_vec(&feed.last).unwrap_or_default();
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
