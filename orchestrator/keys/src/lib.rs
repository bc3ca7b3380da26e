//! Service keys, which use the daemon, and integration keys, which ask for worlds.
//!
//! | module        | what it holds |
//! |---------------|---------------|
//! | `registry`    | all keys of one kind: made, found, rotated, revoked, and written down when they were last used |
//! | `record`      | what a key of any kind consists of |
//! | `service`     | service keys, which open the daemon |
//! | `integration` | integration keys, which open worlds and belong to a service key |
//! | `first`       | the service key that the first start makes, in a file that its owner alone can read |
//! | `error`       | what can go wrong with a key |
//!
//! The crate may use `warmpool-store`, `-config`, `-api` and `-core`, and knows no HTTP header.
//!
//! - *A secret has 256 random bits.* It is shown once and kept only as SHA-256.
//! - *Keys are checked in memory*, without waiting for anything, and found by the hash of their secret: what the time of that
//!   reveals is no part of any secret.
//! - *A revocation or a new secret is irrevocable*: it is durable against the loss of power before it is confirmed, and no
//!   backup brings back what it took away.
//! - *A change is announced* to those who subscribe: a revoked key's sessions, tasks and worlds end, and so do answers that
//!   go on. An integration key ends with its service key: whoever could see, end or delete what it makes is gone, and one that was
//!   made with a stolen service key must not outlive the theft.

mod error;
mod first;
mod integration;
mod record;
mod registry;
mod service;
#[cfg(test)]
mod tests;

pub use error::{Error, KeyError};
pub use integration::{CountedWorld, Integration, IntegrationKey, IntegrationKeys, IntegrationKind, shorten};
pub use record::{KeyState, NewKey, Record, SecretHash};
pub use registry::{KeyKind, Registry};
pub use service::{KeyRecord, KeyRole, Keys, ServiceKey};
pub use warmpool_core::ids::{IntegrationKeyId, KeyId};
