//! Single pictures of a worker's display: an RFB client (RFC 6143) that sends no input.

use std::io::Cursor;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Duration, timeout};

use super::upstream;
use crate::session::Session;
use warmpool_workers::worker::{AgentError, AgentStream};

/// The largest display, in pixels a side.
const MAX_SIDE: u16 = 8192;
/// Bytes of a pixel: five bits of red, six of green, five of blue.
const PIXEL: usize = 2;
/// Bytes to read at once.
const PIECE: usize = 64 << 10;
/// How long to wait for a change that has happened.
const ARRIVAL: Duration = Duration::from_millis(2);
/// JPEG quality.
const QUALITY: u8 = 60;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub(super) enum DisplayError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("the display hung up: {0}")]
    Io(#[from] std::io::Error),
    #[error("the display does not speak RFB as expected: {0}")]
    Protocol(&'static str),
    #[error("the picture cannot be encoded: {0}")]
    Encoding(#[from] ImageError),
    #[error("the picture was not made: {0}")]
    Join(#[from] tokio::task::JoinError),
}

/// A connection to a display.
pub(super) struct Display {
    stream: AgentStream,
    received: BytesMut,
    width: u16,
    height: u16,
    /// Whether an update request is pending.
    asked: bool,
}

impl Display {
    /// Connects as one more viewer, who sends no input.
    pub(super) async fn connect(session: &Session) -> Result<Self, DisplayError> {
        let (stream, early) = upstream::display(session).await?;
        let received = BytesMut::from(&early[..]);
        let mut display = Self { stream, received, width: 0, height: 0, asked: false };
        if !display.take(12).await?.starts_with(b"RFB 003.") {
            return Err(DisplayError::Protocol("it names no version"));
        }
        display.stream.write_all(b"RFB 003.008\n").await?;
        let count = display.take(1).await?[0];
        if !display.take(usize::from(count)).await?.contains(&1) {
            return Err(DisplayError::Protocol("it wants a password"));
        }
        display.stream.write_all(&[1]).await?;
        if display.take(4).await?.get_u32() != 0 {
            return Err(DisplayError::Protocol("it lets nobody in"));
        }
        // Shared with the other viewers.
        display.stream.write_all(&[1]).await?;
        let mut server = display.take(24).await?;
        (display.width, display.height) = (server.get_u16(), server.get_u16());
        if !(1..=MAX_SIDE).contains(&display.width) || !(1..=MAX_SIDE).contains(&display.height) {
            return Err(DisplayError::Protocol("its size is out of range"));
        }
        let name = (&server[16..]).get_u32();
        display.take(usize::try_from(name).unwrap_or(usize::MAX).min(4096)).await?;
        let mut setup = BytesMut::new();
        // SetPixelFormat: 16 bits, little-endian, true colour.
        setup.put_slice(&[0, 0, 0, 0, 16, 16, 0, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0]);
        // SetEncodings: raw alone.
        setup.put_slice(&[2, 0, 0, 1, 0, 0, 0, 0]);
        display.stream.write_all(&setup).await?;
        Ok(display)
    }

    /// The display as a JPEG of this width; none if nothing has changed since the last one.
    pub(super) async fn thumbnail(&mut self, width: u32) -> Result<Option<Bytes>, DisplayError> {
        if self.asked {
            if self.received.is_empty() {
                let arrived = timeout(ARRIVAL, self.fill()).await;
                match arrived {
                    Err(_) => return Ok(None),
                    Ok(filled) => filled?,
                }
            }
            // The change does not matter, because the request is for the whole display.
            self.update(None).await?;
            self.asked = false;
        }
        self.ask(false).await?;
        let mut pixels = vec![0; usize::from(self.width) * usize::from(self.height) * PIXEL];
        self.update(Some(&mut pixels)).await?;
        self.ask(true).await?;
        self.asked = true;
        let (from, to) = ((self.width.into(), self.height.into()), width);
        tokio::task::spawn_blocking(move || encoded(&pixels, from, to)).await?.map(Some)
    }

    async fn ask(&mut self, incremental: bool) -> Result<(), DisplayError> {
        let mut request = BytesMut::with_capacity(10);
        request.put_slice(&[3, u8::from(incremental), 0, 0, 0, 0]);
        request.put_u16(self.width);
        request.put_u16(self.height);
        Ok(self.stream.write_all(&request).await?)
    }

    /// Reads messages until the next update, and applies it to `pixels`.
    async fn update(&mut self, mut pixels: Option<&mut Vec<u8>>) -> Result<(), DisplayError> {
        loop {
            match self.take(1).await?[0] {
                0 => break,
                // Bell.
                2 => {}
                // The clipboard.
                3 => {
                    let length = (&self.take(7).await?[3..]).get_u32();
                    self.skip(u64::from(length), &mut |_| {}).await?;
                }
                _ => return Err(DisplayError::Protocol("it sends an unknown message")),
            }
        }
        let rectangles = (&self.take(3).await?[1..]).get_u16();
        for _ in 0..rectangles {
            let mut head = self.take(12).await?;
            let [x, y, width, height] = std::array::from_fn(|_| head.get_u16());
            let fits = u32::from(x) + u32::from(width) <= u32::from(self.width)
                && u32::from(y) + u32::from(height) <= u32::from(self.height);
            if head.get_i32() != 0 || !fits {
                return Err(DisplayError::Protocol("it sends a rectangle that was not asked for"));
            }
            let line = usize::from(width) * PIXEL;
            let (stride, first) = (usize::from(self.width) * PIXEL, usize::from(x) * PIXEL);
            let mut done = 0;
            let mut put = |piece: &[u8]| {
                let Some(pixels) = pixels.as_deref_mut() else { return };
                let mut piece = piece;
                while !piece.is_empty() {
                    let (row, column) = (done / line, done % line);
                    let count = piece.len().min(line - column);
                    let at = (usize::from(y) + row) * stride + first + column;
                    pixels[at..at + count].copy_from_slice(&piece[..count]);
                    (piece, done) = (&piece[count..], done + count);
                }
            };
            self.skip(line as u64 * u64::from(height), &mut put).await?;
        }
        Ok(())
    }

    /// Reads this many bytes and passes them to `put` as they arrive.
    async fn skip(&mut self, mut bytes: u64, put: &mut (dyn FnMut(&[u8]) + Send)) -> Result<(), DisplayError> {
        while bytes > 0 {
            if self.received.is_empty() {
                self.fill().await?;
            }
            let count = self.received.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            put(&self.received[..count]);
            self.received.advance(count);
            bytes -= count as u64;
        }
        Ok(())
    }

    async fn take(&mut self, count: usize) -> Result<Bytes, DisplayError> {
        while self.received.len() < count {
            self.fill().await?;
        }
        Ok(self.received.split_to(count).freeze())
    }

    async fn fill(&mut self) -> Result<(), DisplayError> {
        self.received.reserve(PIECE);
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
impl Display {
    /// A display of one pixel at the other end of this stream.
    pub(super) fn at(stream: AgentStream) -> Self {
        Self { stream, received: BytesMut::new(), width: 1, height: 1, asked: false }
    }
}

/// Scales pixels down to a width, by averaging, and encodes them.
fn encoded(pixels: &[u8], (width, height): (u32, u32), wanted: u32) -> Result<Bytes, DisplayError> {
    let new_width = wanted.clamp(1, width);
    let new_height = (height * new_width / width).max(1);
    let (columns, rows) = (width as usize, height as usize);
    let (new_columns, new_rows) = (new_width as usize, new_height as usize);
    let column_of: Vec<usize> = (0..columns).map(|x| x * new_columns / columns).collect();
    let mut rgb = Vec::with_capacity(new_columns * new_rows * 3);
    let mut sums = vec![[0_u32; 4]; new_columns];
    for row in 0..new_rows {
        sums.fill([0; 4]);
        let lines = row * rows / new_rows..((row + 1) * rows / new_rows).max(row * rows / new_rows + 1);
        for line in lines {
            let line = &pixels[line * columns * PIXEL..(line + 1) * columns * PIXEL];
            for (pixel, column) in line.chunks_exact(PIXEL).zip(&column_of) {
                let value = u32::from(u16::from_le_bytes([pixel[0], pixel[1]]));
                let sum = &mut sums[*column];
                sum[0] += value >> 11;
                sum[1] += (value >> 5) & 63;
                sum[2] += value & 31;
                sum[3] += 1;
            }
        }
        for [red, green, blue, count] in &sums {
            let mean = |sum: u32, most: u32| u8::try_from(sum * 255 / (most * (*count).max(1))).unwrap_or(u8::MAX);
            rgb.extend([mean(*red, 31), mean(*green, 63), mean(*blue, 31)]);
        }
    }
    let mut jpeg = Cursor::new(Vec::new());
    JpegEncoder::new_with_quality(&mut jpeg, QUALITY).encode(&rgb, new_width, new_height, ExtendedColorType::Rgb8)?;
    Ok(jpeg.into_inner().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_display_is_scaled_by_means() {
        // The left half red, the right half green.
        let (width, height) = (64_u32, 40_u32);
        let pixels: Vec<u8> = (0..width * height)
            .flat_map(|at| if at % width < width / 2 { 0xF800_u16.to_le_bytes() } else { 0x07E0_u16.to_le_bytes() })
            .collect();
        let jpeg = encoded(&pixels, (width, height), 16).unwrap();
        let picture = image::load_from_memory(&jpeg).unwrap().into_rgb8();
        assert_eq!(picture.dimensions(), (16, 10));
        let [red, green, _] = picture.get_pixel(2, 5).0;
        assert!(red > 200 && green < 60, "{red} {green}");
        let [red, green, _] = picture.get_pixel(13, 5).0;
        assert!(red < 60 && green > 200, "{red} {green}");
        let same = image::load_from_memory(&encoded(&pixels, (width, height), 500).unwrap()).unwrap();
        assert_eq!((same.width(), same.height()), (width, height), "nothing is enlarged");
    }
}
