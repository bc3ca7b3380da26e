//! The address under which this client sees the service, for the URLs in replies.

use axum::extract::FromRequestParts;
use http::request::Parts;
use url::Url;

use super::App;
use super::peer::{Peer, SeenAs};
use crate::http::error::Error;
use warmpool_sessions::session::{Session, Share};

/// Scheme, host, port and what comes before every path, as the client uses them.
#[derive(Debug, Clone)]
pub(super) struct PublicUrl {
    secure: bool,
    host: String,
    /// What a proxy in front takes away from paths: empty, or from a slash to before one.
    prefix: String,
}

impl FromRequestParts<App> for PublicUrl {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if let Some(public) = &app.config.server.public_url {
            return Ok(Self::of_url(public));
        }
        let seen = SeenAs::of(&app.config, parts.extensions.get::<Peer>().copied(), &parts.headers);
        Ok(Self { secure: seen.secure, host: seen.host.unwrap_or("localhost").to_owned(), prefix: String::new() })
    }
}

impl PublicUrl {
    fn of_url(url: &Url) -> Self {
        let host = url.host_str().unwrap_or("localhost");
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Self { secure: url.scheme() == "https", host, prefix: url.path().trim_end_matches('/').to_owned() }
    }

    /// Whether clients come by TLS.
    pub(super) const fn is_secure(&self) -> bool {
        self.secure
    }

    /// The path under which clients see the service, with a slash at its end.
    pub(super) fn path(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// The service itself, without a slash at its end.
    pub(super) fn http(&self) -> String {
        format!("{}://{}{}", if self.secure { "https" } else { "http" }, self.host, self.prefix)
    }

    fn ws(&self) -> String {
        format!("{}://{}{}", if self.secure { "wss" } else { "ws" }, self.host, self.prefix)
    }

    /// A websocket of the service itself.
    pub(super) fn socket_url(&self, path: &str) -> String {
        format!("{}{path}", self.ws())
    }

    /// The websocket of one target of the session.
    pub(super) fn target_url(&self, session: &Session, target: &str) -> String {
        format!("{}/sessions/{}/devtools/{target}?token={}", self.ws(), session.id, session.token())
    }

    /// The session's DevTools websocket.
    pub(super) fn websocket_url(&self, session: &Session) -> String {
        format!("{}/sessions/{}/devtools?token={}", self.ws(), session.id, session.token())
    }

    /// The session's live view.
    pub(super) fn livestream_url(&self, session: &Session) -> String {
        format!("{}/sessions/{}/stream?token={}", self.http(), session.id, session.view_token())
    }

    /// The session's live view by a share link.
    pub(super) fn share_url(&self, session: &Session, share: &Share, token: &str) -> String {
        let actions = if share.enable_actions { "&enable_actions=true" } else { "" };
        format!("{}/sessions/{}/stream?token={token}{actions}", self.http(), session.id)
    }

    /// The session's WebDriver address. It ends in a slash because some clients (fantoccini) resolve `session` against
    /// it as a browser would; those that append `/session` are served too, see `request_target`.
    pub(super) fn connect_url(&self, session: &Session) -> String {
        format!("{}/sessions/{}/webdriver/{}/", self.http(), session.id, session.token())
    }

    /// The session's WebDriver address for websockets.
    pub(super) fn driver_url(&self, session: &Session) -> String {
        format!("{}/sessions/{}/webdriver/{}", self.ws(), session.id, session.token())
    }

    /// The BiDi websocket of a grid's session: the path that the standard has, and with it strict clients.
    pub(super) fn grid_bidi_url(&self, session: &Session) -> String {
        format!("{}/session/{}", self.ws(), session.grid_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_public_address_comes_first() {
        let base = |url| PublicUrl::of_url(&Url::parse(url).unwrap()).socket_url("/x");
        assert_eq!(base("https://a.example"), "wss://a.example/x");
        assert_eq!(base("https://a.example:8443/pool/"), "wss://a.example:8443/pool/x");
        assert_eq!(base("http://a.example/a/b"), "ws://a.example/a/b/x");
    }
}
