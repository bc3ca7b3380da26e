//! The live view: people watch a session, and take control of it.
//!
//! Each viewer has one websocket. Requests and notices are JSON in text messages (`message`), and the picture is in binary
//! ones. There are two kinds of pictures. A session with a display is shown over RFB: each viewer has a connection of
//! their own to the worker's X server, with back-pressure of their own; `rfb` filters their messages, so that viewers without
//! control can only request pictures. A headless Chromium is shown by `screencast`: JPEG
//! pictures from the daemon's own DevTools connection (`crate::cdp`, `devtools`), taken once for all viewers of a tab,
//! the newest first; `input` turns what a viewer does into commands.
//!
//! `browser` lists the tabs and navigates in them, over DevTools or, for engines without it, through the worker's agent.
//!
//! A `room` holds the viewers of one session and knows which of them has control. The first viewer opens it and the last
//! one closes it, so a session that nobody watches costs nothing. `viewer` runs one websocket, `pictures` is where its
//! next picture comes from, `viewer_input` tracks what it presses, and `ending` words how the session ended. `front_tab` gives
//! pictures to recordings. `thumbnail` takes small pictures for lists of sessions, and `last_pictures` keeps those of ended ones; `display` takes those of displays.

mod browser;
mod devtools;
mod display;
mod ending;
mod front_tab;
mod input;
mod last_pictures;
mod message;
mod pictures;
pub mod rfb;
mod room;
mod screencast;
mod thumbnail;
mod upstream;
mod viewer;
mod viewer_input;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::Error;
use crate::session::{Session, Watching};
pub use ending::ending_sentence;
pub(crate) use front_tab::FrontTab;
pub use room::ViewerRights;
use room::{Membership, Room};
pub(crate) use screencast::Frame;
use screencast::ScreencastSettings;
pub use thumbnail::Thumbnails;
use viewer::{Times, Viewer};
use warmpool_config::Config;
use warmpool_core::ids::SessionId;

/// The longest message of a viewer, in bytes: a clipboard.
const MAX_MESSAGE: usize = 2 << 20;
/// Bytes to read from a viewer at once: keys and a pointer.
const READ_BUFFER: usize = 4 << 10;
/// Bytes to collect before a write to a viewer.
const WRITE_BUFFER: usize = 16 << 10;

/// The live views of all sessions. Clones share them.
#[derive(Clone)]
pub struct Live {
    config: Arc<Config>,
    rooms: Arc<Mutex<HashMap<SessionId, Weak<Room>>>>,
}

/// A place among the viewers of a session, for one whose connection is not open yet.
pub struct PendingViewer {
    viewer: Viewer,
    _watching: Watching,
}

impl Live {
    /// Live views that nobody watches yet.
    pub fn new(config: Arc<Config>) -> Self {
        Self { config, rooms: Arc::default() }
    }

    /// Takes a place among the viewers of `session`.
    /// Errors: `SocketLimit` when `live.max_viewers` watch it already.
    pub fn enter(&self, session: &Arc<Session>, rights: ViewerRights) -> Result<PendingViewer, Error> {
        let membership = Membership::take(self.room(session), self.config.live.max_viewers)?;
        let times = Times { write: self.config.live.write_timeout, beat: self.config.live.ping_interval };
        Ok(PendingViewer { viewer: Viewer::new(membership, rights, times), _watching: session.watch() })
    }

    /// Checks that there is a place among the viewers of `session`.
    /// Errors: `SocketLimit` when `live.max_viewers` watch it already.
    pub fn check_place(&self, session: &Session) -> Result<(), Error> {
        let limit = self.config.live.max_viewers;
        // Nobody watches a session without a room.
        let room = self.rooms.lock().get(&session.id).and_then(Weak::upgrade);
        if room.is_some_and(|room| room.is_full(limit)) { Err(Error::SocketLimit { limit }) } else { Ok(()) }
    }

    /// How many sessions are watched, or were until lately.
    pub fn rooms(&self) -> usize {
        self.rooms.lock().len()
    }

    /// The front tab of `session`, a headless Chromium, for its pictures.
    pub(crate) fn front_tab(&self, session: &Arc<Session>) -> FrontTab {
        FrontTab::new(self.room(session))
    }

    fn room(&self, session: &Arc<Session>) -> Arc<Room> {
        let mut rooms = self.rooms.lock();
        rooms.retain(|_, room| room.strong_count() > 0);
        if let Some(room) = rooms.get(&session.id).and_then(Weak::upgrade) {
            return room;
        }
        let settings =
            ScreencastSettings { rate: self.config.live.frame_rate, quality: self.config.live.quality.min(100) };
        let room = Arc::new(Room::new(Arc::clone(session), settings));
        rooms.insert(session.id.clone(), Arc::downgrade(&room));
        room
    }
}

impl PendingViewer {
    /// Shows the session on an upgraded connection, until the viewer leaves, the session ends or `refused` returns.
    pub async fn watch(self, connection: impl AsyncRead + AsyncWrite + Unpin, refused: impl Future<Output = ()>) {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE))
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER);
        let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
        self.viewer.run(socket, refused).await;
    }
}
