//! The live view: people watch a session, and take it over.
//!
//! A viewer has one websocket. What he is told and what he asks for is JSON in text messages (`message`); the picture
//! is in binary ones. Two pictures there are. A session with a display is shown over RFB: each viewer has a connection
//! of his own to the worker's X server, whose back-pressure is his alone, and `rfb` takes his messages apart so that
//! nothing but requests for pictures gets through from one who may only look. A headless Chromium is shown by `cast`:
//! JPEG pictures from the daemon's own DevTools connection (`cdp`, `devtools`), taken once for all who look at the same
//! tab, the newest one first for each; `input` turns what the viewer does into commands.
//!
//! `browser` tells of tabs and sends them somewhere, over DevTools or, of an engine without, through the worker's agent.
//!
//! A `room` holds the viewers of one session and knows which of them has the control. It is made by the first viewer
//! and goes with the last; a session that nobody watches costs nothing. `viewer` runs one websocket. `ending` words
//! how the session ended. `front` lets the pictures be taken by one who is no viewer.

mod browser;
mod cast;
mod cdp;
mod devtools;
mod ending;
mod feed;
mod front;
mod hands;
mod input;
mod message;
mod rfb;
mod room;
mod upstream;
mod viewer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::config::Config;
use crate::engine::SessionId;
use crate::error::Error;
use crate::session::{Session, Share};
pub(crate) use cast::Frame;
use cast::Looks;
pub(crate) use ending::ending_sentence;
pub(crate) use front::Front;
use room::{Room, Seat};
use viewer::{Times, Viewer};

/// The longest message of a viewer, in bytes: a clipboard.
const MAX_MESSAGE: usize = 2 << 20;
/// What is read from a viewer at once: keys and a pointer.
const READ_BUFFER: usize = 4 << 10;
/// What is gathered before it is written to a viewer.
const WRITE_BUFFER: usize = 16 << 10;

/// What a viewer may do.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    /// Whether he may take the control.
    pub may_act: bool,
    /// The link he came by; with it goes his grant.
    pub share: Option<Share>,
}

/// The live views of all sessions. Clones share them.
#[derive(Clone)]
pub(crate) struct Live {
    config: Arc<Config>,
    rooms: Arc<Mutex<HashMap<SessionId, Weak<Room>>>>,
}

/// A place among the viewers of a session, for one who is still on his way.
pub(crate) struct Place {
    viewer: Viewer,
}

impl Live {
    /// Nobody watches anything yet.
    #[must_use]
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self { config, rooms: Arc::default() }
    }

    /// Takes a place among the viewers of `session`.
    ///
    /// # Errors
    /// `SocketLimit` when `live.max_viewers` watch it already.
    pub(crate) fn enter(&self, session: &Arc<Session>, grant: Grant) -> Result<Place, Error> {
        let seat = Seat::take(self.room(session), self.config.live.max_viewers)?;
        let times = Times { write: self.config.live.write_timeout, beat: self.config.live.ping_interval };
        Ok(Place { viewer: Viewer::new(seat, grant, times) })
    }

    /// The tab in front of `session`, which a headless Chromium gives pictures of.
    pub(crate) fn front(&self, session: &Arc<Session>) -> Front {
        Front::of(self.room(session))
    }

    fn room(&self, session: &Arc<Session>) -> Arc<Room> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|_, room| room.strong_count() > 0);
        if let Some(room) = rooms.get(&session.id).and_then(Weak::upgrade) {
            return room;
        }
        let looks = Looks { rate: self.config.live.frame_rate, quality: self.config.live.quality.min(100) };
        let room = Arc::new(Room::new(Arc::clone(session), looks));
        rooms.insert(session.id.clone(), Arc::downgrade(&room));
        room
    }
}

impl Place {
    /// Shows the session on an upgraded connection, until the viewer leaves or the session ends.
    pub(crate) async fn watch(self, connection: impl AsyncRead + AsyncWrite + Unpin) {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE))
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER);
        let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
        self.viewer.run(socket).await;
    }
}
