//! A viewer's RFB messages for the fuzzer: the filter passes the same bytes however they are split, and no input of a
//! viewer without control.

use bytes::{Buf as _, BytesMut};

use super::{
    CLIPBOARD_ON_REQUEST, CUT_TEXT, Filter, KEY_EVENT, POINTER_EVENT, QEMU, RfbError, SET_DESKTOP_SIZE, SET_ENCODINGS,
    has_capabilities, length,
};

const HELLO: &[u8] = b"RFB 003.008\n\x01\x00";

/// The first byte of an input sets whether the viewer has control, and the length of the pieces.
pub fn seeds() -> Vec<Vec<u8>> {
    let messages = [
        &[0; 20][..],
        &[2, 0, 0, 2, 0, 0, 0, 7, 0xFF, 0xFF, 0xFE, 0xC4],
        &[3, 1, 0, 0, 0, 0, 4, 0, 3, 0],
        &[4, 1, 0, 0, 0, 0, 0, 0x61],
        &[5, 1, 0, 10, 0, 20],
        &[6, 0, 0, 0, 0, 0, 0, 3, b'a', b'b', b'c'],
        &[6, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFC, 2, 0, 0, 1],
        &[6, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xF8, 0x1F, 0, 0, 1, 1, 0x40, 0, 0],
        &[150, 1, 0, 0, 0, 0, 4, 0, 3, 0],
        &[248, 0, 0, 0, 0, 0, 0, 1, 2, 9, 9],
        &[251, 0, 4, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 0, 0],
        &[255, 0, 0, 1, 0, 0, 0, 0x62, 0, 0, 0, 48],
    ];
    [4, 5].into_iter().map(|options| [&[options], HELLO, &messages.concat()].concat()).collect()
}

/// Panics when the filter passes an input of a viewer without control, the capabilities of any viewer's clipboard, or half a
/// message.
pub fn check(bytes: &[u8]) {
    let [options, stream @ ..] = bytes else { return };
    let (acts, step) = (options & 1 == 1, usize::from(options >> 1) + 1);
    let whole = feed(stream, acts, stream.len().max(1));
    assert_eq!(whole, feed(stream, acts, step));
    let (outcome, to) = whole;
    assert!(acts || outcome != Ok(true), "an input of a viewer without the control");
    // Behind the handshake comes what the filter says itself.
    let mut rest = to.get(HELLO.len()..).unwrap_or_default();
    if to.len() >= HELLO.len() {
        assert!(rest.starts_with(&CLIPBOARD_ON_REQUEST), "texts are sent on request only");
        rest = &rest[CLIPBOARD_ON_REQUEST.len()..];
    }
    while let Some(&first) = rest.first() {
        assert!(acts || ![KEY_EVENT, POINTER_EVENT, CUT_TEXT, QEMU].contains(&first), "{first} is an input");
        assert_ne!(first, SET_DESKTOP_SIZE);
        assert!(first != CUT_TEXT || !has_capabilities(rest), "a viewer's own capabilities");
        let length = match first {
            // The filter may have added an encoding to the longest list.
            SET_ENCODINGS => 4 + 4 * usize::from((&rest[2..]).get_u16()),
            _ => length(rest).ok().flatten().unwrap_or(usize::MAX),
        };
        assert!(length <= rest.len(), "only whole messages go through");
        rest = &rest[length..];
    }
}

/// The bytes that the filter passes, and its result, up to the first error.
fn feed(stream: &[u8], acts: bool, step: usize) -> (Result<bool, RfbError>, BytesMut) {
    let (mut filter, mut to, mut acted) = (Filter::new(), BytesMut::new(), false);
    for piece in stream.chunks(step) {
        match filter.feed(piece, acts, &mut to) {
            Ok(more) => acted |= more,
            Err(violation) => return (Err(violation), to),
        }
    }
    filter.release(&mut to);
    (Ok(acted), to)
}
