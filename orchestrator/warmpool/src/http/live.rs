//! `/sessions/<id>/stream`: the live view's page and its websocket.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper_util::rt::TokioIo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tracing::Instrument as _;

use super::App;
use super::auth::Caller;
use super::console;
use super::credential::Credential;
use super::headers::text;
use super::openapi::{Access, Operation, Routes};
use super::query::Query;
use super::reply::{json_reply, status};
use super::route::Policy;
use super::sessions::ID;
use crate::http::error::Error;
use warmpool_core::error::{Code, Fault as _, ServiceFault as _};
use warmpool_sessions::live::{self, ViewerRights};
use warmpool_sessions::session::{Session, SessionView, Status};

/// What opens the recording of a session.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ViewToken {
    /// The token of the live view, or of a link to it.
    pub(super) token: String,
}

/// What the address of a live view may say.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ViewQuery {
    /// The token of the live view, or of a link to it.
    token: String,
    /// The colours of the page.
    #[schemars(extend("x-problem" = "must be dark or light"))]
    theme: Theme,
    /// Whether the viewer may take the session over.
    enable_actions: bool,
    /// Whether the view shows tabs and an address of its own also where the picture has the browser's.
    address_bar: bool,
}

/// The colours of a page.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Theme {
    /// Those of the viewer's system.
    #[default]
    #[serde(alias = "")]
    System,
    /// Light on dark.
    Dark,
    /// Dark on light.
    Light,
}

impl Theme {
    /// As the page has it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::System => "",
            Self::Dark => "dark",
            Self::Light => "light",
        }
    }
}

/// Calls by the token of a live view.
const VIEW: Policy = Policy::rest(Access::Address, &[ID]).takes::<ViewQuery>();

pub(super) fn routes(routes: Routes) -> Routes {
    let view = |id, summary, policy| {
        Operation::new(id, summary, policy)
            .about("The token is that of `livestream_url`, or of a link; the service key that made the session will do as well.")
            .fails(&[Code::UnknownSession, Code::SessionEnded, Code::InvalidKey, Code::RuntimeDown, Code::Starting])
    };
    // Pages that show a live view add what they like to its address.
    let page_policy = VIEW.takes_at_least::<ViewQuery>();
    routes
        .get(
            "/sessions/{id}/stream",
            page,
            view("get_live_view", "Open the live view", page_policy)
                .writes_text("text/html", "The page that shows the session. Where it cannot, the page says why.")
                .fails_with_pages(),
        )
        .get(
            "/sessions/{id}/stream/state",
            state,
            view("get_live_state", "Ask whether a live view can open", VIEW)
                .writes::<LiveState>("The session, as far as a viewer sees it.")
                .fails(&[Code::SocketLimit]),
        )
        .get(
            "/sessions/{id}/stream/socket",
            socket,
            view("connect_live_view", "The websocket of the live view", VIEW)
                .about(
                    "Pictures in binary messages, all else as JSON in text messages. The page of the live view is its client; \
                     other programs should not rely on its form.",
                )
                .upgrades("The websocket is open.")
                .fails(&[Code::SocketLimit]),
        )
}

/// A session, as far as a viewer sees it.
#[derive(Serialize, JsonSchema)]
struct LiveState {
    status: Status,
    /// Until `session_timeout` is over, in milliseconds.
    time_left: u64,
    /// Whether this viewer may take the session over.
    enable_actions: bool,
}

/// An admitted viewer of a session.
pub(super) struct ViewAccess {
    session: Arc<Session>,
    rights: ViewerRights,
    view: ViewQuery,
}

impl FromRequestParts<App> for ViewAccess {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let Path(id) = Path::<String>::from_request_parts(parts, app).await.map_err(Error::internal)?;
        let Query(view) = Query::<ViewQuery>::from_request_parts(parts, app).await?;
        let (session, rights) = admit(app, &id, &view, parts).await?;
        Ok(Self { session, rights, view })
    }
}

/// `GET /sessions/<id>/stream`: the page.
pub(super) async fn page(
    State(app): State<App>,
    Path(id): Path<String>,
    query: Result<Query<ViewQuery>, Error>,
    headers: HeaderMap,
    access: Result<ViewAccess, Error>,
) -> Result<Response, Error> {
    let wants_page =
        text(&headers, ACCEPT).is_none_or(|accept| accept.contains("text/html") || !accept.contains("json"));
    let ViewAccess { session, rights, view } = match access {
        Ok(access) => access,
        Err(error) if !wants_page => return Err(error),
        Err(error) => {
            let view = query.map(|Query(view)| view).unwrap_or_default();
            let state = match error.code() {
                Code::SessionEnded => "ended",
                Code::UnknownSession => "unknown",
                Code::RuntimeDown | Code::Starting => "unavailable",
                _ => "denied",
            };
            // Others do not learn that there was a session.
            let past = app.sessions.past(&id).filter(|_| error.code() == Code::SessionEnded);
            let failed = past.as_ref().is_some_and(|past| past.status == Status::Failure);
            let recorded = past.as_ref().is_some_and(|past| past.recording)
                && app.sessions.find_by_view_token(&id, &view.token).is_ok();
            let values = [
                ("theme", view.theme.as_str()),
                ("token", if recorded { &view.token } else { "" }),
                ("actions", "false"),
                ("bar", "false"),
                ("state", if failed { "failed" } else { state }),
                ("recording", if recorded { "true" } else { "false" }),
                ("message", &past.as_ref().map_or_else(|| message(&error), ended)),
            ];
            return Ok(console::page(status(error.code()), "live.html", &values));
        }
    };
    // By the key in its header, a page has no token in its address that its websocket could carry.
    let token = if view.token.is_empty() { session.view_token() } else { view.token.as_str() };
    let values = [
        ("theme", view.theme.as_str()),
        ("token", token),
        ("actions", if rights.may_act { "true" } else { "false" }),
        ("bar", if view.address_bar { "true" } else { "false" }),
        ("state", "live"),
        ("recording", "false"),
        ("message", ""),
    ];
    Ok(console::page(StatusCode::OK, "live.html", &values))
}

/// `GET /sessions/<id>/stream/state`: what a page asks for when its websocket does not open.
pub(super) async fn state(
    State(app): State<App>,
    ViewAccess { session, rights, .. }: ViewAccess,
) -> Result<Response, Error> {
    app.live.check_place(&session)?;
    let left = u64::try_from(session.time_left().as_millis()).unwrap_or(u64::MAX);
    let body = LiveState { status: session.status(), time_left: left, enable_actions: rights.may_act };
    Ok(json_reply(StatusCode::OK, &body))
}

/// `GET /sessions/<id>/stream/socket`: the websocket. `live::message` says what goes over it.
pub(super) async fn socket(
    State(app): State<App>,
    ViewAccess { session, rights, .. }: ViewAccess,
    mut request: Request,
) -> Result<Response, Error> {
    let accept = accept(request.headers())?;
    let place = app.live.enter(&session, rights)?;
    let upgrade = hyper::upgrade::on(&mut request);
    let (credential, asked) = (Credential::noted(), app.clone());
    let refused = async move {
        match credential {
            Some(credential) => drop(credential.lost(&asked).await),
            // By a token of the session's own, which lasts as long as the session or the link.
            None => std::future::pending().await,
        }
    };
    let work = async move {
        match upgrade.await {
            Ok(connection) => place.watch(TokioIo::new(connection), refused).await,
            Err(error) => tracing::debug!(%error, "a viewer left before its websocket was open"),
        }
    };
    app.drain.spawn(work.instrument(tracing::info_span!("live", session = %session.id)));
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// What a websocket handshake is to be answered with.
fn accept(headers: &HeaderMap) -> Result<HeaderValue, Error> {
    let upgrade = headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let version = headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .filter(|_| upgrade && version)
        .ok_or(warmpool_sessions::Error::UpgradeRequired)?;
    HeaderValue::try_from(derive_accept_key(key.as_bytes())).map_err(Error::internal)
}

/// Finds the session, and what the caller may do with its picture: by the token of the live view, by that of a link,
/// or by the key that made the session.
async fn admit(
    app: &App,
    id: &str,
    view: &ViewQuery,
    parts: &mut Parts,
) -> Result<(Arc<Session>, ViewerRights), Error> {
    let session = match app.sessions.live(id) {
        Ok(session) => session,
        Err(error) => {
            let knows_it = if view.token.is_empty() {
                let caller = Caller::from_request_parts(parts, app).await.ok();
                caller.is_some_and(|Caller(key)| app.sessions.owner(id) == Some(key))
            } else {
                app.sessions.is_view_token(id, &view.token)
            };
            return Err(app.sessions.error_for_caller(id, knows_it, error).into());
        }
    };
    if view.token.is_empty() {
        let Caller(key) = Caller::from_request_parts(parts, app).await.map_err(|error| match error.code() {
            Code::MissingKey => warmpool_sessions::Error::InvalidToken.into(),
            _ => error,
        })?;
        if key != session.owner {
            return Err(warmpool_sessions::Error::UnknownSession { id: id.to_owned() }.into());
        }
    } else if session.check_view_token(&view.token).is_err() {
        let share = app.sessions.shared_by(&session, &view.token)?;
        let may_act = view.enable_actions && share.enable_actions;
        return Ok((session, ViewerRights { may_act, share: Some(share) }));
    }
    Ok((session, ViewerRights { may_act: view.enable_actions, share: None }))
}

/// How a session ended, as its live view words it.
fn ended(past: &SessionView) -> String {
    let [reason, message] = [&past.reason, &past.message].map(|text| text.as_deref().unwrap_or_default());
    live::ending_sentence(reason, message, past.execution_time)
}

/// What a page says where it has no picture to show.
fn message(error: &Error) -> String {
    match error.code() {
        Code::UnknownSession => "The address is wrong, or the session has been forgotten.".to_owned(),
        Code::InvalidToken => "This link does not open the session: it is wrong, or has ended.".to_owned(),
        Code::RuntimeDown => "The session cannot be reached at the moment.".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::{Rule, read};
    use super::*;

    #[test]
    fn an_address_says_what_it_wants_or_what_is_wrong() {
        let rule = Rule::at_least::<ViewQuery>();
        let view: ViewQuery = read(rule, "token=T&enable_actions=true&theme=dark&utm=x").unwrap();
        assert_eq!(view, ViewQuery { token: "T".into(), theme: Theme::Dark, enable_actions: true, address_bar: false });
        assert!(read::<ViewQuery>(rule, "enable_actions=True").unwrap().enable_actions);
        for query in ["", "theme=", "theme=system", "enable_actions=", "enable_actions=False"] {
            assert_eq!(read::<ViewQuery>(rule, query).unwrap(), ViewQuery::default());
        }
        for (query, message) in [
            ("theme=pink", "`theme` must be dark or light"),
            ("enable_actions=yes", "`enable_actions` must be true or false"),
        ] {
            assert_eq!(read::<ViewQuery>(rule, query).unwrap_err().to_string(), message);
        }
    }
}
