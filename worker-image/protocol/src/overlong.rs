//! Messages of a browser that are longer than any may be.
//!
//! A page decides how long some of them are: DevTools tells of a download by the whole of its `data:` address, and of a worker
//! by its name. Whoever ended the connection would let a page end it, and whoever left the message out would miss what the
//! browser waits for. So the strings in such a message are cut.

/// How many bytes a string of such a message keeps; a few more where the last character would be torn.
const KEPT: usize = 64 << 10;
/// What ends the answer to the request for a websocket.
const END_OF_ANSWER: &[u8] = b"\r\n\r\n";
/// The bit of a frame's first byte that says that its message ends with it.
const FINAL: u8 = 0x80;
/// The kind of frame that holds text.
const TEXT: u8 = 1;
/// The bit of a frame's second byte that says that it is masked.
const MASKED: u8 = 0x80;
/// Instead of a length, says that two bytes with it follow, or eight.
const SHORT: u8 = 126;
const LONG: u8 = 127;

/// Reads the frames of a browser's websocket, and cuts the strings of a message of JSON that is too long.
#[derive(Debug)]
pub struct OverlongMessages {
    longest: usize,
    at: At,
}

#[derive(Debug)]
enum At {
    /// In the answer to the request for the websocket, with so many bytes of its end.
    Answer(usize),
    /// In a frame's head, with these bytes of it.
    Head(Vec<u8>),
    /// In a frame that passes as it is, with so many bytes to come.
    Whole(u64),
    /// In a message that is too long, with so many bytes to come.
    Cut(u64, Strings),
}

/// JSON, as far as it has been read, whose strings are cut.
#[derive(Debug, Default)]
struct Strings {
    kept: Vec<u8>,
    /// How many bytes of the string are kept, within one.
    string: Option<usize>,
    escape: Escape,
    /// Whether the rest of the string is left out.
    is_cut: bool,
}

/// Where a string is in a character that a backslash begins.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// In none.
    #[default]
    None,
    /// Behind the backslash.
    Begun,
    /// Before so many hexadecimal digits.
    Digits(u8),
}

/// Between two frames.
const BETWEEN: At = At::Head(Vec::new());

impl OverlongMessages {
    /// Reads a connection from the answer to the request for the websocket on. A message is too long that has more bytes than
    /// `longest`.
    #[must_use]
    pub const fn new(longest: usize) -> Self {
        Self { longest, at: At::Answer(0) }
    }

    /// The same for a connection that is open.
    #[must_use]
    pub const fn of_open(longest: usize) -> Self {
        Self { longest, at: At::Head(Vec::new()) }
    }

    /// Reads what the browser sent next, and returns what is to be read of it. A message whose strings are cut stays away until all
    /// of it is there. One that is too long even so, or that is in several frames, passes as it is.
    #[must_use]
    pub fn cut(&mut self, mut sent: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(sent.len());
        while let Some((&byte, rest)) = sent.split_first() {
            let (next, rest) = match &mut self.at {
                At::Answer(ending) => {
                    passed.push(byte);
                    *ending = match byte {
                        _ if byte == END_OF_ANSWER[*ending] => *ending + 1,
                        b'\r' => 1,
                        _ => 0,
                    };
                    ((*ending == END_OF_ANSWER.len()).then_some(BETWEEN), rest)
                }
                At::Head(head) => {
                    head.push(byte);
                    let next = payload(head).map(|length| {
                        if head[0] == FINAL | TEXT && length > self.longest as u64 {
                            return At::Cut(length, Strings::default());
                        }
                        passed.append(head);
                        if length == 0 { BETWEEN } else { At::Whole(length) }
                    });
                    (next, rest)
                }
                At::Whole(left) => {
                    let (part, rest) = take(left, sent);
                    passed.extend_from_slice(part);
                    ((*left == 0).then_some(BETWEEN), rest)
                }
                At::Cut(left, strings) => {
                    let (part, rest) = take(left, sent);
                    part.iter().for_each(|byte| strings.read(*byte));
                    let is_too_long = strings.kept.len() > self.longest;
                    if *left == 0 || is_too_long {
                        passed.extend(head(strings.kept.len() as u64 + *left));
                        passed.append(&mut strings.kept);
                    }
                    let next = match *left {
                        0 => Some(BETWEEN),
                        left if is_too_long => Some(At::Whole(left)),
                        _ => None,
                    };
                    (next, rest)
                }
            };
            sent = rest;
            if let Some(next) = next {
                self.at = next;
            }
        }
        passed
    }
}

/// Takes what belongs to a frame with so many bytes to come.
fn take<'a>(left: &mut u64, sent: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let part = usize::try_from(*left).unwrap_or(usize::MAX).min(sent.len());
    *left -= part as u64;
    sent.split_at(part)
}

/// The length of a frame's payload, once its head is whole. A browser masks nothing.
fn payload(head: &[u8]) -> Option<u64> {
    let (_, rest) = head.split_first()?;
    let (length, rest) = rest.split_first()?;
    match length & !MASKED {
        SHORT => rest.try_into().ok().map(|length| u64::from(u16::from_be_bytes(length))),
        LONG => rest.try_into().ok().map(u64::from_be_bytes),
        length => Some(u64::from(length)),
    }
}

/// The head of a frame that is a whole message of text.
fn head(length: u64) -> Vec<u8> {
    let mut head = vec![FINAL | TEXT, LONG];
    head.extend(length.to_be_bytes());
    head
}

impl Strings {
    fn read(&mut self, byte: u8) {
        let Some(kept) = &mut self.string else {
            self.string = (byte == b'"').then_some(0);
            return self.kept.push(byte);
        };
        if byte == b'"' && self.escape == Escape::None {
            (self.string, self.is_cut) = (None, false);
            return self.kept.push(byte);
        }
        let begins_character = self.escape == Escape::None && byte & 0xc0 != 0x80;
        self.is_cut |= begins_character && *kept >= KEPT && !ends_with_half(&self.kept);
        self.escape = match (self.escape, byte) {
            (Escape::None, b'\\') => Escape::Begun,
            (Escape::Begun, b'u') => Escape::Digits(4),
            (Escape::Digits(left), _) if left > 1 => Escape::Digits(left - 1),
            _ => Escape::None,
        };
        if !self.is_cut {
            *kept += 1;
            self.kept.push(byte);
        }
    }
}

/// Whether the last character may be the first half of a pair such as `\ud83d\ude00`.
fn ends_with_half(kept: &[u8]) -> bool {
    kept.last_chunk::<6>()
        .is_some_and(|last| matches!(last, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'b' | b'A'..=b'B', ..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const LONGEST: usize = 256 << 10;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..=125 => frame.push(length as u8),
            length @ 126..=0xffff => {
                frame.push(SHORT);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(LONG);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(payload);
        frame
    }

    fn text(message: &Value) -> Vec<u8> {
        frame(FINAL | TEXT, message.to_string().as_bytes())
    }

    /// What is read of all this when it comes in parts of this size.
    fn cut(sent: &[u8], part: usize) -> Vec<u8> {
        let mut messages = OverlongMessages::of_open(LONGEST);
        sent.chunks(part).flat_map(|part| messages.cut(part)).collect()
    }

    /// The message in the one frame that is read.
    fn message(sent: &[u8], part: usize) -> Value {
        let read = cut(sent, part);
        assert_eq!(read[..2], [FINAL | TEXT, LONG]);
        let length = u64::from_be_bytes(read[2..10].try_into().unwrap());
        assert_eq!(length, read.len() as u64 - 10);
        serde_json::from_slice(&read[10..]).unwrap()
    }

    #[test]
    fn long_strings_are_cut_and_the_rest_stays() {
        let name = "\u{e9}\"\\\n".repeat(LONGEST);
        let event = |name: &str| json!({"method": "Target.attachedToTarget", "params": {"title": name, "sessionId": "s", "n": [1, {"b": ""}]}});
        for part in [1 << 20, 7, 1] {
            let read = message(&text(&event(&name)), part);
            let kept = read["params"]["title"].as_str().unwrap();
            assert!(name.starts_with(kept) && (KEPT / 2..KEPT).contains(&kept.chars().count()), "{}", kept.len());
            assert_eq!(read, event(kept));
        }
    }

    #[test]
    fn a_pair_of_halves_stays_together() {
        for shift in 0..12 {
            let title = format!("{}{}", "x".repeat(shift), "\\ud83d\\ude00".repeat(LONGEST / 8));
            let read = message(&frame(FINAL | TEXT, format!(r#"{{"title":"{title}"}}"#).as_bytes()), 4096);
            assert!(read["title"].as_str().unwrap().ends_with('\u{1f600}'));
        }
    }

    #[test]
    fn what_is_not_too_long_passes_as_it_is() {
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\r\n\r\n";
        let long = "x".repeat(LONGEST * 2);
        let frames = [
            frame(FINAL | TEXT, b""),
            text(&json!({"id": 1, "result": {"data": "x".repeat(LONGEST - 100)}})),
            // In parts, and no text.
            frame(TEXT, long.as_bytes()),
            frame(FINAL, b"end"),
            frame(FINAL | 2, long.as_bytes()),
            // Too long in many short values.
            frame(FINAL | TEXT, "[1]".repeat(LONGEST).as_bytes()),
            frame(FINAL | 9, b"ping"),
        ];
        let sent: Vec<u8> = answer.iter().copied().chain(frames.concat()).collect();
        for part in [1, 10, 100_000, 1 << 24] {
            let mut messages = OverlongMessages::new(LONGEST);
            let read: Vec<u8> = sent.chunks(part).flat_map(|part| messages.cut(part)).collect();
            assert!(read == sent, "parts of {part}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn messages_stay_json_however_they_come(
            strings in prop::collection::vec(("\\PC{1,9}", 1..90_000_usize), 1..4),
            part in 1..100_000_usize,
        ) {
            let strings: Vec<String> = strings.into_iter().map(|(text, times)| text.repeat(times)).collect();
            let sent = json!(strings).to_string();
            prop_assume!(sent.len() > LONGEST);
            let read = message(&frame(FINAL | TEXT, sent.as_bytes()), part);
            for (read, was) in read.as_array().unwrap().iter().zip(&strings) {
                let read = read.as_str().unwrap();
                prop_assert!(was.starts_with(read));
                prop_assert!(read.len() == was.len() || json!(read).to_string().len() >= KEPT);
            }
        }
    }
}
