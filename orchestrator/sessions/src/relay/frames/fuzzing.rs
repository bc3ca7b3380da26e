//! Websocket frames for the fuzzer: however a stream is split, the same bytes are forwarded.

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
    assert_eq!(feed(stream.len().max(1)), feed(step));
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
