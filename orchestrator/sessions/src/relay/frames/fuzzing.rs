//! Websocket frames for the fuzzer: however a stream is split, the same bytes are forwarded, and none are lost or added where text
//! messages are stopped at.

use super::{FrameError, Frames, Sender};

/// The first byte of an input sets the sender, and the length of the pieces.
pub fn seeds() -> Vec<Vec<u8>> {
    let text = [0x81, 0x85, 1, 2, 3, 4, b'h', b'e', b'l', b'l', b'o'];
    let fragments = [&[0x02, 0xFE, 0, 126, 0, 0, 0, 0][..], &[7; 126], &[0x80, 0x81, 0, 0, 0, 0, 7]].concat();
    let long = [&[0x82, 127, 0, 0, 0, 0, 0, 0, 1, 0][..], &[7; 256], &[0x89, 4], b"ping", &[0x88, 2, 3, 0xE8]].concat();
    vec![[&[2], &text[..]].concat(), [&[8], &fragments[..]].concat(), [&[11], &long[..]].concat()]
}

/// Panics when the bytes that are forwarded depend on how the stream was split.
pub fn check(bytes: &[u8]) {
    let [options, stream @ ..] = bytes else { return };
    let sender = if options & 1 == 0 { Sender::Client } else { Sender::Browser };
    let step = usize::from(options >> 1) + 1;
    let feed = |step| feed_in_pieces(&mut Frames::new(sender, 500), stream, &[step]);
    let whole = feed(stream.len().max(1));
    assert_eq!(whole, feed(step));
    let stopping = |step| feed_stopping(&mut Frames::new(sender, 500).stopping(), stream, step);
    let (forwarded, texts) = stopping(stream.len().max(1));
    assert_eq!((&forwarded, &texts), (&whole, &stopping(step).1), "it stops elsewhere");
    assert_eq!(stopping(step).0, whole);
    for at in texts {
        assert_eq!(stream[at] & 0x0f, 1, "it stops at what is no text");
    }
}

/// Feeds `stream` in pieces of this size, and lets each text message pass at which it stops; returns where they begin, too.
fn feed_stopping(frames: &mut Frames, stream: &[u8], step: usize) -> ((usize, Option<FrameError>), Vec<usize>) {
    let (mut start, mut end, mut texts) = (0, 0, Vec::new());
    while end < stream.len() {
        end = (end + step).min(stream.len());
        loop {
            let fed = frames.feed(&stream[start..end]);
            start += fed.forward;
            if fed.violation.is_some() {
                return ((start, fed.violation), texts);
            }
            let Some(text) = fed.text else { break };
            assert!(start + text.header <= end, "it stops at a header that is not there");
            texts.push(start);
            frames.let_pass();
        }
    }
    ((start, None), texts)
}

/// Feeds `stream` in pieces of the given sizes, as reads would bring it.
pub(super) fn feed_in_pieces(frames: &mut Frames, stream: &[u8], sizes: &[usize]) -> (usize, Option<FrameError>) {
    let (mut start, mut end) = (0, 0);
    for size in sizes.iter().cycle() {
        if end == stream.len() {
            break;
        }
        end = (end + size).min(stream.len());
        let fed = frames.feed(&stream[start..end]);
        assert!(fed.forward <= end - start, "it forwards what it got");
        start += fed.forward;
        if fed.violation.is_some() {
            return (start, fed.violation);
        }
    }
    (start, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_forwarded_whole() {
        for seed in seeds() {
            let [options, stream @ ..] = &seed[..] else { panic!("an empty seed") };
            let sender = if options & 1 == 0 { Sender::Client } else { Sender::Browser };
            let fed = feed_in_pieces(&mut Frames::new(sender, 500), stream, &[stream.len()]);
            assert_eq!(fed, (stream.len(), None), "{seed:?}");
        }
    }
}
