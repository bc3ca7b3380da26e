//! `GET /console/api/events`: what happens, as server-sent events, for as long as a page listens.
//!
//! A page names its topics. `overview` and `sample` carry their data; `sessions`, `tasks` and `keys` only announce a
//! change of what the page may see, and it asks for the part of the list that it shows; `request` and `line` are entries of the log.
//! All work happens in open streams, so a console that nobody watches costs nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream;
use http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};

use super::super::App;
use super::super::auth::{Caller, Scope};
use super::super::query::Query;
use super::super::sign_in::SignedIn;
use super::super::sse;
use super::keys::KeysVersion;
use super::overview;
use super::places::Place;
use super::request_entry::RequestEntry;
use crate::http::error::Error;
use crate::telemetry::{self, LogLine};
use warmpool_core::drain::Phase;
use warmpool_keys::KeyId;

/// Time between two updates of the overview, which nothing announces.
const TICK: Duration = Duration::from_secs(2);
/// Time between two announcements for one list.
const PAUSE: Duration = Duration::from_millis(500);

/// What a page follows.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct EventTopics {
    /// What to follow.
    topic: Vec<Topic>,
}

/// The topics that a page may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Topic {
    Overview,
    Sessions,
    Tasks,
    Keys,
    Log,
}

/// What somebody who follows may see: they are signed in, or hold a key.
pub(super) struct Follower {
    key: KeyId,
    scope: Scope,
}

impl FromRequestParts<App> for Follower {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let (key, is_operator) = match SignedIn::find(app, &parts.headers)? {
            Some(SignedIn { key, is_operator, .. }) => (key, is_operator),
            None => (Caller::from_request_parts(parts, app).await?.0, false),
        };
        let scope = if is_operator { Scope::All } else { Scope::Own(key.clone()) };
        Ok(Self { key, scope })
    }
}

impl Follower {
    /// Takes the place of one more stream.
    pub(super) fn place(&self, app: &App) -> Result<Place, Error> {
        app.console.places().take(&self.key, self.scope == Scope::All)
    }

    /// Whether they may see this session.
    pub(super) fn sees_session(&self, app: &App, id: &str) -> bool {
        app.sessions.owner(id).is_some_and(|owner| self.scope.sees(Some(&owner)))
    }
}

/// `GET /console/api/events`
pub(super) async fn follow(
    State(app): State<App>,
    follower: Follower,
    Query(EventTopics { topic }): Query<EventTopics>,
) -> Result<Response, Error> {
    let place = follower.place(&app)?;
    let source = Source::new(app, follower, topic, place);
    Ok(sse::respond(stream::unfold(source, |mut source| async move {
        let event = source.next().await?;
        Some((event, source))
    })))
}

/// Announces the changes of a list, at a limited rate.
struct Changes {
    receiver: watch::Receiver<u64>,
    name: &'static str,
    wanted: bool,
    has_news: bool,
    announced: Option<Instant>,
}

impl Changes {
    fn new(mut receiver: watch::Receiver<u64>, name: &'static str, wanted: bool) -> Self {
        receiver.mark_unchanged();
        Self { receiver, name, wanted, has_news: false, announced: None }
    }

    /// Waits for a change that may be announced.
    async fn next(&mut self) -> Event {
        if !self.wanted {
            return std::future::pending().await;
        }
        // The caller drops this future whenever another event comes first, so a change that was seen stays noted.
        if !self.has_news {
            if self.receiver.changed().await.is_err() {
                return std::future::pending().await;
            }
            self.has_news = true;
        }
        if let Some(announced) = self.announced {
            sleep_until(announced + PAUSE).await;
        }
        self.has_news = false;
        self.receiver.mark_unchanged();
        self.announced = Some(Instant::now());
        Event::default().event(self.name).data("{}")
    }
}

/// Receives the entries of a log, where the page wants them.
struct LogReceiver<T>(Option<broadcast::Receiver<Arc<T>>>);

impl<T> LogReceiver<T> {
    /// The next entry, or the number of missed ones.
    async fn next(&mut self) -> Result<Arc<T>, u64> {
        let Some(receiver) = &mut self.0 else { return std::future::pending().await };
        match receiver.recv().await {
            Ok(entry) => Ok(entry),
            Err(RecvError::Lagged(missed)) => Err(missed),
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

struct Source {
    app: App,
    follower: Follower,
    waiting: VecDeque<Event>,
    overview: bool,
    keys: Option<KeysVersion>,
    sampled: u64,
    sessions: Changes,
    tasks: Changes,
    requests: LogReceiver<RequestEntry>,
    lines: LogReceiver<LogLine>,
    tick: Instant,
    over: bool,
    _place: Place,
}

impl Source {
    fn new(app: App, follower: Follower, topics: Vec<Topic>, place: Place) -> Self {
        let wants = |topic| topics.contains(&topic);
        let started = app.console.started_ms();
        let hello = json!({
            "key_id": follower.key,
            "started_at": started,
            "version": env!("CARGO_PKG_VERSION"),
            "phase": app.drain.phase(),
        });
        let hello = Event::default().event("hello").data(hello.to_string());
        // Only operators may read the daemon's log.
        let lines = (wants(Topic::Log) && follower.scope == Scope::All).then(|| telemetry::lines().follow());
        // Of what the page cannot show it need not hear.
        let (sessions, tasks) = match &follower.scope {
            Scope::Own(key) => (app.sessions.changes_of(key), app.tasks.changes_of(key)),
            Scope::All => (app.sessions.changes(), app.tasks.changes()),
        };
        Self {
            waiting: VecDeque::from([hello]),
            overview: wants(Topic::Overview),
            keys: wants(Topic::Keys).then(|| KeysVersion::now(&app, &follower.scope)),
            sampled: warmpool_core::clock::unix_ms(),
            sessions: Changes::new(sessions, "sessions", wants(Topic::Sessions)),
            tasks: Changes::new(tasks, "tasks", wants(Topic::Tasks)),
            requests: LogReceiver(wants(Topic::Log).then(|| app.console.requests().follow())),
            lines: LogReceiver(lines),
            tick: Instant::now() + TICK,
            over: false,
            _place: place,
            app,
            follower,
        }
    }

    async fn next(&mut self) -> Option<Result<Event, axum::Error>> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            let drain = self.app.drain.clone();
            let looks = self.overview || self.keys.is_some();
            tokio::select! {
                event = self.sessions.next() => self.waiting.push_back(event),
                event = self.tasks.next() => self.waiting.push_back(event),
                entry = self.requests.next() => match entry {
                    Ok(entry) => self.request(&entry),
                    Err(missed) => self.missed(missed),
                },
                line = self.lines.next() => match line {
                    Ok(line) => self.push("line", &*line),
                    Err(missed) => self.missed(missed),
                },
                () = drain.reached(Phase::Stopped) => self.over = true,
                () = sleep_until(self.tick), if looks => self.look(),
            }
        }
    }

    /// Updates the overview and the keys.
    fn look(&mut self) {
        self.tick = Instant::now() + TICK;
        if self.overview {
            let now = overview::now(&self.app);
            self.push("overview", &now);
            if let Some((at, sample)) = self.app.console.samples().newest(self.sampled) {
                self.sampled = at;
                self.push("sample", &sample);
            }
        }
        if let Some(seen) = &mut self.keys {
            let now = KeysVersion::now(&self.app, &self.follower.scope);
            if *seen != now {
                *seen = now;
                self.waiting.push_back(Event::default().event("keys").data("{}"));
            }
        }
    }

    fn request(&mut self, entry: &RequestEntry) {
        if self.follower.scope.sees(entry.key_id.as_ref()) {
            self.push("request", entry);
        }
    }

    fn missed(&mut self, count: u64) {
        self.push("missed", &json!({"count": count}));
    }

    fn push(&mut self, name: &'static str, data: &impl serde::Serialize) {
        if let Ok(event) = Event::default().event(name).json_data(data) {
            self.waiting.push_back(event);
        }
    }
}
