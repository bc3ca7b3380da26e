//! The display's pixels, kept up to date over RFB (RFC 6143): as a viewer that accepts only raw pixels.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;

const BYTES_PER_PIXEL: usize = 4;
/// The largest side of a display, in pixels.
const MAX_SIDE: u16 = 8192;
/// The longest text the server may send beside the picture.
const MAX_TEXT: u64 = 64 << 20;

/// 32 bits a pixel, blue first, then green and red.
const PIXEL_FORMAT: [u8; 20] = [0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0];
/// Raw pixels and nothing else.
const ENCODINGS: [u8; 8] = [2, 0, 0, 1, 0, 0, 0, 0];

/// A connection to the display, and its picture.
pub(super) struct Screen<'a> {
    socket: &'a UnixStream,
    width: u16,
    height: u16,
    pixels: Vec<u8>,
    begun: bool,
}

impl<'a> Screen<'a> {
    /// Introduces itself to the server.
    pub(super) fn open(mut socket: &'a UnixStream) -> io::Result<Self> {
        read::<12>(socket)?;
        socket.write_all(b"RFB 003.008\n")?;
        let [kinds] = read(socket)?;
        skip(socket, kinds.into())?;
        socket.write_all(&[1])?;
        if read::<4>(socket)? != [0; 4] {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        socket.write_all(&[1])?;
        let head: [u8; 24] = read(socket)?;
        let (width, height) = (u16_at(&head, 0), u16_at(&head, 2));
        if width.max(height) > MAX_SIDE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        skip(socket, u32::from_be_bytes([head[20], head[21], head[22], head[23]]).into())?;
        socket.write_all(&PIXEL_FORMAT)?;
        socket.write_all(&ENCODINGS)?;
        let pixels = vec![0; usize::from(width) * usize::from(height) * BYTES_PER_PIXEL];
        Ok(Self { socket, width, height, pixels, begun: false })
    }

    /// Width and height in pixels.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.width.into(), self.height.into())
    }

    /// Rows of pixels, four bytes each: blue, green, red and nothing.
    pub(super) fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Waits until something has changed. Returns the rows in which it has.
    pub(super) fn update(&mut self) -> io::Result<Range<usize>> {
        let [w, h] = [self.width.to_be_bytes(), self.height.to_be_bytes()];
        let request = [3, u8::from(self.begun), 0, 0, 0, 0, w[0], w[1], h[0], h[1]];
        self.begun = true;
        self.socket.write_all(&request)?;
        loop {
            match read::<1>(self.socket)? {
                [0] => return self.rectangles(),
                [1] => {
                    let head: [u8; 5] = read(self.socket)?;
                    skip(self.socket, u64::from(u16_at(&head, 3)) * 6)?;
                }
                [2] => {}
                [3] => {
                    let head: [u8; 7] = read(self.socket)?;
                    skip(self.socket, u32::from_be_bytes([head[3], head[4], head[5], head[6]]).into())?;
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    fn rectangles(&mut self) -> io::Result<Range<usize>> {
        let head: [u8; 3] = read(self.socket)?;
        let (mut first, mut end) = (usize::MAX, 0);
        for _ in 0..u16_at(&head, 1) {
            let head: [u8; 12] = read(self.socket)?;
            let [x, y, width, height] = [0, 2, 4, 6].map(|at| usize::from(u16_at(&head, at)));
            let fits = x + width <= self.width.into() && y + height <= self.height.into();
            if !fits || head[8..] != [0; 4] {
                return Err(io::ErrorKind::InvalidData.into());
            }
            for row in y..y + height {
                let from = (row * usize::from(self.width) + x) * BYTES_PER_PIXEL;
                self.socket.read_exact(&mut self.pixels[from..from + width * BYTES_PER_PIXEL])?;
            }
            first = first.min(y);
            end = end.max(y + height);
        }
        Ok(first.min(end)..end)
    }
}

fn read<const N: usize>(mut socket: &UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn skip(socket: &UnixStream, count: u64) -> io::Result<()> {
    if count > MAX_TEXT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    io::copy(&mut socket.take(count), &mut io::sink()).map(drop)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_put_together_from_what_changed() {
        let (ours, mut server) = UnixStream::pair().unwrap();
        server.write_all(b"RFB 003.008\n\x01\x01\0\0\0\0").unwrap();
        server.write_all(&[0, 2, 0, 2]).unwrap();
        server.write_all(&[0; 16]).unwrap();
        server.write_all(&[0, 0, 0, 1, b'x']).unwrap();
        // A bell, a text, then one rectangle: the lower right pixel.
        server.write_all(&[2, 3, 0, 0, 0, 0, 0, 0, 2, b'h', b'i']).unwrap();
        server.write_all(&[0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 10, 20, 30, 0]).unwrap();
        let mut screen = Screen::open(&ours).unwrap();
        assert_eq!(screen.size(), (2, 2));
        assert_eq!(screen.update().unwrap(), 1..2);
        assert_eq!(screen.pixels()[..12], [0; 12]);
        assert_eq!(screen.pixels()[12..], [10, 20, 30, 0]);
        // One that lies outside.
        server.write_all(&[0, 0, 0, 1, 0, 1, 0, 1, 0, 2, 0, 1, 0, 0, 0, 0]).unwrap();
        assert!(screen.update().is_err());
    }
}
