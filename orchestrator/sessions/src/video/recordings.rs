//! The files of recordings: a folder for each session, which holds the parts of its recording.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::matroska::Matroska;
use warmpool_config::RecordingSettings;
use warmpool_core::clock::{Now, unix_ms};
use warmpool_core::giving_way::GivingWay;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;
use warmpool_store::{Folder, free_bytes};

/// The folder of all recordings, within the data directory.
pub const FOLDER: Folder =
    Folder { name: "recordings", has: |name| is_part(name.strip_suffix(".json").unwrap_or(name)) };

/// One part of a recording. A session has several if the daemon restarted meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RecordingPart")]
pub struct Part {
    /// The file's name.
    pub name: String,
    /// Its size so far, in bytes.
    pub size: u64,
    /// When it began, in Unix milliseconds.
    pub started_at: u64,
    /// How long it is, in milliseconds, once it is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
    /// Why it ended before its session: `max_size` or `disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Whether it is finished.
    pub complete: bool,
}

/// The file beside a complete part that describes it.
#[derive(Debug, Serialize, Deserialize)]
struct PartMetadata {
    /// Unknown for a damaged file.
    duration: Option<u64>,
    stopped: Option<String>,
}

/// Says whose session it is; nobody's once its record is forgotten.
type OwnerOf = dyn Fn(&SessionId) -> Option<KeyId> + Send + Sync;

/// Every recording there is. Clones share it.
#[derive(Clone)]
pub struct Recordings {
    root: PathBuf,
    owner_of: Arc<OwnerOf>,
    /// The sessions that are being recorded.
    active: Arc<watch::Sender<HashSet<SessionId>>>,
    /// When this process began to write, in Unix milliseconds. Nobody writes older files any more.
    began: u64,
}

/// Marks a session's folder as in use, until it is dropped.
pub(super) struct WritingMark {
    recordings: Recordings,
    id: SessionId,
}

impl Drop for WritingMark {
    fn drop(&mut self) {
        self.recordings.active.send_if_modified(|active| active.remove(&self.id));
    }
}

impl Recordings {
    /// The recordings below the data directory. `owner_of` says whose session it is, if its record is there.
    pub(super) fn new(data_dir: &Path, owner_of: impl Fn(&SessionId) -> Option<KeyId> + Send + Sync + 'static) -> Self {
        let root = data_dir.join(FOLDER.name);
        Self { root, owner_of: Arc::new(owner_of), active: Arc::default(), began: unix_ms() }
    }

    /// The parts of a session's recording, the oldest first. Blocks.
    /// Errors: when the folder cannot be read.
    pub fn parts(&self, id: &SessionId) -> io::Result<Vec<Part>> {
        let folder = self.folder(id);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let writing = self.active.borrow().contains(id);
        let mut parts = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned).filter(|name| is_part(name)) else {
                continue;
            };
            let metadata = read_metadata(&folder.join(&name));
            parts.push(Part {
                size: entry.metadata()?.len(),
                started_at: name.split('.').next().and_then(|start| start.parse().ok()).unwrap_or_default(),
                complete: metadata.is_some() || !writing,
                duration: metadata.as_ref().and_then(|metadata| metadata.duration),
                stopped: metadata.and_then(|metadata| metadata.stopped),
                name,
            });
        }
        parts.sort_by_key(|part| part.started_at);
        // Only the newest one is still being written.
        let before = parts.len().saturating_sub(1);
        parts[..before].iter_mut().for_each(|part| part.complete = true);
        Ok(parts)
    }

    /// The file of a part, if there may be one of that name.
    pub fn file(&self, id: &SessionId, name: &str) -> Option<PathBuf> {
        is_part(name).then(|| self.folder(id).join(name)).filter(|path| path.is_file())
    }

    /// Removes a session's recording. Blocks.
    /// Errors: when files cannot be removed.
    pub fn remove(&self, id: &SessionId) -> io::Result<()> {
        match fs::remove_dir_all(self.folder(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until nobody writes a session's recording: the last part is finished behind the session's end.
    pub async fn finished(&self, id: &SessionId) {
        let mut active = self.active.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = active.wait_for(|active| !active.contains(id)).await;
    }

    /// Marks a session as being recorded; `None` when it is already.
    pub(super) fn writing(&self, id: &SessionId) -> Option<WritingMark> {
        let new = self.active.send_if_modified(|active| active.insert(id.clone()));
        new.then(|| WritingMark { recordings: self.clone(), id: id.clone() })
    }

    pub(super) fn size_of(&self, id: &SessionId) -> u64 {
        self.parts(id).unwrap_or_default().iter().map(|part| part.size).sum()
    }

    pub(super) fn new_part(&self, id: &SessionId, extension: &str) -> io::Result<PathBuf> {
        let folder = self.folder(id);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(folder.join(format!("{}.{extension}", unix_ms())))
    }

    pub(super) fn complete(&self, part: &Path, duration: Duration, stopped: Option<&str>) -> io::Result<()> {
        let duration = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        write_metadata(part, &PartMetadata { duration: Some(duration), stopped: stopped.map(str::to_owned) })
    }

    /// Finishes the parts that an earlier process was writing when it was killed.
    pub(super) async fn repair(&self) -> io::Result<()> {
        let recordings = self.clone();
        tokio::task::spawn_blocking(move || recordings.repair_all()).await.map_err(io::Error::other)?
    }

    fn repair_all(&self) -> io::Result<()> {
        for id in self.sessions()? {
            let cut = |part: &Part| part.started_at < self.began && part.duration.is_none();
            for part in self.parts(&id)?.into_iter().filter(cut) {
                let path = self.folder(&id).join(&part.name);
                if read_metadata(&path).is_some() {
                    continue;
                }
                let duration = finish(&path)
                    .inspect_err(|error| tracing::warn!(session = %id, %error, "a recording is damaged"))
                    .ok();
                write_metadata(&path, &PartMetadata { duration, stopped: None })?;
            }
        }
        Ok(())
    }

    /// The sessions that have recordings.
    fn sessions(&self) -> io::Result<Vec<SessionId>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let id = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_str().map(SessionId::from));
        let ids: io::Result<Vec<_>> = entries.map(id).filter_map(io::Result::transpose).collect();
        Ok(ids?.into_iter().filter(|id| self.folder(id).is_dir()).collect())
    }

    /// Removes recordings beyond their age limit, and then in turn those beyond the total size limit.
    pub(super) async fn forget_old(&self, limits: &RecordingSettings) -> io::Result<()> {
        let (recordings, keep_for, keep) = (self.clone(), limits.keep_for, limits.keep.bytes());
        let now = UNIX_EPOCH + Duration::from_millis(Now::read().unix_ms_for_ages());
        let work = move || recordings.forget(now, keep_for, keep);
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    fn forget(&self, now: SystemTime, keep_for: Duration, keep: u64) -> io::Result<()> {
        let is_old =
            |(changed, _): &(SystemTime, SessionId)| now.duration_since(*changed).unwrap_or_default() > keep_for;
        let (old, kept): (Vec<_>, Vec<_>) = self.past()?.into_iter().partition(is_old);
        old.iter().try_for_each(|(_, id)| self.remove(id))?;
        let kept = self.in_turn(kept);
        let mut total = kept.iter().fold(0_u64, |sum, (size, _)| sum.saturating_add(*size));
        for (size, id) in kept {
            if total <= keep {
                break;
            }
            self.remove(&id)?;
            total = total.saturating_sub(size);
        }
        Ok(())
    }

    /// Removes recordings in turn while less than `min_free` bytes are free.
    pub(super) async fn free_space(&self, min_free: u64) -> io::Result<()> {
        let recordings = self.clone();
        let work = move || recordings.make_room(min_free).map(drop);
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    /// Removes recordings in turn while less than `min_free` bytes are free. Returns whether enough is free then. Blocks.
    pub(super) fn make_room(&self, min_free: u64) -> io::Result<bool> {
        let data = self.root.parent().unwrap_or(&self.root);
        // If the system does not say, assume enough.
        self.evict(min_free, || free_bytes(data).unwrap_or(u64::MAX))
    }

    fn evict(&self, min_free: u64, free: impl Fn() -> u64) -> io::Result<bool> {
        if free() >= min_free {
            return Ok(true);
        }
        for (_, id) in self.in_turn(self.past()?) {
            tracing::warn!(session = %id, "a recording is removed: the disk has too little free space");
            self.remove(&id)?;
            if free() >= min_free {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The recordings that are not being written, the oldest first, each with the time of its last change.
    fn past(&self) -> io::Result<Vec<(SystemTime, SessionId)>> {
        let mut past = Vec::new();
        for id in self.sessions()? {
            if self.active.borrow().contains(&id) {
                continue;
            }
            match fs::metadata(self.folder(&id)) {
                // Somebody else removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                folder => past.push((folder?.modified()?, id)),
            }
        }
        past.sort_by_key(|(changed, _)| *changed);
        Ok(past)
    }

    /// Recordings, the oldest first, with their sizes and in the order in which they give way: first those of sessions that nobody
    /// knows any more, and then each time the oldest of the key whose recordings are largest.
    fn in_turn(&self, past: Vec<(SystemTime, SessionId)>) -> Vec<(u64, SessionId)> {
        let past = past.into_iter().map(|(_, id)| ((self.owner_of)(&id), self.size_of(&id), id));
        let (known, unknown): (Vec<_>, Vec<_>) = past.partition(|(owner, ..)| owner.is_some());
        let unknown = unknown.into_iter().map(|(_, size, id)| (size, id));
        unknown.chain(GivingWay::new(known)).collect()
    }

    fn folder(&self, id: &SessionId) -> PathBuf {
        // Ids from request paths are looked up before they get here; this is a second guard against leaving the folder.
        let name: String =
            id.as_str().chars().filter(|letter| letter.is_ascii_alphanumeric() || "_-".contains(*letter)).collect();
        self.root.join(name)
    }
}

/// Writes the description of a part.
fn write_metadata(part: &Path, metadata: &PartMetadata) -> io::Result<()> {
    fs::write(beside(part), serde_json::to_vec(metadata)?)
}

/// Reads the description of a part.
fn read_metadata(part: &Path) -> Option<PartMetadata> {
    fs::read(beside(part)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn beside(part: &Path) -> PathBuf {
    let mut name = part.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// How long players show the last picture of a part whose writer was killed. Nothing recorded its real duration; with none
/// at all it would never show.
const LAST_PICTURE_MS: u64 = 1000;

/// Writes the end of a part whose writer was killed. Returns its duration in milliseconds.
fn finish(part: &Path) -> io::Result<u64> {
    let (video, last_ms) = Matroska::resume(File::options().read(true).write(true).open(part)?)?;
    let duration = last_ms + LAST_PICTURE_MS;
    video.finish(duration)?;
    Ok(duration)
}

fn is_part(name: &str) -> bool {
    let Some((start, end)) = name.split_once('.') else { return false };
    !start.is_empty() && start.bytes().all(|byte| byte.is_ascii_digit()) && matches!(end, "webm" | "mkv")
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tokio::time::timeout;

    use super::super::matroska::Codec;
    use super::*;

    fn recorded(recordings: &Recordings, id: &str, bytes: usize) -> SessionId {
        let id = SessionId::from(id);
        let part = recordings.new_part(&id, "webm").unwrap();
        fs::write(&part, vec![0; bytes]).unwrap();
        recordings.complete(&part, Duration::from_secs(3), None).unwrap();
        id
    }

    #[test]
    fn the_oldest_go_first_and_none_that_is_being_written() {
        let dir = tempfile::tempdir().unwrap();
        let recordings = Recordings::new(dir.path(), |_| None);
        let ids = ["ses_a", "ses_b", "ses_c"].map(|id| recorded(&recordings, id, 1000));
        for (id, age) in ids.iter().zip([30, 20, 10]) {
            let folder = fs::File::open(recordings.folder(id)).unwrap();
            folder.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        let [a, b, c] = &ids;
        let writing = recordings.writing(a).unwrap();
        assert!(recordings.writing(a).is_none());
        recordings.forget(SystemTime::now(), Duration::from_secs(60), 1500).unwrap();
        assert_eq!([a, b, c].map(|id| recordings.parts(id).unwrap().len()), [1, 0, 1]);
        drop(writing);
        recordings.forget(SystemTime::now(), Duration::from_secs(60), 1500).unwrap();
        assert_eq!([a, c].map(|id| recordings.parts(id).unwrap().len()), [0, 1]);
        let part = &recordings.parts(c).unwrap()[0];
        assert!(part.complete && part.duration == Some(3000) && part.size == 1000 && part.started_at > 0);
        recordings.forget(UNIX_EPOCH, Duration::ZERO, u64::MAX).unwrap();
        assert_eq!(recordings.parts(c).unwrap().len(), 1, "the clock is not set yet");
        recordings.forget(SystemTime::now(), Duration::ZERO, u64::MAX).unwrap();
        assert_eq!(recordings.parts(c).unwrap(), []);
    }

    #[test]
    fn the_oldest_give_way_until_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let recordings = Recordings::new(dir.path(), |_| None);
        let ids = ["ses_a", "ses_b", "ses_c", "ses_d"].map(|id| recorded(&recordings, id, 1000));
        for (id, age) in ids.iter().zip([40, 30, 20, 10]) {
            let folder = fs::File::open(recordings.folder(id)).unwrap();
            folder.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        let writing = recordings.writing(&ids[0]).unwrap();
        // A disk that four recordings fill.
        let free = || 4000 - ids.iter().map(|id| recordings.size_of(id)).sum::<u64>();
        let left = || ids.each_ref().map(|id| recordings.parts(id).unwrap().len());
        assert!(recordings.evict(0, free).unwrap());
        assert_eq!(left(), [1, 1, 1, 1]);
        assert!(recordings.evict(1500, free).unwrap());
        assert_eq!(left(), [1, 0, 0, 1], "no more than is needed, and none that is being written");
        assert!(!recordings.evict(3500, free).unwrap());
        assert_eq!(left(), [1, 0, 0, 0]);
        drop(writing);
        assert!(recordings.evict(3500, free).unwrap());
        assert_eq!(left(), [0, 0, 0, 0]);
    }

    #[test]
    fn no_key_pushes_out_the_recordings_of_another() {
        let dir = tempfile::tempdir().unwrap();
        // The key is in the name; of some nobody knows it any more.
        let recordings = Recordings::new(dir.path(), |id| match id.as_str().get(4..5) {
            Some("a") => Some("00000000000a".parse().unwrap()),
            Some("b") => Some("00000000000b".parse().unwrap()),
            _ => None,
        });
        let names = ["ses_a1", "ses_b1", "ses_b2", "ses_b3", "ses_gone"];
        let ids = names.map(|id| recorded(&recordings, id, 1000));
        for (id, age) in ids.iter().zip([5, 4, 3, 2, 1]) {
            let folder = fs::File::open(recordings.folder(id)).unwrap();
            folder.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        let left = || ids.each_ref().map(|id| recordings.parts(id).unwrap().len());
        let keep = |bytes| recordings.forget(SystemTime::now(), Duration::from_secs(60), bytes).unwrap();
        keep(5000);
        assert_eq!(left(), [1, 1, 1, 1, 1]);
        keep(4500);
        assert_eq!(left(), [1, 1, 1, 1, 0], "it is nobody's");
        keep(3500);
        assert_eq!(left(), [1, 0, 1, 1, 0], "the oldest of the key that keeps most");
        let free = || 3000 - ids.iter().map(|id| recordings.size_of(id)).sum::<u64>();
        assert!(recordings.evict(1000, free).unwrap());
        assert_eq!(left(), [1, 0, 0, 1, 0]);
        assert!(recordings.evict(2000, free).unwrap());
        assert_eq!(left(), [0, 0, 0, 1, 0], "both keep as much");
    }

    #[test]
    fn what_a_killed_process_left_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let mut recordings = Recordings::new(dir.path(), |_| None);
        let id = SessionId::from("ses_a");
        let path = recordings.new_part(&id, "webm").unwrap();
        let mut video = Matroska::begin(File::create(&path).unwrap(), Codec::Vp8, 64, 64).unwrap();
        video.picture(0, true, &[1; 50]).unwrap();
        video.picture(1500, false, &[2; 50]).unwrap();
        drop(video);
        let damaged = recordings.new_part(&SessionId::from("ses_b"), "mkv").unwrap();
        fs::write(&damaged, "no video").unwrap();
        recordings.began = 0;
        recordings.repair_all().unwrap();
        assert_eq!(recordings.parts(&id).unwrap()[0].duration, None, "this process may still be writing it");
        recordings.began = unix_ms() + 1;
        let _writing = recordings.writing(&id).unwrap();
        assert!(!recordings.parts(&id).unwrap()[0].complete);
        recordings.repair_all().unwrap();
        let parts = recordings.parts(&id).unwrap();
        assert!(parts[0].complete && parts[0].duration == Some(1500 + LAST_PICTURE_MS), "{parts:?}");
        let parts = recordings.parts(&SessionId::from("ses_b")).unwrap();
        assert!(parts[0].complete && parts[0].duration.is_none() && parts[0].size == 8, "{parts:?}");
    }

    #[tokio::test]
    async fn a_recording_is_finished_once_nobody_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let recordings = Recordings::new(dir.path(), |_| None);
        let [id, other] = ["ses_a", "ses_b"].map(SessionId::from);
        let (writing, _other) = (recordings.writing(&id).unwrap(), recordings.writing(&other).unwrap());
        assert!(timeout(Duration::from_millis(20), recordings.finished(&id)).await.is_err());
        drop(writing);
        recordings.finished(&id).await;
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let recordings = Recordings::new(dir.path(), |_| None);
        let id = recorded(&recordings, "ses_a", 1);
        let name = recordings.parts(&id).unwrap()[0].name.clone();
        assert!(recordings.file(&id, &name).is_some());
        for wrong in ["../ses_a/1.webm", "1.webm/..", ".webm", "1.txt", &format!("{name}.json")] {
            assert!(recordings.file(&id, wrong).is_none(), "{wrong}");
        }
        assert!(recordings.file(&SessionId::from("../../etc"), &name).is_none());
    }
}
