//! Why a session's first page did not load: what its browser says, and what the daemon knows better.
//!
//! All that browsers know of a failed connection is what a SOCKS proxy can answer. The daemon made the connection, or refused it.

use std::sync::OnceLock;

use url::Url;
use warmpool_workers::egress::NoConnection;

use super::Session;

/// What Chromium says of every connection that came to nothing.
const VAGUE: &str = "net::ERR_SOCKS_CONNECTION_FAILED";
/// What it says of a connection that failed, without a reason.
const FAILED: &str = "net::ERR_CONNECTION_FAILED";

/// The reason, once it is known. Later connections to the same site do not change it.
#[derive(Debug, Default)]
pub(super) struct PageError(OnceLock<String>);

impl PageError {
    /// What the record of an earlier process has.
    pub(super) fn of_record(kept: Option<String>) -> Self {
        Self(kept.map(OnceLock::from).unwrap_or_default())
    }
}

impl Session {
    /// Why its first page did not load, if it did not.
    pub(super) fn page_error(&self) -> Option<String> {
        let PageError(known) = &self.page_error;
        if let Some(known) = known.get() {
            return Some(known.clone());
        }
        let said = self.worker.snapshot.borrow().page_error.clone()?;
        let url = self.options.launch.url.as_deref().and_then(|url| Url::parse(url).ok());
        let why = || url.and_then(|url| self.egress.outcomes().failure_at(&url));
        Some(known.get_or_init(|| named(said, why())).clone())
    }
}

/// The browser's words, with the reason behind them. In place of words about SOCKS, which is the daemon's own business, stands
/// the name that browsers have for the reason.
fn named(said: String, why: Option<NoConnection>) -> String {
    match why {
        Some(why) if said.contains("SOCKS") => format!("{} ({why})", why.net_error()),
        Some(why) => format!("{said} ({why})"),
        None => said.replace(VAGUE, FAILED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socks_is_not_spoken_of_where_the_reason_is_known() {
        let named = |said: &str, why: &NoConnection| named(said.to_owned(), Some(why.clone()));
        let unknown =
            NoConnection::Unreachable { why: "there is no such host".to_owned(), name: "net::ERR_NAME_NOT_RESOLVED" };
        let wanted = "net::ERR_NAME_NOT_RESOLVED (there is no such host)";
        for said in [VAGUE, "Host unreachable through SOCKSv5 server."] {
            assert_eq!(named(said, &unknown), wanted);
        }
        assert_eq!(named("NS_ERROR_UNKNOWN_HOST", &unknown), "NS_ERROR_UNKNOWN_HOST (there is no such host)");
        let by_proxy = NoConnection::Proxy("the proxy did not answer in time");
        assert_eq!(named(VAGUE, &by_proxy), "net::ERR_PROXY_CONNECTION_FAILED (the proxy did not answer in time)");
        assert_eq!(super::named(VAGUE.to_owned(), None), "net::ERR_CONNECTION_FAILED");
        assert_eq!(super::named("net::ERR_CERT_DATE_INVALID".to_owned(), None), "net::ERR_CERT_DATE_INVALID");
    }
}
