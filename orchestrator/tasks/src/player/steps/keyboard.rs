//! Keys, one by one. What is down stays down until the recording lets it up, also over clicks.

use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};

use super::super::playback::Playback;
use crate::script::step::Key;
use crate::script::{FailureCode, StepError};

/// Presses a key, or lets it up.
pub(super) async fn press(playback: &mut Playback<'_>, key: &Key, down: bool) -> Result<(), StepError> {
    let value = match key {
        Key::Press(value) => *value,
        Key::Unreachable(name) => {
            if down {
                playback.warn(&format!("no driver can press the key {name}: it was left out"));
            }
            return Ok(());
        }
        Key::Open => return Err(StepError::new(FailureCode::MissingInput, "the key's template was not filled")),
    };
    let action = if down { KeyAction::Down { value } } else { KeyAction::Up { value } };
    let keys = KeyActions::new("keyboard".to_owned()).then(action);
    playback.page()?.client.perform_actions(keys).await?;
    Ok(())
}
