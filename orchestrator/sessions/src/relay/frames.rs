//! Just enough of RFC 6455 to find the boundaries of frames: it reads headers and only counts payloads. Where text messages are to be
//! read, it stops at each of them.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use warmpool_protocol::frame::{CLOSE, Head, LONGEST_HEAD, LengthError, PING, PONG, TEXT};

use super::pings::Unanswered;

/// The sender of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// The client, whose frames are masked.
    Client,
    /// The browser, whose frames are not.
    Browser,
}

/// Why a frame must not be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameError {
    /// The Close code for it.
    pub(super) code: u16,
    /// The reason for people.
    pub(super) reason: &'static str,
}

const fn protocol(reason: &'static str) -> FrameError {
    FrameError { code: 1002, reason }
}

/// How far a piece of the stream may be forwarded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    /// This many bytes, counted from the piece's start. What follows is the start of a header that is not complete yet,
    /// or what is wrong.
    pub(super) forward: usize,
    /// What is wrong with the bytes that follow.
    pub(super) violation: Option<FrameError>,
    /// The text message that begins there, and goes on after [`Frames::let_pass`].
    pub(super) text: Option<Text>,
    /// The length of the Pong that is there and answers a Ping of the relay's own. It is to be skipped; 0 where there is none.
    pub(super) own_pong: usize,
}

/// The first frame of a text message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    /// Bytes of its header.
    pub(super) header: usize,
    /// Bytes of its payload.
    pub(super) payload: u64,
    /// The payload's mask, all zero where there is none.
    pub(super) mask: [u8; 4],
    /// Whether it is the whole message.
    pub(super) is_whole: bool,
}

impl Text {
    /// The text message that begins with this head, of so many bytes.
    fn behind(head: &Head, length: usize) -> Self {
        Self { header: length, payload: head.payload, mask: head.mask.unwrap_or_default(), is_whole: head.is_final }
    }
}

/// The longest payload of a control frame.
const MAX_CONTROL: usize = 125;

/// One direction's position between frames.
#[derive(Debug)]
pub(super) struct Frames {
    sender: Sender,
    limit: u64,
    /// Payload bytes of the current frame that are still to come.
    payload: u64,
    /// Bytes of the current message so far; `None` between messages.
    message: Option<u64>,
    closed: bool,
    /// Whether to stop at text messages, and whether the next one is to pass.
    stops: bool,
    passes_next: bool,
    /// Whether a Close frame is not to pass.
    withholds_close: bool,
    /// Whether the current frame is of a message, and whether one was since somebody asked.
    is_message: bool,
    had_message: bool,
    /// The relay's own Pings that the sender answers.
    own_pings: Option<Unanswered>,
}

impl Frames {
    pub(super) const fn new(sender: Sender, limit: u64) -> Self {
        Self {
            sender,
            limit,
            payload: 0,
            message: None,
            closed: false,
            stops: false,
            passes_next: false,
            withholds_close: false,
            is_message: false,
            had_message: false,
            own_pings: None,
        }
    }

    /// Stops at the answers to these Pings.
    pub(super) fn answering(self, own_pings: Unanswered) -> Self {
        Self { own_pings: Some(own_pings), ..self }
    }

    /// Whether something of a message went by since this was asked last. Control frames are nobody's doing: clients send them
    /// by a clock.
    pub(super) const fn take_had_message(&mut self) -> bool {
        std::mem::replace(&mut self.had_message, false)
    }

    /// Bytes of the current frame that are still to come.
    pub(super) const fn payload_left(&self) -> u64 {
        self.payload
    }

    /// Lets no Close frame pass from now on: it counts as a violation.
    pub(super) const fn withhold_close(&mut self) {
        self.withholds_close = true;
    }

    /// Stops at each text message.
    pub(super) const fn stopping(mut self) -> Self {
        self.stops = true;
        self
    }

    /// The text message goes on at which this has stopped.
    pub(super) const fn let_pass(&mut self) {
        self.passes_next = true;
    }

    /// Parses the next piece of the stream. `piece` must start where the last `forward` ended.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Scanned {
        let mut at = 0;
        while at < piece.len() {
            let rest = piece.len() - at;
            if self.payload > 0 {
                let taken = rest.min(usize::try_from(self.payload).unwrap_or(usize::MAX));
                self.payload -= taken as u64;
                at += taken;
                self.had_message |= self.is_message;
                continue;
            }
            let entered = match Head::read(&piece[at..]) {
                Ok(Some((head, length))) => {
                    if self.stops && head.opcode == TEXT && !std::mem::take(&mut self.passes_next) {
                        let text = Some(Text::behind(&head, length));
                        return Scanned { forward: at, violation: None, text, own_pong: 0 };
                    }
                    let entered = self.enter(&head);
                    if entered.is_ok() && head.opcode == PONG && self.is_own_pong(&head) {
                        return Scanned { forward: at, violation: None, text: None, own_pong: length };
                    }
                    entered.map(|()| length)
                }
                Ok(None) => break,
                Err(LengthError) => Err(protocol("a frame's length has its highest bit set")),
            };
            match entered {
                Ok(length) => at += length,
                Err(violation) => return Scanned { forward: at, violation: Some(violation), text: None, own_pong: 0 },
            }
        }
        Scanned { forward: at, violation: None, text: None, own_pong: 0 }
    }

    /// Whether this Pong answers a Ping of the relay's own, which have no payload. Others were asked for by the browser, or by nobody.
    fn is_own_pong(&self, head: &Head) -> bool {
        head.payload == 0 && self.own_pings.as_ref().is_some_and(Unanswered::take)
    }

    fn enter(&mut self, head: &Head) -> Result<(), FrameError> {
        if head.mask.is_some() != (self.sender == Sender::Client) {
            return Err(protocol("a frame is masked that must not be, or is not masked that must be"));
        }
        match head.opcode {
            0x0..=0x2 => {
                let so_far = match (head.opcode, self.message) {
                    (0x0, Some(bytes)) => bytes,
                    (0x0, None) => return Err(protocol("a continuation frame continues nothing")),
                    (_, None) => 0,
                    (_, Some(_)) => return Err(protocol("a message begins inside another")),
                };
                let total = so_far.saturating_add(head.payload);
                if total > self.limit {
                    return Err(FrameError { code: 1009, reason: "a message is longer than relay.max_message allows" });
                }
                self.message = if head.is_final { None } else { Some(total) };
            }
            0x8..=0xA => {
                if head.payload > MAX_CONTROL as u64 || !head.is_final {
                    return Err(protocol("a control frame is too long or fragmented"));
                }
                if head.opcode == CLOSE && self.withholds_close {
                    return Err(protocol("a Close frame comes where the relay says Close itself"));
                }
                self.closed |= head.opcode == CLOSE;
            }
            _ => return Err(protocol("a frame has an unknown opcode")),
        }
        self.payload = head.payload;
        self.is_message = head.opcode < CLOSE;
        self.had_message |= self.is_message;
        Ok(())
    }

    /// Whether what was forwarded so far ends with a whole frame.
    pub(super) const fn at_boundary(&self) -> bool {
        self.payload == 0
    }

    /// Whether what was forwarded so far ends with a whole message, and more may follow.
    pub(super) const fn between_messages(&self) -> bool {
        self.payload == 0 && self.message.is_none() && !self.closed
    }

    /// Whether a Close frame went by.
    pub(super) const fn closed(&self) -> bool {
        self.closed
    }
}

/// Looks for Pings in what a client sends and the relay holds up.
#[derive(Debug)]
pub(super) struct Lookahead {
    /// Bytes that have been looked at, from the first that is held up.
    seen: usize,
    /// Bytes of the current frame that are still to come.
    skip: u64,
}

impl Lookahead {
    /// Begins behind what `frames` has parsed.
    pub(super) const fn behind(frames: &Frames) -> Self {
        Self { seen: 0, skip: frames.payload_left() }
    }

    /// The payload of the next Ping in `held`, which has everything that is held up.
    pub(super) fn next_ping(&mut self, held: &[u8]) -> Option<Vec<u8>> {
        while let Some(rest) = held.get(self.seen..).filter(|rest| !rest.is_empty()) {
            if self.skip > 0 {
                let skipped = rest.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                self.skip -= skipped as u64;
                self.seen += skipped;
                continue;
            }
            // What breaks the protocol is refused once it is its turn.
            let (head, before) = Head::read(rest).ok().flatten()?;
            if head.opcode != PING {
                (self.seen, self.skip) = (self.seen + before, head.payload);
                continue;
            }
            let length = usize::try_from(head.payload).ok().filter(|length| *length <= MAX_CONTROL)?;
            let payload = rest.get(before..before + length)?;
            self.seen += before + length;
            let mask = head.mask.unwrap_or_default();
            return Some(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect());
        }
        None
    }
}

/// A Ping frame for the client, without a payload.
pub(super) fn ping() -> Vec<u8> {
    whole(Sender::Browser, PING, &[])
}

/// A Pong frame for the client.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    whole(Sender::Browser, PONG, &payload[..payload.len().min(MAX_CONTROL)])
}

/// A Close frame for the client.
pub(super) fn close(code: u16, reason: &str) -> Vec<u8> {
    // Two of the bytes are the code.
    let mut end = reason.len().min(MAX_CONTROL - 2);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    whole(Sender::Browser, CLOSE, &[&code.to_be_bytes()[..], &reason.as_bytes()[..end]].concat())
}

/// A text message in one frame.
pub(super) fn text(sender: Sender, text: &[u8]) -> Vec<u8> {
    whole(sender, TEXT, text)
}

/// A Close frame for the browser.
pub(super) fn masked_close(code: u16) -> Vec<u8> {
    whole(Sender::Client, CLOSE, &code.to_be_bytes())
}

/// A control frame, or a message in one frame, as this sender writes it.
fn whole(sender: Sender, opcode: u8, payload: &[u8]) -> Vec<u8> {
    // The browser takes only masked frames. A mask hides nothing on this machine, so it is zero.
    let mask = (sender == Sender::Client).then_some([0; 4]);
    let mut frame = Vec::with_capacity(LONGEST_HEAD + payload.len());
    Head { mask, ..Head::whole(opcode, payload.len() as u64) }.write(&mut frame);
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fuzzing::feed_in_pieces;
    use super::*;

    /// A frame as its sender would write it.
    fn frame(sender: Sender, fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mask = (sender == Sender::Client).then_some([1, 2, 3, 4]);
        let mut bytes = Vec::new();
        Head { is_final: fin, mask, ..Head::whole(opcode, payload.len() as u64) }.write(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn a_close_passes_unless_it_is_withheld() {
        let close = close(1000, "");
        let mut frames = Frames::new(Sender::Browser, 9);
        assert_eq!(frames.feed(&close).forward, close.len());
        assert!(frames.closed());
        let mut frames = Frames::new(Sender::Browser, 9);
        frames.withhold_close();
        let stream = [text(Sender::Browser, b"x"), close].concat();
        let scanned = frames.feed(&stream);
        assert_eq!((scanned.forward, scanned.violation.is_some(), frames.closed()), (3, true, false));
    }

    #[test]
    fn garbage_before_any_frame_is_refused_whole() {
        let mut frames = Frames::new(Sender::Client, 1000);
        let fed = frames.feed(b"GET /admin HTTP/1.1\r\n\r\n");
        assert_eq!(fed.forward, 0);
        assert_eq!(fed.violation.map(|violation| violation.code), Some(1002));
    }

    #[test]
    fn a_message_may_be_as_long_as_the_limit_and_no_longer() {
        for (size, allowed) in [(1000, true), (1001, false)] {
            let mut frames = Frames::new(Sender::Browser, 1000);
            let stream = frame(Sender::Browser, true, 1, &vec![0; size]);
            let fed = frames.feed(&stream);
            assert_eq!(fed.violation.is_none(), allowed, "{size}");
            assert_eq!(fed.forward, if allowed { stream.len() } else { 0 });
        }
    }

    #[test]
    fn the_limit_counts_all_fragments() {
        let mut frames = Frames::new(Sender::Client, 100);
        let first = frame(Sender::Client, false, 2, &[0; 60]);
        let ping = frame(Sender::Client, true, 9, &[0; 50]);
        let last = frame(Sender::Client, true, 0, &[0; 60]);
        assert_eq!(frames.feed(&first).violation, None);
        assert_eq!(frames.feed(&ping).violation, None, "control frames count for nothing");
        assert_eq!(frames.feed(&last).violation.map(|violation| violation.code), Some(1009));
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        let client = |fin, opcode, payload: &[u8]| frame(Sender::Client, fin, opcode, payload);
        let cases = [
            frame(Sender::Browser, true, 1, b"not masked"),
            client(true, 0, b"continues nothing"),
            client(true, 3, b"unknown"),
            client(false, 9, b"fragmented ping"),
            [client(false, 1, b"one"), client(true, 1, b"another inside")].concat(),
            vec![0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4],
        ];
        for case in cases {
            let mut frames = Frames::new(Sender::Client, 1 << 20);
            assert_eq!(frames.feed(&case).violation.map(|violation| violation.code), Some(1002), "{case:?}");
        }
    }

    #[test]
    fn the_relays_own_frames_are_masked_for_the_browser_alone() {
        assert_eq!(close(1000, "bye"), [0x88, 5, 3, 0xE8, b'b', b'y', b'e']);
        assert_eq!(masked_close(1001), [0x88, 0x82, 0, 0, 0, 0, 3, 0xE9]);
        assert_eq!((ping(), pong(b"p")), (vec![0x89, 0], vec![0x8A, 1, b'p']));
        assert_eq!(text(Sender::Browser, b"t"), [0x81, 1, b't']);
        assert_eq!(text(Sender::Client, b"t"), [0x81, 0x81, 0, 0, 0, 0, b't']);
    }

    #[test]
    fn close_frames_fit_and_keep_whole_characters() {
        let frame = close(1011, &"é".repeat(100));
        assert!(frame.len() <= 127);
        assert_eq!(usize::from(frame[1]), frame.len() - 2);
        assert!(std::str::from_utf8(&frame[4..]).is_ok());
        let mut frames = Frames::new(Sender::Client, 0);
        frames.feed(&masked_close(1001));
        assert!(frames.closed() && frames.at_boundary());
    }

    #[test]
    fn it_stops_at_texts_and_goes_on() {
        for sender in [Sender::Client, Sender::Browser] {
            for size in [0, 5, 125, 126, 70_000] {
                let message = text(sender, &vec![b'x'; size]);
                let stream = [frame(sender, true, 9, b"ping"), message.clone(), frame(sender, true, 2, b"b")].concat();
                let mut frames = Frames::new(sender, 1 << 20).stopping();
                let fed = frames.feed(&stream);
                let stopped = fed.text.unwrap();
                assert_eq!((stopped.header + size, stopped.is_whole), (message.len(), true));
                frames.let_pass();
                let rest = frames.feed(&stream[fed.forward..]);
                assert_eq!((fed.forward + rest.forward, rest.text), (stream.len(), None));
                assert_eq!(frames.feed(&message).text, Some(stopped));
            }
        }
    }

    fn messages(sender: Sender) -> impl Strategy<Value = Vec<u8>> {
        let one = (1..3u8, prop::collection::vec(0..70_000usize, 1..3), any::<bool>());
        prop::collection::vec(one, 1..4).prop_map(move |messages| {
            let mut stream = Vec::new();
            for (opcode, parts, ping) in messages {
                for (index, size) in parts.iter().enumerate() {
                    let opcode = if index == 0 { opcode } else { 0 };
                    stream.extend(frame(sender, index + 1 == parts.len(), opcode, &vec![7; *size]));
                    if ping {
                        stream.extend(frame(sender, true, 9, b"ping"));
                    }
                }
            }
            stream
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn good_streams_pass_whole_however_they_are_cut(
            stream in messages(Sender::Client),
            sizes in prop::collection::vec(1..9000usize, 1..5),
        ) {
            let mut frames = Frames::new(Sender::Client, u64::MAX);
            let (forwarded, violation) = feed_in_pieces(&mut frames, &stream, &sizes);
            prop_assert_eq!(violation, None);
            prop_assert_eq!(forwarded, stream.len());
            prop_assert!(frames.at_boundary());
        }
    }
}
