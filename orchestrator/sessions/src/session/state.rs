//! What a session's browser keeps for sites: given at the start, and read from it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use warmpool_protocol::{Cookie, StorageQuery, StorageState};

use super::Session;
use crate::Error;
use warmpool_core::clock::millis;
use warmpool_core::error::FieldFault as _;
use warmpool_workers::worker::AgentError;

/// The member of a create call that has it.
const STATE: &str = "state";

/// A state that a browser is to begin with, checked. It prints as a placeholder: cookies are secrets.
#[derive(Clone, PartialEq)]
pub struct GivenState(Arc<StorageState>);

impl fmt::Debug for GivenState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenState(..)")
    }
}

impl Eq for GivenState {}

impl GivenState {
    /// Checks a state.
    /// Errors: `Field`.
    pub fn new(state: StorageState) -> Result<Self, Error> {
        let wrong = |place: &str, reason: &str| Error::invalid(format!("{STATE}.{place}"), reason);
        state.check().map_err(|error| wrong(&error.place, &error.reason))?;
        for (at, cookie) in state.cookies.iter().enumerate() {
            if is_for_everybody(cookie) {
                let reason = format!("{:?} is a public suffix, below which anybody may register a name", cookie.domain);
                return Err(wrong(&format!("cookies[{at}].domain"), &reason));
            }
        }
        Ok(Self(Arc::new(state)))
    }

    /// A state that a profile has kept, which was checked or came from a browser.
    pub(super) fn kept(state: StorageState) -> Self {
        Self(Arc::new(state))
    }

    /// The state itself.
    #[must_use]
    pub fn into_state(self) -> StorageState {
        Arc::unwrap_or_clone(self.0)
    }

    /// As JSON, for the worker.
    pub(super) fn bytes(&self) -> serde_json::Result<Bytes> {
        serde_json::to_vec(&*self.0).map(Bytes::from)
    }

    /// What no engine takes, each as a sentence.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.0.left_out()
    }
}

/// Whether a cookie would go to sites of different owners. Every browser refuses such a one.
fn is_for_everybody(cookie: &Cookie) -> bool {
    let host = cookie.host().as_bytes();
    // A name that the list does not know, such as one of a company's own network, is nobody's suffix.
    let is_suffix = psl::suffix(host).is_some_and(|suffix| suffix.is_known() && suffix.as_bytes() == host);
    cookie.is_for_subdomains() && is_suffix
}

/// How long a client's call may read what a browser keeps. The call to the agent may take a little longer.
pub(super) const READ_TIME: Duration = Duration::from_secs(45);

/// Whose storage is read of a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origins {
    /// That of all origins. Chromium visits each that no tab shows, in a tab that only its clients see.
    All,
    /// That of those alone which a tab shows. The other engines read all without visiting one.
    Shown,
}

impl Session {
    /// What its browser keeps, as a create call takes it: of `limit` bytes at most. Calls have their turns.
    /// Errors: `Worker`, `WorkerTimeout`.
    pub async fn readable_state(&self, limit: u64) -> Result<StorageState, Error> {
        let _turn = self.reading.lock().await;
        let mut state = self.read_state(limit, Origins::All, READ_TIME).await?;
        state.origins.retain(|origin| !origin.is_empty());
        state.bound(limit);
        Ok(state)
    }

    /// Reads what its browser keeps for these origins, which may have `limit` bytes together. What does not come within this time
    /// stays unread.
    /// Errors: `Worker`, `WorkerTimeout`.
    pub(super) async fn read_state(&self, limit: u64, origins: Origins, time: Duration) -> Result<StorageState, Error> {
        let query = StorageQuery { limit, everywhere: origins == Origins::All, time_ms: millis(time) };
        let read = self.worker.agent.read_storage(query).await;
        read.map_err(|error| match error {
            AgentError::Refused { status: StatusCode::NOT_FOUND, .. } => Error::worker(
                "this session's worker was started from an image of an earlier release, which cannot read its state",
                error,
            ),
            AgentError::Timeout(after) => Error::WorkerTimeout { after },
            other => Error::worker("the browser's state could not be read", other),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use warmpool_core::error::Fault as _;

    fn field(domain: &str) -> Option<String> {
        let cookie = json!({"name": "a", "value": "secret", "domain": domain, "path": "/"});
        let state = serde_json::from_value(json!({"cookies": [cookie]})).unwrap();
        GivenState::new(state).err().and_then(|error| error.field().map(str::to_owned))
    }

    #[test]
    fn no_cookie_is_for_everybody() {
        for domain in [".com", ".co.uk", ".github.io"] {
            assert_eq!(field(domain).as_deref(), Some("state.cookies[0].domain"), "{domain}");
        }
        for domain in [".example.com", "github.io", "localhost", ".intranet", "10.0.0.1"] {
            assert_eq!(field(domain), None, "{domain}");
        }
    }

    #[test]
    fn a_state_is_not_printed() {
        let cookie = json!({"name": "a", "value": "secret", "domain": "a.b", "path": "/"});
        let state = GivenState::new(serde_json::from_value(json!({"cookies": [cookie]})).unwrap()).unwrap();
        assert!(!format!("{state:?}").contains("secret"));
    }
}
