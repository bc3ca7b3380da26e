//! What the agent has to know of a client's messages.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use warmpool_protocol::{ClientMessage, ListenRules, ListenVerdict};

use crate::attach::ClientListener;
use crate::cdp::Cdp;

use super::file_input;
use super::targets::{Resumer, Targets};
use super::translator::{Translation, Translator};

/// Hears of one client's messages.
pub(super) struct Client {
    targets: Arc<Targets>,
    translator: Translator,
    cdp: Cdp,
    resumer: Option<Resumer>,
    is_admitted: bool,
}

impl Client {
    /// A client that has just connected.
    pub(super) fn new(targets: Arc<Targets>, translator: Translator, cdp: Cdp) -> Self {
        Self { targets, translator, cdp, resumer: None, is_admitted: false }
    }

    /// Does what the agent has to do before the browser gets this message.
    async fn heed(&mut self, said: &ClientMessage) {
        if std::mem::replace(&mut self.is_admitted, true) {
            self.targets.first_page.heard();
        } else {
            self.targets.first_page.admit().await;
        }
        if said.navigates {
            self.targets.first_page.client_navigates();
        }
        if !self.targets.has_overrides() {
            return;
        }
        if said.holds_targets && self.resumer.is_none() {
            self.resumer = Some(self.targets.resumer());
        }
        if said.sets_locale {
            self.targets.yield_locale(&self.cdp).await;
        }
    }
}

impl ClientListener for Client {
    fn listen_rules(&self) -> ListenRules {
        ListenRules { first_page: self.targets.first_page.is_on_its_way(), overrides: self.targets.has_overrides() }
    }

    fn hear(&mut self, said: ClientMessage) -> Pin<Box<dyn Future<Output = ListenVerdict> + Send + '_>> {
        Box::pin(async move {
            self.heed(&said).await;
            let (mut instead, mut answer) = (None, None);
            if let Some(command) = &said.command {
                match self.translator.clients_command(command).await {
                    Translation::Same => {}
                    Translation::Changed(command) => instead = Some(command),
                    Translation::NoFile(path) => answer = Some(file_input::refusal(command, &path)),
                }
            }
            ListenVerdict { instead, answer, first_page: self.targets.first_page.is_on_its_way() }
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let (targets, cdp) = (Arc::clone(&self.targets), self.cdp.clone());
        tokio::spawn(async move { targets.restore_pages(&cdp).await });
    }
}
