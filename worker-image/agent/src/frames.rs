//! The frames of a websocket. A client's payloads are masked.

/// Looks for words without changing or holding anything. Finds them in the text messages of a client's byte stream, wherever reads, frames and
/// fragments cut it. Payloads of clients are masked, so a plain search would find nothing.
pub(crate) struct Scanner {
    words: &'static [&'static [u8]],
    head: Vec<u8>,
    /// The frame being read.
    frame: Option<Frame>,
    /// Whether the message being read is text.
    text: bool,
    /// The end of what was searched last, as a word may begin there.
    carry: Vec<u8>,
}

struct Frame {
    left: u64,
    mask: [u8; 4],
    offset: usize,
    searched: bool,
}

/// The beginning of a frame.
struct Head {
    /// In bytes.
    size: usize,
    is_last: bool,
    opcode: u8,
    /// Of the payload, in bytes.
    length: u64,
    mask: [u8; 4],
}

/// The bit of a frame's first byte that says that its message ends with it.
const LAST: u8 = 0x80;
/// The bit of a frame's second byte that says that there is a mask.
const MASKED: u8 = 0x80;
/// Second bytes that say how long the length is that follows.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;
/// Opcodes: a message goes on, begins as text, or (from here) is control.
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const CONTROL: u8 = 8;

impl Scanner {
    /// A scanner at the start of a stream.
    pub(crate) fn new(words: &'static [&'static [u8]]) -> Self {
        Self { words, head: Vec::new(), frame: None, text: false, carry: Vec::new() }
    }

    /// Takes the next bytes; returns, for each word, whether it was completed in them.
    pub(crate) fn scan(&mut self, mut bytes: &[u8]) -> Vec<bool> {
        let mut found = vec![false; self.words.len()];
        while !bytes.is_empty() {
            let Some(mut frame) = self.frame.take() else {
                self.head.push(bytes[0]);
                bytes = &bytes[1..];
                self.frame = self.parse_head();
                continue;
            };
            let count = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
            let (payload, rest) = bytes.split_at(count);
            if frame.searched {
                self.search(payload, &frame, &mut found);
            }
            frame.left -= count as u64;
            frame.offset = (frame.offset + count) % 4;
            bytes = rest;
            self.frame = Some(frame).filter(|frame| frame.left > 0);
        }
        found
    }

    fn parse_head(&mut self) -> Option<Frame> {
        let Head { opcode, length, mask, .. } = Head::parse(&self.head)?;
        if opcode < CONTROL && opcode != CONTINUATION {
            self.text = opcode == TEXT;
            self.carry.clear();
        }
        self.head.clear();
        let searched = opcode < CONTROL && self.text;
        Some(Frame { left: length, mask, offset: 0, searched }).filter(|frame| frame.left > 0)
    }

    fn search(&mut self, payload: &[u8], frame: &Frame, found: &mut [bool]) {
        let plain = payload.iter().enumerate().map(|(i, b)| b ^ frame.mask[(frame.offset + i) % 4]);
        self.carry.extend(plain);
        for (word, found) in self.words.iter().zip(found) {
            *found |= self.carry.windows(word.len()).any(|window| window == *word);
        }
        // One byte less than the longest word, so that none is found twice.
        let longest = self.words.iter().map(|word| word.len()).max().unwrap_or_default();
        let excess = self.carry.len().saturating_sub(longest.saturating_sub(1));
        self.carry.drain(..excess);
    }
}

impl Head {
    /// None until it is whole.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let &[first, second, ref rest @ ..] = bytes else { return None };
        let (length, after) = match second & !MASKED {
            TWO_BYTES => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
            EIGHT_BYTES => (u64::from_be_bytes(*rest.first_chunk()?), &rest[8..]),
            short => (u64::from(short), rest),
        };
        let (mask, after) = if second & MASKED == 0 { ([0; 4], after) } else { (*after.first_chunk()?, &after[4..]) };
        let size = bytes.len() - after.len();
        Some(Self { size, is_last: first & LAST != 0, opcode: first & 0x0f, length, mask })
    }
}

/// Makes a stream of frames into pieces. Text messages of a kind are held until they are whole, so that they can be replaced.
/// Everything else passes as it comes.
pub(crate) struct Pieces {
    /// How the messages begin.
    beginning: &'static [u8],
    /// Their longest text, in bytes.
    longest: u64,
    held: Vec<u8>,
    /// Bytes of a frame that passes as it comes.
    passing: u64,
}

/// What may go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Some bytes of the stream.
    Bytes(Vec<u8>),
    /// A text message of that kind.
    Message {
        /// Its frame.
        frame: Vec<u8>,
        /// Its text.
        text: Vec<u8>,
    },
}

impl Pieces {
    /// At the start of a stream.
    pub(crate) fn new(beginning: &'static [u8], longest: u64) -> Self {
        Self { beginning, longest, held: Vec::new(), passing: 0 }
    }

    /// Whether these bytes, the next of the stream, pass as they are; if not, they are to be added.
    pub(crate) fn passes(&mut self, bytes: &[u8]) -> bool {
        let passes = self.held.is_empty() && self.passing >= bytes.len() as u64;
        self.passing -= if passes { bytes.len() as u64 } else { 0 };
        passes
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next piece; none until more bytes come.
    pub(crate) fn next(&mut self) -> Option<Piece> {
        if self.passing == 0 {
            let head = Head::parse(&self.held)?;
            let total = head.length.saturating_add(head.size as u64);
            if self.may_hold(&head)? {
                let total = usize::try_from(total).ok()?;
                return (self.held.len() >= total).then(|| {
                    let frame: Vec<u8> = self.held.drain(..total).collect();
                    let text = masked(&frame[head.size..], head.mask);
                    Piece::Message { frame, text }
                });
            }
            self.passing = total;
        }
        let count = usize::try_from(self.passing).unwrap_or(usize::MAX).min(self.held.len());
        self.passing -= count as u64;
        (count > 0).then(|| Piece::Bytes(self.held.drain(..count).collect()))
    }

    /// What is held when the stream ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Whether the message is to be held that begins what is held; none until enough of it is there.
    fn may_hold(&self, head: &Head) -> Option<bool> {
        let payload = &self.held[head.size..];
        let length = self.beginning.len();
        if !head.is_last || head.opcode != TEXT || head.length > self.longest || head.length < length as u64 {
            return Some(false);
        }
        Some(masked(payload.get(..length)?, head.mask) == self.beginning)
    }
}

/// A text message as a client sends it. The mask hides nothing here; it is there because servers refuse frames without one.
pub(crate) fn text_message(text: &[u8]) -> Vec<u8> {
    frame(LAST | TEXT, text, [0; 4])
}

/// A text message as a server sends it.
pub(crate) fn servers_text_message(text: &[u8]) -> Vec<u8> {
    let mut bytes = head(LAST | TEXT, text.len(), 0);
    bytes.extend(text);
    bytes
}

fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut bytes = head(first, payload.len(), MASKED);
    bytes.extend(mask);
    bytes.extend(masked(payload, mask));
    bytes
}

fn head(first: u8, length: usize, masked: u8) -> Vec<u8> {
    let mut bytes = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..TWO_BYTES), _) => bytes.push(masked | short),
        (_, Ok(long)) => {
            bytes.push(masked | TWO_BYTES);
            bytes.extend(long.to_be_bytes());
        }
        _ => {
            bytes.push(masked | EIGHT_BYTES);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes
}

fn masked(payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(stream: &[u8], step: usize) -> [usize; 2] {
        let mut scanner = Scanner::new(&[b"locale", b"wait"]);
        let mut count = [0; 2];
        for part in stream.chunks(step) {
            for (count, found) in count.iter_mut().zip(scanner.scan(part)) {
                *count += usize::from(found);
            }
        }
        count
    }

    #[test]
    fn finds_words_however_the_stream_is_cut() {
        let mut long = vec![b'x'; 70_000];
        long.extend(b" locale");
        let stream = [
            frame(0x81, b"no such word", [9, 8, 7, 6]),
            frame(0x89, b"locale", [1, 2, 3, 4]),
            frame(0x81, b"", [1, 1, 1, 1]),
            frame(0x82, b"wait", [1, 2, 3, 4]),
            frame(0x01, b"a lo", [5, 5, 5, 5]),
            frame(0x8a, b"cale", [7, 7, 7, 7]),
            frame(0x80, b"cale wait", [0xff, 0, 0xff, 0]),
            frame(0x81, &[b'y'; 300], [3, 1, 4, 1]),
            frame(0x81, &long, [2, 7, 1, 8]),
        ]
        .concat();
        for step in [1, 2, 3, 5, 7, 64, 1000, 4096] {
            assert_eq!(found(&stream, step), [2, 1], "in steps of {step}");
        }
    }

    #[test]
    fn a_word_does_not_reach_over_messages() {
        let stream = [frame(0x81, b"loc", [0; 4]), frame(0x81, b"ale", [0; 4])].concat();
        assert_eq!(found(&stream, 1024), [0, 0]);
    }

    #[test]
    fn short_messages_come_whole_and_nothing_is_lost() {
        let stream = [
            frame(0x81, b"short", [9, 8, 7, 6]),
            frame(0x89, b"ping", [1, 2, 3, 4]),
            frame(0x81, b"", [1, 1, 1, 1]),
            frame(0x82, b"binary", [1, 2, 3, 4]),
            frame(0x01, b"a ", [5, 5, 5, 5]),
            frame(0x80, b"message in two frames", [0xff, 0, 0xff, 0]),
            frame(0x81, &[b'x'; 70_000], [2, 7, 1, 8]),
            frame(0x81, &[b'y'; 300], [3, 1, 4, 1]),
            text_message(b"again"),
        ]
        .concat();
        for step in [1, 2, 3, 5, 7, 64, 1000, 4096, stream.len()] {
            let (mut pieces, mut texts, mut passed) = (Pieces::new(b"", 4 << 10), Vec::new(), Vec::new());
            for part in stream.chunks(step) {
                pieces.add(part);
                while let Some(piece) = pieces.next() {
                    match piece {
                        Piece::Bytes(bytes) => passed.extend(bytes),
                        Piece::Message { frame, text } => {
                            passed.extend(frame);
                            texts.push(text);
                        }
                    }
                }
            }
            assert!(passed == stream, "in steps of {step}");
            assert_eq!(texts, [&b"short"[..], b"", &[b'y'; 300], b"again"], "in steps of {step}");
        }
    }

    #[test]
    fn only_messages_of_the_kind_are_held() {
        let long = [b"{kind".to_vec(), vec![b'x'; 200]].concat();
        let stream = [&b"other"[..], b"{kind}", b"{k", b"", &long, b"{kind again}"].map(servers_text_message).concat();
        for step in [1, 2, 3, 5, 64, stream.len()] {
            let (mut pieces, mut texts, mut passed) = (Pieces::new(b"{kind", 100), Vec::new(), Vec::new());
            for part in stream.chunks(step) {
                if pieces.passes(part) {
                    passed.extend(part);
                    continue;
                }
                pieces.add(part);
                while let Some(piece) = pieces.next() {
                    match piece {
                        Piece::Bytes(bytes) => passed.extend(bytes),
                        Piece::Message { frame, text } => {
                            passed.extend(frame);
                            texts.push(text);
                        }
                    }
                }
            }
            assert!(passed == stream, "in steps of {step}");
            assert_eq!(texts, [&b"{kind}"[..], b"{kind again}"], "in steps of {step}");
        }
    }
}
