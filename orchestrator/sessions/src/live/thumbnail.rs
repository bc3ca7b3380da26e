//! Small pictures of sessions for lists. The daemon takes pictures and opens connections only on request; for a while, later
//! requests get the same picture.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::devtools::DevTools;
use super::display::{Display, DisplayError};
use super::last_pictures::LastPictures;
use super::screencast::{Frame, Pictures, Screencast, ScreencastSettings};
use crate::session::Session;
use warmpool_config::Config;
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::ids::SessionId;

/// How long a picture may take. A browser that is busy gives none.
const TAKE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a connection stays open after the last request for its session.
const INTEREST: Duration = Duration::from_secs(12);
/// JPEG quality.
const QUALITY: u32 = 55;

/// A small picture, as JPEG.
#[derive(Debug, Clone)]
pub struct Thumbnail {
    /// The picture.
    pub jpeg: Bytes,
    /// Identifies its content.
    pub tag: String,
}

impl Thumbnail {
    fn new(jpeg: Bytes) -> Self {
        let tag = hex::encode(&Sha256::digest(&jpeg)[..8]);
        Self { jpeg, tag }
    }
}

/// The small pictures of all sessions. Clones share them.
#[derive(Clone)]
pub struct Thumbnails {
    cameras: Arc<Cameras>,
}

/// The cameras of the sessions that somebody watches, and what their pictures are to be.
struct Cameras {
    interval: Duration,
    width: u32,
    /// The sessions that somebody watches.
    watched: Mutex<HashMap<SessionId, WatchedSession>>,
    last: Mutex<LastPictures>,
}

struct WatchedSession {
    at: Instant,
    camera: Arc<tokio::sync::Mutex<Camera>>,
}

/// What takes the pictures of one session.
#[derive(Default)]
struct Camera {
    taken: Option<Instant>,
    last: Option<Thumbnail>,
    source: Option<Source>,
}

enum Source {
    Frames(FrontFrames),
    Display(Box<Display>),
}

/// Pictures of a browser without a display.
struct FrontFrames {
    devtools: Arc<DevTools>,
    side: watch::Sender<u32>,
    tab: String,
    pictures: Pictures,
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
enum ThumbnailError {
    #[error(transparent)]
    DevTools(#[from] crate::cdp::CdpError),
    #[error(transparent)]
    Display(#[from] DisplayError),
    #[error("the browser has no tab")]
    NoTab,
    #[error("the browser took too long")]
    Late,
}

impl Thumbnails {
    /// Takes pictures as `console.thumbnail_interval` and `console.thumbnail_width` say.
    pub fn new(config: &Config) -> Self {
        let console = &config.console;
        let cameras = Cameras {
            interval: console.thumbnail_interval,
            width: console.thumbnail_width,
            watched: Mutex::default(),
            last: Mutex::default(),
        };
        Self { cameras: Arc::new(cameras) }
    }

    /// Returns the newest picture of a session, if its browser gives one.
    pub async fn newest(&self, session: &Arc<Session>) -> Option<Thumbnail> {
        let camera = self.camera(&session.id);
        // Concurrent requests wait for the same picture.
        let mut camera = camera.lock().await;
        if camera.taken.is_none_or(|taken| taken.elapsed() >= self.cameras.interval) {
            let taking = camera.take(session, self.cameras.width);
            match timeout(TAKE_TIMEOUT, taking).await.unwrap_or(Err(ThumbnailError::Late)) {
                Ok(Some(jpeg)) => {
                    let thumbnail = Thumbnail::new(jpeg);
                    self.cameras.last.lock().put(&session.id, thumbnail.clone());
                    camera.last = Some(thumbnail);
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(session = %session.id, %error, "no thumbnail"),
            }
            camera.taken = Some(Instant::now());
        }
        camera.last.clone()
    }

    /// How many sessions somebody takes pictures of.
    pub fn watched(&self) -> usize {
        self.cameras.watched.lock().len()
    }

    /// Returns the last picture of a session that may have ended, if one was taken and is still kept.
    pub fn last(&self, session: &SessionId) -> Option<Thumbnail> {
        self.cameras.last.lock().get(session)
    }

    fn camera(&self, session: &SessionId) -> Arc<tokio::sync::Mutex<Camera>> {
        let mut watched = self.cameras.watched.lock();
        if watched.is_empty() {
            tokio::spawn(self.clone().close_unused());
        }
        let entry = watched
            .entry(session.clone())
            .or_insert_with(|| WatchedSession { at: Instant::now(), camera: Arc::default() });
        entry.at = Instant::now();
        Arc::clone(&entry.camera)
    }

    /// Closes the connections to sessions that nobody watches any more, until none is left.
    async fn close_unused(self) {
        loop {
            sleep(INTEREST / 2).await;
            let mut watched = self.cameras.watched.lock();
            watched.retain(|_, session| session.at.elapsed() < INTEREST);
            if watched.is_empty() {
                return;
            }
        }
    }
}

impl Camera {
    /// Takes a picture; none if nothing has changed since the last one.
    async fn take(&mut self, session: &Arc<Session>, width: u32) -> Result<Option<Bytes>, ThumbnailError> {
        // Whoever asked may leave in the middle of a message, behind which nobody can read on: only what has answered is kept.
        let (source, picture) = match self.source.take() {
            Some(Source::Frames(mut frames)) => {
                let next = frames.next(width).await?;
                (Source::Frames(frames), next)
            }
            Some(Source::Display(mut display)) => {
                let next = display.thumbnail(width).await?;
                (Source::Display(display), next)
            }
            None if session.options.engine == Engine::Chromium && session.options.mode == Mode::Headless => {
                let mut frames = FrontFrames::open(session, width).await?;
                let first = frames.newest().await;
                (Source::Frames(frames), first)
            }
            None => {
                let mut display = Box::new(Display::connect(session).await?);
                let first = display.thumbnail(width).await?;
                (Source::Display(display), first)
            }
        };
        self.source = Some(source);
        Ok(picture)
    }
}

impl FrontFrames {
    async fn open(session: &Arc<Session>, width: u32) -> Result<Self, ThumbnailError> {
        let devtools = Arc::new(DevTools::connect(Arc::clone(session)).await?);
        let tab = front(&devtools).await?;
        let side = watch::Sender::new(width);
        let pictures = pictures(&devtools, &tab, &side);
        Ok(Self { devtools, side, tab, pictures })
    }

    /// The newest picture of the front tab that was not returned before.
    async fn next(&mut self, width: u32) -> Result<Option<Bytes>, ThumbnailError> {
        let tab = front(&self.devtools).await?;
        if tab != self.tab || !self.pictures.runs() {
            self.side.send_replace(width);
            self.pictures = pictures(&self.devtools, &tab, &self.side);
            self.tab = tab;
        } else if !self.pictures.has_next() {
            return Ok(None);
        }
        Ok(self.newest().await)
    }

    /// Waits for a picture.
    async fn newest(&mut self) -> Option<Bytes> {
        self.pictures.next().await.as_ref().map(Frame::jpeg)
    }
}

async fn front(devtools: &DevTools) -> Result<String, ThumbnailError> {
    devtools.tabs().await?.into_iter().next().map(|tab| tab.id).ok_or(ThumbnailError::NoTab)
}

fn pictures(devtools: &Arc<DevTools>, tab: &str, side: &watch::Sender<u32>) -> Pictures {
    let settings = ScreencastSettings { rate: 1, quality: QUALITY };
    Screencast::start(Arc::clone(devtools), tab.to_owned(), settings, side.subscribe()).pictures()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;

    use super::*;
    use crate::session::tests::Bench;
    use warmpool_workers::worker::AgentStream;

    /// An update of the only pixel.
    const UPDATE: [u8; 18] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 7, 7];

    /// A camera whose display has sent this.
    async fn camera(sent: &[u8]) -> (Camera, UnixStream) {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(sent).await.unwrap();
        let display = Display::at(AgentStream::over(near));
        (Camera { source: Some(Source::Display(Box::new(display))), ..Camera::default() }, far)
    }

    #[tokio::test]
    async fn nobody_reads_on_where_another_left_half_way() {
        let bench = Bench::new().await;
        let session = bench.live("ses_a");
        let (mut camera_of_all, _display) = camera(&UPDATE).await;
        assert!(camera_of_all.take(&session, 1).await.unwrap().is_some());
        assert!(camera_of_all.source.is_some(), "the next picture comes the same way");
        let (mut camera_of_half, _display) = camera(&UPDATE[..9]).await;
        let asked = timeout(Duration::from_millis(50), camera_of_half.take(&session, 1)).await;
        assert!(asked.is_err() && camera_of_half.source.is_none());
    }
}
