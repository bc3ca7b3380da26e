//! Why a page has no connection, for whoever drives the browser.

use std::{fmt, io};

use warmpool_dial::{DialError, Refusal};

use super::proxy::ProxyError;

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
            DialError::TimedOut | DialError::LookupTimedOut => "net::ERR_CONNECTION_TIMED_OUT",
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
                    "`{site}` {}: change that rule (`egress.deny`, or one of the session's key or preset), or give the key a rule \
                     of its own by `--egress-allow` of `warmpool key egress`",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting() {
        let said = NoConnection::refused("10.0.0.1", 80, Refusal::NotPublic("is a private address")).to_string();
        assert!(
            said.starts_with("`10.0.0.1:80` is a private address")
                && said.contains("add \"10.0.0.1:80\" to `egress.allow`"),
            "{said}"
        );
        let denied = NoConnection::refused("a.x", 443, Refusal::Denied).to_string();
        assert!(denied.contains("`--egress-allow`") && !denied.contains("`egress.allow`"), "{denied}");
        assert!(
            denied.starts_with("`a.x:443` is denied by an egress rule:") && denied.contains("`egress.deny`"),
            "{denied}"
        );
    }
}
