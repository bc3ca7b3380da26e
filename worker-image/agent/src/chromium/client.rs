//! What the agent has to know of a client's commands.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::cdp::Cdp;
use crate::endpoint::Interceptor;
use crate::frames::{Pieces, Scanner};

use super::context_proxies::ContextProxies;
use super::targets::{Resumer, Targets};

/// The end of a command's name, in DevTools and in WebDriver BiDi, that sets a locale.
pub(super) const LOCALE: &[u8] = b"setLocaleOverride";
/// An argument by which a client asks to hold new targets until it lets them go, as its library
/// writes it.
const HOLDS: &[u8] = b"\"waitForDebuggerOnStart\":true";

/// An argument by which a client forbids downloads.
const DENY: &[u8] = b"\"deny\"";

/// The beginning of a command's name by which a client opens a page.
const NAVIGATES: &[u8] = b"\"Page.navigate";

/// Reads along with one websocket of a client.
pub(super) struct Client {
    targets: Arc<Targets>,
    proxies: Arc<ContextProxies>,
    cdp: Cdp,
    scanner: Scanner,
    /// What it sent and the browser has not got.
    sent: Pieces,
    resumer: Option<Resumer>,
    admitted: bool,
}

impl Client {
    /// A client that has just connected.
    pub(super) fn new(targets: Arc<Targets>, proxies: Arc<ContextProxies>, cdp: Cdp) -> Self {
        let scanner = Scanner::new(&[LOCALE, HOLDS, DENY, NAVIGATES]);
        Self { targets, proxies, cdp, scanner, sent: Pieces::default(), resumer: None, admitted: false }
    }

    /// Does what the agent has to do before the browser gets these bytes.
    async fn heed(&mut self, bytes: &[u8]) {
        let found = self.scanner.scan(bytes);
        if std::mem::replace(&mut self.admitted, true) {
            self.targets.first_page.heard();
        } else {
            self.targets.first_page.admit().await;
        }
        if found[3] {
            self.targets.first_page.client_navigates();
        }
        if found[2] {
            self.targets.downloads_forbidden();
        }
        if !self.targets.has_overrides() {
            return;
        }
        if found[1] && self.resumer.is_none() {
            self.resumer = Some(self.targets.resumer());
        }
        if found[0] {
            self.targets.yield_locale(&self.cdp).await;
        }
    }
}

impl Interceptor for Client {
    fn pass<'a>(&'a mut self, bytes: &'a [u8]) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + 'a>> {
        Box::pin(async move {
            self.heed(bytes).await;
            self.sent.add(bytes);
            self.proxies.pass(&mut self.sent).await
        })
    }
}
impl Drop for Client {
    fn drop(&mut self) {
        let (targets, cdp) = (Arc::clone(&self.targets), self.cdp.clone());
        tokio::spawn(async move { targets.restore_viewport(&cdp).await });
    }
}
