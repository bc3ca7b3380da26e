//! Recordings of sessions, which outlive them.
//!
//! A session with a display is recorded as WebM: the worker's own encoder gives VP8, and `matroska` puts it into a
//! file. A headless Chromium is recorded as a log of its pictures, JPEG in Matroska, each with its time. Both grow on
//! disk as the session goes on and can be played whenever they were cut off. `recordings` knows the files.

mod error;
pub mod matroska;
mod recordings;
mod source;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::live::Live;
use crate::session::{Session, Sessions};
use error::RecordingError;
use matroska::Matroska;
pub use recordings::{FOLDER, Part, Recordings};
use source::{Format, Picture, Source};
use warmpool_config::Config;
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::drain::{Drain, Phase};
use warmpool_core::ids::SessionId;

/// Pictures that wait for the disk.
const WAITING: usize = 16;
/// Pause before a recording that broke off continues in another part.
const RETRY: Duration = Duration::from_secs(1);
/// After this many parts in a row that broke off at once, the recording ends.
const ATTEMPTS: u32 = 10;
/// A part that is shorter broke off at once: whoever shows the pictures may end each after the first.
const SHORT: Duration = Duration::from_secs(10);
/// The most parts that one process begins of a recording. Each is a file of its own.
const MAX_PARTS: u32 = 1000;

/// Time between two clean-ups of old recordings.
const SWEEP_EVERY: Duration = Duration::from_secs(300);
/// Time between two checks of the free disk space, which others may use up.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The most bytes of one recording between two such checks.
const LOOK_AFTER: u64 = 1 << 20;

/// Why a part ended before its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitReached {
    /// `recording.max_size` is reached.
    Full,
    /// The disk has no more room for recordings.
    Disk,
}

impl LimitReached {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "max_size",
            Self::Disk => "disk",
        }
    }
}

/// How the parts of a recording went.
#[derive(Debug, Default)]
struct Attempts {
    parts: u32,
    /// The last parts in a row that broke off at once.
    failures: u32,
}

impl Attempts {
    /// Notes that a part ended with this many pictures after so long. Returns whether another one may begin.
    fn go_on(&mut self, pictures: u64, lasted: Duration) -> bool {
        self.parts += 1;
        self.failures = if pictures == 0 || lasted < SHORT { self.failures + 1 } else { 0 };
        self.failures < ATTEMPTS && self.parts < MAX_PARTS
    }
}

/// Records sessions and keeps the recordings. Clones share it.
#[derive(Clone)]
pub struct Recorder {
    config: Arc<Config>,
    live: Live,
    recordings: Recordings,
}

impl Recorder {
    /// `live` supplies the pictures of browsers without a display, and `sessions` says whose a recording is.
    pub fn new(config: Arc<Config>, live: Live, sessions: Sessions) -> Self {
        let recordings = Recordings::new(&config.store.data_dir, move |id| sessions.owner(id.as_str()));
        Self { config, live, recordings }
    }

    /// The files of recordings.
    pub const fn recordings(&self) -> &Recordings {
        &self.recordings
    }

    /// Starts recording a session that asks for it.
    pub fn start(&self, session: &Arc<Session>, drain: &Drain) {
        if session.options.recording {
            drain.spawn(self.record(Arc::clone(session)));
        }
    }

    /// Records a session until it ends. A failure is logged, and the session continues. Clean-ups spare the recording until
    /// its session ends.
    pub fn record(&self, session: Arc<Session>) -> impl Future<Output = ()> + Send + 'static {
        let (recorder, writing) = (self.clone(), self.recordings.writing(&session.id));
        async move {
            if let Some(_writing) = writing {
                recorder.record_parts(session).await;
            }
        }
    }

    async fn record_parts(&self, session: Arc<Session>) {
        let mut attempts = Attempts::default();
        loop {
            let began = Instant::now();
            let outcome = self.part(&session).await;
            let ended = session.check_open().is_err();
            let pictures = match outcome {
                Ok((_, Some(stop))) => {
                    tracing::warn!(session = %session.id, reason = stop.as_str(), "a recording stopped early");
                    session.ended().await;
                    break;
                }
                Ok((pictures, None)) => pictures,
                Err(error) => {
                    tracing::warn!(session = %session.id, %error, "a recording broke off");
                    0
                }
            };
            if ended {
                break;
            }
            if !attempts.go_on(pictures, began.elapsed()) {
                tracing::warn!(session = %session.id, "a recording ends: its pictures break off again and again");
                break;
            }
            tokio::select! {
                () = sleep(RETRY) => {}
                _ = session.ended() => break,
            }
        }
    }

    /// Finishes what a killed process was recording, then removes old recordings at intervals, until the daemon stops.
    pub async fn keep_recordings(&self, drain: Drain) {
        if let Err(error) = self.recordings.repair().await {
            tracing::error!(%error, "recordings of an earlier process could not be finished");
        }
        let min_free = self.config.recording_min_free();
        let mut swept: Option<Instant> = None;
        loop {
            if swept.is_none_or(|swept| swept.elapsed() >= SWEEP_EVERY) {
                if let Err(error) = self.recordings.forget_old(&self.config.recording).await {
                    tracing::error!(%error, "old recordings could not be removed");
                }
                swept = Some(Instant::now());
            }
            if let Err(error) = self.recordings.free_space(min_free).await {
                tracing::error!(%error, "recordings could not give way to others");
            }
            tokio::select! {
                () = drain.reached(Phase::Draining) => return,
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Records one part, until the session or its pictures end or no room is left. Returns its number of pictures.
    async fn part(&self, session: &Arc<Session>) -> Result<(u64, Option<LimitReached>), RecordingError> {
        let (pictures, to_write) = mpsc::channel(WAITING);
        let began = Instant::now();
        let rate = self.config.recording.rate;
        let frames = session.options.engine == Engine::Chromium && session.options.mode == Mode::Headless;
        let mut source = if frames {
            Source::frames(self.live.front_tab(session), rate)
        } else {
            Source::display(session, rate).await?
        };
        // The first picture gives the size of all.
        let format = tokio::select! {
            _ = session.ended() => return Ok((0, None)),
            format = source.format() => format?,
        };
        let path = self.recordings.new_part(&session.id, format.codec.extension())?;
        let writing = tokio::task::spawn_blocking({
            let (config, recordings) = (Arc::clone(&self.config), self.recordings.clone());
            let (id, path) = (session.id.clone(), path.clone());
            move || write((&recordings, &id), &path, &format, to_write, &config, began)
        });
        tokio::select! {
            _ = session.ended() => {}
            () = source.run(&pictures) => {}
            () = pictures.closed() => {}
        }
        drop(pictures);
        let (count, stop) = writing.await.map_err(std::io::Error::other)??;
        self.recordings.complete(&path, began.elapsed(), stop.map(LimitReached::as_str))?;
        Ok((count, stop))
    }
}

/// Writes one part. Blocks.
fn write(
    (recordings, id): (&Recordings, &SessionId),
    path: &Path,
    format: &Format,
    mut pictures: mpsc::Receiver<Picture>,
    config: &Config,
    began: Instant,
) -> std::io::Result<(u64, Option<LimitReached>)> {
    let used = recordings.size_of(id);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut video = Matroska::begin(file, format.codec, format.width, format.height)?;
    let (mut count, mut stop) = (0, None);
    let (mut looked, mut look_at) = (began, 0);
    while let Some(picture) = pictures.blocking_recv() {
        if used + video.size() + picture.data.len() as u64 > config.recording.max_size.bytes() {
            stop = Some(LimitReached::Full);
            break;
        }
        if video.size() >= look_at || looked.elapsed() >= LOOK_EVERY {
            if !recordings.make_room(config.recording_min_free())? {
                stop = Some(LimitReached::Disk);
                break;
            }
            (looked, look_at) = (Instant::now(), video.size() + LOOK_AFTER);
        }
        video.picture(picture.time_ms, picture.key, &picture.data)?;
        count += 1;
    }
    video.finish(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))?;
    Ok((count, stop))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many parts a recording has whose parts all go like this.
    fn parts(pictures: u64, lasted: Duration) -> u32 {
        let mut attempts = Attempts::default();
        while attempts.go_on(pictures, lasted) {}
        attempts.parts
    }

    #[test]
    fn a_recording_has_no_parts_without_end() {
        assert_eq!(parts(0, Duration::from_secs(3600)), ATTEMPTS, "none has a picture");
        assert_eq!(parts(1, Duration::from_secs(1)), ATTEMPTS, "each has one picture and breaks off");
        assert_eq!(parts(1, SHORT), MAX_PARTS);
    }

    #[test]
    fn a_recording_that_goes_well_again_may_break_off_again() {
        let mut attempts = Attempts::default();
        for _ in 0..10 {
            for _ in 1..ATTEMPTS {
                assert!(attempts.go_on(0, SHORT));
            }
            assert!(attempts.go_on(1, SHORT));
        }
    }
}
