//! Which key a text on the command line means.

use warmpool_keys::{IntegrationKey, IntegrationKeyId, KeyError, KeyId, KeyKind, KeyRecord, Record};

/// The key that `text` means: an id, or the name of one active key.
pub(super) fn find_key(keys: &[KeyRecord], text: &str) -> Result<KeyId, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    find_active(keys, text, "key")?
        .ok_or_else(|| format!("no active key is called `{text}`, and it is not a key's id: see `warmpool key list`"))
}

/// The integration key that `text` means: an id, or the name of one active key.
pub(super) fn find_integration(keys: &[IntegrationKey], text: &str) -> Result<IntegrationKeyId, String> {
    if let Some(key) = keys.iter().find(|key| key.id.as_str() == text) {
        return Ok(key.id.clone());
    }
    find_active(keys, text, "integration key")?.ok_or_else(|| {
        format!(
            "no active integration key is called `{text}`, and it is not the id of one: see `warmpool integration-key list`"
        )
    })
}

/// The one active key that is called `name`; `kind` is what the command line calls such keys.
fn find_active<K: KeyKind>(keys: &[Record<K>], name: &str, kind: &str) -> Result<Option<K::Id>, String> {
    let mut named = keys.iter().filter(|key| key.name == name && key.is_active());
    match (named.next(), named.next()) {
        (Some(_), Some(_)) => {
            let command = kind.replace(' ', "-");
            Err(format!("several {kind}s are called `{name}`: name one by its id, from `warmpool {command} list`"))
        }
        (found, _) => Ok(found.map(|key| key.id.clone())),
    }
}

/// The revoked key that `text` means: an id, or the name of one revoked key.
pub(super) fn find_revoked_key(keys: &[KeyRecord], text: &str) -> Result<KeyId, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let (active, revoked): (Vec<_>, Vec<_>) =
        keys.iter().filter(|key| key.name == text).partition(|key| key.is_active());
    match (revoked.as_slice(), active.as_slice()) {
        ([key], _) => Ok(key.id.clone()),
        ([], [key, ..]) => Err(KeyError::Active(key.id.clone()).to_string()),
        ([], []) => Err(format!("no key is called `{text}`, and it is not a key's id: see `warmpool key list`")),
        _ => Err(format!("several revoked keys are called `{text}`: name one by its id, from `warmpool key list`")),
    }
}

/// The service key to which a new integration key belongs.
pub(super) fn find_owner(keys: &[KeyRecord], wanted: Option<&str>) -> Result<KeyId, String> {
    if let Some(text) = wanted {
        return find_key(keys, text);
    }
    let mut active = keys.iter().filter(|key| key.is_active());
    match (active.next(), active.next()) {
        (Some(key), None) => Ok(key.id.clone()),
        (Some(_), Some(_)) => {
            Err("there are several keys: say by --owner which one the integration key belongs to".to_owned())
        }
        (None, _) => Err("no key is active: make one with `warmpool key create NAME` first".to_owned()),
    }
}
