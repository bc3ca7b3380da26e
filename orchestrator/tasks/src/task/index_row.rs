//! The small row that the store has for each task, from which the history's index is built at the start.

use sha2::{Digest as _, Sha256};

use warmpool_api::task::{Status, TaskKind};
use warmpool_core::ids::TaskId;
use warmpool_keys::KeyId;

/// The end user of a task: 128 bits of a hash, however long the passcode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EndUser([u8; 16]);

/// Stands for no end user where something follows.
const NOBODY: EndUser = EndUser([0; 16]);

impl EndUser {
    pub(super) fn from_passcode(passcode: &str) -> Self {
        let hash = Sha256::digest(passcode.as_bytes());
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        Self(short)
    }
}

/// A label of a task: 64 bits of a hash, however long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LabelHash([u8; LABEL]);

/// The bytes of a label's hash.
const LABEL: usize = 8;

impl LabelHash {
    pub(super) fn new(key: &str, value: &str) -> Self {
        // No key has this sign.
        let hash = Sha256::digest(format!("{key}={value}").as_bytes());
        let mut short = [0; LABEL];
        short.copy_from_slice(&hash[..LABEL]);
        Self(short)
    }
}

/// What the index holds about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexRow {
    pub(super) id: TaskId,
    pub(super) kind: TaskKind,
    pub(super) status: Status,
    /// In milliseconds; anything above 49 days counts as 49 days.
    pub(super) duration: u32,
    pub(super) user: Option<EndUser>,
    pub(super) labels: Vec<LabelHash>,
}

impl IndexRow {
    /// The row's value in the store: owner, type, status, duration, and the end user and the labels if there are any. Labels
    /// without an end user follow [`NOBODY`].
    pub(super) fn encode(&self, owner: &KeyId) -> Vec<u8> {
        let mut row = owner.as_str().as_bytes().to_vec();
        row.extend_from_slice(&[self.kind as u8, self.status as u8]);
        row.extend_from_slice(&self.duration.to_be_bytes());
        let user = self.user.as_ref().or((!self.labels.is_empty()).then_some(&NOBODY));
        row.extend(user.iter().flat_map(|user| user.0));
        row.extend(self.labels.iter().flat_map(|label| label.0));
        row
    }

    pub(super) fn decode(key: &[u8], row: &[u8]) -> Option<(KeyId, Self)> {
        let (owner, rest) = row.split_at_checked(12)?;
        let (head, rest) = rest.split_at_checked(6)?;
        let (user, rest) = rest.split_at(rest.len().min(NOBODY.0.len()));
        let (labels, []) = rest.as_chunks::<LABEL>() else { return None };
        let user = if user.is_empty() { NOBODY } else { EndUser(user.try_into().ok()?) };
        let row = Self {
            id: TaskId::from_store_key(key)?,
            kind: *TaskKind::ALL.get(usize::from(head[0]))?,
            status: *Status::ALL.get(usize::from(head[1]))?,
            duration: u32::from_be_bytes(head[2..].try_into().ok()?),
            user: (user != NOBODY).then_some(user),
            labels: labels.iter().copied().map(LabelHash).collect(),
        };
        Some((std::str::from_utf8(owner).ok()?.parse().ok()?, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::ids::TaskIds;

    #[test]
    fn an_index_row_is_read_as_it_was_written() {
        let owner: KeyId = "0123456789ab".parse().unwrap();
        let labels = vec![LabelHash::new("team", "search"), LabelHash::new("a", "")];
        for (user, labels) in [
            (None, Vec::new()),
            (Some(EndUser::from_passcode("ann")), Vec::new()),
            (None, labels.clone()),
            (Some(EndUser::from_passcode("ann")), labels),
        ] {
            let id = TaskIds::default().next(9);
            let row = IndexRow { id, kind: TaskKind::Fleet, status: Status::Failure, duration: 77, user, labels };
            let value = row.encode(&owner);
            assert_eq!(IndexRow::decode(&id.store_key(), &value), Some((owner.clone(), row)));
            assert_eq!(IndexRow::decode(&id.store_key(), &value[..value.len() - 1]), None);
        }
    }
}
