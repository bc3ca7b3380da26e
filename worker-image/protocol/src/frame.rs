//! Heads of a websocket's frames (RFC 6455).
//!
//! The relay finds the boundaries of frames by them, and `overlong` the messages that it shortens. A head may come in pieces, and what
//! extensions put into it is kept.

/// The opcode of the frame with which a text message begins.
pub const TEXT: u8 = 1;
/// The opcode of a Close frame, and the least of a control frame.
pub const CLOSE: u8 = 8;
/// The opcode of a Ping.
pub const PING: u8 = 9;
/// The opcode of a Pong.
pub const PONG: u8 = 10;
/// The longest head, in bytes: two, a length of eight, a mask of four.
pub const LONGEST_HEAD: usize = 14;

/// The bit of the first byte that says that the message ends with the frame.
const FINAL: u8 = 0x80;
/// The bits of the first byte that are the extensions'.
const RESERVED: u8 = 0x70;
/// The bit of the second byte that says that the payload is masked.
const MASKED: u8 = 0x80;
/// Instead of a length, says that two bytes with it follow, or eight.
const SHORT: u8 = 126;
const LONG: u8 = 127;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Whether the message ends with this frame.
    pub is_final: bool,
    /// The bits of extensions, where they are in the first byte: `0x40`, `0x20` and `0x10`.
    pub reserved: u8,
    /// What kind of frame it is, from 0 to 15.
    pub opcode: u8,
    /// The length of the payload, in bytes.
    pub payload: u64,
    /// The payload's mask, where it is masked.
    pub mask: Option<[u8; 4]>,
}

/// A length that no frame may have: its highest bit is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame's length has its highest bit set")]
pub struct LengthError;

impl Head {
    /// The head of a control frame, or of a message in one frame, with a payload of so many bytes and no mask.
    #[must_use]
    pub const fn whole(opcode: u8, payload: u64) -> Self {
        Self { is_final: true, reserved: 0, opcode, payload, mask: None }
    }

    /// Reads the head at the start of `bytes`, and returns with it how many bytes it takes; none when more bytes are needed. A length
    /// may be written in more bytes than it needs.
    /// Errors: `LengthError`, also before the mask has come.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, LengthError> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let (payload, rest) = match second & !MASKED {
            SHORT => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            LONG => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            length => (u64::from(length), rest),
        };
        if payload >> 63 != 0 {
            return Err(LengthError);
        }
        let (mask, rest) = match rest.split_first_chunk() {
            _ if second & MASKED == 0 => (None, rest),
            Some((mask, rest)) => (Some(*mask), rest),
            None => return Ok(None),
        };
        let (is_final, reserved, opcode) = (first & FINAL != 0, first & RESERVED, first & !(FINAL | RESERVED));
        Ok(Some((Self { is_final, reserved, opcode, payload, mask }, bytes.len() - rest.len())))
    }

    /// Appends the head to `to`, with the length in as few bytes as it needs.
    pub fn write(&self, to: &mut Vec<u8>) {
        let ending = if self.is_final { FINAL } else { 0 };
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        to.push(ending | self.reserved | self.opcode);
        match (u8::try_from(self.payload), u16::try_from(self.payload)) {
            (Ok(length), _) if length < SHORT => to.push(masked | length),
            (_, Ok(length)) => {
                to.push(masked | SHORT);
                to.extend(length.to_be_bytes());
            }
            _ => {
                to.push(masked | LONG);
                to.extend(self.payload.to_be_bytes());
            }
        }
        to.extend(self.mask.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(head: Head) -> Vec<u8> {
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        bytes
    }

    /// The examples of the standard, and the bits of an extension.
    #[test]
    fn heads_are_as_the_standard_has_them() {
        let mask = Some([0x37, 0xfa, 0x21, 0x3d]);
        let examples: [(&[u8], Head); 9] = [
            (&[0x81, 0x05], Head::whole(TEXT, 5)),
            (&[0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d], Head { mask, ..Head::whole(TEXT, 5) }),
            (&[0x01, 0x03], Head { is_final: false, ..Head::whole(TEXT, 3) }),
            (&[0x80, 0x02], Head::whole(0, 2)),
            (&[0x89, 0x05], Head::whole(PING, 5)),
            (&[0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d], Head { mask, ..Head::whole(PONG, 5) }),
            (&[0x82, 0x7e, 0x01, 0x00], Head::whole(2, 256)),
            (&[0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0], Head::whole(2, 65536)),
            (&[0xc1, 0x00], Head { reserved: 0x40, ..Head::whole(TEXT, 0) }),
        ];
        for (bytes, head) in examples {
            assert_eq!(Head::read(bytes), Ok(Some((head, bytes.len()))), "{bytes:x?}");
            assert_eq!(written(head), bytes);
        }
    }

    #[test]
    fn a_length_may_take_more_bytes_than_it_needs_but_is_not_written_so() {
        for bytes in [&[0x81, 126, 0, 5][..], &[0x81, 127, 0, 0, 0, 0, 0, 0, 0, 5]] {
            assert_eq!(Head::read(bytes), Ok(Some((Head::whole(TEXT, 5), bytes.len()))));
        }
        for (payload, length) in [(125, 2), (126, 4), (0xffff, 4), (0x10000, 10)] {
            assert_eq!(written(Head::whole(TEXT, payload)).len(), length, "{payload}");
        }
    }

    #[test]
    fn a_length_with_its_highest_bit_set_is_refused_before_the_mask_has_come() {
        let bytes = [0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Head::read(&bytes), Err(LengthError));
        assert_eq!(Head::read(&bytes[..9]), Ok(None));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (is_final, reserved, opcode) in (any::<bool>(), 0..8_u8, 0..16_u8),
            (payload, shift) in (0..1_u64 << 63, 0..63_u32),
            mask in prop::option::of(any::<[u8; 4]>()),
            behind in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let head = Head { is_final, reserved: reserved << 4, opcode, payload: payload >> shift, mask };
            let bytes = written(head);
            prop_assert!(bytes.len() <= LONGEST_HEAD);
            for end in 0..bytes.len() {
                prop_assert_eq!(Head::read(&bytes[..end]), Ok(None));
            }
            prop_assert_eq!(Head::read(&[&bytes[..], &behind].concat()), Ok(Some((head, bytes.len()))));
        }
    }
}
