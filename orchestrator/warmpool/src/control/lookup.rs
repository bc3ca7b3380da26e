//! Which key a text on the command line means.

use super::ControlReply;
use warmpool_keys::{KeyError, KeyId, KeyRecord, KeyState};
use warmpool_worlds::{IntegrationKey, IntegrationState, NewIntegrationKey};

/// The key that `text` means: an id, or the name of one active key.
pub(super) fn find_key(keys: &[KeyRecord], text: &str) -> Result<KeyId, String> {
    if let Ok(id) = text.parse::<KeyId>() {
        return Ok(id);
    }
    let mut named = keys.iter().filter(|key| key.name == text && key.state == KeyState::Active);
    match (named.next(), named.next()) {
        (Some(key), None) => Ok(key.id.clone()),
        (Some(_), Some(_)) => {
            Err(format!("several keys are called `{text}`: name one by its id, from `warmpool key list`"))
        }
        (None, _) => Err(format!("no active key is called `{text}`, and it is no key's id: see `warmpool key list`")),
    }
}

/// The revoked key that `text` means: an id, or the name of one revoked key.
pub(super) fn find_revoked_key(keys: &[KeyRecord], text: &str) -> Result<KeyId, String> {
    if let Ok(id) = text.parse::<KeyId>() {
        return Ok(id);
    }
    let (revoked, active): (Vec<_>, Vec<_>) =
        keys.iter().filter(|key| key.name == text).partition(|key| key.state != KeyState::Active);
    match (revoked.as_slice(), active.as_slice()) {
        ([key], _) => Ok(key.id.clone()),
        ([], [key, ..]) => Err(KeyError::Active(key.id.clone()).to_string()),
        ([], []) => Err(format!("no key is called `{text}`, and it is no key's id: see `warmpool key list`")),
        _ => Err(format!("several revoked keys are called `{text}`: name one by its id, from `warmpool key list`")),
    }
}

pub(super) fn integration_secret(made: NewIntegrationKey) -> ControlReply {
    let (id, name) = (made.key.id.to_string(), made.key.name);
    ControlReply::Secret { id, name, secret: made.secret.expose().to_owned() }
}

/// The service key to which a new integration key belongs.
pub(super) fn owner_of(keys: &[KeyRecord], wanted: Option<&str>) -> Result<KeyId, String> {
    if let Some(text) = wanted {
        return find_key(keys, text);
    }
    let mut active = keys.iter().filter(|key| key.state == KeyState::Active);
    match (active.next(), active.next()) {
        (Some(key), None) => Ok(key.id.clone()),
        (Some(_), Some(_)) => {
            Err("there are several keys: say by --owner which one the integration key belongs to".to_owned())
        }
        (None, _) => Err("no key is active: make one with `warmpool key create NAME` first".to_owned()),
    }
}

/// The integration key that `text` means: an id, or the name of one active key.
pub(super) fn find_integration(keys: &[IntegrationKey], text: &str) -> Result<IntegrationKey, String> {
    if let Some(key) = keys.iter().find(|key| key.id.as_str() == text) {
        return Ok(key.clone());
    }
    let mut named = keys.iter().filter(|key| key.name == text && key.state == IntegrationState::Active);
    match (named.next(), named.next()) {
        (Some(key), None) => Ok(key.clone()),
        (Some(_), Some(_)) => Err(format!(
            "several integration keys are called `{text}`: name one by its id, from `warmpool integration-key list`"
        )),
        (None, _) => Err(format!(
            "no active integration key is called `{text}`, and it is no id of one: see `warmpool integration-key list`"
        )),
    }
}
