//! A writer for Matroska and its subset WebM (RFC 9559) with one video track. The file is playable at any time; `finish`
//! adds the index that players need for seeking.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod resume;

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};

/// The longest cluster: its pictures have 16-bit times, in milliseconds.
const CLUSTER_MS: u64 = 30_000;
/// The shortest cluster from one picture that depends on no other to the next such picture, in milliseconds.
const SHORTEST_MS: u64 = 1000;
/// The most clusters that the index names. It is in memory, and a day has 86,400 of the shortest. Players read on from the last one.
const MAX_CUES: usize = 100_000;
/// An unknown size, in one byte.
const UNKNOWN: [u8; 8] = [0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
/// Space reserved for the list of the file's parts, which `finish` writes.
const SEEK_HEAD_ROOM: usize = 96;

const EBML: u32 = 0x1A45_DFA3;
const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114D_9B74;
const SEEK: u32 = 0x4DBB;
const SEEK_ID: u32 = 0x53AB;
const SEEK_POSITION: u32 = 0x53AC;
const VOID: u32 = 0xEC;
const INFO: u32 = 0x1549_A966;
const TIMESTAMP_SCALE: u32 = 0x2AD7B1;
const DURATION: u32 = 0x4489;
const MUXING_APP: u32 = 0x4D80;
const WRITING_APP: u32 = 0x5741;
const TRACKS: u32 = 0x1654_AE6B;
const CLUSTER: u32 = 0x1F43_B675;
const TIMESTAMP: u32 = 0xE7;
const SIMPLE_BLOCK: u32 = 0xA3;
const CUES: u32 = 0x1C53_BB6B;

/// The format of the pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// VP8, in WebM.
    Vp8,
    /// Single JPEG pictures, in Matroska.
    Jpeg,
}

impl Codec {
    const fn id(self) -> &'static str {
        match self {
            Self::Vp8 => "V_VP8",
            Self::Jpeg => "V_MJPEG",
        }
    }

    const fn doc_type(self) -> &'static str {
        match self {
            Self::Vp8 => "webm",
            Self::Jpeg => "matroska",
        }
    }

    /// The extension of its files.
    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Vp8 => "webm",
            Self::Jpeg => "mkv",
        }
    }
}

/// A file being written.
pub(super) struct Matroska {
    file: BufWriter<File>,
    at: u64,
    /// Where the segment's content begins. Positions in the file are relative to it.
    segment: u64,
    info: u64,
    tracks: u64,
    duration: u64,
    cluster: Option<Cluster>,
    cues: Cues,
}

struct Cluster {
    /// The position of its size.
    size_at: u64,
    time_ms: u64,
    /// Whether its first picture does not depend on earlier ones.
    key: bool,
}

impl Cluster {
    /// Whether a picture begins the next cluster. Players start at clusters, and show nothing before a picture that depends on no other.
    /// The agent may name any times.
    const fn ends_at(&self, time_ms: u64, key: bool) -> bool {
        let since = time_ms.saturating_sub(self.time_ms);
        let shortest = if self.key { SHORTEST_MS } else { 1 };
        key && since >= shortest || since >= CLUSTER_MS
    }
}

/// The index: the times of clusters, and their positions in the segment.
#[derive(Default)]
struct Cues(Vec<(u64, u64)>);

impl Cues {
    fn add(&mut self, time_ms: u64, position: u64) {
        if self.0.len() < MAX_CUES {
            self.0.push((time_ms, position));
        }
    }
}

impl Matroska {
    /// Writes the headers.
    pub(super) fn begin(file: File, codec: Codec, width: u32, height: u32) -> io::Result<Self> {
        let mut head = Vec::new();
        let ebml = [
            number(0x4286, 1),
            number(0x42F7, 1),
            number(0x42F2, 4),
            number(0x42F3, 8),
            text(0x4282, codec.doc_type()),
            number(0x4287, 4),
            number(0x4285, 2),
        ];
        head.extend(element(EBML, &ebml.concat()));
        head.extend(id(SEGMENT));
        head.extend(UNKNOWN);
        let segment = head.len() as u64;
        head.extend(element(VOID, &[0; SEEK_HEAD_ROOM]));
        let info = head.len() as u64 - segment;
        let scale = number(TIMESTAMP_SCALE, 1_000_000);
        let before = [scale, text(MUXING_APP, "Warmpool"), text(WRITING_APP, "Warmpool")].concat();
        let about = [before.clone(), element(DURATION, &0f64.to_be_bytes())].concat();
        // The eight bytes at the end of the element.
        let duration = segment + info + element(INFO, &about).len() as u64 - 8;
        head.extend(element(INFO, &about));
        let tracks = head.len() as u64 - segment;
        let video = [number(0xB0, width.into()), number(0xBA, height.into())].concat();
        let track = [
            number(0xD7, 1),
            number(0x73C5, 1),
            number(0x83, 1),
            number(0x9C, 0),
            text(0x86, codec.id()),
            element(0xE0, &video),
        ];
        head.extend(element(TRACKS, &element(0xAE, &track.concat())));
        let mut written = Self {
            file: BufWriter::new(file),
            at: 0,
            segment,
            info,
            tracks,
            duration,
            cluster: None,
            cues: Cues::default(),
        };
        written.put(&head)?;
        written.file.flush()?;
        Ok(written)
    }

    /// Bytes so far.
    pub(super) const fn size(&self) -> u64 {
        self.at
    }

    /// Adds a picture. Times must not decrease; `key` marks a picture that does not depend on earlier ones.
    pub(super) fn picture(&mut self, time_ms: u64, key: bool, data: &[u8]) -> io::Result<()> {
        if self.cluster.as_ref().is_none_or(|cluster| cluster.ends_at(time_ms, key)) {
            self.end_cluster()?;
            self.cues.add(time_ms, self.at - self.segment);
            self.put(&id(CLUSTER))?;
            self.cluster = Some(Cluster { size_at: self.at, time_ms, key });
            self.put(&UNKNOWN)?;
            self.put(&number(TIMESTAMP, time_ms))?;
        }
        let since = time_ms.saturating_sub(self.cluster.as_ref().map_or(0, |cluster| cluster.time_ms));
        let mut block = vec![0x81];
        block.extend(i16::try_from(since).unwrap_or(i16::MAX).to_be_bytes());
        block.push(if key { 0x80 } else { 0 });
        let mut head = id(SIMPLE_BLOCK);
        head.extend(size((block.len() + data.len()) as u64));
        head.extend(block);
        self.put(&head)?;
        self.put(data)?;
        // After this, the picture survives a crash.
        self.file.flush()
    }

    /// Writes what only the end reveals: the sizes, the duration and the index.
    pub(super) fn finish(mut self, duration_ms: u64) -> io::Result<()> {
        self.end_cluster()?;
        let cues_at = self.at - self.segment;
        let points: Vec<u8> = self.cues.0.iter().flat_map(|(time, position)| cue(*time, *position)).collect();
        self.put(&element(CUES, &points))?;
        let end = self.at;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a session")]
        self.patch(self.duration, &(duration_ms as f64).to_be_bytes())?;
        self.patch(self.segment - 8, &wide(end - self.segment))?;
        let parts = [(INFO, self.info), (TRACKS, self.tracks), (CUES, cues_at)];
        let seeks: Vec<u8> = parts.iter().flat_map(|(part, position)| seek(*part, *position)).collect();
        let mut list = element(SEEK_HEAD, &seeks);
        // A void element fills the rest of the reserved space.
        let room = element(VOID, &[0; SEEK_HEAD_ROOM]).len() - list.len();
        list.extend(element(VOID, &vec![0; room - 2]));
        self.patch(self.segment, &list)?;
        self.file.get_ref().sync_data()
    }

    fn end_cluster(&mut self) -> io::Result<()> {
        let Some(cluster) = self.cluster.take() else { return Ok(()) };
        let length = self.at - cluster.size_at - 8;
        self.patch(cluster.size_at, &wide(length))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        self.file.seek(SeekFrom::Start(self.at)).map(drop)
    }
}

fn seek(part: u32, position: u64) -> Vec<u8> {
    let inside = [element(SEEK_ID, &id(part)), number(SEEK_POSITION, position)].concat();
    element(SEEK, &inside)
}

fn cue(time_ms: u64, position: u64) -> Vec<u8> {
    let place = [number(0xF7, 1), number(0xF1, position)].concat();
    element(0xBB, &[number(0xB3, time_ms), element(0xB7, &place)].concat())
}

/// An element's id, without leading zeros.
fn id(id: u32) -> Vec<u8> {
    id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect()
}

fn element(name: u32, content: &[u8]) -> Vec<u8> {
    [id(name), size(content.len() as u64), content.to_vec()].concat()
}

fn number(name: u32, value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let from = bytes.iter().position(|byte| *byte != 0).unwrap_or(7);
    element(name, &bytes[from..])
}

fn text(name: u32, value: &str) -> Vec<u8> {
    element(name, value.as_bytes())
}

/// Encodes a size in one byte where it fits, otherwise in eight.
fn size(length: u64) -> Vec<u8> {
    match u8::try_from(length) {
        Ok(short) if short < 0x7F => vec![0x80 | short],
        _ => wide(length).to_vec(),
    }
}

/// Encodes a size in eight bytes, which can overwrite an unknown size.
fn wide(length: u64) -> [u8; 8] {
    (length | 0x0100_0000_0000_0000).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the elements on one level and gives name, content.
    fn walk(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
        let mut found = Vec::new();
        while let Some(&first) = bytes.first() {
            let length = first.leading_zeros() as usize + 1;
            let name = bytes[..length].iter().fold(0, |name, byte| name << 8 | u32::from(*byte));
            bytes = &bytes[length..];
            let width = bytes[0].leading_zeros() as usize + 1;
            let mut content = u64::from(bytes[0]) & ((1 << (8 - width)) - 1);
            for byte in &bytes[1..width] {
                content = content << 8 | u64::from(*byte);
            }
            let (inside, rest) = bytes[width..].split_at(usize::try_from(content).unwrap());
            found.push((name, inside));
            bytes = rest;
        }
        found
    }

    #[test]
    fn the_index_names_the_position_of_every_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.webm");
        let mut video = Matroska::begin(File::create(&path).unwrap(), Codec::Vp8, 1280, 800).unwrap();
        for (time, key) in [(0, true), (100, false), (31_000, false), (31_500, true)] {
            video.picture(time, key, &[9; 300]).unwrap();
        }
        let size = video.size();
        video.finish(32_000).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() as u64 > size);
        let top = walk(&bytes);
        assert_eq!(top.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [EBML, SEGMENT]);
        let segment = top[1].1;
        let parts = walk(segment);
        let names: Vec<u32> = parts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [SEEK_HEAD, VOID, INFO, TRACKS, CLUSTER, CLUSTER, CLUSTER, CUES]);
        let info = walk(parts[2].1);
        assert!(info.contains(&(DURATION, &32_000f64.to_be_bytes()[..])));
        for (_, entry) in walk(parts[0].1) {
            let entry = walk(entry);
            let at = entry[1].1.iter().fold(0usize, |at, byte| at << 8 | usize::from(*byte));
            assert!(segment[at..].starts_with(entry[0].1));
        }
        for (_, point) in walk(parts[7].1) {
            let place = walk(walk(point)[1].1);
            let at = place[1].1.iter().fold(0usize, |at, byte| at << 8 | usize::from(*byte));
            assert!(segment[at..].starts_with(&id(CLUSTER)));
        }
        let first = walk(parts[4].1);
        assert_eq!(first.len(), 3, "a time and two pictures");
        assert_eq!(first[2].1[..4], [0x81, 0, 100, 0]);
    }

    /// How many clusters a file of these pictures has, and the times that its index names.
    fn clusters_and_cues(pictures: impl IntoIterator<Item = (u64, bool)>) -> (usize, Vec<u64>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.mkv");
        let mut video = Matroska::begin(File::create(&path).unwrap(), Codec::Jpeg, 1280, 800).unwrap();
        for (time, key) in pictures {
            video.picture(time, key, &[9; 30]).unwrap();
        }
        video.finish(1).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let segment = walk(&bytes)[1].1;
        let parts = walk(segment);
        let clusters = parts.iter().filter(|(name, _)| *name == CLUSTER).count();
        let value = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let mut times = Vec::new();
        for (_, point) in walk(parts.last().unwrap().1) {
            let point = walk(point);
            let at = usize::try_from(value(walk(point[1].1)[1].1)).unwrap();
            assert!(segment[at..].starts_with(&id(CLUSTER)), "players seek there");
            times.push(value(point[0].1));
        }
        (clusters, times)
    }

    #[test]
    fn the_index_has_a_point_for_each_second_at_most() {
        let (clusters, times) = clusters_and_cues((0..250).map(|number| (number * 10, true)));
        assert_eq!((clusters, times), (3, vec![0, 1000, 2000]));
        // A cluster that begins with a picture which depends on others gives way at once to the next that does not.
        let (clusters, times) = clusters_and_cues([(0, true), (30_000, false), (30_010, true), (30_020, true)]);
        assert_eq!((clusters, times), (3, vec![0, 30_000, 30_010]));
    }

    #[test]
    fn an_agent_may_name_any_times() {
        let (clusters, times) = clusters_and_cues([(5, true), (u64::MAX, true), (u64::MAX, false), (3, true)]);
        assert_eq!((clusters, times), (2, vec![5, u64::MAX]));
    }

    #[test]
    fn the_index_has_a_bound() {
        let mut cues = Cues::default();
        (0..2 * MAX_CUES as u64).for_each(|time| cues.add(time, time));
        assert_eq!(cues.0.len(), MAX_CUES);
    }

    #[test]
    fn sizes_have_one_byte_or_eight() {
        assert_eq!(size(5), [0x85]);
        assert_eq!(size(127), [1, 0, 0, 0, 0, 0, 0, 127], "one byte of ones would mean unknown");
        assert_eq!(number(0xD7, 0), [0xD7, 0x81, 0]);
        assert_eq!(number(TIMESTAMP_SCALE, 1_000_000), [0x2A, 0xD7, 0xB1, 0x83, 0x0F, 0x42, 0x40]);
    }
}
