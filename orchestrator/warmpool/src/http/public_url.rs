//! The address under which this client sees the service, for the URLs in replies.

use std::net::{IpAddr, SocketAddr};

use axum::extract::FromRequestParts;
use http::header::HOST;
use http::request::Parts;
use url::Url;

use super::App;
use crate::http::error::Error;
use warmpool_sessions::session::{Session, Share};

/// The connection a request came on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    /// The other end.
    pub(super) address: SocketAddr,
    /// Whether it is encrypted.
    pub(super) secure: bool,
}

/// The client's address, from a trusted proxy's header where there is one.
pub(super) struct ClientAddress(pub(super) IpAddr);

impl FromRequestParts<App> for ClientAddress {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let peer = parts.extensions.get::<Peer>().map_or(IpAddr::from([0; 4]), |peer| peer.address.ip());
        let forwarded =
            parts.headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).next_back();
        // A proxy adds the address that it sees to those that the client has claimed.
        let forwarded = forwarded.filter(|_| app.config.trusts_proxy(peer)).and_then(|list| list.rsplit(',').next());
        Ok(Self(forwarded.and_then(|address| address.trim().parse().ok()).unwrap_or(peer)))
    }
}

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
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let peer = parts.extensions.get::<Peer>().copied();
        let believed = peer.is_some_and(|peer| app.config.trusts_proxy(peer.address.ip()));
        let forwarded = |name: &str| header(name).filter(|_| believed);
        let secure = match forwarded("x-forwarded-proto") {
            Some(scheme) => scheme.eq_ignore_ascii_case("https"),
            None => peer.is_some_and(|peer| peer.secure),
        };
        let host = forwarded("x-forwarded-host").or_else(|| header(HOST.as_str()));
        // The guard has let it through, so it is one of our names.
        Ok(Self { secure, host: host.unwrap_or("localhost").to_owned(), prefix: String::new() })
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
    /// it as a browser would; those that append `/session` are served too, see [`single_slash`].
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

/// The path of a WebDriver request without the second slash that appending to a `connect_url` leaves; `None` when there
/// is nothing to mend.
pub(super) fn single_slash(path: &str) -> Option<String> {
    // A grid's address with a slash at its end, and a client that appends `/session` to it.
    for prefix in ["", "/wd/hub"] {
        let rest = path.strip_prefix(prefix).filter(|rest| rest.starts_with("//"));
        if let Some(rest) = rest.map(|rest| rest.trim_start_matches('/')).filter(|rest| is_grid(rest)) {
            return Some(format!("{prefix}/{rest}"));
        }
    }
    let (before, after) = path.split_once("/webdriver/")?;
    let (token, rest) = after.split_once("//")?;
    let mends = !token.is_empty() && !token.contains('/');
    mends.then(|| format!("{before}/webdriver/{token}/{}", rest.trim_start_matches('/')))
}

/// How many segments of a path may be shown. A grid's session is opened by its id, and a world's path is its viewer's token.
pub(super) fn shown_segments(path: &str) -> usize {
    if path.starts_with("/session/") || path.starts_with("/w/") { 1 } else { 3 }
}

fn is_grid(path: &str) -> bool {
    matches!(path.split('/').next(), Some("session" | "status"))
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

    #[test]
    fn only_the_slash_behind_the_token_is_mended() {
        let mended = single_slash("/sessions/s/webdriver/T//session/1/url");
        assert_eq!(mended.as_deref(), Some("/sessions/s/webdriver/T/session/1/url"));
        assert_eq!(single_slash("//session/1/url").as_deref(), Some("/session/1/url"));
        assert_eq!(single_slash("/wd/hub//session").as_deref(), Some("/wd/hub/session"));
        for path in [
            "//evil.example/x",
            "/session//x",
            "/sessions/s/webdriver/T/session/1//x",
            "/sessions//s/files",
            "/sessions/s/webdriver//session",
        ] {
            assert_eq!(single_slash(path), None, "{path}");
        }
    }
}
