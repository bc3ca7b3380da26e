//! Who sent a request: the other end of its connection, and the client behind it; and under which name the client sees us.

use std::net::{IpAddr, SocketAddr};

use axum::extract::FromRequestParts;
use http::header::HOST;
use http::request::Parts;
use http::{Extensions, HeaderMap};

use super::App;
use crate::http::error::Error;
use warmpool_config::Config;

/// The connection a request came on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    /// The other end.
    pub(super) address: SocketAddr,
    /// Whether it is encrypted.
    pub(super) secure: bool,
}

/// What the client's own address bar would show: as a trusted proxy says, else as the connection and its `Host` do.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenAs<'a> {
    /// Whether the client comes by TLS.
    pub(super) secure: bool,
    /// Host and port; the client's word, or a proxy's.
    pub(super) host: Option<&'a str>,
}

impl<'a> SeenAs<'a> {
    pub(super) fn of(config: &Config, peer: Option<Peer>, headers: &'a HeaderMap) -> Self {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let believed = peer.is_some_and(|peer| config.trusts_proxy(peer.address.ip()));
        let forwarded = |name: &str| header(name).filter(|_| believed);
        let secure = match forwarded("x-forwarded-proto") {
            Some(scheme) => scheme.eq_ignore_ascii_case("https"),
            None => peer.is_some_and(|peer| peer.secure),
        };
        Self { secure, host: forwarded("x-forwarded-host").or_else(|| header(HOST.as_str())) }
    }
}

/// The client's address, from a trusted proxy's header where there is one.
pub(super) struct ClientAddress(pub(super) IpAddr);

impl FromRequestParts<App> for ClientAddress {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        Ok(Self(Self::of(&app.config, &parts.extensions, &parts.headers)))
    }
}

impl ClientAddress {
    /// The address of a request's client.
    pub(super) fn of(config: &Config, extensions: &Extensions, headers: &HeaderMap) -> IpAddr {
        let peer = extensions.get::<Peer>().map_or(IpAddr::from([0; 4]), |peer| peer.address.ip());
        let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).next_back();
        // A proxy adds the address that it sees to those that the client has claimed.
        let forwarded = forwarded.filter(|_| config.trusts_proxy(peer)).and_then(|list| list.rsplit(',').next());
        forwarded.and_then(|address| address.trim().parse().ok()).unwrap_or(peer)
    }
}
