//! Tracks what a viewer presses, on either kind of picture, so that all of it is released when they leave.

use bytes::BytesMut;
use tokio::io::AsyncWriteExt as _;

use warmpool_workers::worker::WriteHalf;

use super::input::HeldInput;
use super::rfb::{Filter, RfbError};

/// What one viewer holds down, and their connection to the display if there is one.
pub(super) struct ViewerInput {
    /// In a browser without a display.
    pub(super) pressed: HeldInput,
    filter: Filter,
    display: Option<WriteHalf>,
    to: BytesMut,
}

/// Why a viewer's input cannot be read any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    /// They do not speak RFB.
    #[error(transparent)]
    Viewer(#[from] RfbError),
    /// The display is gone.
    #[error("the display is gone: {0}")]
    Display(#[from] std::io::Error),
}

impl ViewerInput {
    pub(super) fn new(display: Option<WriteHalf>) -> Self {
        Self { pressed: HeldInput::default(), filter: Filter::new(), display, to: BytesMut::new() }
    }

    /// Forwards the viewer's bytes that may go to the display. Returns whether an input was among them.
    pub(super) async fn feed(&mut self, bytes: &[u8], acts: bool) -> Result<bool, InputError> {
        let acted = self.filter.feed(bytes, acts, &mut self.to)?;
        self.pass().await?;
        Ok(acted)
    }

    /// Releases the keys and buttons held down on the display.
    pub(super) async fn release_input(&mut self) -> Result<(), InputError> {
        self.filter.release(&mut self.to);
        self.pass().await
    }

    /// Cancel-safe: the next call writes the rest.
    async fn pass(&mut self) -> Result<(), InputError> {
        match &mut self.display {
            Some(display) => Ok(display.write_all_buf(&mut self.to).await?),
            None => {
                self.to.clear();
                Ok(())
            }
        }
    }
}
