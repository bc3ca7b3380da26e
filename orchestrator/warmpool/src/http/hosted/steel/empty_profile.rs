//! A profile that is made together with a session.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::http::error::Error;
use warmpool_api::profile::ProfileKind;
use warmpool_keys::KeyId;
use warmpool_profiles::Profiles;
use warmpool_store::carry_out;

/// Time between two tries to delete a profile that a session still has.
const RETRY: Duration = Duration::from_millis(500);
/// How long to try: longer than a session that was cut off takes to be made and to end.
const GIVE_UP: Duration = Duration::from_secs(600);

/// A profile that was made for a session, and is deleted when that is not made, also because its client has left.
pub(super) struct EmptyProfile {
    profiles: Profiles,
    owner: KeyId,
    name: String,
}

impl EmptyProfile {
    /// Makes it. A client that leaves while it is written leaves none behind: that is part of the work, which goes on.
    /// Errors: those of [`Profiles::create`].
    pub(super) async fn make(profiles: Profiles, owner: KeyId, name: String) -> Result<Self, Error> {
        let made = carry_out(async move {
            profiles.create(&owner, &name, ProfileKind::State, None).await.map(|_| Self { profiles, owner, name })
        });
        Ok(made.await?)
    }

    /// The session has begun with it.
    pub(super) fn keep(mut self) {
        self.name.clear();
    }
}

impl Drop for EmptyProfile {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        let (profiles, owner, name) = (self.profiles.clone(), self.owner.clone(), std::mem::take(&mut self.name));
        tokio::spawn(async move {
            let began = Instant::now();
            // A session that has its worker is made and ended without its client, and has the profile until then.
            let deleted = loop {
                match profiles.delete(&owner, &name).await {
                    Err(warmpool_profiles::Error::ProfileInUse { .. }) if began.elapsed() < GIVE_UP => {
                        sleep(RETRY).await;
                    }
                    deleted => break deleted,
                }
            };
            if let Err(error) = deleted {
                tracing::warn!(%error, profile = name, "the profile of a session that was not made stays");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use tempfile::TempDir;

    use super::*;
    use warmpool_config::{Config, Flags, Host};
    use warmpool_core::browser::Engine;
    use warmpool_profiles::{ProfileChoice, ProfileMode};
    use warmpool_store::Store;
    use warmpool_store::fault::until;

    async fn opened(folder: &TempDir) -> (Profiles, KeyId) {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        let limits = config.profiles.clone();
        let profiles = Profiles::open(limits, folder.path(), 0, [7; 32], Store::memory()).await.unwrap();
        (profiles, "0123456789ab".parse().unwrap())
    }

    #[tokio::test]
    async fn a_profile_goes_once_the_session_that_was_cut_off_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, owner) = opened(&folder).await;
        let made = EmptyProfile::make(profiles.clone(), owner.clone(), "left".to_owned()).await.unwrap();
        let choice = ProfileChoice { name: "left".to_owned(), mode: ProfileMode::Write, kind: None };
        let begun = profiles.begin(&owner, &choice, Engine::Chromium).await.unwrap();
        drop(made);
        // The first try.
        tokio::task::yield_now().await;
        assert_eq!(profiles.list(|_| true).len(), 1);
        drop(begun);
        until("it is gone", || profiles.list(|_| true).is_empty()).await;
    }

    #[tokio::test]
    async fn a_client_that_leaves_while_its_profile_is_made_leaves_none() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, owner) = opened(&folder).await;
        {
            let mut making = pin!(EmptyProfile::make(profiles.clone(), owner.clone(), "left".to_owned()));
            assert!(poll!(making.as_mut()).is_pending());
            until("it is made", || profiles.list(|_| true).len() == 1).await;
        }
        until("it is gone", || profiles.list(|_| true).is_empty()).await;
        // Whose session begins keeps it.
        EmptyProfile::make(profiles.clone(), owner, "kept".to_owned()).await.unwrap().keep();
        assert_eq!(profiles.list(|_| true)[0].name, "kept");
    }
}
