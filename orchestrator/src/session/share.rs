//! Links by which others may watch a session. They die with it, and sooner where somebody says so.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::table::now_ms;
use super::{Session, Sessions};
use crate::engine::ShareId;
use crate::error::Error;

/// One link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Its id, which opens nothing by itself.
    pub share_id: ShareId,
    /// Whether who holds it may take the session over.
    pub enable_actions: bool,
    /// When it was made, in Unix milliseconds.
    pub created_at: u64,
    /// When it ends by itself, in Unix milliseconds.
    pub expires_at: u64,
}

/// The links of one session.
#[derive(Debug)]
pub(super) struct Shares(watch::Sender<Vec<Share>>);

impl Shares {
    pub(super) fn new(shares: Vec<Share>) -> Self {
        Self(watch::Sender::new(shares))
    }
}

impl Session {
    /// Its links that have not run out.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        let now = now_ms();
        self.shares.0.borrow().iter().filter(|share| share.expires_at > now).cloned().collect()
    }

    /// Makes a link that ends after `ttl`.
    ///
    /// # Errors
    /// `Conflict` when there are `limit` links already.
    pub fn share(&self, enable_actions: bool, ttl: Duration, limit: usize) -> Result<Share, Error> {
        let now = now_ms();
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let share =
            Share { share_id: ShareId::random(), enable_actions, created_at: now, expires_at: now.saturating_add(ttl) };
        let mut full = false;
        self.shares.0.send_modify(|shares| {
            shares.retain(|share| share.expires_at > now);
            full = shares.len() >= limit;
            if !full {
                shares.push(share.clone());
            }
        });
        if full {
            let message = format!("this session has {limit} share links already: DELETE one first");
            return Err(Error::Conflict { message });
        }
        Ok(share)
    }

    /// Ends a link. False when there is no such link.
    #[must_use]
    pub fn unshare(&self, id: &str) -> bool {
        self.shares.0.send_if_modified(|shares| {
            let before = shares.len();
            shares.retain(|share| share.share_id.as_str() != id);
            shares.len() < before
        })
    }

    /// Waits until a link has run out or was ended.
    pub async fn unshared(&self, share: &Share) {
        let mut shares = self.shares.0.subscribe();
        let gone = shares.wait_for(|shares| !shares.contains(share));
        let left = Duration::from_millis(share.expires_at.saturating_sub(now_ms()));
        tokio::select! {
            _ = gone => {}
            () = tokio::time::sleep(left) => {}
        }
    }
}

impl Sessions {
    /// The token that a link's URL carries: the link's id, and the proof that this instance made it.
    #[must_use]
    pub fn share_token(&self, session: &Session, share: &Share) -> String {
        format!("{}.{}", share.share_id, self.share_proof(session, share.share_id.as_str()))
    }

    /// The link whose token this is.
    ///
    /// # Errors
    /// `InvalidToken`, also for a link that has ended.
    pub fn shared_by(&self, session: &Session, token: &str) -> Result<Share, Error> {
        use subtle::ConstantTimeEq as _;
        let (id, proof) = token.split_once('.').ok_or(Error::InvalidToken)?;
        let genuine = self.share_proof(session, id);
        if !bool::from(genuine.as_bytes().ct_eq(proof.as_bytes())) {
            return Err(Error::InvalidToken);
        }
        session.shares().into_iter().find(|share| share.share_id.as_str() == id).ok_or(Error::InvalidToken)
    }

    fn share_proof(&self, session: &Session, id: &str) -> String {
        self.inner.instance.session_token(session.id.as_str(), &format!("share {id}"))
    }
}
