//! Files a client sent for upload and files the browser downloaded.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::Response;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use parking_lot::Mutex;
use tokio::fs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::io::ReaderStream;
use warmpool_protocol::{File, FileSource, MAX_FILE_NAME, StoredFile, is_plain_file_name};

use crate::body::Body;
use crate::error::ApiError;
use crate::plain_file;

/// The most downloads that a browser can have announced. Each is looked at for the name of the next.
const MAX_ANNOUNCED: usize = 10_000;
/// Bytes that the agent still reads when it cannot keep the file, so that the sender sees the refusal.
const DISCARD_LIMIT: u64 = 16 << 20;
/// The longest ending of a name that a number goes before, in bytes.
const MAX_ENDING: usize = 32;

/// How a browser shows that a download goes on, until it has announced that it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// The file's name ends so.
    NameEnds(&'static str),
    /// Nothing shows it: Firefox reserves a name with an empty file.
    Hidden,
}

/// A download the browser announced.
#[derive(Debug, Clone)]
struct AnnouncedDownload {
    name: String,
    /// Known once the file is in its place.
    path: Option<PathBuf>,
}

/// The worker's files directory.
pub(crate) struct Files {
    root: PathBuf,
    announced: Mutex<HashMap<String, AnnouncedDownload>>,
    unfinished: OnceLock<Unfinished>,
    parts: AtomicU64,
}

impl Files {
    /// Makes the directory and what belongs into it.
    pub(crate) fn new(root: PathBuf) -> io::Result<Self> {
        for directory in ["uploads", "downloads", "downloads-by-id", "incoming"] {
            std::fs::create_dir_all(root.join(directory))?;
        }
        Ok(Self { root, announced: Mutex::default(), unfinished: OnceLock::new(), parts: AtomicU64::new(0) })
    }

    /// Where the browser saves what it downloads.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.root.join("downloads")
    }

    /// Where the browser saves files that have ids for names.
    pub(crate) fn downloads_by_id(&self) -> PathBuf {
        self.root.join("downloads-by-id")
    }

    fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    /// The browser has begun a download; `name` is what it would call the file. It counts as none where the browser has announced
    /// very many: it may say of a download what it likes.
    pub(crate) fn download_began(&self, guid: &str, name: &str) {
        let name = safe_component(name).unwrap_or_else(|| "download".to_owned());
        let mut announced = self.announced();
        if announced.len() < MAX_ANNOUNCED || announced.contains_key(guid) {
            announced.insert(guid.to_owned(), AnnouncedDownload { name, path: None });
        }
    }

    /// A download is complete; `path` is where the browser says it put it.
    pub(crate) fn download_completed(&self, guid: &str, path: Option<PathBuf>) {
        let mut announced = self.announced();
        let Some(name) = announced.get(guid).map(|announced| announced.name.clone()) else { return };
        let is_taken = |name: &str| {
            let mut others = announced.iter().filter(|(other, _)| *other != guid).map(|(_, other)| other);
            let elsewhere = path.as_ref().is_some_and(|path| !path.starts_with(self.downloads()));
            elsewhere
                && (self.downloads().join(name).exists()
                    || others.any(|other| other.name == name && other.path.as_ref().is_some_and(|path| path.exists())))
        };
        let name = (0..).map(|number| numbered(&name, number)).find(|name| !is_taken(name)).unwrap_or(name);
        announced.insert(guid.to_owned(), AnnouncedDownload { name, path });
    }

    /// A download was cancelled.
    pub(crate) fn download_canceled(&self, guid: &str) {
        self.announced().remove(guid);
    }

    /// From now on downloads that go on are told in this way; without it there are none.
    pub(crate) fn tell_unfinished(&self, by: Unfinished) {
        let _ = self.unfinished.set(by);
    }

    /// Whether all of a download is there. One that has ended may be called as those that go on are.
    fn is_complete(&self, path: &Path) -> bool {
        let shows_nothing = match self.unfinished.get() {
            Some(Unfinished::NameEnds(ending)) => {
                path.file_name().is_none_or(|name| !name.as_encoded_bytes().ends_with(ending.as_bytes()))
            }
            Some(Unfinished::Hidden) => false,
            None => true,
        };
        shows_nothing || self.announced().values().any(|announced| announced.path.as_deref() == Some(path))
    }

    /// Downloads that lie outside the downloads directory, by name.
    fn elsewhere(&self) -> Vec<AnnouncedDownload> {
        let downloads = self.downloads();
        self.announced()
            .values()
            .filter(|a| a.path.as_ref().is_some_and(|path| !path.starts_with(&downloads)))
            .cloned()
            .collect()
    }

    fn announced(&self) -> parking_lot::MutexGuard<'_, HashMap<String, AnnouncedDownload>> {
        self.announced.lock()
    }

    /// Every file that can be read, by name.
    pub(crate) async fn list(&self) -> Result<Vec<File>, ApiError> {
        let mut entries = Vec::new();
        for (source, directory) in [(FileSource::Download, self.downloads()), (FileSource::Upload, self.uploads())] {
            let mut directory = fs::read_dir(directory).await?;
            while let Some(file) = directory.next_entry().await? {
                let Ok(name) = file.file_name().into_string() else { continue };
                let is_complete = source == FileSource::Upload || self.is_complete(&file.path());
                entries.extend(entry(name, source, &file.path(), is_complete).await);
            }
        }
        for AnnouncedDownload { name, path } in self.elsewhere() {
            if let Some(path) = path {
                entries.extend(entry(name, FileSource::Download, &path, true).await);
            }
        }
        entries.retain(|entry| check_name(&entry.name).is_ok());
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Opens the file of that name, a download before an upload. Returns its size too, and where it is.
    async fn open(&self, name: &str) -> Result<(fs::File, u64, PathBuf), ApiError> {
        check_name(name)?;
        let elsewhere = self.elsewhere().into_iter().filter(|a| a.name == name).filter_map(|a| a.path);
        let places = [self.downloads().join(name)].into_iter().chain(elsewhere).chain([self.uploads().join(name)]);
        first_of(places.collect()).await
    }

    /// The bytes of a file: as many as it had when it was opened.
    pub(crate) async fn read(&self, name: &str) -> Result<Response<Body>, ApiError> {
        let (file, size, _) = self.open(name).await?;
        Ok(content(file, size))
    }

    /// The bytes of what was stored for upload, also where a download has its name.
    pub(crate) async fn read_upload(&self, name: &str) -> Result<Response<Body>, ApiError> {
        check_name(name)?;
        let (file, size, _) = first_of(vec![self.uploads().join(name)]).await?;
        Ok(content(file, size))
    }

    /// Removes a file.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), ApiError> {
        let (_, _, path) = self.open(name).await?;
        fs::remove_file(&path).await?;
        self.announced().retain(|_, a| a.path.as_ref() != Some(&path));
        Ok(())
    }

    /// Removes every file, those that are still coming too, and forgets what was announced.
    pub(crate) async fn clear(&self) -> Result<(), ApiError> {
        let elsewhere = self.elsewhere();
        self.announced().clear();
        for AnnouncedDownload { path, .. } in elsewhere {
            if let Some(path) = path {
                remove_if_there(&path).await?;
            }
        }
        for directory in [self.downloads(), self.uploads()] {
            let mut directory = fs::read_dir(directory).await?;
            while let Some(file) = directory.next_entry().await? {
                remove_if_there(&file.path()).await?;
            }
        }
        Ok(())
    }

    /// Gives what was stored for upload another name, in place of an upload that has it.
    pub(crate) async fn rename_upload(&self, from: &str, to: &str) -> Result<StoredFile, ApiError> {
        check_name(from)?;
        check_name(to)?;
        let (old, new) = (self.uploads().join(from), self.uploads().join(to));
        fs::rename(&old, &new).await.map_err(no_upload)?;
        let size = fs::symlink_metadata(&new).await?.len();
        Ok(StoredFile { path: new.display().to_string(), name: to.to_owned(), size })
    }

    /// Removes what was stored for upload, and no download of that name.
    pub(crate) async fn remove_upload(&self, name: &str) -> Result<(), ApiError> {
        check_name(name)?;
        fs::remove_file(self.uploads().join(name)).await.map_err(no_upload)
    }

    /// Where the session has the file that a client names by this path: there, if that is a place of its own files, and otherwise among
    /// those stored for upload, by its name.
    pub(crate) fn find(&self, path: &str) -> Option<PathBuf> {
        let named = Path::new(path);
        let is_own = named.starts_with(&self.root)
            || self.announced().values().any(|announced| announced.path.as_deref() == Some(named));
        if is_own && named.exists() {
            return Some(named.to_owned());
        }
        let stored = self.uploads().join(safe_component(path)?);
        stored.is_file().then_some(stored)
    }

    /// Stores a request's body for upload, at most `limit` bytes of it.
    pub(crate) async fn store(&self, name: &str, body: Incoming, limit: u64) -> Result<StoredFile, ApiError> {
        check_name(name)?;
        let (part, size) = self.receive(frames(body), limit).await?;
        self.keep(part, name, size).await
    }

    /// Stores the one file of a zip archive, as Selenium sends it.
    pub(crate) async fn unpack(&self, body: Incoming, limit: u64) -> Result<StoredFile, ApiError> {
        // Deflate does not make files larger by more than a few bytes a block.
        let (archive, _) = self.receive(frames(body), limit.saturating_add(1 << 20)).await?;
        let target = self.part();
        let (from, to) = (archive.0.clone(), target.0.clone());
        let (name, size) = tokio::task::spawn_blocking(move || crate::archive::unpack(&from, &to, limit))
            .await
            .map_err(|e| ApiError::internal(e.to_string()))??;
        let name =
            safe_component(&name).ok_or_else(|| ApiError::bad_request("the file in the archive has no usable name"))?;
        self.keep(target, &name, size).await
    }

    async fn keep(&self, part: Part, name: &str, size: u64) -> Result<StoredFile, ApiError> {
        let path = self.uploads().join(name);
        fs::rename(&part.0, &path).await?;
        Ok(StoredFile { path: path.display().to_string(), name: name.to_owned(), size })
    }

    async fn receive(
        &self,
        mut chunks: impl Stream<Item = Result<Bytes, ApiError>> + Unpin,
        limit: u64,
    ) -> Result<(Part, u64), ApiError> {
        let part = self.part();
        let mut file = fs::File::from_std(plain_file::create(&part.0)?);
        let (mut size, mut unwanted) = (0, 0);
        let mut failure = None;
        while unwanted <= DISCARD_LIMIT
            && let Some(chunk) = chunks.next().await
        {
            let chunk = chunk?;
            size += chunk.len() as u64;
            if size > limit || failure.is_some() {
                unwanted += chunk.len() as u64;
            } else {
                failure = file.write_all(&chunk).await.err();
            }
        }
        if size > limit {
            return Err(ApiError::too_large(limit));
        }
        if let Some(error) = failure {
            return Err(error.into());
        }
        file.flush().await?;
        Ok((part, size))
    }

    fn part(&self) -> Part {
        let number = self.parts.fetch_add(1, Ordering::Relaxed);
        Part(self.root.join("incoming").join(number.to_string()))
    }
}

/// Opens the first of these files that is there. Returns its size too, and where it is.
async fn first_of(places: Vec<PathBuf>) -> Result<(fs::File, u64, PathBuf), ApiError> {
    let open = move || places.into_iter().find_map(|path| plain_file::open(&path).ok().map(|found| (found, path)));
    let opened = tokio::task::spawn_blocking(open).await.map_err(|error| ApiError::internal(error.to_string()))?;
    let ((file, metadata), path) = opened.ok_or_else(|| ApiError::not_found("no such file"))?;
    Ok((fs::File::from_std(file), metadata.len(), path))
}

fn content(file: fs::File, size: u64) -> Response<Body> {
    let frames =
        ReaderStream::with_capacity(file.take(size), 64 << 10).map(|chunk| chunk.map(Frame::data).map_err(Into::into));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, size.into());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

/// A file that is being received. It is removed unless it is renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn frames(body: Incoming) -> impl Stream<Item = Result<Bytes, ApiError>> + Unpin {
    body.into_data_stream().map(|chunk| chunk.map_err(|_| ApiError::bad_request("the body was cut off")))
}

fn no_upload(error: io::Error) -> ApiError {
    match error.kind() {
        io::ErrorKind::NotFound => ApiError::not_found("no such file"),
        _ => error.into(),
    }
}

/// The browser may remove its own files at the same moment.
async fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn entry(name: String, source: FileSource, path: &Path, complete: bool) -> Option<File> {
    let metadata = fs::symlink_metadata(path).await.ok().filter(plain_file::is_own)?;
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(File {
        size: metadata.len(),
        modified_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        source,
        complete,
        name,
    })
}

/// Refuses everything that is not the name of a file in one directory.
fn check_name(name: &str) -> Result<(), ApiError> {
    if is_plain_file_name(name) { Ok(()) } else { Err(ApiError::bad_request("name: one plain file name wanted")) }
}

/// A file name, as browsers change one that is taken.
fn numbered(name: &str, number: usize) -> String {
    if number == 0 {
        return name.to_owned();
    }
    let parts = name.rsplit_once('.').filter(|(stem, ending)| !stem.is_empty() && ending.len() <= MAX_ENDING);
    let (stem, rest) = match parts {
        Some((stem, ending)) => (stem, format!(" ({number}).{ending}")),
        None => (name, format!(" ({number})")),
    };
    let room = stem.len().min(MAX_FILE_NAME - rest.len());
    let end = (0..=room).rev().find(|end| stem.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{rest}", &stem[..end])
}

/// The last component of a foreign path, if it is a plain name.
fn safe_component(path: &str) -> Option<String> {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    check_name(name).ok().map(|()| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_plain_component() {
        for good in ["a", "report (1).pdf", "übersicht.txt", "..a", &"x".repeat(255)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../a", "a\\b", "a\nb", "a\0b", &"x".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let names = ["report.txt", "archive.tar.gz", "report", ".hidden"].map(|name| numbered(name, 2));
        assert_eq!(names, ["report (2).txt", "archive.tar (2).gz", "report (2)", ".hidden (2)"]);
        assert_eq!(numbered("report.txt", 0), "report.txt");
        for long in ["x".repeat(255), format!("{}.txt", "é".repeat(125)), format!("a.{}", "x".repeat(253))] {
            for number in [0, 1, 12345, usize::MAX] {
                assert!(check_name(&numbered(&long, number)).is_ok(), "{long} {number}");
            }
        }
        let root = tempfile::tempdir().unwrap();
        let files = Files::new(root.path().to_owned()).unwrap();
        for guid in ["a", "b", "c"] {
            let path = files.downloads_by_id().join(guid);
            std::fs::write(&path, guid).unwrap();
            files.download_began(guid, "report.txt");
            files.download_completed(guid, Some(path));
        }
        let mut names: Vec<String> = files.elsewhere().into_iter().map(|announced| announced.name).collect();
        names.sort();
        assert_eq!(names, ["report (1).txt", "report (2).txt", "report.txt"]);
    }

    #[test]
    fn a_browser_announces_so_many_downloads_at_most() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::new(root.path().to_owned()).unwrap();
        for guid in 0..=MAX_ANNOUNCED {
            files.download_began(&guid.to_string(), "a.txt");
        }
        assert_eq!(files.announced().len(), MAX_ANNOUNCED);
        files.download_began("0", "b.txt");
        assert_eq!(files.announced()["0"].name, "b.txt", "it is known");
        files.download_canceled("0");
        files.download_began("new", "a.txt");
        assert!(files.announced().contains_key("new"), "there is room again");
    }

    #[test]
    fn foreign_paths_are_reduced_to_their_last_component() {
        assert_eq!(safe_component("/etc/passwd").as_deref(), Some("passwd"));
        assert_eq!(safe_component("C:\\Users\\a\\cv.pdf").as_deref(), Some("cv.pdf"));
        assert_eq!(safe_component("../../..").as_deref(), None);
        assert_eq!(safe_component("folder/").as_deref(), None);
    }

    fn chunks(parts: &[&'static str]) -> impl Stream<Item = Result<Bytes, ApiError>> + Unpin {
        let parts: Vec<_> = parts.iter().map(|part| Ok(Bytes::from(*part))).collect();
        futures_util::stream::iter(parts)
    }

    #[tokio::test]
    async fn a_file_over_the_limit_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().join("files")).unwrap();
        assert!(files.receive(chunks(&["1234", "5"]), 4).await.is_err());
        assert_eq!(std::fs::read_dir(files.root.join("incoming")).unwrap().count(), 0);
        let (part, size) = files.receive(chunks(&["12", "34"]), 4).await.unwrap();
        assert_eq!(files.keep(part, "a.txt", size).await.unwrap().size, 4);
        let list = files.list().await.unwrap();
        assert_eq!((list[0].name.as_str(), list[0].size, list[0].source), ("a.txt", 4, FileSource::Upload));
    }

    #[tokio::test]
    async fn an_upload_is_read_renamed_and_removed_beside_a_download_of_its_name() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().join("files")).unwrap();
        std::fs::write(files.downloads().join("a.txt"), "the page's").unwrap();
        let (part, size) = files.receive(chunks(&["mine"]), 4).await.unwrap();
        files.keep(part, "a.txt", size).await.unwrap();
        let read = async |answer: Response<Body>| answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(read(files.read("a.txt").await.unwrap()).await, "the page's");
        assert_eq!(read(files.read_upload("a.txt").await.unwrap()).await, "mine");
        let renamed = files.rename_upload("a.txt", "b.txt").await.unwrap();
        assert_eq!((renamed.name.as_str(), renamed.size), ("b.txt", 4));
        assert_eq!(std::fs::read_to_string(&renamed.path).unwrap(), "mine");
        files.remove_upload("b.txt").await.unwrap();
        assert!(files.remove_upload("a.txt").await.is_err() && files.rename_upload("a.txt", "../c").await.is_err());
        assert_eq!(std::fs::read_to_string(files.downloads().join("a.txt")).unwrap(), "the page's");
    }

    #[test]
    fn a_file_is_found_by_its_place_or_by_the_name_that_it_has_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().join("files")).unwrap();
        let (stored, far) = (files.uploads().join("cv.pdf"), home.path().join("far.txt"));
        for path in [&stored, &files.downloads().join("report.txt"), &far] {
            std::fs::write(path, "1").unwrap();
        }
        for elsewhere in ["/home/me/cv.pdf", "C:\\Users\\me\\cv.pdf", "cv.pdf"] {
            assert_eq!(files.find(elsewhere).as_ref(), Some(&stored), "{elsewhere}");
        }
        for own in [stored, files.downloads().join("report.txt")] {
            assert_eq!(files.find(own.to_str().unwrap()), Some(own));
        }
        let far_text = far.to_str().unwrap();
        for missing in ["/home/me/other.pdf", "/home/me/report.txt", "/etc/passwd", far_text, ""] {
            assert_eq!(files.find(missing), None, "{missing}");
        }
        files.download_began("g", "far.txt");
        files.download_completed("g", Some(far.clone()));
        assert_eq!(files.find(far_text), Some(far.clone()), "the browser has saved it there");
    }

    #[tokio::test]
    async fn downloads_are_found_wherever_they_are() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().join("files")).unwrap();
        files.tell_unfinished(Unfinished::NameEnds(".crdownload"));
        std::fs::write(files.downloads().join("plain.txt"), "1").unwrap();
        std::fs::write(files.downloads().join("big.zip.crdownload"), "12").unwrap();
        let far = home.path().join("5f3c");
        std::fs::write(&far, "123").unwrap();
        files.download_began("g", "report.pdf");
        files.download_completed("g", Some(far.clone()));
        let seen: Vec<_> = files.list().await.unwrap().into_iter().map(|e| (e.name, e.size, e.complete)).collect();
        let wanted = [("big.zip.crdownload", 2, false), ("plain.txt", 1, true), ("report.pdf", 3, true)];
        assert_eq!(seen, wanted.map(|(name, size, complete)| (name.to_owned(), size, complete)));
        files.remove("report.pdf").await.unwrap();
        assert!(!far.exists());
        assert!(files.read("report.pdf").await.is_err());
        std::fs::write(&far, "far again").unwrap();
        files.download_began("g", "far.txt");
        files.download_completed("g", Some(far.clone()));
        files.clear().await.unwrap();
        assert!(!far.exists() && files.list().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_is_listed_can_be_read() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().join("files")).unwrap();
        for name in ["good.txt", "back\\slash.txt", "next\u{85}line.txt", "new\nline.txt"] {
            std::fs::write(files.downloads().join(name), "1").unwrap();
        }
        let names: Vec<String> = files.list().await.unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["good.txt"]);
    }

    #[tokio::test]
    async fn a_finished_file_is_complete_whatever_its_name_ends_in() {
        for (unfinished, goes_on) in [
            (Unfinished::NameEnds(".crdownload"), &["d.crdownload"][..]),
            (Unfinished::NameEnds(".wkdownload"), &["e.wkdownload"][..]),
            (Unfinished::Hidden, &["c.part", "d.crdownload", "e.wkdownload"][..]),
        ] {
            let home = tempfile::tempdir().unwrap();
            let files = Files::new(home.path().join("files")).unwrap();
            files.tell_unfinished(unfinished);
            std::fs::write(files.uploads().join("b.part"), "1").unwrap();
            for name in ["c.part", "d.crdownload", "e.wkdownload"] {
                std::fs::write(files.downloads().join(name), "1").unwrap();
            }
            let incomplete = async || -> Vec<String> {
                let listed = files.list().await.unwrap();
                listed.into_iter().filter(|file| !file.complete).map(|file| file.name).collect()
            };
            assert_eq!(incomplete().await, goes_on, "{unfinished:?}");
            for (guid, name) in goes_on.iter().enumerate() {
                files.download_began(&guid.to_string(), name);
                files.download_completed(&guid.to_string(), Some(files.downloads().join(name)));
            }
            assert!(incomplete().await.is_empty(), "{unfinished:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_file_is_neither_listed_nor_read() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().join("files")).unwrap();
        let pipe = files.downloads().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", files.downloads().join("zero")).unwrap();
        assert_eq!(files.list().await.unwrap().len(), 0);
        for name in ["pipe", "zero"] {
            assert_eq!(files.read(name).await.unwrap_err().code, "not_found", "{name}");
        }
    }

    #[tokio::test]
    async fn announced_downloads_are_complete_when_the_browser_says_so() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().join("files")).unwrap();
        files.tell_unfinished(Unfinished::Hidden);
        let path = files.downloads().join("late.zip");
        std::fs::write(&path, "").unwrap();
        assert!(!files.list().await.unwrap()[0].complete, "an empty file may be a reserved name");
        files.download_began("d", &path.display().to_string());
        assert!(!files.list().await.unwrap()[0].complete);
        files.download_completed("d", Some(path));
        let list = files.list().await.unwrap();
        assert!(list.len() == 1 && list[0].complete);
    }
}
