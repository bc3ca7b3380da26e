//! Files as a zip that is made while it is read, so that large files take no memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use warmpool_core::error::Cause;
use warmpool_protocol::{File, FileSource};
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

use crate::Error;
use crate::session::{CommandGuard, Session};
use crate::webdriver::explain_no_answer;
use warmpool_workers::worker::{AgentError, Content};

/// Bytes that the zip writer has written and nobody has taken yet.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A zip on its way.
pub(crate) struct ZipEncoder {
    zip: ZipWriter<StreamWriter<SharedBuffer>>,
    written: SharedBuffer,
}

impl ZipEncoder {
    /// A zip without a file.
    pub(crate) fn new() -> Self {
        let written = SharedBuffer::default();
        Self { zip: ZipWriter::new_stream(written.clone()), written }
    }

    /// Begins the next file.
    pub(crate) fn begin(&mut self, name: &str) -> io::Result<()> {
        // Fast: the way from here to the client is rarely what is slow.
        let options = SimpleFileOptions::default().compression_level(Some(1));
        Ok(self.zip.start_file(name, options)?)
    }

    /// Adds a piece of the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.zip.write_all(bytes)
    }

    /// What is written and not taken yet, in whole multiples of `unit` bytes.
    pub(crate) fn take(&mut self, unit: usize) -> Vec<u8> {
        let mut bytes = self.written.0.lock();
        let whole = bytes.len() / unit * unit;
        bytes.drain(..whole).collect()
    }

    /// Ends the zip; returns the rest of it.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        self.zip.finish()?;
        Ok(std::mem::take(&mut *self.written.0.lock()))
    }
}

/// Those complete files of a session that are `wanted`, as one zip.
/// Errors: `Worker`.
pub async fn zipped_files(
    session: &Arc<Session>,
    wanted: fn(&File) -> bool,
) -> Result<impl Stream<Item = Result<Bytes, Cause>> + Send + use<>, Error> {
    let busy = session.busy();
    let files = match session.worker.agent.files().await {
        Ok(files) => files,
        Err(error) => return Err(explain_no_answer(session, error).await),
    };
    let files = entries(files, |file| file.complete && wanted(file));
    let archive =
        Archive { session: Arc::clone(session), files, file: None, encoder: Some(ZipEncoder::new()), _busy: busy };
    Ok(stream::try_unfold(archive, Archive::next))
}

/// A file of a session that is to be in an archive.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Its name there, which no other has.
    name: String,
    /// Its name in the session.
    file: String,
    /// It is an upload, and a download has its name.
    beside_download: bool,
}

/// What is in an archive of those files of a session that are wanted. An upload and a download may have one name, which an archive
/// cannot have twice.
fn entries(mut files: Vec<File>, wanted: impl Fn(&File) -> bool) -> VecDeque<Entry> {
    let downloads: HashSet<String> =
        files.iter().filter(|file| file.source == FileSource::Download).map(|file| file.name.clone()).collect();
    files.retain(wanted);
    files.sort_by_key(|file| file.source == FileSource::Upload);
    let mut taken: HashSet<String> = files.iter().map(|file| file.name.clone()).collect();
    // The next number of each name. No number is tried twice: a worker may list one name as often as it likes.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let entry = |File { name: file, source, .. }| {
        let number = numbers.entry(file.clone()).or_default();
        let name = loop {
            let name = if *number == 0 { file.clone() } else { numbered(&file, *number) };
            *number += 1;
            // It is the first of its name, or it has one that none has.
            if *number == 1 || !taken.contains(&name) {
                break name;
            }
        };
        taken.insert(name.clone());
        Entry { beside_download: source == FileSource::Upload && downloads.contains(&file), name, file }
    };
    files.into_iter().map(entry).collect()
}

/// A file name, as browsers change one that is taken.
fn numbered(name: &str, number: usize) -> String {
    match name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()) {
        Some((stem, ending)) => format!("{stem} ({number}).{ending}"),
        None => format!("{name} ({number})"),
    }
}

/// An archive on its way.
struct Archive {
    session: Arc<Session>,
    /// The files that are not begun yet.
    files: VecDeque<Entry>,
    file: Option<Content>,
    /// Gone once the zip is complete.
    encoder: Option<ZipEncoder>,
    _busy: CommandGuard,
}

impl Archive {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Cause> {
        let Some(mut encoder) = self.encoder.take() else { return Ok(None) };
        loop {
            let Some(file) = &mut self.file else {
                let Some(Entry { name, file, beside_download }) = self.files.pop_front() else {
                    return Ok(Some((encoder.finish()?.into(), self)));
                };
                let agent = &self.session.worker.agent;
                let content =
                    if beside_download { agent.read_upload(&file).await } else { agent.read_file(&file).await };
                self.file = if_given(content)?;
                if self.file.is_some() {
                    encoder.begin(&name)?;
                }
                continue;
            };
            match file.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        encoder.write(&data)?;
                    }
                    let bytes = encoder.take(1);
                    if !bytes.is_empty() {
                        self.encoder = Some(encoder);
                        return Ok(Some((bytes.into(), self)));
                    }
                }
                None => self.file = None,
            }
        }
    }
}

/// What the agent gives out of a file; none where it refuses: the file has gone since the list was made, or has a name that the
/// agent does not take. The others are wanted all the same.
fn if_given(content: Result<Content, AgentError>) -> Result<Option<Content>, AgentError> {
    match content {
        Err(AgentError::Refused { status, message }) => {
            tracing::debug!(%status, message, "a file is left out of an archive");
            Ok(None)
        }
        content => content.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use std::io::Read as _;
    use std::time::Duration;

    #[test]
    fn a_file_that_the_agent_refuses_is_left_out_and_no_other() {
        for status in [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST, StatusCode::INTERNAL_SERVER_ERROR] {
            let refused = AgentError::Refused { status, message: "no".to_owned() };
            assert!(matches!(if_given(Err(refused)), Ok(None)), "{status}");
        }
        assert!(if_given(Err(AgentError::Timeout(Duration::ZERO))).is_err(), "the agent does not answer");
    }

    #[test]
    fn files_of_one_name_have_two_in_an_archive() {
        let (upload, download) = (FileSource::Upload, FileSource::Download);
        let files = [("a.txt", upload), ("a.txt", download), ("a (1).txt", upload), ("b", upload), ("b", download)];
        let file =
            |(name, source): (&str, _)| File { name: name.to_owned(), size: 1, modified_ms: 0, source, complete: true };
        let mut files: Vec<File> = files.into_iter().map(file).collect();
        files.push(File { complete: false, ..file(("c", download)) });
        files.push(file(("c", upload)));
        let entries = entries(files, |file| file.complete);
        let packed: Vec<(&str, &str, bool)> =
            entries.iter().map(|entry| (&*entry.name, &*entry.file, entry.beside_download)).collect();
        let wanted = [
            ("a.txt", "a.txt", false),
            ("b", "b", false),
            ("a (2).txt", "a.txt", true),
            ("a (1).txt", "a (1).txt", false),
            ("b (1)", "b", true),
            ("c", "c", true),
        ];
        assert_eq!(packed, wanted);
        let mut encoder = ZipEncoder::new();
        entries.iter().for_each(|entry| encoder.begin(&entry.name).unwrap());
        assert!(encoder.begin("b").is_err(), "an archive has a name once");
    }

    #[test]
    fn a_name_that_is_listed_very_often_is_looked_at_once_for_each_time() {
        // Beside each other, so that every number would be tried by each of them.
        let file = |name: String| File { name, size: 1, modified_ms: 0, source: FileSource::Download, complete: true };
        let files =
            (0..100_000).map(|number| file(if number % 2 == 0 { "a".to_owned() } else { format!("a ({number})") }));
        let entries = entries(files.collect(), |_| true);
        let names: HashSet<&str> = entries.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names.len(), 100_000, "an archive has a name once");
        assert!(names.contains("a") && names.contains("a (99998)"));
    }

    #[test]
    fn what_is_packed_in_pieces_is_one_zip() {
        let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut encoder = ZipEncoder::new();
        let mut bytes = Vec::new();
        for name in ["büro plan.bin", "b"] {
            encoder.begin(name).unwrap();
            for piece in content.chunks(4097) {
                encoder.write(piece).unwrap();
                let taken = encoder.take(3);
                assert_eq!(taken.len() % 3, 0);
                bytes.extend(taken);
            }
        }
        bytes.extend(encoder.finish().unwrap());
        let mut zip = zip::ZipArchive::new(io::Cursor::new(bytes)).unwrap();
        assert_eq!(zip.len(), 2);
        let mut file = zip.by_index(0).unwrap();
        assert_eq!(file.name().unwrap(), "büro plan.bin");
        let mut found = Vec::new();
        file.read_to_end(&mut found).unwrap();
        assert_eq!(found, content);
    }
}
