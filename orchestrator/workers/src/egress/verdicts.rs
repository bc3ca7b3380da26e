//! Why pages did not come, for those who drive the browser: what the egress answered last at each site, and which pages it showed
//! in place of others.
//!
//! A page that stands for a refusal carries a mark that nobody can guess, and that the session knows again. So no page can pass for
//! one, whatever it shows.

use std::collections::VecDeque;
use std::{fmt, io};

use parking_lot::Mutex;
use warmpool_core::ids::random_text;
use warmpool_dial::{DialError, Refusal};

use super::proxy::ProxyError;

/// How many sites, and how many pages, are remembered at most.
const MOST: usize = 256;
/// The bytes of a mark.
const MARK: usize = 16;

/// Why a page has no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoConnection {
    /// The policy refuses the site.
    Refused {
        /// The site, as `host:port`.
        site: String,
        /// Why.
        refusal: Refusal,
    },
    /// The proxy gave none. The text says why.
    Proxy(&'static str),
    /// The site could not be reached.
    Unreachable {
        /// Why.
        why: String,
        /// Chromium's name for it.
        name: &'static str,
    },
}

impl NoConnection {
    pub(super) fn refused(host: &str, port: u16, refusal: Refusal) -> Self {
        Self::Refused { site: format!("{host}:{port}"), refusal }
    }

    pub(super) fn unreachable(error: &DialError) -> Self {
        let name = match error {
            DialError::Refused(_) => "net::ERR_NETWORK_ACCESS_DENIED",
            DialError::UnknownHost => "net::ERR_NAME_NOT_RESOLVED",
            DialError::TimedOut => "net::ERR_CONNECTION_TIMED_OUT",
            DialError::Failed(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => "net::ERR_CONNECTION_REFUSED",
                io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => "net::ERR_ADDRESS_UNREACHABLE",
                io::ErrorKind::TimedOut => "net::ERR_CONNECTION_TIMED_OUT",
                _ => "net::ERR_CONNECTION_FAILED",
            },
        };
        Self::Unreachable { why: error.to_string(), name }
    }

    /// Chromium's name for it, which people look up.
    #[must_use]
    pub const fn net_error(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "net::ERR_NETWORK_ACCESS_DENIED",
            Self::Proxy(_) => "net::ERR_PROXY_CONNECTION_FAILED",
            Self::Unreachable { name, .. } => name,
        }
    }

    /// Without the proxy's address, which may be the operator's own.
    pub(super) const fn by_proxy(error: &ProxyError) -> Self {
        Self::Proxy(match error {
            ProxyError::Unreachable(_) => "the proxy cannot be reached",
            ProxyError::Gone => "the proxy is not configured any more",
            ProxyError::Slow => "the proxy did not answer in time",
            ProxyError::Credentials => "the proxy does not take the credentials",
            ProxyError::Refused(_) => "the proxy refused the connection",
            ProxyError::Garbage => "the proxy's answer makes no sense",
        })
    }
}

impl fmt::Display for NoConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { site, refusal: refusal @ Refusal::Denied } => {
                write!(
                    f,
                    "`{site}` {}: change that rule, or allow it by the nearer `egress.allow` of the key",
                    refusal.problem()
                )
            }
            Self::Refused { site, refusal } => write!(
                f,
                "`{site}` {}, and sessions may reach public addresses only: to allow it, add \"{site}\" to `egress.allow` and restart \
                 the daemon",
                refusal.problem()
            ),
            Self::Proxy(why) => f.write_str(why),
            Self::Unreachable { why, .. } => f.write_str(why),
        }
    }
}

/// A site: a host, as the daemon writes it, and a port.
type Site = (String, u16);

/// What one session remembers of it.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// The sites at which the last connection failed, oldest first.
    failed: Mutex<VecDeque<(Site, NoConnection)>>,
    /// The marks of pages that stand for a refusal, oldest first.
    shown: Mutex<VecDeque<(String, NoConnection)>>,
}

impl Verdicts {
    /// A connection stands.
    pub(super) fn connected(&self, host: &str, port: u16) {
        self.failed.lock().retain(|((other, at), _)| (other.as_str(), *at) != (host, port));
    }

    /// There is none.
    pub(super) fn failed(&self, host: &str, port: u16, why: NoConnection) {
        self.connected(host, port);
        push(&mut self.failed.lock(), ((host.to_owned(), port), why));
    }

    /// A page is shown for a refusal. Returns its mark.
    pub(super) fn show(&self, why: NoConnection) -> String {
        let mark = random_text::<MARK>();
        push(&mut self.shown.lock(), (mark.clone(), why));
        mark
    }

    /// Why the last connection to a site failed.
    pub(super) fn failure_at(&self, host: &str, port: u16) -> Option<NoConnection> {
        let failed = self.failed.lock();
        failed.iter().find(|((other, at), _)| (other.as_str(), *at) == (host, port)).map(|(_, why)| why.clone())
    }

    /// What the page with this mark stands for.
    pub(super) fn shown_with(&self, mark: &str) -> Option<NoConnection> {
        self.shown.lock().iter().find(|(known, _)| known == mark).map(|(_, why)| why.clone())
    }
}

fn push<T>(list: &mut VecDeque<T>, entry: T) {
    if list.len() >= MOST {
        list.pop_front();
    }
    list.push_back(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(port: u16) -> NoConnection {
        NoConnection::refused("10.0.0.1", port, Refusal::NotPublic("is a private address"))
    }

    #[test]
    fn a_site_has_its_last_verdict() {
        let verdicts = Verdicts::default();
        verdicts.failed("10.0.0.1", 80, NoConnection::Proxy("x"));
        verdicts.failed("10.0.0.1", 80, refused(80));
        assert_eq!(verdicts.failure_at("10.0.0.1", 80), Some(refused(80)));
        assert_eq!(verdicts.failure_at("10.0.0.1", 81), None);
        verdicts.connected("10.0.0.1", 80);
        assert_eq!(verdicts.failure_at("10.0.0.1", 80), None);
    }

    #[test]
    fn a_mark_is_known_again_and_what_is_remembered_is_bounded() {
        let verdicts = Verdicts::default();
        let (first, last) = (verdicts.show(refused(1)), (0..MOST).map(|_| verdicts.show(refused(2))).last().unwrap());
        assert_eq!((verdicts.shown_with(&first), verdicts.shown_with(&last)), (None, Some(refused(2))));
        assert_eq!(verdicts.shown_with(""), None);
        (0..1000).for_each(|port| verdicts.failed("a", port, refused(port)));
        assert_eq!(verdicts.failed.lock().len(), MOST);
    }

    #[test]
    fn a_refusal_names_the_setting() {
        let said = refused(80).to_string();
        assert!(
            said.starts_with("`10.0.0.1:80` is a private address")
                && said.contains("add \"10.0.0.1:80\" to `egress.allow`"),
            "{said}"
        );
        let denied = NoConnection::refused("a.x", 443, Refusal::Denied).to_string();
        assert!(denied.contains("`a.x:443` is denied by egress.deny") && denied.contains("`egress.allow`"), "{denied}");
    }
}
