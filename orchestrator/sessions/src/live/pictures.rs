//! Where one viewer's next picture comes from.

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt as _;

use warmpool_workers::worker::ReadHalf;

use super::screencast::Pictures;

/// Bytes to read from a display at once.
const DISPLAY_BUFFER: usize = 64 << 10;

/// The tab that a viewer watches.
pub(super) struct WatchedTab {
    pub(super) tab: String,
    pub(super) pictures: Pictures,
}

/// The newest picture that this viewer has not seen; `None` when no more will come.
pub(super) async fn picture(watched: &mut Option<WatchedTab>) -> Option<Bytes> {
    match watched {
        Some(watched) => watched.pictures.next().await.map(|frame| frame.message),
        None => std::future::pending().await,
    }
}

/// The next bytes of the display, never empty; `None` at the end.
pub(super) async fn read(display: &mut Option<(ReadHalf, Bytes)>) -> Option<Bytes> {
    let Some((display, early)) = display else { return std::future::pending().await };
    if !early.is_empty() {
        return Some(std::mem::take(early));
    }
    let mut piece = BytesMut::with_capacity(DISPLAY_BUFFER);
    match display.read_buf(&mut piece).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(piece.freeze()),
    }
}
