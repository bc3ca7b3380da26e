//! `GET /console/api/thumbnails`: small pictures of the sessions that a page shows, as server-sent events.
//!
//! Those that have ended show their last one, if it is still kept. The page names the sessions on its screen, and asks anew when they are others. Each event has a picture that differs from
//! the one before.

use std::collections::VecDeque;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{self, StreamExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::super::App;
use super::super::query::Query;
use super::super::sse;
use super::events::Follower;
use super::places::Place;
use crate::http::error::Error;
use warmpool_core::drain::Phase;
use warmpool_core::ids::SessionId;

/// Pictures that are taken at the same time.
const AT_ONCE: usize = 4;

/// The sessions on a page. They are more than a screen shows.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ShownSessions {
    /// A session on the page.
    #[schemars(length(max = 100))]
    session: Vec<String>,
}

/// The data of an event.
#[derive(Serialize)]
struct Picture<'a> {
    session_id: &'a str,
    /// In base64.
    jpeg: String,
}

/// A session on the page's screen.
struct Shown {
    id: String,
    /// Of the picture that the page has.
    tag: String,
}

/// `GET /console/api/thumbnails`
pub(super) async fn follow(
    State(app): State<App>,
    follower: Follower,
    Query(ShownSessions { session: sessions }): Query<ShownSessions>,
) -> Result<Response, Error> {
    let place = follower.place(&app)?;
    let shown = sessions.into_iter().map(|id| Shown { id, tag: String::new() }).collect();
    let source = Source { app, follower, shown, waiting: VecDeque::new(), next: Instant::now(), _place: place };
    Ok(sse::respond(stream::unfold(source, |mut source| async move {
        let event = source.next().await?;
        Some((event, source))
    })))
}

struct Source {
    app: App,
    follower: Follower,
    shown: Vec<Shown>,
    waiting: VecDeque<Result<Event, axum::Error>>,
    /// When to look again.
    next: Instant,
    _place: Place,
}

impl Source {
    async fn next(&mut self) -> Option<Result<Event, axum::Error>> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let drain = self.app.drain.clone();
            tokio::select! {
                () = drain.reached(Phase::Stopped) => return None,
                () = sleep_until(self.next) => {}
            }
            self.next = Instant::now() + self.interval();
            self.look().await;
        }
    }

    fn interval(&self) -> Duration {
        self.app.config.console.thumbnail_interval
    }

    /// Takes a picture of each session that still runs; the others' last ones are shown once.
    async fn look(&mut self) {
        let shown = std::mem::take(&mut self.shown).into_iter();
        let shown: Vec<_> = shown.filter(|shown| self.follower.sees_session(&self.app, &shown.id)).collect();
        let looks = stream::iter(shown).map(|shown| look(self.app.clone(), shown)).buffer_unordered(AT_ONCE);
        for (shown, event) in looks.filter_map(std::future::ready).collect::<Vec<_>>().await {
            self.shown.push(shown);
            self.waiting.extend(event);
        }
    }
}

/// Looks at one session; nothing where it has ended without a picture, and no event while its picture is the same.
async fn look(app: App, mut shown: Shown) -> Option<(Shown, Option<Result<Event, axum::Error>>)> {
    let thumbnail = match app.sessions.live(&shown.id) {
        Ok(session) => app.thumbnails.newest(&session).await,
        Err(_) => Some(app.thumbnails.last(&SessionId::from(shown.id.as_str()))?),
    };
    let Some(thumbnail) = thumbnail.filter(|thumbnail| thumbnail.tag != shown.tag) else {
        return Some((shown, None));
    };
    shown.tag = thumbnail.tag;
    let picture = Picture { session_id: &shown.id, jpeg: STANDARD.encode(&thumbnail.jpeg) };
    let event = Event::default().event("thumbnail").json_data(picture);
    Some((shown, Some(event)))
}
