//! The filter for messages from viewers of a display: RFB's client messages (RFC 6143, section 7.5).
//!
//! It splits a viewer's bytes into whole messages, to distinguish inputs from requests for pictures. For viewers without
//! control, it drops keys, pointer and clipboard; they still get their pictures. The display sends what was copied on request only,
//! and a request is an input: viewers without control get nothing of the clipboard.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::collections::BTreeSet;

use bytes::{Buf as _, BufMut as _, BytesMut};

/// The longest clipboard text a viewer may send, in bytes.
const MAX_CUT_TEXT: usize = 1 << 20;
/// The most encodings a viewer may list.
const MAX_ENCODINGS: usize = 256;

/// The most keys that one viewer holds down, by their symbols; no keyboard has as many.
const MAX_KEYS: usize = 256;

/// Pseudo-encodings that change the form of a viewer's messages, or add new ones.
const LEFT_OUT: [i32; 3] = [EXTENDED_MOUSE_BUTTONS, XVP, GII];
const EXTENDED_MOUSE_BUTTONS: i32 = -316;
const XVP: i32 = -309;
const GII: i32 = -305;
/// With this encoding, the display can announce its clipboard and send it on request. Without it, it sends it to all viewers.
#[expect(clippy::cast_possible_wrap, reason = "the protocol numbers it so")]
const EXTENDED_CLIPBOARD: i32 = 0xC0A1_E5CE_u32 as i32;
/// The bit in the first byte of an extended clipboard's message that marks a viewer's capabilities.
const CAPABILITIES: u8 = 1;
/// What every viewer tells the display first: the encoding of the extended clipboard, and the capabilities of a viewer that wants
/// no text unasked (its limit is 0 bytes) and knows requests, announcements and answers. Without them the display sends up to
/// 20 MiB unasked. It keeps them when the viewer lists its encodings.
const CLIPBOARD_ON_REQUEST: [u8; 24] = [
    SET_ENCODINGS,
    0,
    0,
    1,
    0xC0,
    0xA1,
    0xE5,
    0xCE,
    CUT_TEXT,
    0,
    0,
    0,
    0xFF,
    0xFF,
    0xFF,
    0xF8,
    0x1B,
    0,
    0,
    1,
    0,
    0,
    0,
    0,
];

const SET_PIXEL_FORMAT: u8 = 0;
const SET_ENCODINGS: u8 = 2;
const UPDATE_REQUEST: u8 = 3;
const KEY_EVENT: u8 = 4;
const POINTER_EVENT: u8 = 5;
const CUT_TEXT: u8 = 6;
const CONTINUOUS_UPDATES: u8 = 150;
const FENCE: u8 = 248;
const SET_DESKTOP_SIZE: u8 = 251;
const QEMU: u8 = 255;

/// How a viewer breaks the protocol.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct RfbError(&'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeStage {
    Version,
    Security,
    Init,
    Messages,
}

/// The kind of a whole message.
enum Message {
    /// Affects only what this viewer sees.
    Harmless,
    Encodings,
    Key,
    Pointer,
    /// The clipboard, and keys in another form.
    OtherInput,
    /// The filter drops it.
    Dropped,
}

/// Filters one viewer's messages to the display.
#[derive(Debug)]
pub(super) struct Filter {
    stage: HandshakeStage,
    waiting: BytesMut,
    keys: BTreeSet<u32>,
    pointer: Option<[u8; 6]>,
}

impl Filter {
    pub(super) fn new() -> Self {
        Self { stage: HandshakeStage::Version, waiting: BytesMut::new(), keys: BTreeSet::new(), pointer: None }
    }

    /// Reads the viewer's bytes and appends to `to` those that may go to the display. `acts` says whether the viewer has
    /// control now. Returns whether they contained an input.
    pub(super) fn feed(&mut self, bytes: &[u8], acts: bool, to: &mut BytesMut) -> Result<bool, RfbError> {
        self.waiting.extend_from_slice(bytes);
        let mut acted = false;
        while let Some(length) = self.whole()? {
            let message = self.waiting.split_to(length);
            match self.stage {
                HandshakeStage::Version => {
                    // An older version has other steps: the display would be ready while the filter still waits for one.
                    if message[..] != *b"RFB 003.008\n" {
                        return Err(RfbError("only RFB 3.8 is supported"));
                    }
                    to.extend_from_slice(&message);
                    self.stage = HandshakeStage::Security;
                }
                HandshakeStage::Security => {
                    // 1 is None: the viewer was authorised before this connection.
                    if message[0] != 1 {
                        return Err(RfbError("only the security type None is offered"));
                    }
                    to.extend_from_slice(&message);
                    self.stage = HandshakeStage::Init;
                }
                HandshakeStage::Init => {
                    // Always shared, so that no viewer disconnects the others.
                    to.put_u8(1);
                    to.put_slice(&CLIPBOARD_ON_REQUEST);
                    self.stage = HandshakeStage::Messages;
                }
                HandshakeStage::Messages => acted |= self.message(&message, acts, to),
            }
        }
        Ok(acted)
    }

    /// Releases every key and button that this viewer holds down.
    pub(super) fn release(&mut self, to: &mut BytesMut) {
        for key in std::mem::take(&mut self.keys) {
            release_key(key, to);
        }
        if let Some(mut pointer) = self.pointer.take() {
            pointer[1] = 0;
            to.put_slice(&pointer);
        }
    }

    /// Notes that a key is held down, or no longer. Where too many are, one of them is released: a symbol that a modifier has changed
    /// meanwhile stays without its end.
    fn note_key(&mut self, key: u32, down: bool, to: &mut BytesMut) {
        if !down {
            self.keys.remove(&key);
            return;
        }
        if self.keys.len() >= MAX_KEYS
            && !self.keys.contains(&key)
            && let Some(first) = self.keys.pop_first()
        {
            release_key(first, to);
        }
        self.keys.insert(key);
    }

    fn message(&mut self, message: &[u8], acts: bool, to: &mut BytesMut) -> bool {
        match kind(message) {
            Message::Harmless => to.extend_from_slice(message),
            Message::Encodings => encodings(message, to),
            Message::Key if acts => {
                self.note_key((&message[4..]).get_u32(), message[1] != 0, to);
                to.extend_from_slice(message);
                return true;
            }
            Message::Pointer if acts => {
                let pointer: Option<[u8; 6]> = message.try_into().ok();
                self.pointer = pointer.filter(|pointer| pointer[1] != 0);
                to.extend_from_slice(message);
                return true;
            }
            Message::OtherInput if acts => {
                if message[0] == QEMU {
                    self.note_key((&message[4..]).get_u32(), message[3] != 0, to);
                }
                to.extend_from_slice(message);
                return true;
            }
            Message::Key | Message::Pointer | Message::OtherInput | Message::Dropped => {}
        }
        false
    }

    /// The length of the first message, once it is complete.
    fn whole(&self) -> Result<Option<usize>, RfbError> {
        let bytes = &self.waiting[..];
        let length = match self.stage {
            HandshakeStage::Version => 12,
            HandshakeStage::Security | HandshakeStage::Init => 1,
            HandshakeStage::Messages => match length(bytes)? {
                Some(length) => length,
                None => return Ok(None),
            },
        };
        Ok((bytes.len() >= length).then_some(length))
    }
}

fn release_key(key: u32, to: &mut BytesMut) {
    to.put_slice(&[KEY_EVENT, 0, 0, 0]);
    to.put_u32(key);
}

/// The length of the message that starts here; `None` until enough of it has arrived.
fn length(bytes: &[u8]) -> Result<Option<usize>, RfbError> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    Ok(match first {
        SET_PIXEL_FORMAT => Some(20),
        SET_ENCODINGS => match bytes.get(2..4) {
            Some(mut count) => {
                let count = usize::from(count.get_u16());
                if count > MAX_ENCODINGS {
                    return Err(RfbError("too many encodings"));
                }
                Some(4 + 4 * count)
            }
            None => None,
        },
        UPDATE_REQUEST | CONTINUOUS_UPDATES => Some(10),
        KEY_EVENT => Some(8),
        POINTER_EVENT => Some(6),
        CUT_TEXT => match bytes.get(4..8) {
            Some(mut count) => {
                // A negative number marks a message of the extended clipboard; its length is the absolute value.
                let count = count.get_i32().unsigned_abs() as usize;
                if count > MAX_CUT_TEXT {
                    return Err(RfbError("the clipboard's text is too long"));
                }
                Some(8 + count)
            }
            None => None,
        },
        FENCE => bytes.get(8).map(|count| 9 + usize::from(*count)),
        SET_DESKTOP_SIZE => bytes.get(6).map(|screens| 8 + 16 * usize::from(*screens)),
        QEMU => match bytes.get(1) {
            Some(0) => Some(12),
            Some(_) => return Err(RfbError("an unknown message")),
            None => None,
        },
        _ => return Err(RfbError("an unknown message")),
    })
}

fn kind(message: &[u8]) -> Message {
    match message[0] {
        SET_ENCODINGS => Message::Encodings,
        KEY_EVENT => Message::Key,
        POINTER_EVENT => Message::Pointer,
        // A viewer's own capabilities could ask for texts that it gets unasked, also once it has lost control.
        CUT_TEXT if has_capabilities(message) => Message::Dropped,
        CUT_TEXT | QEMU => Message::OtherInput,
        SET_DESKTOP_SIZE => Message::Dropped,
        _ => Message::Harmless,
    }
}

/// Whether a message with a clipboard's text is one of the extended clipboard, which has a negative length, with capabilities.
fn has_capabilities(message: &[u8]) -> bool {
    matches!(message.get(4..9), Some([0x80..=0xFF, _, _, _, actions]) if actions & CAPABILITIES != 0)
}

/// Rewrites the list of encodings: without those in `LEFT_OUT`, and with the one without which the display sends its clipboard
/// to all viewers.
fn encodings(message: &[u8], to: &mut BytesMut) {
    let mut list: Vec<i32> = message[4..].chunks_exact(4).map(|mut number| number.get_i32()).collect();
    list.retain(|encoding| !LEFT_OUT.contains(encoding));
    if !list.contains(&EXTENDED_CLIPBOARD) {
        list.push(EXTENDED_CLIPBOARD);
    }
    to.put_slice(&[SET_ENCODINGS, 0]);
    to.put_u16(u16::try_from(list.len()).unwrap_or(0));
    for encoding in list {
        to.put_i32(encoding);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HELLO: &[u8] = b"RFB 003.008\n\x01\x00";
    const KEY_DOWN: [u8; 8] = [4, 1, 0, 0, 0, 0, 0, 0x61];
    const CLICK: [u8; 6] = [5, 1, 0, 10, 0, 20];
    const QEMU_KEY: [u8; 12] = [255, 0, 0, 1, 0, 0, 0, 0x62, 0, 0, 0, 48];
    const CUT: [u8; 11] = [6, 0, 0, 0, 0, 0, 0, 3, b'a', b'b', b'c'];
    /// A request for the clipboard's text.
    const ASKED: [u8; 12] = [6, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFC, 2, 0, 0, 1];
    const RESIZE: [u8; 24] = [251, 0, 4, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 0, 0];
    const REQUEST: [u8; 10] = [3, 1, 0, 0, 0, 0, 4, 0, 3, 0];
    const FENCED: [u8; 11] = [248, 0, 0, 0, 0, 0, 0, 1, 2, 9, 9];

    fn greeted() -> Filter {
        let mut filter = Filter::new();
        let mut to = BytesMut::new();
        assert_eq!(filter.feed(HELLO, false, &mut to), Ok(false));
        let shared = b"RFB 003.008\n\x01\x01";
        assert_eq!(&to[..], [&shared[..], &CLIPBOARD_ON_REQUEST].concat(), "always shared, and no text unasked");
        filter
    }

    #[test]
    fn a_display_hears_first_that_texts_are_sent_on_request_only() {
        let (encodings, capabilities) = CLIPBOARD_ON_REQUEST.split_at(8);
        let mut wanted = vec![SET_ENCODINGS, 0, 0, 1];
        wanted.put_i32(EXTENDED_CLIPBOARD);
        assert_eq!(encodings, wanted);
        let mut wanted = vec![CUT_TEXT, 0, 0, 0];
        wanted.put_i32(-8);
        // Text; and capabilities, request, notify and provide.
        wanted.put_u32(1 | (1 << 24) | (1 << 25) | (1 << 27) | (1 << 28));
        // The longest text that comes unasked.
        wanted.put_u32(0);
        assert_eq!(capabilities, wanted);
        assert!(has_capabilities(capabilities));
    }

    #[test]
    fn no_viewer_gets_texts_unasked() {
        // Up to 20 MiB of text, with and without the other bits.
        for actions in [0x1F, 0x01] {
            let asked = [&[6, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xF8, actions, 0, 0, 1][..], &[1, 0x40, 0, 0]].concat();
            for acts in [false, true] {
                let mut to = BytesMut::new();
                assert_eq!(greeted().feed(&[&asked[..], &REQUEST].concat(), acts, &mut to), Ok(false));
                assert_eq!(&to[..], REQUEST, "{actions}, {acts}");
            }
        }
    }

    #[test]
    fn who_has_the_control_asks_for_what_was_copied() {
        let mut to = BytesMut::new();
        assert_eq!(greeted().feed(&ASKED, false, &mut to), Ok(false));
        assert!(to.is_empty());
        assert_eq!(greeted().feed(&ASKED, true, &mut to), Ok(true));
        assert_eq!(&to[..], ASKED);
    }

    #[test]
    fn viewers_without_the_control_send_no_input() {
        let mut filter = greeted();
        let all = [&KEY_DOWN[..], &CLICK, &QEMU_KEY, &CUT, &RESIZE, &REQUEST, &FENCED].concat();
        let mut to = BytesMut::new();
        assert_eq!(filter.feed(&all, false, &mut to), Ok(false));
        assert_eq!(&to[..], [&REQUEST[..], &FENCED].concat());
    }

    #[test]
    fn viewers_with_the_control_send_everything_but_a_size() {
        let mut filter = greeted();
        let input = [&KEY_DOWN[..], &CLICK, &QEMU_KEY, &CUT].concat();
        let mut to = BytesMut::new();
        assert_eq!(filter.feed(&[&RESIZE[..], &input].concat(), true, &mut to), Ok(true));
        assert_eq!(&to[..], input);
        to.clear();
        filter.release(&mut to);
        let ups = [&[4, 0, 0, 0, 0, 0, 0, 0x61][..], &[4, 0, 0, 0, 0, 0, 0, 0x62], &[5, 0, 0, 10, 0, 20]].concat();
        assert_eq!(&to[..], ups, "nothing stays pressed");
        to.clear();
        filter.release(&mut to);
        assert!(to.is_empty());
    }

    #[test]
    fn a_viewer_holds_no_more_keys_than_a_keyboard_has() {
        let mut filter = greeted();
        let mut to = BytesMut::new();
        for key in 0..10_000_u32 {
            let down = match key % 2 {
                0 => [&[4, 1, 0, 0][..], &key.to_be_bytes()].concat(),
                _ => [&[255, 0, 0, 1][..], &key.to_be_bytes(), &[0, 0, 0, 48]].concat(),
            };
            assert_eq!(filter.feed(&down, true, &mut to), Ok(true));
        }
        assert_eq!(filter.keys.len(), MAX_KEYS);
        filter.release(&mut to);
        let mut pressed = std::collections::BTreeSet::new();
        while let Some(length) = length(&to).unwrap() {
            let message = to.split_to(length);
            let key = (&message[4..]).get_u32();
            if message[0] == QEMU || message[1] != 0 {
                pressed.insert(key)
            } else {
                pressed.remove(&key)
            };
        }
        assert_eq!(pressed.len(), 0, "nothing stays pressed");
    }

    #[test]
    fn encodings_keep_messages_as_they_are_known() {
        let mut filter = greeted();
        let mut list = vec![2, 0, 0, 3];
        for encoding in [7, EXTENDED_MOUSE_BUTTONS, XVP] {
            list.put_i32(encoding);
        }
        let mut to = BytesMut::new();
        filter.feed(&list, false, &mut to).unwrap();
        let mut want = vec![2, 0, 0, 2];
        want.put_i32(7);
        want.put_i32(EXTENDED_CLIPBOARD);
        assert_eq!(&to[..], want);
    }

    #[test]
    fn invalid_rfb_is_an_error() {
        let mut to = BytesMut::new();
        assert!(Filter::new().feed(b"GET / HTTP/1.1\r\n", true, &mut to).is_err());
        assert!(Filter::new().feed(b"RFB 003.008\n\x02", true, &mut to).is_err());
        for version in [&b"RFB 003.003\n"[..], b"RFB 003.007\n", b"RFB 003.009\n", b"RFB 003.00\n\n"] {
            assert!(Filter::new().feed(version, true, &mut to).is_err(), "{version:?}");
        }
        for wrong in [&[1u8][..], &[250], &[255, 1], &[6, 0, 0, 0, 0x7F, 0, 0, 0], &[2, 0, 0xFF, 0xFF]] {
            assert!(greeted().feed(wrong, true, &mut to).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(cuts in proptest::collection::vec(1usize..9, 0..40)) {
            let all = [HELLO, &KEY_DOWN, &CLICK, &CUT, &REQUEST, &QEMU_KEY, &RESIZE, &FENCED].concat();
            let mut whole = BytesMut::new();
            Filter::new().feed(&all, true, &mut whole).unwrap();
            let (mut filter, mut pieces, mut rest) = (Filter::new(), BytesMut::new(), &all[..]);
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                filter.feed(piece, true, &mut pieces).unwrap();
                rest = after;
            }
            filter.feed(rest, true, &mut pieces).unwrap();
            prop_assert_eq!(whole, pieces);
        }
    }
}
