//! Encryption of what is too large to be in memory at once: pieces, each encrypted by itself.
//!
//! The construction is STREAM (Hoang, Reyhanitabar, Rogaway, Vizár), as age has it: a nonce is a random prefix, the number of the
//! piece, and whether it is the last. So no piece can be left out, moved, or cut off at the end.

use std::io::{self, Read, Write};

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

use super::{Cipher, DecryptError};
use crate::ids::random_bytes;

/// Bytes of a piece before it is encrypted.
const PIECE: usize = 64 << 10;
/// Bytes of the random part of a nonce.
const PREFIX: usize = 7;
/// Bytes that encryption adds to a piece.
const TAG: usize = 16;

struct Nonces {
    prefix: [u8; PREFIX],
    next: u32,
}

impl Nonces {
    fn next(&mut self, is_last: bool) -> io::Result<Nonce> {
        let mut nonce = [0; NONCE_LEN];
        nonce[..PREFIX].copy_from_slice(&self.prefix);
        nonce[PREFIX..NONCE_LEN - 1].copy_from_slice(&self.next.to_be_bytes());
        nonce[NONCE_LEN - 1] = u8::from(is_last);
        self.next = self.next.checked_add(1).ok_or_else(|| io::Error::other("too much for one nonce"))?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// Encrypts what is written to it. Nothing can be read of it before [`SealingWriter::finish`].
pub struct SealingWriter<W> {
    key: LessSafeKey,
    nonces: Nonces,
    piece: Vec<u8>,
    to: W,
}

impl Cipher {
    /// Encrypts to a writer.
    /// Errors: those of the writer.
    pub fn seal_to<W: Write>(&self, mut to: W) -> io::Result<SealingWriter<W>> {
        let prefix = random_bytes::<PREFIX>();
        to.write_all(&prefix)?;
        let nonces = Nonces { prefix, next: 0 };
        Ok(SealingWriter { key: self.0.clone(), nonces, piece: Vec::with_capacity(PIECE + TAG), to })
    }

    /// Decrypts from a reader what [`Cipher::seal_to`] wrote.
    /// Errors: those of the reader.
    pub fn open_from<R: Read>(&self, mut from: R) -> io::Result<OpeningReader<R>> {
        let mut prefix = [0; PREFIX];
        from.read_exact(&mut prefix)?;
        let nonces = Nonces { prefix, next: 0 };
        let mut reader = OpeningReader {
            key: self.0.clone(),
            nonces,
            sealed: Vec::new(),
            plain: Vec::new(),
            at: 0,
            ended: false,
            from,
        };
        reader.read_sealed()?;
        Ok(reader)
    }
}

impl<W: Write> SealingWriter<W> {
    fn write_piece(&mut self, is_last: bool) -> io::Result<()> {
        let nonce = self.nonces.next(is_last)?;
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut self.piece);
        sealed.map_err(|_| io::Error::other("a piece was not encrypted"))?;
        self.to.write_all(&self.piece)?;
        self.piece.clear();
        Ok(())
    }

    /// Writes the end, and gives the writer back.
    /// Errors: those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_piece(true)?;
        self.to.flush()?;
        Ok(self.to)
    }
}

impl<W: Write> Write for SealingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE {
            self.write_piece(false)?;
        }
        let count = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decrypts what is read from it. What has been changed or cut off is an error, and nothing of such a piece is read.
pub struct OpeningReader<R> {
    key: LessSafeKey,
    nonces: Nonces,
    /// The next piece, as it was read: only what comes after it says whether it is the last.
    sealed: Vec<u8>,
    plain: Vec<u8>,
    at: usize,
    ended: bool,
    from: R,
}

impl<R: Read> OpeningReader<R> {
    fn read_sealed(&mut self) -> io::Result<()> {
        self.sealed.clear();
        (&mut self.from).take((PIECE + TAG) as u64).read_to_end(&mut self.sealed).map(drop)
    }

    fn next_piece(&mut self) -> io::Result<()> {
        std::mem::swap(&mut self.plain, &mut self.sealed);
        self.read_sealed()?;
        self.ended = self.sealed.is_empty();
        let nonce = self.nonces.next(self.ended)?;
        let damaged = |_| io::Error::new(io::ErrorKind::InvalidData, DecryptError);
        let length = self.key.open_in_place(nonce, Aad::empty(), &mut self.plain).map_err(damaged)?.len();
        self.plain.truncate(length);
        self.at = 0;
        Ok(())
    }
}

impl<R: Read> Read for OpeningReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.plain.len() && !self.ended {
            self.next_piece()?;
        }
        let count = buffer.len().min(self.plain.len() - self.at);
        buffer[..count].copy_from_slice(&self.plain[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(cipher: &Cipher, plain: &[u8]) -> Vec<u8> {
        let mut writer = cipher.seal_to(Vec::new()).unwrap();
        writer.write_all(plain).unwrap();
        writer.finish().unwrap()
    }

    fn opened(cipher: &Cipher, sealed: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        cipher.open_from(sealed)?.read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn every_length_comes_back() {
        let cipher = Cipher::new(&[1; 32]);
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7] {
            let plain = vec![7; length];
            assert_eq!(opened(&cipher, &sealed(&cipher, &plain)).unwrap(), plain, "{length}");
        }
    }

    #[test]
    fn nothing_that_was_changed_is_read() {
        let cipher = Cipher::new(&[1; 32]);
        let whole = sealed(&cipher, &vec![7; 2 * PIECE]);
        assert!(opened(&Cipher::new(&[2; 32]), &whole).is_err());
        let piece = PIECE + TAG;
        let mut swapped = whole.clone();
        swapped[PREFIX..PREFIX + piece].copy_from_slice(&whole[PREFIX + piece..PREFIX + 2 * piece]);
        assert!(opened(&cipher, &swapped).is_err(), "pieces in another order");
        for end in [0, 3, PREFIX, PREFIX + 5, PREFIX + piece, whole.len() - 1] {
            assert!(opened(&cipher, &whole[..end]).is_err(), "cut at {end}");
        }
        for at in [0, PREFIX, PREFIX + piece, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(opened(&cipher, &changed).is_err(), "changed at {at}");
        }
        assert!(opened(&cipher, &[whole.as_slice(), b"x"].concat()).is_err());
    }
}
