//! Just enough of RFC 6455 to find the boundaries of frames: it reads headers and only counts payloads. Where text messages are to be
//! read, it stops at each of them.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

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

/// The opcode of a frame with which a text message begins.
const TEXT: u8 = 1;
/// The opcodes of control frames.
const CLOSE: u8 = 8;
const PING: u8 = 9;
/// The longest payload of a control frame.
const MAX_CONTROL: usize = 125;
/// The longest header: two bytes, an eight-byte length, a mask.
const MAX_HEADER: usize = 14;

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
}

struct Header {
    len: usize,
    payload: u64,
    fin: bool,
    opcode: u8,
    masked: bool,
    mask: [u8; 4],
}

impl Header {
    const fn text(&self) -> Text {
        Text { header: self.len, payload: self.payload, mask: self.mask, is_whole: self.fin }
    }
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
        }
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
            match parse(&piece[at..]) {
                Ok(Some(header)) => {
                    if self.stops && header.opcode == TEXT && !std::mem::take(&mut self.passes_next) {
                        return Scanned { forward: at, violation: None, text: Some(header.text()) };
                    }
                    match self.enter(&header) {
                        Ok(()) => at += header.len,
                        Err(violation) => return Scanned { forward: at, violation: Some(violation), text: None },
                    }
                }
                Ok(None) => break,
                Err(violation) => return Scanned { forward: at, violation: Some(violation), text: None },
            }
        }
        Scanned { forward: at, violation: None, text: None }
    }

    fn enter(&mut self, header: &Header) -> Result<(), FrameError> {
        if header.masked != (self.sender == Sender::Client) {
            return Err(protocol("a frame is masked that must not be, or is not masked that must be"));
        }
        match header.opcode {
            0x0..=0x2 => {
                let so_far = match (header.opcode, self.message) {
                    (0x0, Some(bytes)) => bytes,
                    (0x0, None) => return Err(protocol("a continuation frame continues nothing")),
                    (_, None) => 0,
                    (_, Some(_)) => return Err(protocol("a message begins inside another")),
                };
                let total = so_far.saturating_add(header.payload);
                if total > self.limit {
                    return Err(FrameError { code: 1009, reason: "a message is longer than relay.max_message allows" });
                }
                self.message = if header.fin { None } else { Some(total) };
            }
            0x8..=0xA => {
                if header.payload > MAX_CONTROL as u64 || !header.fin {
                    return Err(protocol("a control frame is too long or fragmented"));
                }
                if header.opcode == CLOSE && self.withholds_close {
                    return Err(protocol("a Close frame comes where the relay says Close itself"));
                }
                self.closed |= header.opcode == CLOSE;
            }
            _ => return Err(protocol("a frame has an unknown opcode")),
        }
        self.payload = header.payload;
        self.is_message = header.opcode < CLOSE;
        self.had_message |= self.is_message;
        Ok(())
    }

    /// Whether what was forwarded so far ends with a whole frame.
    pub(super) const fn at_boundary(&self) -> bool {
        self.payload == 0
    }

    /// Whether a Close frame went by.
    pub(super) const fn closed(&self) -> bool {
        self.closed
    }
}

/// The header at the start of `bytes`, or `None` when more bytes are needed.
fn parse(bytes: &[u8]) -> Result<Option<Header>, FrameError> {
    let [first, second, ..] = *bytes else { return Ok(None) };
    let masked = second & 0x80 != 0;
    let mask_len = if masked { 4 } else { 0 };
    let (length_len, payload) = match second & 0x7F {
        126 => match bytes.get(2..4) {
            Some(&[a, b]) => (2, u64::from(u16::from_be_bytes([a, b]))),
            _ => return Ok(None),
        },
        127 => match bytes.get(2..10).and_then(|length| <[u8; 8]>::try_from(length).ok()) {
            Some(length) => (8, u64::from_be_bytes(length)),
            None => return Ok(None),
        },
        short => (0, u64::from(short)),
    };
    if payload >> 63 != 0 {
        return Err(protocol("a frame's length has its highest bit set"));
    }
    let len = 2 + length_len + mask_len;
    debug_assert!(len <= MAX_HEADER, "RFC 6455 knows no longer header");
    if bytes.len() < len {
        return Ok(None);
    }
    let mask = if masked { bytes[len - 4..len].try_into().unwrap_or_default() } else { [0; 4] };
    Ok(Some(Header { len, payload, fin: first & 0x80 != 0, opcode: first & 0x0F, masked, mask }))
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
            let header = parse(rest).ok().flatten()?;
            if header.opcode != PING {
                (self.seen, self.skip) = (self.seen + header.len, header.payload);
                continue;
            }
            let length = usize::try_from(header.payload).ok().filter(|length| *length <= MAX_CONTROL)?;
            let payload = rest.get(header.len..header.len + length)?;
            self.seen += header.len + length;
            return Some(payload.iter().zip(header.mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect());
        }
        None
    }
}

/// A Pong frame for the client.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(MAX_CONTROL)];
    #[expect(clippy::cast_possible_truncation, reason = "at most 125")]
    let mut frame = vec![0x8A, payload.len() as u8];
    frame.extend_from_slice(payload);
    frame
}

/// A Close frame for the client.
pub(super) fn close(code: u16, reason: &str) -> Vec<u8> {
    // A control frame carries 125 bytes, two of them the code.
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let reason = &reason.as_bytes()[..end];
    #[expect(clippy::cast_possible_truncation, reason = "at most 125")]
    let mut frame = vec![0x88, 2 + reason.len() as u8];
    frame.extend_from_slice(&code.to_be_bytes());
    frame.extend_from_slice(reason);
    frame
}

/// A text message in one frame.
pub(super) fn text(sender: Sender, text: &[u8]) -> Vec<u8> {
    let masked = if sender == Sender::Client { 0x80 } else { 0 };
    let mut frame = Vec::with_capacity(MAX_HEADER + text.len());
    frame.push(0x80 | TEXT);
    match (u8::try_from(text.len()), u16::try_from(text.len())) {
        (Ok(short @ 0..126), _) => frame.push(masked | short),
        (_, Ok(long)) => {
            frame.push(masked | 126);
            frame.extend_from_slice(&long.to_be_bytes());
        }
        _ => {
            frame.push(masked | 127);
            frame.extend_from_slice(&(text.len() as u64).to_be_bytes());
        }
    }
    if sender == Sender::Client {
        // The browser takes only masked frames. A mask hides nothing on this machine, so it is zero.
        frame.extend_from_slice(&[0; 4]);
    }
    frame.extend_from_slice(text);
    frame
}

/// A Close frame for the browser, which takes only masked frames, see [`text`].
pub(super) fn masked_close(code: u16) -> [u8; 8] {
    let [a, b] = code.to_be_bytes();
    [0x88, 0x82, 0, 0, 0, 0, a, b]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fuzzing::feed_in_pieces;
    use super::*;

    /// A frame as its sender would write it.
    fn frame(sender: Sender, fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mask = if sender == Sender::Client { 0x80 } else { 0 };
        let mut bytes = vec![if fin { 0x80 } else { 0 } | opcode];
        match payload.len() {
            short @ 0..=125 => bytes.push(mask | short as u8),
            middle @ 126..=0xFFFF => {
                bytes.push(mask | 126);
                bytes.extend_from_slice(&(middle as u16).to_be_bytes());
            }
            long => {
                bytes.push(mask | 127);
                bytes.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        if sender == Sender::Client {
            bytes.extend_from_slice(&[1, 2, 3, 4]);
        }
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
