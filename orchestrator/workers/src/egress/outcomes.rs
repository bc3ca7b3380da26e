//! What came of a browser's connections, for whoever drives it.
//!
//! Tasks ask why a page did not come. A page that stands for a refusal carries a mark that nobody can guess, and that the session
//! knows again: so no page can pass for one, whatever it shows.
//!
//! Chromium knows only its proxy, which is the agent: it takes that for the address of every response, and has one error for
//! whatever a SOCKS proxy refuses. Its clients get the true address and the true error from here.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use url::{Host, Url};
use warmpool_core::address;
use warmpool_core::ids::random_text;

use super::NoConnection;

/// Addresses at most: a page can name as many sites as it likes.
const MOST_ADDRESSES: usize = 4096;
/// Failures, and pages that stand for one, at most.
const MOST_FAILURES: usize = 256;
/// The bytes of a mark.
const MARK: usize = 16;
/// For how long after an answer Chromium may speak of it.
const SPOKEN_OF_WITHIN: Duration = Duration::from_secs(5);
/// What Chromium asks for by itself when it starts, whatever its switches. Its failure must not name a client's; the price is
/// that a client's own request there that fails has Chromium's vague name.
const OF_CHROMIUM: [&str; 3] = ["accounts.google.com", "clients2.google.com", "update.googleapis.com"];

/// A host and its port.
type Site = (Host, u16);

/// What came of the connections of one browser.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Where those led that it opened last.
    addresses: Mutex<HashMap<Site, SocketAddr>>,
    /// The sites at which the last connection failed, oldest first.
    failed: Mutex<VecDeque<(Site, NoConnection)>>,
    /// Chromium's name for the last failure of all.
    named: Mutex<Option<(Instant, &'static str)>>,
    /// The marks of pages that stand for a refusal, oldest first.
    shown: Mutex<VecDeque<(String, NoConnection)>>,
}

impl Outcomes {
    /// A connection to this site has come about. It leads to this address, unless the operator's proxy keeps that to itself.
    pub(super) fn connected(&self, host: &Host, port: u16, address: Option<SocketAddr>) {
        let site = (host.clone(), port);
        self.forget_failure(&site);
        let Some(address) = address else { return };
        let mut addresses = self.addresses.lock();
        if addresses.len() >= MOST_ADDRESSES && !addresses.contains_key(&site) {
            addresses.clear();
        }
        addresses.insert(site, address);
    }

    /// None has.
    pub(super) fn failed(&self, host: &Host, port: u16, why: NoConnection) {
        self.failed_as(Some(host), Some(why.net_error()));
        self.remember_failure(host, port, why);
    }

    /// None has, and the daemon answers in the site's place, so that the browser sees no error.
    pub(super) fn answered_instead(&self, host: &Host, port: u16, why: NoConnection) {
        self.remember_failure(host, port, why);
    }

    /// A page is shown for a refusal. Returns its mark.
    pub(super) fn show(&self, why: NoConnection) -> String {
        let mark = random_text::<MARK>();
        push(&mut self.shown.lock(), (mark.clone(), why));
        mark
    }

    /// A connection has failed, to a host that may have no valid name, for a reason that concerns no site. `name` is Chromium's own
    /// for the error, if it has any.
    pub(super) fn failed_as(&self, host: Option<&Host>, name: Option<&'static str>) {
        if !matches!(host, Some(Host::Domain(host)) if OF_CHROMIUM.contains(&host.as_str())) {
            *self.named.lock() = name.map(|name| (Instant::now(), name));
        }
    }

    /// Where the last connection to this site led; none where the operator's proxy keeps that to itself.
    #[must_use]
    pub fn address_of(&self, host: Host, port: u16) -> Option<SocketAddr> {
        self.addresses.lock().get(&(host, port)).copied()
    }

    /// Chromium's own name of the error that it may be speaking of, such as `net::ERR_CONNECTION_REFUSED`.
    #[must_use]
    pub fn error_name(&self) -> Option<&'static str> {
        self.named.lock().filter(|(at, _)| at.elapsed() < SPOKEN_OF_WITHIN).map(|(_, name)| name)
    }

    /// Why the last connection to the site of an address failed, if it did.
    #[must_use]
    pub fn failure_at(&self, url: &Url) -> Option<NoConnection> {
        let site = (address::host(url.host_str()?)?, url.port_or_known_default()?);
        self.failed.lock().iter().find(|(other, _)| *other == site).map(|(_, why)| why.clone())
    }

    /// What a page stands for that carries this mark; none for a page that the daemon did not make.
    #[must_use]
    pub fn shown_with(&self, mark: &str) -> Option<NoConnection> {
        self.shown.lock().iter().find(|(known, _)| known == mark).map(|(_, why)| why.clone())
    }

    fn remember_failure(&self, host: &Host, port: u16, why: NoConnection) {
        let site = (host.clone(), port);
        self.forget_failure(&site);
        push(&mut self.failed.lock(), (site, why));
    }

    fn forget_failure(&self, site: &Site) {
        self.failed.lock().retain(|(other, _)| other != site);
    }
}

fn push<T>(list: &mut VecDeque<T>, entry: T) {
    if list.len() >= MOST_FAILURES {
        list.pop_front();
    }
    list.push_back(entry);
}

#[cfg(any(test, feature = "testing"))]
impl Outcomes {
    /// Connections that led to these addresses, and one that was refused if `is_refused`.
    #[must_use]
    pub fn known(addresses: impl IntoIterator<Item = (Host, u16, SocketAddr)>, is_refused: bool) -> Self {
        let outcomes = Self::default();
        for (host, port, address) in addresses {
            outcomes.connected(&host, port, Some(address));
        }
        if is_refused {
            outcomes.failed_as(None, Some("net::ERR_CONNECTION_REFUSED"));
        }
        outcomes
    }
}

#[cfg(test)]
mod tests {
    use warmpool_dial::Refusal;

    use super::*;

    fn host(name: &str) -> Host {
        Host::Domain(name.to_owned())
    }

    fn refused(port: u16) -> NoConnection {
        NoConnection::refused("a.x", port, Refusal::Denied)
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_spoken_of_for_a_while() {
        let outcomes = Outcomes::default();
        assert_eq!(outcomes.error_name(), None);
        outcomes.failed(&host("a.x"), 80, refused(80));
        assert_eq!(outcomes.error_name(), Some("net::ERR_NETWORK_ACCESS_DENIED"));
        outcomes.failed(&host("accounts.google.com"), 443, NoConnection::Proxy("x"));
        assert_eq!(
            outcomes.error_name(),
            Some("net::ERR_NETWORK_ACCESS_DENIED"),
            "Chromium's own requests name nothing"
        );
        outcomes.failed_as(None, None);
        assert_eq!(outcomes.error_name(), None);
        outcomes.answered_instead(&host("a.x"), 80, refused(80));
        assert_eq!(outcomes.error_name(), None, "the browser has an answer");
        outcomes.failed_as(None, Some("net::ERR_CONNECTION_TIMED_OUT"));
        tokio::time::advance(SPOKEN_OF_WITHIN).await;
        assert_eq!(outcomes.error_name(), None);
    }

    #[test]
    fn a_site_has_its_last_outcome() {
        let (outcomes, url) = (Outcomes::default(), Url::parse("http://A.x/path").unwrap());
        outcomes.failed(&host("a.x"), 80, NoConnection::Proxy("x"));
        outcomes.failed(&host("a.x"), 80, refused(80));
        assert_eq!(outcomes.failure_at(&url), Some(refused(80)));
        assert_eq!(outcomes.failure_at(&Url::parse("http://a.x:81/").unwrap()), None);
        outcomes.connected(&host("a.x"), 80, None);
        assert_eq!(outcomes.failure_at(&url), None);
        assert_eq!(outcomes.address_of(host("a.x"), 80), None, "the operator's proxy keeps it to itself");
    }

    #[test]
    fn a_mark_is_known_again() {
        let outcomes = Outcomes::default();
        let first = outcomes.show(refused(1));
        let last = (0..MOST_FAILURES).map(|_| outcomes.show(refused(2))).last().unwrap();
        assert_eq!((outcomes.shown_with(&first), outcomes.shown_with(&last)), (None, Some(refused(2))));
        assert_eq!(outcomes.shown_with(""), None);
    }

    #[test]
    fn nothing_is_kept_without_end() {
        let outcomes = Outcomes::default();
        for port in 0..=u16::MAX {
            outcomes.connected(&host("a.x"), port, Some(([192, 0, 2, 1], port).into()));
            outcomes.failed(&host("b.x"), port, refused(port));
        }
        assert!(outcomes.addresses.lock().len() <= MOST_ADDRESSES);
        assert!(outcomes.failed.lock().len() <= MOST_FAILURES);
        assert_eq!(outcomes.address_of(host("a.x"), u16::MAX), Some(([192, 0, 2, 1], u16::MAX).into()));
    }
}
