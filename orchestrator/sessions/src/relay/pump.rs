//! One direction of a relay: reads a piece, parses its frame headers, and writes it before it reads on. Text messages that somebody
//! reads wait until they have been.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use warmpool_core::buffer::BufferFit;
use warmpool_protocol::ClientMessage;

use super::frames::{self, FrameError, Frames, Lookahead, Text};
use super::pings::Silence;
use super::reading::{Heard, MessageReader, Verdict};
use crate::session::Gate;

/// The buffer of a quiet socket, small because there may be ten thousand of them.
const MIN_BUFFER: usize = 4 << 10;
/// The buffer of a socket under load.
const MAX_BUFFER: usize = 256 << 10;

/// Why a pump stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PumpEnd {
    /// The reading side ended; `clean` when a Close frame came last.
    End { clean: bool },
    /// The bytes break the protocol or a limit; the offending frame was not forwarded.
    FrameError(FrameError),
    /// The writing side takes no more bytes.
    Stalled,
    /// The writing side is gone.
    PeerGone,
    /// The client wants an answer to a Ping with this payload, which is held up. The pump goes on when it runs again.
    Pinged(Vec<u8>),
    /// The client gets this frame for a message, which the browser does not get. The pump goes on when it runs again.
    Answered(Bytes),
    /// What it was to say is written. The pump goes on when it runs again.
    Said,
}

/// What has to happen before the message passes that begins at `forward`.
enum Held {
    /// This many bytes of it have to come.
    Until(usize),
    /// The agent has to hear of it.
    Told(Text, ClientMessage),
    /// This frame has to be written in its place, of which so many bytes are. The message is here, with so many bytes.
    Replaced { frame: Bytes, written: usize, message: usize },
}

/// One direction. Its methods may be cancelled at any await and called again: nothing is lost or written twice.
pub(super) struct Pump<R, W> {
    pub(super) reader: R,
    pub(super) writer: W,
    frames: Frames,
    reading: MessageReader,
    buffer: Vec<u8>,
    /// `..written` is written, `written..forward` may be written but for the last `kept` bytes, and `forward..filled` is the start
    /// of a header that is not complete yet, or of a message that is to be read first.
    written: usize,
    forward: usize,
    filled: usize,
    kept: usize,
    /// What holds up the message at `forward`.
    held: Option<Held>,
    /// Present while what was read last, behind `forward`, waits to be looked at.
    waiting: Option<Lookahead>,
    last_read: usize,
    buffer_fit: BufferFit,
    violation: Option<FrameError>,
    needs_flush: bool,
    /// Frames of the relay's own, which go between two messages, and how many of their bytes are written.
    own: Vec<u8>,
    own_written: usize,
    /// Whether somebody waits until these are written.
    says: bool,
    /// Present where the writing side gets Pings while it hears nothing.
    pub(super) silence: Option<Silence>,
}

impl<R, W> Pump<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    /// `early` has been read from `reader` already.
    pub(super) fn new(reader: R, writer: W, frames: Frames, reading: MessageReader, early: Bytes) -> Self {
        let mut pump = Self {
            reader,
            writer,
            frames: if reading.reads() { frames.stopping() } else { frames },
            reading,
            buffer: vec![0; MIN_BUFFER.max(early.len() * 2)],
            written: 0,
            forward: 0,
            filled: early.len(),
            kept: 0,
            held: None,
            waiting: None,
            last_read: 0,
            buffer_fit: BufferFit::between(MIN_BUFFER, MAX_BUFFER),
            violation: None,
            needs_flush: false,
            own: Vec::new(),
            own_written: 0,
            says: false,
            silence: None,
        };
        pump.buffer[..early.len()].copy_from_slice(&early);
        pump.look();
        pump
    }

    /// Moves bytes until there is a reason to stop. `stall` bounds one write; `moved` hears of every piece, and whether a message
    /// has a part in it; a `gate` holds what was read until it opens.
    pub(super) async fn run(&mut self, stall: Duration, gate: Option<&Gate>, moved: impl Fn(usize, bool)) -> PumpEnd {
        loop {
            let piece = self.forward - self.kept - self.written;
            match timeout(stall, self.flush()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return PumpEnd::PeerGone,
                Err(_) => return PumpEnd::Stalled,
            }
            if piece > 0 {
                moved(piece, self.frames.take_had_message());
            }
            if let Some(violation) = self.violation {
                return PumpEnd::FrameError(violation);
            }
            // Nothing follows a Close.
            if self.says && (self.own.is_empty() || self.frames.closed()) {
                self.says = false;
                return PumpEnd::Said;
            }
            match &self.held {
                None | Some(Held::Until(_)) => {}
                Some(Held::Told(text, said)) => {
                    let Ok(heard) = self.reading.tell(said).await else { return PumpEnd::PeerGone };
                    let text = *text;
                    self.frames.let_pass();
                    match heard {
                        Heard::Passes => self.look(),
                        Heard::Replaced(frame) => self.held = self.replaced(&text, frame),
                        Heard::Answered(frame) => {
                            self.held = self.replaced(&text, Bytes::new());
                            return PumpEnd::Answered(frame);
                        }
                    }
                    continue;
                }
                Some(Held::Replaced { .. }) => match timeout(stall, self.replace()).await {
                    Ok(Ok(written)) => {
                        moved(written, self.frames.take_had_message());
                        continue;
                    }
                    Ok(Err(_)) => return PumpEnd::PeerGone,
                    Err(_) => return PumpEnd::Stalled,
                },
            }
            if self.waiting.is_none() {
                self.fit();
                let read = self.reader.read(&mut self.buffer[self.filled..]);
                let read = match &mut self.silence {
                    None => read.await,
                    Some(silence) => tokio::select! {
                        biased;
                        read = read => read,
                        () = silence.too_long() => {
                            self.ping();
                            continue;
                        }
                    },
                };
                match read {
                    Ok(0) | Err(_) => {
                        self.kept = 0;
                        let _ = timeout(stall, self.flush()).await;
                        return PumpEnd::End { clean: self.frames.closed() };
                    }
                    Ok(read) => {
                        self.filled += read;
                        self.last_read = read;
                    }
                }
            }
            if let Some(gate) = gate.filter(|gate| !gate.is_open())
                && let Some(payload) = self.wait(gate).await
            {
                return PumpEnd::Pinged(payload);
            }
            self.waiting = None;
            self.look();
        }
    }

    /// Waits until the gate opens, and reads on meanwhile as far as the buffer goes. Returns the payload of the next Ping: a client
    /// whose Pings stay without an answer gives its connection up.
    async fn wait(&mut self, gate: &Gate) -> Option<Vec<u8>> {
        let mut has_ended = false;
        loop {
            let ahead = self.waiting.get_or_insert_with(|| Lookahead::behind(&self.frames));
            if let Some(payload) = ahead.next_ping(&self.buffer[self.forward..self.filled]) {
                return Some(payload);
            }
            if self.filled == self.buffer.len() && self.filled < MAX_BUFFER {
                self.buffer.resize(self.filled * 2, 0);
            }
            let room = &mut self.buffer[self.filled..];
            if has_ended || room.is_empty() {
                gate.open().await;
                return None;
            }
            tokio::select! {
                () = gate.open() => return None,
                read = self.reader.read(room) => match read {
                    // That it has left is found again once the gate is open.
                    Ok(0) | Err(_) => has_ended = true,
                    Ok(read) => self.filled += read,
                },
            }
        }
    }

    /// Writes a frame of the relay's own as soon as it has a place. `run` returns once it is written.
    pub(super) fn say(&mut self, frame: &[u8]) {
        self.own.extend_from_slice(frame);
        self.says = true;
    }

    /// Whether it has not written yet what it was to say.
    pub(super) const fn says(&self) -> bool {
        self.says
    }

    /// Pings the writing side, unless a message to it is half-way.
    fn ping(&mut self) {
        if let Some(silence) = self.silence.as_ref().filter(|_| self.own.is_empty() && self.has_place()) {
            silence.pings();
            self.own = frames::ping();
        }
    }

    /// Completes the frame that is half-way, so that one of our own can follow it. False when it will not end.
    pub(super) async fn finish_frame(&mut self, within: Duration) -> bool {
        self.kept = 0;
        let finish = async {
            loop {
                if self.flush().await.is_err() {
                    return false;
                }
                if matches!(self.held, Some(Held::Replaced { written: 1.., .. })) && self.replace().await.is_err() {
                    return false;
                }
                if self.frames.at_boundary() {
                    return true;
                }
                self.fit();
                match self.reader.read(&mut self.buffer[self.filled..]).await {
                    Ok(0) | Err(_) => return false,
                    Ok(read) => self.filled += read,
                }
                self.look();
            }
        };
        timeout(within, finish).await.unwrap_or(false)
    }

    /// Lets no Close frame pass from now on.
    pub(super) const fn withhold_close(&mut self) {
        self.frames.withhold_close();
    }

    /// Whether a Close frame has passed.
    pub(super) const fn has_closed(&self) -> bool {
        self.frames.closed()
    }

    /// Whether what was written so far ends with a whole frame.
    pub(super) fn between_frames(&self) -> bool {
        let is_replacing = matches!(self.held, Some(Held::Replaced { written: 1.., .. }));
        self.written == self.forward && self.frames.at_boundary() && !is_replacing
    }

    /// Whether a frame of the relay's own may be written now.
    fn has_place(&self) -> bool {
        self.between_frames() && self.frames.between_messages()
    }

    fn look(&mut self) {
        let begin = self.forward - self.kept;
        self.held = loop {
            let fed = self.frames.feed(&self.buffer[self.forward..self.filled]);
            self.forward += fed.forward;
            self.violation = fed.violation;
            if fed.own_pong > 0 {
                self.buffer.copy_within(self.forward + fed.own_pong..self.filled, self.forward);
                self.filled -= fed.own_pong;
                continue;
            }
            let Some(text) = fed.text else { break None };
            match self.judge(&text) {
                Verdict::Pass => self.frames.let_pass(),
                Verdict::Wait(payload) => break Some(Held::Until(text.header + payload)),
                Verdict::Tell(said) => break Some(Held::Told(text, said)),
                Verdict::Replace(frame) => {
                    self.frames.let_pass();
                    break self.replaced(&text, frame);
                }
            }
        };
        let kept = self.reading.amend(&mut self.buffer[begin..self.forward]);
        self.kept = if self.held.is_none() { kept } else { 0 };
    }

    /// A frame in the place of a message, which is here as a whole; none where the message breaks the protocol or a limit.
    fn replaced(&mut self, text: &Text, frame: Bytes) -> Option<Held> {
        let message = text.header + usize::try_from(text.payload).unwrap_or(usize::MAX);
        let fed = self.frames.feed(&self.buffer[self.forward..self.forward + message]);
        self.violation = fed.violation;
        self.violation.is_none().then_some(Held::Replaced { frame, written: 0, message })
    }

    fn judge(&mut self, text: &Text) -> Verdict {
        let payload = self.buffer.get(self.forward + text.header..self.filled).unwrap_or_default();
        self.reading.judge(text, payload)
    }

    /// Writes the frame that takes a message's place, and goes on behind the message. Returns how long the frame is.
    async fn replace(&mut self) -> std::io::Result<usize> {
        let Some(Held::Replaced { frame, written, message }) = &mut self.held else { return Ok(0) };
        while *written < frame.len() {
            let count = self.writer.write(&frame[*written..]).await?;
            if count == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            *written += count;
            self.needs_flush = true;
        }
        let length = frame.len();
        self.forward += *message;
        self.written = self.forward;
        self.look();
        Ok(length)
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        if self.own_written > 0 {
            self.write_own().await?;
        }
        let end = self.forward - self.kept;
        while self.written < end {
            let count = self.writer.write(&self.buffer[self.written..end]).await?;
            if count == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            self.written += count;
            self.needs_flush = true;
        }
        if !self.own.is_empty() && self.has_place() {
            self.write_own().await?;
        }
        if self.needs_flush {
            self.writer.flush().await?;
            self.needs_flush = false;
            if let Some(silence) = &mut self.silence {
                silence.broken();
            }
        }
        // What is left waits for more.
        self.buffer.copy_within(self.written..self.filled, 0);
        self.filled -= self.written;
        self.forward -= self.written;
        self.written = 0;
        Ok(())
    }

    async fn write_own(&mut self) -> std::io::Result<()> {
        while self.own_written < self.own.len() {
            let count = self.writer.write(&self.own[self.own_written..]).await?;
            if count == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            self.own_written += count;
            self.needs_flush = true;
        }
        (self.own, self.own_written) = (Vec::new(), 0);
        Ok(())
    }

    /// Fits the buffer to the traffic, by what the last read brought.
    fn fit(&mut self) {
        let needed = match self.held {
            Some(Held::Until(size)) => self.forward + size,
            _ => self.filled + 1,
        };
        self.buffer_fit.follow(&mut self.buffer, self.last_read, needed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use parking_lot::Mutex;
    use proptest::prelude::*;
    use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, duplex};
    use tokio::net::UnixStream;
    use url::Host;
    use warmpool_protocol::{ListenRules, ListenVerdict};
    use warmpool_workers::egress::Outcomes;
    use warmpool_workers::worker::AgentListener;

    use super::super::browser_messages::BrowserMessages;
    use super::super::client_messages::ClientMessages;
    use super::super::frames::{Sender, ping, text};
    use super::super::pings::Unanswered;
    use super::*;

    const STALL: Duration = Duration::from_secs(5);

    /// What comes out of a relay's direction into which a stream goes in these pieces.
    async fn relayed(sender: Sender, reading: MessageReader, stream: &[u8], sizes: &[usize]) -> (Vec<u8>, PumpEnd) {
        passed(Frames::new(sender, u64::MAX), reading, stream, sizes).await
    }

    async fn passed(frames: Frames, reading: MessageReader, stream: &[u8], sizes: &[usize]) -> (Vec<u8>, PumpEnd) {
        let (mut near, from) = duplex(1 << 20);
        let (to, mut far) = duplex(64);
        let mut pump = Pump::new(from, to, frames, reading, Bytes::new());
        let sends = async {
            let mut rest = stream;
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, left) = rest.split_at((*size).min(rest.len()));
                near.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
                rest = left;
            }
            drop(near);
        };
        let runs = async {
            let end = pump.run(STALL, None, |_, _| {}).await;
            drop(pump);
            end
        };
        let mut out = Vec::new();
        let (end, (), _) = tokio::join!(runs, sends, read_all(&mut far, &mut out));
        (out, end)
    }

    async fn read_all(from: &mut DuplexStream, to: &mut Vec<u8>) {
        from.read_to_end(to).await.unwrap();
    }

    /// An agent that has another command sent in place of each that it is shown, and counts what it is told of.
    async fn agent(socket: UnixStream) -> usize {
        let (reader, mut writer) = socket.into_split();
        let (mut lines, mut told) = (BufReader::new(reader).lines(), 0);
        while let Some(line) = lines.next_line().await.unwrap() {
            let said: ClientMessage = serde_json::from_str(&line).unwrap();
            told += 1;
            let instead = said.command.map(|command| format!("instead of {}", command.len()));
            let heeded = serde_json::to_string(&ListenVerdict { instead, ..ListenVerdict::default() }).unwrap();
            writer.write_all(format!("{heeded}\n").as_bytes()).await.unwrap();
        }
        told
    }

    fn masked(plain: &[u8]) -> Vec<u8> {
        let mut frame = text(Sender::Client, plain);
        let (mask, start) = ([7, 0, 255, 9], frame.len() - plain.len());
        frame[start - 4..start].copy_from_slice(&mask);
        for (byte, mask) in frame[start..].iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        frame
    }

    fn of_clients() -> impl Strategy<Value = Vec<u8>> {
        let filler = (0..70_000usize).prop_map(|size| vec![b'x'; size]);
        let command =
            (0..400usize).prop_map(|size| format!("{{\"proxyServer\":\"{}\"}}", "p".repeat(size)).into_bytes());
        prop_oneof![filler, command, Just(b"{\"method\":\"a.setLocaleOverride\"}".to_vec()), Just(Vec::new())]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn commands_are_replaced_and_all_else_passes_however_it_is_cut(
            messages in prop::collection::vec(of_clients(), 1..6),
            sizes in prop::collection::vec(1..9000usize, 1..5),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (ours, theirs) = UnixStream::pair().unwrap();
                let listen_rules = ListenRules { first_page: false, overrides: true };
                let listener = AgentListener::at(ours, listen_rules);
                let reading = MessageReader::Client(Box::new(ClientMessages::new(Some(listener), None)));
                let (mut stream, mut expected, mut known) = (Vec::new(), Vec::new(), 0);
                let ping = [0x89, 0x81, 1, 2, 3, 4, 9];
                for message in &messages {
                    let (is_command, sets_locale) = (message.starts_with(b"{\"proxy"), message.starts_with(b"{\"method"));
                    known += usize::from(is_command || sets_locale);
                    stream.extend_from_slice(&ping);
                    stream.extend(masked(message));
                    expected.extend_from_slice(&ping);
                    expected.extend(if is_command {
                        text(Sender::Client, format!("instead of {}", message.len()).as_bytes())
                    } else {
                        masked(message)
                    });
                }
                let ((out, end), told) = tokio::join!(relayed(Sender::Client, reading, &stream, &sizes), agent(theirs));
                assert!(out == expected, "{} of {} bytes", out.len(), expected.len());
                assert_eq!((told, end), (known, PumpEnd::End { clean: false }));
            });
        }

        #[test]
        fn a_browsers_messages_are_corrected_however_they_are_cut(
            order in prop::collection::vec(0..5usize, 1..9),
            sizes in prop::collection::vec(1..300usize, 1..5),
        ) {
            let event = |ip: &str, port: u16| format!(
                r#"{{"method":"Network.responseReceived","params":{{"response":{{"url":"http://a.x/","remoteIPAddress":"{ip}","remotePort":{port}}}}}}}"#
            );
            let named = |error: &str| format!(r#"{{"method":"Network.loadingFailed","params":{{"errorText":"{error}}}}}"#);
            let plain = |text: String| (text.clone(), text);
            let messages = [
                (event("127.0.0.1", 1080), event("192.0.2.7", 80)),
                (named("net::ERR_SOCKS_CONNECTION_FAILED\""), named("net::ERR_CONNECTION_REFUSED\"     ")),
                plain(event("127.0.0.1", 1081)),
                plain("net:".to_owned()),
                plain("y".repeat(70_000)),
            ];
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let site = (Host::Domain("a.x".to_owned()), 80, ([192, 0, 2, 7], 80).into());
                let outcomes = Arc::new(Outcomes::known([site], true));
                let reading = MessageReader::Browser(Box::new(BrowserMessages::new(outcomes, false)));
                let (mut stream, mut expected) = (Vec::new(), Vec::new());
                for index in order {
                    let (sent, got) = &messages[index];
                    stream.extend(text(Sender::Browser, sent.as_bytes()));
                    expected.extend(text(Sender::Browser, got.as_bytes()));
                }
                // Less than this is not looked for at the end of what was read.
                let sizes: Vec<usize> = sizes.iter().map(|size| size + 200).collect();
                let (out, end) = relayed(Sender::Browser, reading, &stream, &sizes).await;
                let shown = String::from_utf8_lossy(&out).replace("y", "");
                assert!(out.len() == expected.len() && end == PumpEnd::End { clean: false }, "{shown}");
                // A cut in the first letters leaves the vague name.
                let vague = String::from_utf8_lossy(&expected).replace("REFUSED\"     ", "").replace("y", "");
                assert!(out == expected || shown.contains("SOCKS"), "{shown} {vague}");
            });
        }
    }

    #[tokio::test]
    async fn pings_want_their_answer_while_messages_are_held_up() {
        let ping = |payload: u8| [0x89, 0x81, 1, 2, 3, 4, payload ^ 1];
        let stream = [&ping(b'0')[..], &masked(b"{}"), &ping(b'1'), &masked(&[b'x'; 20_000]), &ping(b'2')].concat();
        let (mut near, from) = duplex(1 << 20);
        let (to, mut far) = duplex(1 << 20);
        let mut pump = Pump::new(from, to, Frames::new(Sender::Client, u64::MAX), MessageReader::Nothing, Bytes::new());
        let gate = Gate::new();
        let held = gate.shut().unwrap();
        let (but_one, last) = stream.split_at(stream.len() - 1);
        near.write_all(but_one).await.unwrap();
        for payload in [b'0', b'1'] {
            assert_eq!(pump.run(STALL, Some(&gate), |_, _| {}).await, PumpEnd::Pinged(vec![payload]));
        }
        assert!(pump.run(STALL, Some(&gate), |_, _| {}).now_or_never().is_none(), "the third is not here as a whole");
        near.write_all(last).await.unwrap();
        assert_eq!(pump.run(STALL, Some(&gate), |_, _| {}).await, PumpEnd::Pinged(vec![b'2']));
        drop(near);
        assert!(pump.run(STALL, Some(&gate), |_, _| {}).now_or_never().is_none(), "nothing passes, and nothing ends");
        drop(held);
        let end = pump.run(STALL, Some(&gate), |_, _| {}).await;
        drop(pump);
        let mut out = Vec::new();
        read_all(&mut far, &mut out).await;
        assert!(out == stream, "{} of {} bytes", out.len(), stream.len());
        assert_eq!(end, PumpEnd::End { clean: false });
    }

    #[tokio::test]
    async fn what_the_agent_answers_the_browser_does_not_get() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let listener = AgentListener::at(ours, ListenRules { first_page: false, overrides: false });
        let reading = MessageReader::Client(Box::new(ClientMessages::new(Some(listener), None)));
        let [before, refused, after] = ["DOM.enable", "DOM.setFileInputFiles", "DOM.disable"]
            .map(|name| masked(format!(r#"{{"id":1,"method":"{name}"}}"#).as_bytes()));
        let stream = [&before[..], &refused, &after].concat();
        let mut out = Vec::new();
        let mut pump = Pump::new(&stream[..], &mut out, Frames::new(Sender::Client, u64::MAX), reading, Bytes::new());
        let agent = async {
            let (reader, mut writer) = theirs.into_split();
            let said = BufReader::new(reader).lines().next_line().await.unwrap().unwrap();
            assert!(said.contains("setFileInputFiles"), "{said}");
            let verdict = ListenVerdict { answer: Some("refused".to_owned()), ..ListenVerdict::default() };
            let verdict = serde_json::to_string(&verdict).unwrap();
            writer.write_all(format!("{verdict}\n").as_bytes()).await.unwrap();
        };
        let (answered, ()) = tokio::join!(pump.run(STALL, None, |_, _| {}), agent);
        assert_eq!(answered, PumpEnd::Answered(text(Sender::Browser, b"refused").into()));
        assert_eq!(pump.run(STALL, None, |_, _| {}).await, PumpEnd::End { clean: false });
        drop(pump);
        assert_eq!(out, [before, after].concat());
    }

    #[tokio::test]
    async fn a_frame_of_the_relays_own_waits_for_the_end_of_a_message() {
        let (mut near, from) = duplex(1 << 10);
        let mut out = Vec::new();
        let mut pump =
            Pump::new(from, &mut out, Frames::new(Sender::Browser, 99), MessageReader::Nothing, Bytes::new());
        // In two fragments.
        let (begun, rest) = ([0x01, 2, b'a', b'b'], [0x80, 1, b'c']);
        near.write_all(&begun).await.unwrap();
        assert!(pump.run(STALL, None, |_, _| {}).now_or_never().is_none());
        pump.say(&text(Sender::Browser, b"own"));
        assert!(pump.run(STALL, None, |_, _| {}).now_or_never().is_none() && pump.says());
        near.write_all(&rest).await.unwrap();
        assert_eq!(pump.run(STALL, None, |_, _| {}).await, PumpEnd::Said);
        assert!(!pump.says());
        let close = frames::close(1000, "");
        near.write_all(&close).await.unwrap();
        assert!(pump.run(STALL, None, |_, _| {}).now_or_never().is_none());
        pump.say(&text(Sender::Browser, b"late"));
        assert_eq!(pump.run(STALL, None, |_, _| {}).await, PumpEnd::Said, "nothing follows a Close");
        drop(pump);
        assert_eq!(out, [&begun[..], &rest, &text(Sender::Browser, b"own"), &close].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_hears_nothing_is_pinged_between_two_frames() {
        let (mut near, from) = duplex(1 << 10);
        let (to, mut far) = duplex(1 << 10);
        let frames = Frames::new(Sender::Browser, u64::MAX);
        let mut pump = Pump::new(from, to, frames, MessageReader::Nothing, Bytes::new());
        let unanswered = Unanswered::default();
        pump.silence = Silence::of_at_most(Duration::from_secs(2), unanswered.clone());
        let message = text(Sender::Browser, b"whole");
        let sends = async {
            near.write_all(&message[..3]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            near.write_all(&message[3..]).await.unwrap();
            let mut heard = vec![0; message.len() + 2 * ping().len()];
            far.read_exact(&mut heard).await.unwrap();
            drop(near);
            heard
        };
        let (end, heard) = tokio::join!(pump.run(STALL, None, |_, _| {}), sends);
        assert_eq!(heard, [&message[..], &ping(), &ping()].concat());
        assert_eq!(end, PumpEnd::End { clean: false });
        assert_eq!([(); 3].map(|()| unanswered.take()), [true, true, false]);
    }

    #[tokio::test]
    async fn answers_to_the_relays_own_pings_reach_no_browser() {
        let (own, others) = ([0x8A, 0x80, 7, 0, 255, 9], [0x8A, 0x81, 1, 2, 3, 4, b'1' ^ 1]);
        let message = masked(b"{}");
        let stream = [&own[..], &others, &message, &own, &own, &message].concat();
        let expected = [&others[..], &message, &own, &message].concat();
        for size in [1, 3, 7, stream.len()] {
            for reads in [false, true] {
                let unanswered = Unanswered::default();
                let silence = Silence::of_at_most(STALL, unanswered.clone()).unwrap();
                silence.pings();
                silence.pings();
                let frames = Frames::new(Sender::Client, u64::MAX).answering(unanswered);
                let reading = match reads {
                    true => MessageReader::Client(Box::new(ClientMessages::new(None, None))),
                    false => MessageReader::Nothing,
                };
                let (out, _) = passed(frames, reading, &stream, &[size]).await;
                assert_eq!(out, expected, "two were sent: {size}, {reads}");
            }
        }
    }

    #[tokio::test]
    async fn messages_alone_are_use() {
        let (ping, long) = ([0x89, 0x80, 1, 2, 3, 4], masked(&[b'x'; 9000]));
        let pieces = async |stream: &[u8]| {
            let pieces = Mutex::new(Vec::new());
            let frames = Frames::new(Sender::Client, u64::MAX);
            let mut pump = Pump::new(stream, tokio::io::sink(), frames, MessageReader::Nothing, Bytes::new());
            pump.run(STALL, None, |bytes, has_message| pieces.lock().push((bytes, has_message))).await;
            pieces.into_inner()
        };
        let with_message = pieces(&[&ping[..], &long, &ping].concat()).await;
        assert!(with_message.len() > 1 && with_message.iter().all(|(_, has_message)| *has_message), "{with_message:?}");
        assert_eq!(pieces(&[ping, ping].concat()).await, [(12, false)]);
    }

    #[tokio::test]
    async fn what_is_half_sent_ends_with_its_stream() {
        let whole = text(Sender::Browser, br#"{"method":"Network.responseReceived","params":{}}"#);
        for end in 0..whole.len() {
            let reading = MessageReader::Browser(Box::new(BrowserMessages::new(Arc::default(), false)));
            let (out, _) = relayed(Sender::Browser, reading, &whole[..end], &[9]).await;
            assert!(whole.starts_with(&out));
        }
    }
}
