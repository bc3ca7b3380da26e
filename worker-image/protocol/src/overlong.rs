//! Messages of a browser that are longer than any may be.
//!
//! A page decides how long some of them are: DevTools tells of a download by the whole of its `data:` address, and of a worker
//! by its name. Whoever ended the connection would let a page end it, and whoever left the message out would miss what the
//! browser waits for. So the strings in such a message are cut. Of an event that is too long even so, as one with a list of very
//! many strings is, an outline is left; of an answer an error, since whoever asked would take a part for the whole.

use serde::Deserialize;
use serde_json::json;

use crate::frame::{Head, LengthError, TEXT};

/// How many bytes a string of such a message keeps; a few more where the last character would be torn.
const KEPT: usize = 64 << 10;
/// What ends the answer to the request for a websocket.
const END_OF_ANSWER: &[u8] = b"\r\n\r\n";

/// The length of an escape such as `\ud83d`.
const ESCAPE: usize = 6;
/// How deep in an event its parameters are.
const PARAMETERS: usize = 2;
/// The code of the error in the place of an answer: DevTools' own for a command that the browser could not carry out.
const SERVER_ERROR: i32 = -32000;

/// Reads the frames of a browser's websocket, and shortens a message of JSON that is too long.
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
    Cut(u64, Shortened),
}

/// JSON, as far as it has been read, whose strings are cut.
#[derive(Debug, Default)]
struct Shortened {
    /// All of it; once that is too long, the end of it, and what was before it is in the outline.
    kept: Vec<u8>,
    outline: Option<Outline>,
    /// How many bytes of the string are kept, within one.
    string: Option<usize>,
    escape: Escape,
    /// Whether the rest of the string is left out.
    is_cut: bool,
}

/// What is left of a message that is too long: its members and those of its parameters, but of their lists and objects the brackets.
#[derive(Debug, Default)]
struct Outline {
    kept: Vec<u8>,
    /// How many lists and objects are open.
    depth: usize,
    in_string: bool,
    /// Whether the next character stands behind a backslash.
    is_escaped: bool,
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

    /// Reads what the browser sent next, and returns what is to be read of it. A message that is shortened stays away until all of
    /// it has come, and is left out where nothing of it can be told. What no browser sends passes as it is: a message in several
    /// frames, with a mask or with an extension's bits.
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
                    let next = match Head::read(head) {
                        Ok(None) => None,
                        Ok(Some((read, _)))
                            if read.payload > self.longest as u64 && read == Head::whole(TEXT, read.payload) =>
                        {
                            Some(At::Cut(read.payload, Shortened::default()))
                        }
                        Ok(Some((read, _))) => Some(At::Whole(read.payload)),
                        // Whoever reads it goes no further.
                        Err(LengthError) => Some(At::Whole(u64::MAX)),
                    };
                    if let Some(At::Whole(_)) = next {
                        passed.append(head);
                    }
                    (next, rest)
                }
                At::Whole(left) => {
                    let (part, rest) = take(left, sent);
                    passed.extend_from_slice(part);
                    ((*left == 0).then_some(BETWEEN), rest)
                }
                At::Cut(left, message) => {
                    let (part, rest) = take(left, sent);
                    message.read_all(part, self.longest);
                    let is_whole = *left == 0;
                    if is_whole && let Some(text) = std::mem::take(message).text(self.longest) {
                        Head::whole(TEXT, text.len() as u64).write(&mut passed);
                        passed.extend(text);
                    }
                    (is_whole.then_some(BETWEEN), rest)
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

impl Shortened {
    fn read_all(&mut self, part: &[u8], longest: usize) {
        part.iter().for_each(|byte| self.read(*byte));
        if self.outline.is_some() || self.kept.len() > longest {
            // What comes next is cut by what stands before it.
            let end = self.kept.split_off(self.kept.len().saturating_sub(ESCAPE));
            let before = std::mem::replace(&mut self.kept, end);
            let outline = self.outline.get_or_insert_default();
            before.into_iter().for_each(|byte| outline.read(byte, longest));
        }
    }

    /// The message, once all of it has been read; none where it would be too long.
    fn text(self, longest: usize) -> Option<Vec<u8>> {
        let Some(mut outline) = self.outline else { return Some(self.kept) };
        self.kept.into_iter().for_each(|byte| outline.read(byte, longest));
        outline.message(longest)
    }

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

impl Outline {
    fn read(&mut self, byte: u8, longest: usize) {
        let before = self.depth;
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            b'{' | b'[' if !self.in_string => self.depth += 1,
            b'}' | b']' if !self.in_string => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        // The brackets of a list belong to what is around it.
        if before.min(self.depth) <= PARAMETERS && self.kept.len() <= longest {
            self.kept.push(byte);
        }
    }

    fn message(self, longest: usize) -> Option<Vec<u8>> {
        #[derive(Deserialize)]
        struct Message {
            id: Option<u64>,
        }
        let message: Message = serde_json::from_slice(&self.kept).ok()?;
        let Some(id) = message.id else { return (self.kept.len() <= longest).then_some(self.kept) };
        let reason = format!("the browser's answer is longer than {longest} bytes");
        let refused = json!({"id": id, "error": {"code": SERVER_ERROR, "message": reason}});
        Some(refused.to_string().into_bytes())
    }
}

/// Whether the last character may be the first half of a pair such as `\ud83d\ude00`.
fn ends_with_half(kept: &[u8]) -> bool {
    kept.last_chunk::<ESCAPE>()
        .is_some_and(|last| matches!(last, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'b' | b'A'..=b'B', ..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::frame::PING;

    const LONGEST: usize = 256 << 10;

    /// A frame with this head, but for its length.
    fn frame(head: Head, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        Head { payload: payload.len() as u64, ..head }.write(&mut frame);
        frame.extend(payload);
        frame
    }

    fn whole(opcode: u8, payload: &[u8]) -> Vec<u8> {
        frame(Head::whole(opcode, 0), payload)
    }

    fn text(message: &Value) -> Vec<u8> {
        whole(TEXT, message.to_string().as_bytes())
    }

    /// What is read of all this when it comes in parts of this size.
    fn cut(sent: &[u8], part: usize) -> Vec<u8> {
        let mut messages = OverlongMessages::of_open(LONGEST);
        sent.chunks(part).flat_map(|part| messages.cut(part)).collect()
    }

    /// The message in the one frame that is read.
    fn message(sent: &[u8], part: usize) -> Value {
        let read = cut(sent, part);
        let (head, length) = Head::read(&read).unwrap().unwrap();
        assert_eq!(head, Head::whole(TEXT, (read.len() - length) as u64));
        serde_json::from_slice(&read[length..]).unwrap()
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
    fn of_an_event_of_very_many_values_an_outline_is_left() {
        let frames = vec![json!({"frame": {"url": "http://a.example/\"}\\", "title": "]"}}); LONGEST / 16];
        let event = |frames: &[Value]| {
            json!({"method": "Fetch.requestPaused", "sessionId": "s", "params": {
                "requestId": "\"{[", "request": frames, "frameId": "f", "status": 200, "is": [true, {}],
            }})
        };
        let mut left = event(&[]);
        left["params"]["is"] = json!([]);
        for part in [1 << 24, 100_000, 7, 1] {
            assert_eq!(message(&text(&event(&frames)), part), left, "parts of {part}");
        }
    }

    #[test]
    fn an_answer_of_very_many_values_is_an_error() {
        let cookies = vec![json!({"name": "id", "value": "{\"id\": 3}"}); LONGEST / 16];
        let result = json!({"cookies": cookies, "id": 9}).to_string();
        for sent in [
            format!(r#"{{"id":7,"result":{result},"sessionId":"s"}}"#),
            format!(r#"{{"sessionId":"s","result":{result},"id":7}}"#),
        ] {
            for part in [1 << 24, 100_000, 1] {
                let read = message(&whole(TEXT, sent.as_bytes()), part);
                assert_eq!((&read["id"], &read["error"]["code"]), (&json!(7), &json!(SERVER_ERROR)));
                assert!(
                    read["error"]["message"].as_str().unwrap().contains("262144 bytes") && read["result"].is_null()
                );
            }
        }
    }

    #[test]
    fn what_can_be_told_of_a_message_in_no_way_is_left_out() {
        let after = text(&json!({"id": 1}));
        for sent in [
            "[1]".repeat(LONGEST),
            "1".repeat(2 * LONGEST),
            format!("[{}0]", "0,".repeat(LONGEST)),
            "[".repeat(2 * LONGEST),
        ] {
            let sent = [whole(TEXT, sent.as_bytes()), after.clone()].concat();
            assert!(cut(&sent, 1000) == after, "the next message is read");
        }
    }

    #[test]
    fn a_pair_of_halves_stays_together() {
        for shift in 0..12 {
            let title = format!("{}{}", "x".repeat(shift), "\\ud83d\\ude00".repeat(LONGEST / 8));
            let read = message(&whole(TEXT, format!(r#"{{"title":"{title}"}}"#).as_bytes()), 4096);
            assert!(read["title"].as_str().unwrap().ends_with('\u{1f600}'));
        }
    }

    #[test]
    fn what_is_not_too_long_passes_as_it_is() {
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\r\n\r\n";
        let long = "x".repeat(LONGEST * 2);
        let frames = [
            whole(TEXT, b""),
            text(&json!({"id": 1, "result": {"data": "x".repeat(LONGEST - 100)}})),
            // In parts, and no text.
            frame(Head { is_final: false, ..Head::whole(TEXT, 0) }, long.as_bytes()),
            whole(0, b"end"),
            whole(2, long.as_bytes()),
            whole(PING, b"ping"),
        ];
        let sent: Vec<u8> = answer.iter().copied().chain(frames.concat()).collect();
        for part in [1, 10, 100_000, 1 << 24] {
            let mut messages = OverlongMessages::new(LONGEST);
            let read: Vec<u8> = sent.chunks(part).flat_map(|part| messages.cut(part)).collect();
            assert!(read == sent, "parts of {part}");
        }
    }

    #[test]
    fn what_no_browser_sends_passes_as_it_is() {
        let long = "x".repeat(LONGEST * 2);
        for head in [
            Head { mask: Some([1, 2, 3, 4]), ..Head::whole(TEXT, 0) },
            Head { reserved: 0x40, ..Head::whole(TEXT, 0) },
            Head { is_final: false, ..Head::whole(TEXT, 0) },
        ] {
            let sent = [frame(head, long.as_bytes()), whole(TEXT, b"{}")].concat();
            for part in [1, 100_000, 1 << 24] {
                assert!(cut(&sent, part) == sent, "{head:?} in parts of {part}");
            }
        }
        // No frame is so long, and nothing comes behind it.
        let sent = [&[0x81_u8, 127, 0x80, 0, 0, 0, 0, 0, 0, 0][..], &text(&json!(long))].concat();
        assert!(cut(&sent, 1000) == sent);
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
            let read = message(&whole(TEXT, sent.as_bytes()), part);
            let read = read.as_array().unwrap();
            prop_assert_eq!(read.len(), strings.len());
            for (read, was) in read.iter().zip(&strings) {
                let read = read.as_str().unwrap();
                prop_assert!(was.starts_with(read));
                prop_assert!(read.len() == was.len() || json!(read).to_string().len() >= KEPT);
            }
        }

        #[test]
        fn a_message_is_never_too_long(
            id in prop::option::of(any::<u64>()),
            values in prop::collection::vec("\\PC{0,20}", 1..9),
            times in 1..60_000_usize,
            depth in 0..4_usize,
            part in 1..100_000_usize,
        ) {
            let values: Vec<&String> = values.iter().cycle().take(times).collect();
            let nested = (0..depth).fold(json!(values), |value, _| json!({"value": value, "and": 1}));
            let mut sent = json!({"method": "a.b", "sessionId": "s", "params": {"n": 1, "nested": nested}});
            if let Some(id) = id {
                sent = json!({"id": id, "sessionId": "s", "result": {"n": 1, "nested": nested}});
            }
            let is_short = sent.to_string().len() <= LONGEST;
            let read = message(&text(&sent), part);
            match id {
                _ if is_short => prop_assert_eq!(read, sent),
                Some(id) => prop_assert!(read["id"] == id && read["error"].is_object()),
                None => {
                    sent["params"]["nested"] = if depth == 0 { json!([]) } else { json!({}) };
                    prop_assert_eq!(read, sent);
                }
            }
        }
    }
}
