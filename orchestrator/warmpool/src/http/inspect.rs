//! What Playwright's `webkit.connectOverCDP` asks for: `GET /json` at the root of the server, whatever the path of the
//! URL it was given. So the session is known by a header, which the create call names in `connect_headers` and which
//! that client sends with every request.

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::App;
use super::headers::bearer;
use super::public_url::PublicUrl;
use super::reply::json_reply;
use crate::http::error::Error;
use warmpool_api::session::ConnectHeaders;
use warmpool_core::browser::Engine;
use warmpool_sessions::session::Session;
use warmpool_sessions::targets::Targets;

/// How the id of every session starts.
const SESSION_ID: &str = "ses_";

/// The headers by which a WebKit session's clients name it; nothing for other engines.
pub(super) fn connect_headers(session: &Session) -> Option<ConnectHeaders> {
    let authorization = format!("Bearer {}.{}", session.id, session.token());
    (session.options.engine == Engine::Webkit).then_some(ConnectHeaders { authorization })
}

/// The session and the token in such a header; `None` in a header that carries something else.
fn named(headers: &HeaderMap) -> Option<(&str, &str)> {
    bearer(headers)?.split_once('.').filter(|(id, _)| id.starts_with(SESSION_ID))
}

/// The pages of the session that the headers name; `None` when they name none.
pub(super) async fn list(app: &App, base: &PublicUrl, headers: &HeaderMap) -> Option<Result<Response, Error>> {
    let (id, token) = named(headers)?;
    Some(list_of(app, base, id, token).await)
}

async fn list_of(app: &App, base: &PublicUrl, id: &str, token: &str) -> Result<Response, Error> {
    let session = app.sessions.live_by_token(id, token).await?;
    let pages = Targets::of_session(&session).await?;
    let pages: Vec<_> = pages.into_iter().map(|page| with_url(page, &base.websocket_url(&session))).collect();
    Ok(json_reply(StatusCode::OK, &pages))
}

/// Gives a page the websocket that leads to it through the relay.
fn with_url(mut page: Value, websocket_url: &str) -> Value {
    let id = page["id"].as_str().unwrap_or_default();
    page["webSocketDebuggerUrl"] = json!(websocket_url.replacen("/devtools?", &format!("/devtools/page/{id}?"), 1));
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::AUTHORIZATION;

    #[test]
    fn only_a_session_is_named() {
        let named_by = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            named(&headers).map(|(id, token)| (id.to_owned(), token.to_owned()))
        };
        assert_eq!(named_by("Bearer ses_1.T"), Some(("ses_1".into(), "T".into())));
        assert_eq!(named_by("bearer ses_1.T"), Some(("ses_1".into(), "T".into())));
        for other in ["Bearer wp_key", "Bearer wp.key", "Basic ses_1.T", "Bearer ses_1", ""] {
            assert_eq!(named_by(other), None, "{other}");
        }
    }

    #[test]
    fn a_page_is_reached_through_the_relay() {
        let page = with_url(json!({"id": "1-2", "title": "T"}), "wss://h/sessions/ses_1/devtools?token=K");
        assert_eq!(page["webSocketDebuggerUrl"], "wss://h/sessions/ses_1/devtools/page/1-2?token=K");
        assert_eq!(page["title"], "T");
    }
}
