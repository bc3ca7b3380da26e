//! What the agent has to know of a client's commands.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use memchr::memmem;
use serde_json::Value;

use crate::cdp::Cdp;
use crate::endpoint::Interceptor;
use crate::frames::{Piece, Pieces, Scanner, text_message};

use super::context_proxies::ContextProxies;
use super::targets::{Resumer, Targets};

/// The end of a command's name, in DevTools and in WebDriver BiDi, that sets a locale.
pub(super) const LOCALE: &[u8] = b"setLocaleOverride";
/// An argument by which a client asks to hold new targets until it lets them go, as its library
/// writes it.
const HOLDS: &[u8] = b"\"waitForDebuggerOnStart\":true";

/// The beginning of a command's name by which a client opens a page.
const NAVIGATES: &[u8] = b"\"Page.navigate";

/// What is in every command that may name something of the client's machine or network.
const TRANSLATED: [&[u8]; 2] = [b"\"proxyServer\"", b".setDownloadBehavior\""];

/// The longest of these commands, in bytes. Most are far shorter; one may list many hosts that need no proxy.
const LONGEST_TRANSLATED: u64 = 64 << 10;

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
        let scanner = Scanner::new(&[LOCALE, HOLDS, NAVIGATES]);
        Self {
            targets,
            proxies,
            cdp,
            scanner,
            sent: Pieces::new(b"", LONGEST_TRANSLATED),
            resumer: None,
            admitted: false,
        }
    }

    /// A command that names something of the client's machine or network, with what stands for it here; none for every
    /// other message.
    async fn translated(&self, message: &[u8]) -> Option<Value> {
        TRANSLATED.iter().find(|member| memmem::find(message, member).is_some())?;
        let mut command: Value = serde_json::from_slice(message).ok()?;
        let method = command["method"].as_str()?.to_owned();
        let params = command.get_mut("params")?.as_object_mut()?;
        let is_changed = match method.as_str() {
            "Target.createBrowserContext" => self.proxies.redirect(params).await,
            "Browser.setDownloadBehavior" | "Page.setDownloadBehavior" => self.targets.downloads.said(params),
            _ => false,
        };
        is_changed.then_some(command)
    }

    /// Does what the agent has to do before the browser gets these bytes.
    async fn heed(&mut self, bytes: &[u8]) {
        let found = self.scanner.scan(bytes);
        if std::mem::replace(&mut self.admitted, true) {
            self.targets.first_page.heard();
        } else {
            self.targets.first_page.admit().await;
        }
        if found[2] {
            self.targets.first_page.client_navigates();
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
            let mut passed = Vec::new();
            while let Some(piece) = self.sent.next() {
                match piece {
                    Piece::Bytes(bytes) => passed.extend(bytes),
                    Piece::Message { frame, text } => passed.extend(match self.translated(&text).await {
                        Some(command) => text_message(command.to_string().as_bytes()),
                        None => frame,
                    }),
                }
            }
            passed
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let (targets, cdp) = (Arc::clone(&self.targets), self.cdp.clone());
        tokio::spawn(async move { targets.restore_viewport(&cdp).await });
    }
}
