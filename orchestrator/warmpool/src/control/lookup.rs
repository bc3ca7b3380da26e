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

/// The service key to which a new integration key belongs. It is active.
pub(super) fn find_owner(keys: &[KeyRecord], wanted: Option<&str>) -> Result<KeyId, String> {
    if let Some(text) = wanted {
        let id = find_key(keys, text)?;
        // Nobody could see what it makes.
        let is_active = keys.iter().any(|key| key.id == id && key.is_active());
        let unknown = || format!("no active key has the id `{id}`: see `warmpool key list`");
        return if is_active { Ok(id) } else { Err(unknown()) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_keys::{KeyRole, Keys};
    use warmpool_store::Store;

    #[tokio::test]
    async fn an_integration_key_belongs_to_an_active_key() {
        let keys = Keys::load(Store::memory()).await.unwrap();
        let mut ids = Vec::new();
        for name in ["used", "revoked"] {
            ids.push(keys.create(name, KeyRole::Client).await.unwrap().record.id);
        }
        keys.revoke(&ids[1]).await.unwrap();
        let find = |wanted: Option<&str>| find_owner(&keys.list(), wanted);
        for wanted in [None, Some("used"), Some(ids[0].as_str())] {
            assert_eq!(find(wanted), Ok(ids[0].clone()));
        }
        for wanted in ["revoked", ids[1].as_str(), "0123456789ab"] {
            assert!(find(Some(wanted)).unwrap_err().contains("no active key"), "{wanted}");
        }
    }
}
