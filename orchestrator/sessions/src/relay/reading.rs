//! What the daemon reads of the messages that it relays, and the messages that it changes.
//!
//! For most connections this is nothing at all. The few changes are those that the guide on clients lists.

use bytes::Bytes;
use warmpool_protocol::ClientMessage;

use super::browser_messages::BrowserMessages;
use super::client_messages::ClientMessages;
use super::frames::Text;

/// Who reads one direction of a relay.
pub(super) enum MessageReader {
    /// Nobody.
    Nothing,
    /// What the client sends to Chromium.
    Client(Box<ClientMessages>),
    /// What Chromium sends.
    Browser(Box<BrowserMessages>),
}

/// What becomes of a text message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It passes as it is.
    Pass,
    /// It is decided once this many bytes of its payload are there.
    Wait(usize),
    /// It passes once the agent has heard of it.
    Tell(ClientMessage),
    /// This frame takes its place.
    Replace(Bytes),
}

/// What becomes of a message that the agent has heard of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It passes as it is.
    Passes,
    /// This frame takes its place.
    Replaced(Bytes),
    /// The browser does not get it, and the client gets this frame for it.
    Answered(Bytes),
}

impl MessageReader {
    /// Whether text messages are read.
    pub(super) const fn reads(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Judges a text message by the beginning of its payload, as it was sent.
    pub(super) fn judge(&mut self, text: &Text, payload: &[u8]) -> Verdict {
        match self {
            Self::Nothing => Verdict::Pass,
            Self::Client(messages) => messages.judge(text, payload),
            Self::Browser(messages) => messages.judge(text, payload),
        }
    }

    /// Tells the agent of a message.
    /// Errors: when the agent does not answer.
    pub(super) async fn tell(&mut self, said: &ClientMessage) -> Result<Heard, ()> {
        match self {
            Self::Client(messages) => messages.tell(said).await,
            Self::Nothing | Self::Browser(_) => Ok(Heard::Passes),
        }
    }

    /// Changes bytes in place that may go on. Returns how many at their end are to be kept for now.
    pub(super) fn amend(&self, bytes: &mut [u8]) -> usize {
        match self {
            Self::Browser(messages) => messages.amend(bytes),
            Self::Nothing | Self::Client(_) => 0,
        }
    }
}
