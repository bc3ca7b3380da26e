//! One viewer's websocket: what it shows, and what the viewer's requests do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::OptionFuture;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::browser::{Browser, BrowserError};
use super::input::HeldInput;
use super::message::{Notice, Picture, Request};
use super::pictures::{WatchedTab, picture, read};
use super::room::{Membership, Room, ViewerRights};
use super::viewer_input::{InputError, ViewerInput};
use super::{ending_sentence, upstream};
use crate::session::Ending;
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::clock::{millis, unix_ms};
use warmpool_workers::worker::ReadHalf;

/// Pictures on their way that the viewer has not acknowledged yet.
const IN_FLIGHT: u32 = 2;
/// Pause before looking for a picture again.
const RETRY: Duration = Duration::from_millis(300);
/// Pings without an answer after which the other side counts as gone.
const SILENCE_BEATS: u32 = 3;
/// Extra time beyond these pings, for latency.
const SILENCE_SLACK: Duration = Duration::from_secs(5);
/// Messages that may wait to be sent.
const NOTES: usize = 8;
/// How long closing may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The Close code for a link that has ended: the policy forbids what was allowed before.
const UNSHARED: u16 = 1008;

pub(super) struct Viewer {
    membership: Membership,
    rights: ViewerRights,
    picture: Picture,
    times: Times,
    chosen: watch::Sender<Option<String>>,
    acknowledged: AtomicU32,
    acknowledgement: Notify,
}

/// Time limits for a viewer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Time until they accept something of what is being sent.
    pub(super) write: Duration,
    /// Time between two pings.
    pub(super) beat: Duration,
}

impl Times {
    /// How long the other side may be silent.
    fn silence(&self) -> Duration {
        self.beat * SILENCE_BEATS + SILENCE_SLACK
    }
}

/// Why a viewer is disconnected.
enum CloseReason {
    /// They left, or accept nothing of what is sent.
    Left,
    /// Their link has ended, or what else admitted them.
    Unshared,
    /// The session has ended.
    Ended(Ending),
}

type Sink<S> = SplitSink<WebSocketStream<S>, Message>;

impl Viewer {
    pub(super) fn new(membership: Membership, rights: ViewerRights, times: Times) -> Self {
        let options = &membership.room.session.options;
        let frames = options.engine == Engine::Chromium && options.mode == Mode::Headless;
        Self {
            membership,
            rights,
            picture: if frames { Picture::Frames } else { Picture::Display },
            times,
            chosen: watch::Sender::new(None),
            acknowledged: AtomicU32::new(0),
            acknowledgement: Notify::new(),
        }
    }

    /// Shows the session until the viewer leaves or loses the right to watch, as they do when `refused` returns.
    pub(super) async fn run<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        socket: WebSocketStream<S>,
        refused: impl Future<Output = ()>,
    ) {
        let (mut sink, mut stream) = socket.split();
        let session = &self.room().session;
        let (notes, to_tell) = mpsc::channel(NOTES);
        let display = match self.picture {
            Picture::Frames => None,
            Picture::Display => match upstream::display(session).await {
                Ok((connection, early)) => Some((connection.into_split(), early)),
                Err(error) => {
                    tracing::warn!(session = %session.id, %error, "a display cannot be shown");
                    let _ = notes.try_send(refusal("The picture of this browser cannot be shown."));
                    None
                }
            },
        };
        let (from_display, to_display) = match display {
            Some(((read, write), early)) => (Some((read, early)), Some(write)),
            None => (None, None),
        };
        let unshared = OptionFuture::from(self.rights.share.as_ref().map(|share| session.shares.ended(share)));
        let mut input = ViewerInput::new(to_display);
        let reason_to_close = tokio::select! {
            biased;
            ending = session.ended() => CloseReason::Ended(ending),
            Some(()) = unshared => CloseReason::Unshared,
            () = refused => CloseReason::Unshared,
            () = self.receive(&mut stream, &mut input, notes) => CloseReason::Left,
            () = self.send(&mut sink, from_display, to_tell) => CloseReason::Left,
        };
        // A key that was down when the connection broke would stay down.
        if !matches!(reason_to_close, CloseReason::Ended(_)) {
            let _ = timeout(CLOSE_TIMEOUT, self.release_input(&mut input)).await;
        }
        let (last, code, reason) = match &reason_to_close {
            CloseReason::Left => return,
            CloseReason::Unshared => (Notice::Unshared.json(), UNSHARED, "the link has ended".to_owned()),
            CloseReason::Ended(ending) => {
                let (status, reason, close) = (ending.status().as_str(), ending.code(), ending.message());
                let lasted = unix_ms().saturating_sub(session.created_ms);
                let message = ending_sentence(reason, &close, lasted);
                // A link is for watching the session, not for its recording.
                let recording = session.options.recording && self.rights.share.is_none();
                let notice = Notice::Ended { status, reason, message: &message, recording }.json();
                (notice, ending.close_code(), close)
            }
        };
        let close = CloseFrame { code: code.into(), reason: reason.into() };
        let part = async {
            sink.send(Message::text(last)).await?;
            sink.send(Message::Close(Some(close))).await?;
            // They should get this before the connection is reset because of what they still send.
            while let Some(Ok(_)) = stream.next().await {}
            Ok::<_, tokio_tungstenite::tungstenite::Error>(())
        };
        let _ = timeout(CLOSE_TIMEOUT, part).await;
    }

    fn room(&self) -> &Room {
        &self.membership.room
    }

    fn acts(&self) -> bool {
        self.rights.may_act && self.room().is_held_by(self.membership.viewer)
    }

    /// The tab that this viewer watches.
    fn tab(&self) -> Option<String> {
        let chosen = self.chosen.borrow().clone();
        chosen.filter(|tab| self.room().has(tab)).or_else(|| self.room().front())
    }

    /// Sends pictures and notices until the viewer stops taking them.
    async fn send<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        sink: &mut Sink<S>,
        mut display: Option<(ReadHalf, Bytes)>,
        mut notes: mpsc::Receiver<String>,
    ) {
        let options = &self.room().session.options;
        let hello = Notice::Hello {
            viewer: self.membership.viewer,
            may_act: self.rights.may_act,
            picture: self.picture,
            text: options.engine == Engine::Chromium,
            browser_type: options.engine,
            mode: options.mode,
            // WebKit's window has none.
            bars: self.picture == Picture::Display && options.engine != Engine::Webkit && !options.launch.kiosk,
            silence: millis(self.times.silence()),
        };
        let bytes = metrics::counter!("warmpool_live_bytes_total");
        let mut state = self.room().watch();
        state.mark_changed();
        let mut captcha = self.room().session.captchas.watch();
        let mut chosen = self.chosen.subscribe();
        let mut beat = interval(self.times.beat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watched: Option<WatchedTab> = None;
        let mut look_again = Instant::now();
        let mut sent: u32 = 0;
        let mut next = Message::text(hello.json());
        loop {
            bytes.increment(next.len() as u64);
            if !matches!(timeout(self.times.write, sink.send(next)).await, Ok(Ok(()))) {
                return;
            }
            next = loop {
                if self.picture == Picture::Frames && look_again <= Instant::now() {
                    self.watch(&mut watched);
                    look_again = Instant::now() + if watched.is_some() { Duration::ZERO } else { RETRY };
                }
                let room_left = sent.saturating_sub(self.acknowledged.load(Ordering::Acquire)) < IN_FLIGHT;
                tokio::select! {
                    biased;
                    _ = state.changed() => break Message::text(self.room().describe(&state.borrow_and_update().clone())),
                    Ok(()) = captcha.changed() => state.mark_changed(),
                    Some(note) = notes.recv() => break Message::text(note),
                    _ = chosen.changed() => {}
                    () = self.acknowledgement.notified() => {}
                    frame = picture(&mut watched), if room_left => match frame {
                        Some(frame) => {
                            sent = sent.saturating_add(1);
                            break Message::Binary(frame);
                        }
                        None => (watched, look_again) = (None, Instant::now() + RETRY),
                    },
                    () = sleep_until(look_again), if watched.is_none() && self.picture == Picture::Frames => {}
                    piece = read(&mut display) => match piece {
                        Some(piece) => break Message::Binary(piece),
                        None => return,
                    },
                    _ = beat.tick() => {
                        state.mark_changed();
                        break Message::Ping(Bytes::new());
                    }
                }
            };
        }
    }

    /// Switches to another tab if the viewer should watch a different one now.
    fn watch(&self, watched: &mut Option<WatchedTab>) {
        let tab = self.tab();
        let stays = watched.as_ref().is_some_and(|it| Some(&it.tab) == tab.as_ref() && it.pictures.runs());
        if stays {
            return;
        }
        *watched = tab.and_then(|tab| Some(WatchedTab { pictures: self.room().cast(&tab)?.pictures(), tab }));
    }

    /// Carries out the viewer's requests until they leave.
    async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut SplitStream<WebSocketStream<S>>,
        input: &mut ViewerInput,
        notes: mpsc::Sender<String>,
    ) {
        let mut state = self.room().watch();
        let mut acted = false;
        let mut last_key = Instant::now();
        loop {
            let message = tokio::select! {
                biased;
                _ = state.changed() => {
                    if std::mem::replace(&mut acted, self.acts()) && !acted && self.release_input(input).await.is_err() {
                        return;
                    }
                    continue;
                }
                message = timeout(self.times.silence(), stream.next()) => message,
            };
            match message {
                Ok(Some(Ok(Message::Text(said)))) => match serde_json::from_str::<Request>(&said) {
                    Ok(request) => {
                        if self.picture == Picture::Display
                            && matches!(request, Request::Input(_))
                            && let (Some(browser), Some(tab)) = (self.room().browser(), self.tab())
                            && let Ok(devtools) = browser.devtools()
                        {
                            devtools.keep_up(&tab, last_key).await;
                        }
                        self.handle(request, input, &notes).await;
                    }
                    Err(error) => {
                        let _ = notes.try_send(refusal(&format!("not understood: {error}")));
                    }
                },
                Ok(Some(Ok(Message::Binary(bytes)))) if self.picture == Picture::Display => {
                    match input.feed(&bytes, self.acts()).await {
                        Ok(true) => {
                            last_key = Instant::now();
                            self.room().touch();
                        }
                        Ok(false) => {}
                        Err(error) => {
                            tracing::debug!(%error, "a viewer sent what cannot be read");
                            return;
                        }
                    }
                }
                // Binary messages have a meaning on displays only.
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_)))) => {}
                _ => return,
            }
        }
    }

    async fn handle(&self, request: Request, input: &mut ViewerInput, notes: &mpsc::Sender<String>) {
        let (room, viewer) = (self.room(), self.membership.viewer);
        match request {
            Request::Ack => {
                // Too many acknowledgements harm only the viewer, whose socket fills up.
                self.acknowledged.fetch_add(1, Ordering::AcqRel);
                self.acknowledgement.notify_one();
                return;
            }
            // On a display, all viewers see the same tab, so choosing another needs control.
            Request::Tab { id } if self.picture == Picture::Frames => {
                self.chosen.send_replace(id);
                return;
            }
            Request::View { side } => return room.view(viewer, Some(side)),
            Request::Control { take: true } if self.rights.may_act => return room.take(viewer),
            Request::Control { take: false } => {
                let _ = self.release_input(input).await;
                return room.give_back(viewer);
            }
            Request::Captcha(verdict) if self.acts() => return room.session.captchas.decide(verdict),
            Request::Pause { on } if self.acts() => return room.pause(viewer, on),
            _ if !self.acts() => {
                if !matches!(request, Request::Input(_)) {
                    let _ = notes.try_send(refusal("Take the control first."));
                }
                return;
            }
            _ => {}
        }
        room.touch();
        let (Some(browser), Some(tab)) = (room.browser(), self.tab()) else { return };
        if let Err(error) = self.act(request, &browser, &tab, &mut input.pressed, notes).await {
            tracing::debug!(session = %room.session.id, %error, "an input did not arrive");
            let _ = notes.try_send(refusal("The browser did not take that."));
        }
    }

    /// Carries out a request that needs control.
    async fn act(
        &self,
        request: Request,
        browser: &Browser,
        tab: &str,
        pressed: &mut HeldInput,
        notes: &mpsc::Sender<String>,
    ) -> Result<(), BrowserError> {
        match request {
            Request::Input(input) => {
                let devtools = browser.devtools()?;
                match pressed.command(input) {
                    // The keys that follow on a display must not overtake it either.
                    Some(command) if self.picture == Picture::Display => devtools.finish_input(tab, command).await?,
                    Some(command) => devtools.input(tab, command).await?,
                    None => {}
                }
            }
            Request::Go { to } => browser.move_in_history(tab, to).await?,
            Request::Open { url } => match crate::session::page_address(&url) {
                Ok(url) => browser.open(tab, &url).await?,
                Err(wrong) => drop(notes.try_send(refusal(&format!("The address {wrong}.")))),
            },
            Request::Tab { id: Some(tab) } => browser.show(&tab).await?,
            Request::Copy => {
                let copied = browser.devtools()?.selection(tab).await?;
                let _ = notes.try_send(Notice::Clipboard { text: &copied }.json());
            }
            _ => {}
        }
        Ok(())
    }

    /// Releases the keys and buttons that this viewer holds down in the page and on the display.
    async fn release_input(&self, input: &mut ViewerInput) -> Result<(), InputError> {
        let commands = input.pressed.release();
        if let (Some(browser), Some(tab)) = (self.room().browser(), self.tab())
            && let Ok(devtools) = browser.devtools()
        {
            for command in commands {
                let _ = devtools.input(&tab, command).await;
            }
        }
        input.release_input().await
    }
}

fn refusal(message: &str) -> String {
    Notice::Refused { message }.json()
}
