//! The front tab of a browser without a display, for recordings, which are not viewers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::room::Room;
use super::screencast::{Frame, Pictures};

/// How long to wait before looking for a tab again.
const RETRY: Duration = Duration::from_millis(300);

/// Follows the front tab of a session.
pub(crate) struct FrontTab {
    room: Arc<Room>,
}

/// The pictures of one tab.
pub(crate) struct FrontPictures(Pictures);

impl FrontTab {
    pub(super) const fn new(room: Arc<Room>) -> Self {
        Self { room }
    }

    /// The browser's own id of the tab in front.
    pub(crate) fn tab(&self) -> Option<String> {
        self.room.front()
    }

    /// The pictures of the front tab, as soon as there is one.
    pub(crate) async fn pictures(&self) -> FrontPictures {
        loop {
            if let Some(cast) = self.room.front().and_then(|tab| self.room.cast(&tab)) {
                return FrontPictures(cast.pictures());
            }
            sleep(RETRY).await;
        }
    }
}

impl FrontPictures {
    /// The newest unseen picture; `None` when no more will come. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let frame = self.0.next().await;
        if frame.is_none() {
            // Its tab is gone: follow another one.
            sleep(RETRY).await;
        }
        frame
    }
}
