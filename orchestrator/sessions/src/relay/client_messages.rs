//! A client's messages to Chromium, of which the agent in the worker has to hear of some before the browser does.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use memchr::memmem::Finder;
use warmpool_protocol::{ClientMessage, LONGEST_COMMAND, ListenVerdict};
use warmpool_workers::worker::AgentListener;

use super::frames::{self, Sender, Text};
use super::reading::{Heard, Verdict};
use crate::session::{Origins, Session};
use warmpool_core::browser::Mode;

/// The ends of commands' names, in DevTools and in WebDriver BiDi, that set a locale or a time zone.
static LOCALE: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new("setLocaleOverride"), Finder::new("setTimezoneOverride")]);
/// An argument by which a client asks to hold new targets until it lets them go, as its library writes it.
static HOLDS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"waitForDebuggerOnStart\":true"));
/// The beginning of a command's name by which a client opens a page.
static NAVIGATES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"Page.navigate"));
/// What is in every command that may name something of the client's machine or network.
static TRANSLATED: LazyLock<[Finder<'static>; 4]> = LazyLock::new(|| {
    ["\"proxyServer\"", ".setDownloadBehavior\"", "DOM.setFileInputFiles\"", "\"input.setFiles\""].map(Finder::new)
});

/// The commands of DevTools and of WebDriver BiDi that close the browser.
static CLOSES: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new("\"Browser.close\""), Finder::new("\"browser.close\"")]);
/// Those that close a tab.
static CLOSES_TAB: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["\"Page.close\"", "\"Target.closeTarget\"", "\"browsingContext.close\""].map(Finder::new));

/// What a message closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Closes {
    #[default]
    Nothing,
    Tab,
    Browser,
}

/// Reads a client's messages.
pub(super) struct ClientMessages {
    /// None where the agent hears of nothing.
    agent: Option<AgentListener>,
    /// The session whose profile is saved before its browser closes.
    saves: Option<Arc<Session>>,
    /// What the message closes.
    closes: Closes,
    /// The message without its mask.
    plain: Vec<u8>,
}

impl ClientMessages {
    /// Reads the messages for an agent that hears of some, and for a session that saves a profile.
    pub(super) const fn new(agent: Option<AgentListener>, saves: Option<Arc<Session>>) -> Self {
        Self { agent, saves, closes: Closes::Nothing, plain: Vec::new() }
    }

    /// A message's first frame says what it is: its beginning, if it is a long one.
    pub(super) fn judge(&mut self, text: &Text, payload: &[u8]) -> Verdict {
        let read = usize::try_from(text.payload).unwrap_or(usize::MAX).min(LONGEST_COMMAND);
        let Some(payload) = payload.get(..read) else { return Verdict::Wait(read) };
        self.plain.clear();
        self.plain.extend_from_slice(payload);
        unmask(&mut self.plain, text.mask);
        let said = self.said(text.is_whole && read as u64 == text.payload);
        let has = |finder: &Finder<'_>| finder.find(&self.plain).is_some();
        self.closes = match &self.saves {
            Some(_) if CLOSES.iter().any(has) => Closes::Browser,
            // Without a display the browser stays.
            Some(session) if session.options.mode == Mode::Headed && CLOSES_TAB.iter().any(has) => Closes::Tab,
            _ => Closes::Nothing,
        };
        if self.closes != Closes::Nothing {
            return Verdict::Tell(said.unwrap_or_default());
        }
        said.map_or(Verdict::Pass, Verdict::Tell)
    }

    /// What the agent has to hear of the message, if anything.
    fn said(&self, is_whole: bool) -> Option<ClientMessage> {
        let (listen_rules, plain) = (self.agent.as_ref()?.listen_rules(), self.plain.as_slice());
        let has = |finder: &Finder<'_>| finder.find(plain).is_some();
        let said = ClientMessage {
            navigates: listen_rules.first_page && has(&NAVIGATES),
            holds_targets: listen_rules.overrides && has(&HOLDS),
            sets_locale: listen_rules.overrides && LOCALE.iter().any(has),
            command: (is_whole && TRANSLATED.iter().any(has))
                .then(|| std::str::from_utf8(plain).ok().map(str::to_owned))
                .flatten(),
        };
        (listen_rules.first_page || said != ClientMessage::default()).then_some(said)
    }

    pub(super) async fn tell(&mut self, said: &ClientMessage) -> Result<Heard, ()> {
        if let Some(session) = &self.saves {
            match std::mem::take(&mut self.closes) {
                Closes::Browser => session.save_profile(Origins::All).await,
                Closes::Tab => session.save_before_close().await,
                Closes::Nothing => {}
            }
        }
        let Some(agent) = &mut self.agent else { return Ok(Heard::Passes) };
        let frame = |sender, message: String| Bytes::from(frames::text(sender, message.as_bytes()));
        match agent.tell(said).await {
            // Nothing else is here as a whole.
            Ok(_) if said.command.is_none() => Ok(Heard::Passes),
            Ok(ListenVerdict { answer: Some(answer), .. }) => Ok(Heard::Answered(frame(Sender::Browser, answer))),
            Ok(ListenVerdict { instead: Some(instead), .. }) => Ok(Heard::Replaced(frame(Sender::Client, instead))),
            Ok(_) => Ok(Heard::Passes),
            Err(error) => {
                tracing::debug!(%error, "the agent does not hear of a client's message");
                Err(())
            }
        }
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let mut words = bytes.chunks_exact_mut(4);
    for word in &mut words {
        for (byte, mask) in word.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= mask;
    }
}
