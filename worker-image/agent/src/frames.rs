//! Looks for words in what a websocket client sends, without changing or holding any of it.

/// Finds words in the text messages of a client's byte stream, wherever reads, frames and
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

/// Bits of a frame's second byte.
const MASKED: u8 = 0x80;
/// Opcodes: a message goes on, begins as text, or (from here) is control.
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const CONTROL: u8 = 8;

impl Scanner {
    /// A scanner at the start of a stream.
    pub(crate) fn new(words: &'static [&'static [u8]]) -> Self {
        Self { words, head: Vec::new(), frame: None, text: false, carry: Vec::new() }
    }

    /// Takes the next bytes; gives back, for each word, whether it was completed in them.
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
        let &[first, second, ref rest @ ..] = self.head.as_slice() else { return None };
        let mask_length = if second & MASKED == 0 { 0 } else { 4 };
        let (length, mask) = match second & !MASKED {
            126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
            127 => (u64::from_be_bytes(*rest.first_chunk()?), &rest[8..]),
            short => (u64::from(short), rest),
        };
        if mask.len() < mask_length {
            return None;
        }
        let mask = mask.first_chunk().copied().unwrap_or_default();
        let opcode = first & 0x0f;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            short @ 0..126 => bytes.push(MASKED | short as u8),
            long @ 126..65536 => {
                bytes.push(MASKED | 126);
                bytes.extend((long as u16).to_be_bytes());
            }
            huge => {
                bytes.push(MASKED | 127);
                bytes.extend((huge as u64).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(payload.iter().enumerate().map(|(i, b)| b ^ mask[i % 4]));
        bytes
    }

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
}
