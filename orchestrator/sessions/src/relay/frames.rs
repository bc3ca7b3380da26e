//! Just enough of RFC 6455 to find the boundaries of frames: it reads headers and only counts payloads.

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
}

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
}

struct Header {
    len: usize,
    payload: u64,
    fin: bool,
    opcode: u8,
    masked: bool,
}

impl Frames {
    pub(super) const fn new(sender: Sender, limit: u64) -> Self {
        Self { sender, limit, payload: 0, message: None, closed: false }
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
                continue;
            }
            match parse(&piece[at..]) {
                Ok(Some(header)) => match self.enter(&header) {
                    Ok(()) => at += header.len,
                    Err(violation) => return Scanned { forward: at, violation: Some(violation) },
                },
                Ok(None) => break,
                Err(violation) => return Scanned { forward: at, violation: Some(violation) },
            }
        }
        Scanned { forward: at, violation: None }
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
                if header.payload > 125 || !header.fin {
                    return Err(protocol("a control frame is too long or fragmented"));
                }
                self.closed |= header.opcode == 0x8;
            }
            _ => return Err(protocol("a frame has an unknown opcode")),
        }
        self.payload = header.payload;
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
    Ok(Some(Header { len, payload, fin: first & 0x80 != 0, opcode: first & 0x0F, masked }))
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

/// A Close frame for the browser, which takes only masked frames. The mask hides nothing between daemon and agent, so
/// it is zero.
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
