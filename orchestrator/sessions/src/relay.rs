//! The websocket relay between a client and the browser in its worker.
//!
//! It forwards bytes as they are: no copying of messages, no queue. `frames` keeps the frame boundaries in view, so that message
//! sizes have a limit and a Close frame can be put between two frames; `pump` moves one direction. The client and the
//! browser negotiate extensions and subprotocols between themselves. With Chromium `reading` looks at messages:
//! `client_messages` has the agent in the worker hear of a few commands before the browser does, and `browser_messages` puts in
//! what Chromium cannot know. `pings` keeps quiet connections alive, and `inner_client` is a client that the daemon has itself.

mod browser_messages;
mod client_messages;
pub mod frames;
pub mod inner_client;
mod pings;
mod pump;
mod reading;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderValue, StatusCode};
use metrics::Counter;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::Error;
use crate::session::{Attachment, Ending, Session, SessionKind};
use browser_messages::BrowserMessages;
use client_messages::ClientMessages;
use frames::{FrameError, Frames, Sender};
use pings::{Silence, Unanswered};
use pump::{Pump, PumpEnd};
use reading::MessageReader;
use warmpool_config::Config;
use warmpool_core::trace::TRACES;
use warmpool_workers::worker::{AgentListener, BrowserSide, PortStream};

/// How long an unfinished frame may take before its connection is cut instead of closed.
const FRAME_GRACE: Duration = Duration::from_secs(2);
/// How long the other side may take to answer a Close frame.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// How long the worker's verdict on a browser that hung up may take.
const VERDICT_GRACE: Duration = Duration::from_secs(3);

/// A relay whose browser side is up, waiting for its client side.
pub struct Relay {
    is_first: bool,
    session: Arc<Session>,
    attachment: Attachment,
    browser: PortStream,
    early: Bytes,
    /// The agent, where it has to hear of the client's messages: with Chromium.
    listener: Option<Box<AgentListener>>,
    limits: Limits,
    client_hangs_up_when_done: bool,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    max_message: u64,
    write_timeout: Duration,
    ping_interval: Duration,
}

/// Counters of relayed bytes, looked up once.
struct Traffic {
    up: Counter,
    down: Counter,
}

/// Connects to `path` of the session's agent with the client's own handshake. Returns the headers of the 101 reply and
/// the relay to run once the client has it.
/// Errors: `UpgradeRequired` for a request that is no websocket handshake, `SocketLimit`, `Worker` when the browser
/// declines.
pub async fn open(
    session: &Arc<Session>,
    config: &Config,
    path: &str,
    request: &HeaderMap,
) -> Result<(HeaderMap, Relay), Error> {
    check_handshake(request)?;
    let mut attachment = session.attach(config.relay.max_sockets)?;
    let span = tracing::info_span!(target: TRACES, "open relay", warmpool.session = session.id.as_str());
    let attached = session.worker.agent.attach(path, handshake_headers(request)).instrument(span).await;
    let (headers, browser, early, listener) = match attached {
        Ok(BrowserSide::Open { headers, stream, early, listener }) => {
            (handshake_headers(&headers), stream, early, listener)
        }
        // Chromium answers the second to the name of a target that is not there.
        Ok(BrowserSide::Declined(StatusCode::NOT_FOUND | StatusCode::INTERNAL_SERVER_ERROR)) => {
            return Err(Error::UnknownTarget);
        }
        Ok(BrowserSide::Declined(status)) => {
            return Err(Error::worker("the browser declined the websocket", format!("status {status}")));
        }
        Err(error) => return Err(Error::worker("the browser cannot be reached", error)),
    };
    let limits = Limits {
        max_message: config.relay.max_message.bytes(),
        write_timeout: config.relay.write_timeout,
        ping_interval: config.relay.ping_interval,
    };
    let is_first = attachment.opened();
    let relay = Relay {
        is_first,
        session: Arc::clone(session),
        attachment,
        browser,
        early,
        listener,
        limits,
        client_hangs_up_when_done: hangs_up_when_done(request),
    };
    Ok((headers, relay))
}

/// Playwright cannot disconnect from a browser without closing it. Puppeteer's `disconnect` means "I will be back", but a
/// clean Close from Playwright is its `browser.close()`.
fn hangs_up_when_done(request: &HeaderMap) -> bool {
    let agent = request.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    agent.is_some_and(|agent| agent.starts_with("Playwright/"))
}

/// Fails for a request that is no websocket handshake.
/// Errors: `UpgradeRequired`.
pub fn check_handshake(request: &HeaderMap) -> Result<(), Error> {
    let has = |name: http::HeaderName, token: &str| {
        request
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|part| part.trim().eq_ignore_ascii_case(token))
    };
    let version = request.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    if has(CONNECTION, "upgrade") && has(UPGRADE, "websocket") && version && request.contains_key(SEC_WEBSOCKET_KEY) {
        Ok(())
    } else {
        Err(Error::UpgradeRequired)
    }
}

/// The end-to-end headers of a handshake: those of the websocket.
fn handshake_headers(from: &HeaderMap) -> HeaderMap {
    let mut to = HeaderMap::new();
    for (name, value) in from {
        if name.as_str().starts_with("sec-websocket-") {
            to.append(name, value.clone());
        }
    }
    to.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    to.insert(UPGRADE, HeaderValue::from_static("websocket"));
    to
}

/// How a relay came to its end.
enum Outcome {
    /// The client's stream ended; `clean` when it said Close first.
    ClientLeft { clean: bool },
    /// The browser's stream ended; `clean` when it said Close first.
    BrowserLeft { clean: bool },
    /// The session ended.
    Ended(Ending),
    /// The client broke the protocol or a limit.
    ClientError(FrameError),
    /// The browser did.
    BrowserError(FrameError),
    /// The client does not read.
    ClientStalled,
    /// The browser does not read.
    BrowserStalled,
}

impl Relay {
    /// Whether this is the session's first socket ever.
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Relays until one side leaves or the session ends; then says goodbye on both sides.
    pub async fn run(self, client: impl AsyncRead + AsyncWrite + Unpin) {
        let traffic = Traffic {
            up: metrics::counter!("warmpool_relay_bytes_total", "direction" => "up"),
            down: metrics::counter!("warmpool_relay_bytes_total", "direction" => "down"),
        };
        let (client_reader, client_writer) = tokio::io::split(client);
        let (browser_reader, browser_writer) = self.browser.into_split();
        let limit = self.limits.max_message;
        let saves = self.session.saves_while_running().then(|| Arc::clone(&self.session));
        let (client_reads, browser_reads) = match self.listener {
            Some(agent) => {
                let outcomes = Arc::clone(self.session.egress.outcomes());
                let blocks_ads = self.session.options.launch.block_ads;
                let client = MessageReader::Client(Box::new(ClientMessages::new(Some(*agent), saves)));
                (client, MessageReader::Browser(Box::new(BrowserMessages::new(outcomes, blocks_ads))))
            }
            None if saves.is_some() => {
                (MessageReader::Client(Box::new(ClientMessages::new(None, saves))), MessageReader::Nothing)
            }
            None => (MessageReader::Nothing, MessageReader::Nothing),
        };
        let pings = Unanswered::default();
        let from_client = Frames::new(Sender::Client, limit).answering(pings.clone());
        let from_browser = Frames::new(Sender::Browser, limit);
        let mut up = Pump::new(client_reader, browser_writer, from_client, client_reads, Bytes::new());
        let mut down = Pump::new(browser_reader, client_writer, from_browser, browser_reads, self.early);
        down.silence = Silence::of_at_most(self.limits.ping_interval, pings);
        let stall = self.limits.write_timeout;
        let moved_up = |bytes: usize, has_message: bool| {
            if has_message {
                self.attachment.touch();
            }
            traffic.up.increment(bytes as u64);
        };
        let moved_down = |bytes: usize, _| traffic.down.increment(bytes as u64);
        let outcome = loop {
            let may_read = !down.says();
            let answer = tokio::select! {
                // The browser's last messages come before the report of its end.
                biased;
                stop = down.run(stall, None, moved_down) => match stop {
                    PumpEnd::End { clean } => break Outcome::BrowserLeft { clean },
                    PumpEnd::FrameError(violation) => break Outcome::BrowserError(violation),
                    PumpEnd::Stalled => break Outcome::ClientStalled,
                    PumpEnd::PeerGone => break Outcome::ClientLeft { clean: false },
                    // Nobody holds its messages up, or answers them.
                    PumpEnd::Said | PumpEnd::Pinged(_) | PumpEnd::Answered(_) => continue,
                },
                // A client that takes no answer asks nothing more.
                stop = up.run(stall, Some(&self.session.gate), moved_up), if may_read => match stop {
                    PumpEnd::End { clean } => break Outcome::ClientLeft { clean },
                    PumpEnd::FrameError(violation) => break Outcome::ClientError(violation),
                    PumpEnd::Stalled => break Outcome::BrowserStalled,
                    PumpEnd::PeerGone => break Outcome::BrowserLeft { clean: false },
                    // While a person has the client's messages held up, the browser does not hear its Pings.
                    PumpEnd::Pinged(payload) => Bytes::from(frames::pong(&payload)),
                    PumpEnd::Answered(frame) => frame,
                    PumpEnd::Said => continue,
                },
                ending = self.session.ended() => break Outcome::Ended(ending),
            };
            down.say(&answer);
        };
        let mut said_to_browser = false;
        let goodbye = match outcome {
            Outcome::ClientLeft { clean: true } => {
                // The browser still answers the Close; that answer is the client's.
                if !down.has_closed() {
                    let answer = down.run(CLOSE_GRACE, None, |_, _| {});
                    let _ = timeout(CLOSE_GRACE, answer).await;
                }
                None
            }
            Outcome::ClientLeft { clean: false } => None,
            Outcome::BrowserLeft { clean: true } => {
                // A client waits for its connection to end behind the Close, as the standard says, and may say its own after
                // that.
                let _ = timeout(CLOSE_GRACE, down.writer.shutdown()).await;
                if !up.has_closed() {
                    let answer = up.run(CLOSE_GRACE, None, |_, _| {});
                    let _ = timeout(CLOSE_GRACE, answer).await;
                }
                None
            }
            // The client has left already, and needs no reason.
            Outcome::BrowserLeft { clean: false } if up.has_closed() => None,
            Outcome::BrowserLeft { clean: false } => Some(why_browser_left(&self.session).await),
            Outcome::Ended(ref ending) => Some((ending.close_code(), ending.message())),
            Outcome::ClientError(FrameError { code, reason }) => {
                // What the browser still answers to came before, and is the client's. The Close is the relay's own.
                if up.between_frames() && !up.has_closed() {
                    down.withhold_close();
                    let _ = timeout(CLOSE_GRACE, up.writer.write_all(&frames::masked_close(code))).await;
                    let _ = timeout(CLOSE_GRACE, down.run(CLOSE_GRACE, None, |_, _| {})).await;
                    said_to_browser = true;
                }
                Some((code, reason.to_owned()))
            }
            Outcome::BrowserError(FrameError { code, reason }) => Some((code, reason.to_owned())),
            Outcome::BrowserStalled => Some((1011, "the browser stopped reading".to_owned())),
            Outcome::ClientStalled => {
                metrics::counter!("warmpool_relay_stalled_total").increment(1);
                tracing::warn!(session = %self.session.id, "a client stopped reading; its socket is cut");
                None
            }
        };
        let has_said_goodbye = goodbye.is_some();
        if let Some((code, reason)) = goodbye {
            if down.finish_frame(FRAME_GRACE).await {
                let _ = timeout(CLOSE_GRACE, down.writer.write_all(&frames::close(code, &reason))).await;
                let _ = timeout(CLOSE_GRACE, down.writer.flush()).await;
            }
            if up.between_frames() && !said_to_browser {
                let _ = timeout(CLOSE_GRACE, up.writer.write_all(&frames::masked_close(1001))).await;
            }
        }
        // The client waits for its connection to end, as the standard says.
        let _ = timeout(CLOSE_GRACE, down.writer.shutdown()).await;
        let _ = up.writer.shutdown().await;
        if has_said_goodbye {
            // What it still sends would have the connection reset before it has seen our Close.
            let _ = timeout(CLOSE_GRACE, read_to_end(&mut up.reader)).await;
        }
        // A WebDriver session ends with its driver, not with its sockets.
        let by_socket = self.session.options.kind == SessionKind::DevTools;
        if matches!(outcome, Outcome::ClientLeft { clean: true }) && self.client_hangs_up_when_done && by_socket {
            self.session.client_finished();
        }
    }
}

/// The code and reason of the Close for a client whose browser hung up.
async fn why_browser_left(session: &Session) -> (u16, String) {
    match timeout(VERDICT_GRACE, session.ended()).await {
        Ok(ending) => (ending.close_code(), ending.message()),
        // While the container engine is away, nobody knows why the worker went.
        Err(_) => match session.worker.agent.health().await {
            Ok(_) => (1001, "the browser closed the connection".to_owned()),
            Err(_) => (1011, "the browser's worker was lost".to_owned()),
        },
    }
}

async fn read_to_end(reader: &mut (impl AsyncRead + Unpin)) {
    let mut sink = [0u8; 1024];
    while let Ok(1..) = reader.read(&mut sink).await {}
}
