//! A change as it is written, in dumps and in the journal.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::batch::Op;
use super::{StoreError, Table};

/// One change, as it is written.
#[derive(Serialize, Deserialize)]
pub(super) struct Change {
    /// The table's name.
    pub(super) t: String,
    k: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    v: Option<String>,
}

impl From<&Op> for Change {
    fn from(op: &Op) -> Self {
        Self::new(op.table, &op.key, op.value.as_deref())
    }
}

impl Change {
    pub(super) fn new(table: Table, key: &[u8], value: Option<&[u8]>) -> Self {
        let v = value.map(|value| BASE64.encode(value));
        Self { t: table.name().to_owned(), k: BASE64.encode(key), v }
    }

    /// Whether it deletes its row.
    pub(super) const fn deletes(&self) -> bool {
        self.v.is_none()
    }

    /// Which row it changes.
    pub(super) fn place(&self) -> Place {
        place_of(&self.t, &self.k)
    }

    /// Errors: `NewerTable`; `Io` where it is none that a release wrote.
    pub(super) fn into_op(self) -> Result<Op, StoreError> {
        let unread = |_| StoreError::during("read a change")(io::ErrorKind::InvalidData);
        let Some(table) = Table::from_name(&self.t) else { return Err(StoreError::NewerTable { table: self.t }) };
        let value = self.v.map(|text| BASE64.decode(text)).transpose().map_err(unread)?;
        Ok(Op { table, key: BASE64.decode(self.k).map_err(unread)?, value })
    }
}

/// Tells rows apart, in little memory: a digest of table and key.
pub(super) type Place = [u8; 16];

/// Where the row with this key is.
pub(super) fn place(table: Table, key: &[u8]) -> Place {
    place_of(table.name(), &BASE64.encode(key))
}

fn place_of(table: &str, key: &str) -> Place {
    let hash = Sha256::new().chain_update(table).chain_update([0]).chain_update(key).finalize();
    std::array::from_fn(|at| hash[at])
}
