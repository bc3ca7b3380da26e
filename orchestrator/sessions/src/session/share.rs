//! Share links for viewers of a session. They end with it, or sooner on request.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Session, Sessions};
use crate::Error;
use warmpool_core::clock::{Deadline, Now, millis};
use warmpool_core::ids::{SessionId, ShareId};
use warmpool_store::carry_out;

/// One link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Its id, which opens nothing by itself.
    pub share_id: ShareId,
    /// Whether its holder may take the session over.
    pub enable_actions: bool,
    /// When it was made, in Unix milliseconds.
    pub created_at: u64,
    /// When it ends by itself, in Unix milliseconds, as the wall clock stood when it was made.
    pub expires_at: u64,
    /// The same end, whatever the wall clock does; none in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Deadline>,
}

impl Share {
    fn new(enable_actions: bool, ttl: Duration, now: &Now) -> Self {
        Self {
            share_id: ShareId::random(),
            enable_actions,
            created_at: now.unix_ms(),
            expires_at: now.unix_ms().saturating_add(millis(ttl)),
            deadline: Some(Deadline::after(ttl, now)),
        }
    }

    fn deadline(&self) -> Deadline {
        self.deadline.clone().unwrap_or_else(|| {
            let ttl = Duration::from_millis(self.expires_at.saturating_sub(self.created_at));
            Deadline::by_wall(self.expires_at, ttl)
        })
    }

    /// How long it still works.
    fn left(&self, now: &Now) -> Duration {
        self.deadline.as_ref().map_or_else(|| self.deadline().left(now), |deadline| deadline.left(now))
    }
}

/// The links of one session.
#[derive(Debug)]
pub struct Shares {
    current: watch::Sender<Vec<Share>>,
    /// The ids of those that were ended, until the store knows it.
    ending: Mutex<HashSet<String>>,
}

impl Shares {
    /// Those that a session had, or that an earlier process kept of it.
    pub(super) fn new(mut shares: Vec<Share>, now: &Now) -> Self {
        for share in &mut shares {
            let kept = share.deadline();
            share.deadline = kept.anchored(now).or(Some(kept));
        }
        Self { current: watch::Sender::new(shares), ending: Mutex::default() }
    }

    /// Those that have not run out.
    pub fn current(&self) -> Vec<Share> {
        self.at(&Now::read())
    }

    fn at(&self, now: &Now) -> Vec<Share> {
        self.current.borrow().iter().filter(|share| !share.left(now).is_zero()).cloned().collect()
    }

    /// Adds a link.
    /// Errors: `Conflict` when there are `limit` links already.
    fn add(&self, share: &Share, limit: usize) -> Result<(), Error> {
        let now = Now::read();
        let mut full = false;
        self.current.send_modify(|shares| {
            shares.retain(|share| !share.left(&now).is_zero());
            full = shares.len() >= limit;
            if !full {
                shares.push(share.clone());
            }
        });
        if full {
            let message = format!("this session has {limit} share links already: DELETE one first");
            return Err(Error::Conflict { message });
        }
        Ok(())
    }

    /// Takes a link back that nobody has heard of.
    fn take_back(&self, share: &Share) {
        self.current.send_modify(|shares| shares.retain(|other| other != share));
    }

    /// Ends a link. Returns whether the store has yet to know it: false when there is no such link.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut ending = self.ending.lock();
        let removed = self.current.send_if_modified(|shares| {
            let before = shares.len();
            shares.retain(|share| share.share_id.as_str() != id);
            shares.len() < before
        });
        removed && ending.insert(id.to_owned()) || ending.contains(id)
    }

    /// Notes that the store knows of the end of a link.
    pub(super) fn forget(&self, id: &str) {
        self.ending.lock().remove(id);
    }

    /// Waits until a link has run out or was ended.
    pub async fn ended(&self, share: &Share) {
        let mut shares = self.current.subscribe();
        let gone = shares.wait_for(|shares| !shares.contains(share));
        let left = share.left(&Now::read());
        tokio::select! {
            _ = gone => {}
            () = tokio::time::sleep(left) => {}
        }
    }
}

impl Sessions {
    /// Makes a link that ends after `ttl`, and returns it once the store has it: whoever is given it can rely on it. A nearly full disk
    /// has no room for it, since a client may make links as often as it likes.
    /// Errors: `SessionEnded`, `Conflict` when there are `limit` links already; `DiskNearlyFull`, `StoreBusy`, `Draining`: there is
    /// no link then.
    pub async fn make_share(
        &self,
        session: &Arc<Session>,
        enable_actions: bool,
        ttl: Duration,
        limit: usize,
    ) -> Result<Share, Error> {
        let owner = session.owner.clone();
        let (session, share) = (Arc::clone(session), Share::new(enable_actions, ttl, &Now::read()));
        let made = carry_out(async move {
            let add = || {
                session.check_open()?;
                session.shares.add(&share, limit)?;
                Ok(session.record())
            };
            session.journal.persist_or_take_back(add, || session.shares.take_back(&share)).await?;
            Ok::<_, Error>(share)
        })
        .await?;
        self.changed(&owner);
        Ok(made)
    }

    /// The token of a session's own live view, which opens its recording also after its end.
    pub fn view_token(&self, id: &SessionId) -> String {
        self.shared.instance.session_token(id.as_str(), "view")
    }

    /// The token that a link's URL carries: the link's id, and the proof that this instance made it.
    pub fn share_token(&self, session: &Session, share: &Share) -> String {
        format!("{}.{}", share.share_id, self.share_proof(session, share.share_id.as_str()))
    }

    /// The link whose token this is.
    /// Errors: `InvalidToken`, also for a link that has ended.
    pub fn shared_by(&self, session: &Session, token: &str) -> Result<Share, Error> {
        let id = self.share_of(session.id.as_str(), token).ok_or(Error::InvalidToken)?;
        session.shares.current().into_iter().find(|share| share.share_id.as_str() == id).ok_or(Error::InvalidToken)
    }

    /// Whether a token opens, or opened, the live view of a session: the session's own, or a link's.
    pub fn is_view_token(&self, session: &str, token: &str) -> bool {
        self.is_token(session, "view", token) || self.share_of(session, token).is_some()
    }

    /// The id of the session's link for which this instance made this token; the link may have ended.
    fn share_of<'t>(&self, session: &str, token: &'t str) -> Option<&'t str> {
        let (id, proof) = token.split_once('.')?;
        self.is_token(session, &share_purpose(id), proof).then_some(id)
    }

    fn share_proof(&self, session: &Session, id: &str) -> String {
        self.shared.instance.session_token(session.id.as_str(), &share_purpose(id))
    }
}

/// What the proof of a link is derived for.
fn share_purpose(id: &str) -> String {
    format!("share {id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const YEAR_MS: i64 = 365 * 86_400_000;

    fn count(shares: &Shares, now: &Now) -> usize {
        shares.at(now).len()
    }

    #[test]
    fn a_link_lives_its_time_whatever_the_wall_clock_does() {
        let made = Now::at(1_790_000_000_000, "a", 1000);
        let before = Shares::new(vec![Share::new(false, HOUR, &made)], &made);
        let kept: Vec<Share> =
            serde_json::from_str(&serde_json::to_string(&*before.current.borrow()).unwrap()).unwrap();
        for jump in [-YEAR_MS, 0, YEAR_MS] {
            let restarted = made.later(HOUR / 2).jumped(jump);
            let after = Shares::new(kept.clone(), &restarted);
            for shares in [&before, &after] {
                assert_eq!(count(shares, &restarted), 1, "{jump}");
                assert_eq!(count(shares, &made.later(HOUR).jumped(jump)), 0, "{jump}");
            }
        }
    }

    #[test]
    fn whoever_ends_a_link_again_waits_for_the_store_too() {
        let shares = Shares::new(Vec::new(), &Now::read());
        let share = Share::new(false, HOUR, &Now::read());
        shares.add(&share, 1).unwrap();
        let id = share.share_id;
        assert!(!shares.remove("another"));
        for _ in 0..2 {
            assert!(shares.remove(id.as_str()), "the store has yet to know it");
        }
        shares.forget(id.as_str());
        assert!(!shares.remove(id.as_str()) && shares.current().is_empty());
    }

    #[test]
    fn a_link_of_an_earlier_release_is_bounded() {
        let made = Now::at(1_790_000_000_000, "a", 1000);
        let old = Share { deadline: None, ..Share::new(false, HOUR, &made) };
        let in_time = Shares::new(vec![old.clone()], &made.later(HOUR / 2));
        assert_eq!(count(&in_time, &made.later(HOUR / 2).jumped(YEAR_MS)), 1, "the clock jumps after the start");
        let back = made.jumped(-YEAR_MS);
        let turned_back = Shares::new(vec![old], &back);
        assert_eq!((count(&turned_back, &back), count(&turned_back, &back.later(HOUR))), (1, 0));
    }
}
