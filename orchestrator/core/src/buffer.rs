//! How large a buffer is into which one connection is read: there may be ten thousand connections, and few of them are busy.

/// A buffer shrinks after this many reads that filled less than a quarter of it.
const SHRINK_AFTER: u32 = 64;

/// The rule by which a buffer follows its traffic. It doubles after a read that filled more than half of it, and halves after many
/// that filled less than a quarter.
#[derive(Debug)]
pub struct BufferFit {
    least: usize,
    most: usize,
    small_reads: u32,
}

impl BufferFit {
    /// The rule for a buffer of `least` to `most` bytes.
    pub const fn between(least: usize, most: usize) -> Self {
        Self { least, most, small_reads: 0 }
    }

    /// Fits the buffer to the last read, which brought `read` bytes. It has room for `needed` bytes afterwards, even where these are
    /// more than the most; what its first `needed` bytes hold stays.
    pub fn follow(&mut self, buffer: &mut Vec<u8>, read: usize, needed: usize) {
        let size = buffer.len();
        if read.saturating_mul(4) < size {
            self.small_reads = self.small_reads.saturating_add(1);
        } else {
            self.small_reads = 0;
        }
        if needed > size {
            buffer.resize(needed.next_power_of_two(), 0);
        } else if read.saturating_mul(2) > size && size < self.most {
            buffer.resize(size * 2, 0);
        } else if self.small_reads >= SHRINK_AFTER && size > self.least && needed.saturating_mul(2) <= size {
            self.small_reads = 0;
            resize_down(buffer, (size / 2).max(self.least));
        }
    }

    /// Shrinks the buffer to the least, for a connection that is silent. What the buffer holds is lost.
    pub fn rest(&mut self, buffer: &mut Vec<u8>) {
        self.small_reads = 0;
        resize_down(buffer, self.least);
    }
}

fn resize_down(buffer: &mut Vec<u8>, size: usize) {
    buffer.truncate(size);
    buffer.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: usize = 4 << 10;
    const MOST: usize = 32 << 10;

    #[test]
    fn a_buffer_grows_with_its_traffic_and_shrinks_after_it() {
        let (mut fit, mut buffer) = (BufferFit::between(LEAST, MOST), vec![0; LEAST]);
        for expected in [8 << 10, 16 << 10, MOST, MOST] {
            let read = buffer.len();
            fit.follow(&mut buffer, read, 0);
            assert_eq!(buffer.len(), expected);
        }
        for expected in [16 << 10, 8 << 10, LEAST, LEAST] {
            let before = buffer.len();
            for _ in 1..SHRINK_AFTER {
                fit.follow(&mut buffer, 10, 0);
                assert_eq!(buffer.len(), before, "the next burst may come");
            }
            fit.follow(&mut buffer, 10, 0);
            assert_eq!((buffer.len(), buffer.capacity()), (expected, expected));
        }
    }

    #[test]
    fn what_is_needed_has_room() {
        let (mut fit, mut buffer) = (BufferFit::between(LEAST, MOST), vec![7; LEAST]);
        fit.follow(&mut buffer, 1, MOST + 1);
        assert_eq!(buffer.len(), 2 * MOST);
        for _ in 0..10 * SHRINK_AFTER {
            fit.follow(&mut buffer, 1, MOST / 2 + 1);
        }
        assert_eq!(buffer.len(), MOST, "half of it would not do");
        assert!(buffer.iter().take(LEAST).all(|byte| *byte == 7));
    }

    #[test]
    fn a_silent_connection_keeps_the_least() {
        let (mut fit, mut buffer) = (BufferFit::between(LEAST, MOST), vec![0; MOST]);
        fit.rest(&mut buffer);
        assert_eq!((buffer.len(), buffer.capacity()), (LEAST, LEAST));
        fit.rest(&mut buffer);
        assert_eq!(buffer.len(), LEAST);
    }
}
