//! Resumes a file whose writer was killed, by parsing its elements.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom};

use super::{CLUSTER, CUES, Cluster, Cues, EBML, INFO, Matroska, SEGMENT, SIMPLE_BLOCK, TIMESTAMP, TRACKS};

/// The longest integer that fits, in bytes.
const NUMBER: usize = 8;
/// The length of a cluster's id and size, as [`Matroska::picture`] writes them.
const HEAD: u64 = 12;

impl Matroska {
    /// Resumes a file that [`Matroska::begin`] began; it must be open for reading and writing. Returns the writer in its state
    /// after the last whole picture, ready for `finish`, and that picture's time.
    pub(in crate::video) fn resume(file: File) -> io::Result<(Self, u64)> {
        let end = file.metadata()?.len();
        let mut walk = ElementReader { file: BufReader::new(file), at: 0, end };
        match walk.next()? {
            Some((EBML, length)) => walk.skip(length)?,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        if !matches!(walk.next()?, Some((SEGMENT, _))) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let segment = walk.at;
        let (mut info, mut tracks, mut duration) = (0, 0, 0);
        let (mut whole, mut last_ms) = (0, 0);
        let (mut opened, mut cues) = (None, Cues::default());
        let mut cluster: Option<Cluster> = None;
        loop {
            let start = walk.at;
            let Some((name, length)) = walk.next()? else { break };
            match name {
                // Its length may be unknown, so its content is parsed, too.
                CLUSTER => {
                    // The size that `finish` writes takes eight bytes.
                    if walk.at - start != HEAD {
                        break;
                    }
                    opened = Some((start - segment, walk.at - 8));
                    continue;
                }
                // `finish` rewrites everything after the pictures.
                CUES => break,
                TIMESTAMP => {
                    let Some(time_ms) = walk.number(length)? else { break };
                    // Nobody has looked at its first picture: the next one that depends on no other would begin a cluster.
                    cluster = opened.map(|(_, size_at)| Cluster { size_at, time_ms, key: false });
                    continue;
                }
                _ => {}
            }
            let inside = walk.at;
            let since = if name == SIMPLE_BLOCK { walk.number(4)?.unwrap_or_default() >> 8 & 0x7FFF } else { 0 };
            if !walk.skip((inside + length).saturating_sub(walk.at))? {
                break;
            }
            match (name, &cluster) {
                // In front of all clusters: what comes after the last whole one is cut off.
                (INFO, None) if opened.is_none() => (info, duration) = (start - segment, walk.at.saturating_sub(8)),
                (TRACKS, None) if opened.is_none() => tracks = start - segment,
                (SIMPLE_BLOCK, Some(cluster)) => {
                    if let Some((position, _)) = opened.take() {
                        cues.add(cluster.time_ms, position);
                    }
                    last_ms = cluster.time_ms.saturating_add(since);
                }
                _ => {}
            }
            // A cluster counts once it has a picture.
            if opened.is_none() {
                whole = walk.at;
            }
        }
        if info == 0 || tracks == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut file = walk.file.into_inner();
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        let cluster = cluster.filter(|cluster| cluster.size_at < whole);
        let file = BufWriter::new(file);
        Ok((Self { file, at: whole, segment, info, tracks, duration, cluster, cues }, last_ms))
    }
}

/// Parses a file's elements in order.
struct ElementReader {
    file: BufReader<File>,
    at: u64,
    end: u64,
}

impl ElementReader {
    /// The next element's id and length. `None` at the end of the file.
    fn next(&mut self) -> io::Result<Option<(u32, u64)>> {
        let Some(name) = self.variable(true)? else { return Ok(None) };
        let Some(length) = self.variable(false)? else { return Ok(None) };
        Ok(u32::try_from(name).ok().map(|name| (name, length)))
    }

    /// A variable-length integer, whose first bits give its length; ids keep these bits.
    fn variable(&mut self, keep: bool) -> io::Result<Option<u64>> {
        let mut bytes = [0; NUMBER];
        if !self.take(&mut bytes[..1])? {
            return Ok(None);
        }
        let more = bytes[0].leading_zeros() as usize;
        if more >= NUMBER || !self.take(&mut bytes[1..=more])? {
            return Ok(None);
        }
        if !keep {
            bytes[0] &= 0x7F >> more;
        }
        Ok(Some(read(&bytes[..=more])))
    }

    /// An integer of a given length.
    fn number(&mut self, length: u64) -> io::Result<Option<u64>> {
        let mut bytes = [0; NUMBER];
        let Some(bytes) = usize::try_from(length).ok().and_then(|length| bytes.get_mut(..length)) else {
            return Ok(None);
        };
        Ok(self.take(bytes)?.then(|| read(bytes)))
    }

    /// Fills `to`. Returns false when too little is left.
    fn take(&mut self, to: &mut [u8]) -> io::Result<bool> {
        let length = to.len() as u64;
        if self.end - self.at < length {
            return Ok(false);
        }
        self.file.read_exact(to)?;
        self.at += length;
        Ok(true)
    }

    /// Skips bytes. Returns false when fewer are left.
    fn skip(&mut self, length: u64) -> io::Result<bool> {
        if self.end - self.at < length {
            return Ok(false);
        }
        self.file.seek_relative(length.try_into().map_err(io::Error::other)?)?;
        self.at += length;
        Ok(true)
    }
}

fn read(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Codec;
    use super::*;

    fn pictures(path: &Path) -> Matroska {
        let mut video = Matroska::begin(File::create(path).unwrap(), Codec::Vp8, 1280, 800).unwrap();
        for (time, key) in [(0, true), (100, false), (31_000, false), (31_500, true), (31_900, false)] {
            video.picture(time, key, &[9; 300]).unwrap();
        }
        video
    }

    fn resume(path: &Path) -> io::Result<(Matroska, u64)> {
        Matroska::resume(File::options().read(true).write(true).open(path).unwrap())
    }

    #[test]
    fn a_resumed_file_equals_an_uninterrupted_one() {
        let dir = tempfile::tempdir().unwrap();
        let (cut, whole) = (dir.path().join("cut.webm"), dir.path().join("whole.webm"));
        pictures(&whole).finish(31_900).unwrap();
        // As a killed writer leaves it, and in the middle of one more picture.
        drop(pictures(&cut));
        let picture = std::fs::metadata(&cut).unwrap().len();
        let mut video = resume(&cut).unwrap().0;
        video.picture(31_950, false, &[7; 300]).unwrap();
        drop(video);
        File::options().write(true).open(&cut).unwrap().set_len(picture + 200).unwrap();
        let (video, last) = resume(&cut).unwrap();
        assert_eq!(last, 31_900);
        video.finish(last).unwrap();
        assert_eq!(std::fs::read(&cut).unwrap(), std::fs::read(&whole).unwrap());
        // Once more changes nothing.
        let (video, last) = resume(&whole).unwrap();
        video.finish(last).unwrap();
        assert_eq!(std::fs::read(&cut).unwrap(), std::fs::read(&whole).unwrap());
    }

    #[test]
    fn a_cluster_of_another_writer_is_not_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.webm");
        drop(pictures(&path));
        let whole = std::fs::read(&path).unwrap();
        let short = [&whole[..], &[0x1F, 0x43, 0xB6, 0x75, 0x8A, 0xE7, 0x81, 5]].concat();
        std::fs::write(&path, short).unwrap();
        let (video, last) = resume(&path).unwrap();
        assert_eq!((video.size(), last), (whole.len() as u64, 31_900));
        video.finish(last).unwrap();
    }

    #[test]
    fn a_huge_time_does_not_overflow() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.webm");
        drop(Matroska::begin(File::create(&path).unwrap(), Codec::Vp8, 1280, 800).unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend([0x1F, 0x43, 0xB6, 0x75, 1, 255, 255, 255, 255, 255, 255, 255]);
        bytes.extend([0xE7, 0x88, 255, 255, 255, 255, 255, 255, 255, 255, 0xA3, 0x85, 0x81, 0, 1, 0x80, 9]);
        std::fs::write(&path, bytes).unwrap();
        let (video, last) = resume(&path).unwrap();
        assert_eq!(last, u64::MAX);
        video.finish(last).unwrap();
    }

    #[test]
    fn a_file_whose_head_comes_late_is_rejected_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.webm");
        drop(Matroska::begin(File::create(&path).unwrap(), Codec::Vp8, 1280, 800).unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        // A cluster without a picture, in front of all other parts.
        let room = bytes.windows(4).position(|found| found == [0x18, 0x53, 0x80, 0x67]).unwrap() + 12;
        bytes.splice(room..room, [0x1F, 0x43, 0xB6, 0x75, 1, 0, 0, 0, 0, 0, 0, 0]);
        std::fs::write(&path, &bytes).unwrap();
        assert!(resume(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn a_file_cut_anywhere_is_resumed_or_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.webm");
        drop(pictures(&path));
        let bytes = std::fs::read(&path).unwrap();
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            if let Ok((video, last)) = resume(&path) {
                assert!(video.size() <= length as u64);
                video.finish(last).unwrap();
                let again = resume(&path).unwrap();
                assert_eq!(again.1, last, "cut at {length}");
            }
        }
    }
}
