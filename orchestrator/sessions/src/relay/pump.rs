//! One direction of a relay: reads a piece, parses its frame headers, and writes it before it reads on.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::frames::Frames;
use crate::session::Gate;

/// The buffer of a quiet socket, small because there may be ten thousand of them.
const MIN_BUFFER: usize = 4 << 10;
/// The buffer of a socket under load.
const MAX_BUFFER: usize = 256 << 10;
/// A buffer shrinks after this many reads that filled less than a quarter of it.
const SHRINK_AFTER: u32 = 64;

/// Why a pump stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PumpEnd {
    /// The reading side ended; `clean` when a Close frame came last.
    End { clean: bool },
    /// The bytes break the protocol or a limit; the offending frame was not forwarded.
    FrameError { code: u16, reason: &'static str },
    /// The writing side takes no more bytes.
    Stalled,
    /// The writing side is gone.
    PeerGone,
}

/// One direction. Its methods may be cancelled at any await and called again: nothing is lost or written twice.
pub(super) struct Pump<R, W> {
    pub(super) reader: R,
    pub(super) writer: W,
    frames: Frames,
    buffer: Vec<u8>,
    /// `..written` is written, `written..forward` may be written, and `forward..filled` is the start of a header that is not
    /// complete yet.
    written: usize,
    forward: usize,
    filled: usize,
    last_read: usize,
    small_reads: u32,
    violation: Option<(u16, &'static str)>,
    needs_flush: bool,
}

impl<R, W> Pump<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    /// `early` has been read from `reader` already.
    pub(super) fn new(reader: R, writer: W, frames: Frames, early: Bytes) -> Self {
        let mut pump = Self {
            reader,
            writer,
            frames,
            buffer: vec![0; MIN_BUFFER.max(early.len() * 2)],
            written: 0,
            forward: 0,
            filled: early.len(),
            last_read: 0,
            small_reads: 0,
            violation: None,
            needs_flush: false,
        };
        pump.buffer[..early.len()].copy_from_slice(&early);
        pump.look();
        pump
    }

    /// Moves bytes until there is a reason to stop. `stall` bounds one write; `moved` hears of every piece; a `gate`
    /// holds what was read until it opens.
    pub(super) async fn run(&mut self, stall: Duration, gate: Option<&Gate>, moved: impl Fn(usize)) -> PumpEnd {
        loop {
            if let Some(gate) = gate {
                gate.open().await;
            }
            let piece = self.forward - self.written;
            match timeout(stall, self.flush()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return PumpEnd::PeerGone,
                Err(_) => return PumpEnd::Stalled,
            }
            if piece > 0 {
                moved(piece);
            }
            if let Some((code, reason)) = self.violation {
                return PumpEnd::FrameError { code, reason };
            }
            self.fit();
            match self.reader.read(&mut self.buffer[self.filled..]).await {
                Ok(0) | Err(_) => return PumpEnd::End { clean: self.frames.closed() },
                Ok(read) => {
                    self.filled += read;
                    self.last_read = read;
                }
            }
            self.look();
        }
    }

    /// Completes the frame that is half-way, so that one of our own can follow it. False when it will not end.
    pub(super) async fn finish_frame(&mut self, within: Duration) -> bool {
        let finish = async {
            loop {
                if self.flush().await.is_err() {
                    return false;
                }
                if self.frames.at_boundary() {
                    return true;
                }
                self.fit();
                match self.reader.read(&mut self.buffer[self.filled..]).await {
                    Ok(0) | Err(_) => return false,
                    Ok(read) => self.filled += read,
                }
                self.look();
            }
        };
        timeout(within, finish).await.unwrap_or(false)
    }

    /// Whether what was written so far ends with a whole frame.
    pub(super) fn between_frames(&self) -> bool {
        self.written == self.forward && self.frames.at_boundary()
    }

    fn look(&mut self) {
        let fed = self.frames.feed(&self.buffer[self.forward..self.filled]);
        self.forward += fed.forward;
        self.violation = fed.violation.map(|violation| (violation.code, violation.reason));
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        while self.written < self.forward {
            let count = self.writer.write(&self.buffer[self.written..self.forward]).await?;
            if count == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            self.written += count;
            self.needs_flush = true;
        }
        if self.needs_flush {
            self.writer.flush().await?;
            self.needs_flush = false;
        }
        // What is left is the start of a header.
        self.buffer.copy_within(self.forward..self.filled, 0);
        self.filled -= self.forward;
        self.written = 0;
        self.forward = 0;
        Ok(())
    }

    /// Fits the buffer to the traffic, by what the last read brought.
    fn fit(&mut self) {
        let size = self.buffer.len();
        if self.last_read * 4 < size {
            self.small_reads += 1;
        } else {
            self.small_reads = 0;
        }
        if self.last_read * 2 > size && size < MAX_BUFFER {
            self.buffer.resize(size * 2, 0);
        } else if self.small_reads >= SHRINK_AFTER && size > MIN_BUFFER {
            self.small_reads = 0;
            self.buffer.truncate((size / 2).max(MIN_BUFFER));
            self.buffer.shrink_to_fit();
        }
    }
}
