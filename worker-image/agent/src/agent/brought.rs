//! What calls bring before the launch that is to have it.

use std::path::PathBuf;

use parking_lot::Mutex;
use tokio::sync::Notify;
use warmpool_protocol::StorageState;

use crate::ads::AdRules;
use crate::error::ApiError;

/// What was brought. A launch takes what it wants and drops the rest.
#[derive(Default)]
pub(crate) struct Brought {
    ad_rules: Mutex<Option<AdRules>>,
    storage: Mutex<Option<StorageState>>,
    /// The profile that was made of the folder.
    folder: Mutex<Option<PathBuf>>,
    /// In the order in which they came.
    extensions: Mutex<Vec<PathBuf>>,
    extension_came: Notify,
}

impl Brought {
    /// `PUT /ads`: the rules by which a launch may block ads, as the daemon made them for this engine.
    pub(crate) fn bring_ad_rules(&self, rules: AdRules) {
        *self.ad_rules.lock() = Some(rules);
    }

    /// `PUT /storage`: what the browser of a later launch begins with.
    pub(crate) fn bring_storage(&self, state: StorageState) {
        *self.storage.lock() = Some(state);
    }

    /// `PUT /folder`: the profile of a later launch.
    pub(super) fn bring_folder(&self, profile: PathBuf) {
        *self.folder.lock() = Some(profile);
    }

    /// `PUT /extensions/{name}`: an extension of the claim or of a later launch.
    pub(super) fn bring_extension(&self, kept: PathBuf) {
        let mut all = self.extensions.lock();
        // A daemon whose call was broken off sends it again.
        all.retain(|place| *place != kept);
        all.push(kept);
        self.extension_came.notify_one();
    }

    /// Takes the extensions once there are so many.
    pub(super) async fn await_extensions(&self, count: usize) -> Vec<PathBuf> {
        loop {
            {
                let mut brought = self.extensions.lock();
                if brought.len() >= count {
                    return std::mem::take(&mut *brought);
                }
            }
            self.extension_came.notified().await;
        }
    }

    /// Takes the rules of ads.
    /// Fails, as each of these, when a launch wants what was not brought.
    pub(super) fn take_ad_rules(&self, is_wanted: bool) -> Result<Option<AdRules>, ApiError> {
        wanted(is_wanted, self.ad_rules.lock().take(), "block_ads: PUT /ads brings the rules first")
    }

    /// Takes the profile.
    pub(super) fn take_folder(&self, is_wanted: bool) -> Result<Option<PathBuf>, ApiError> {
        wanted(is_wanted, self.folder.lock().take(), "folder: PUT /folder brings the profile first")
    }

    /// Takes the extensions, of which there is one at least.
    pub(super) fn take_extensions(&self, is_wanted: bool) -> Result<Option<Vec<PathBuf>>, ApiError> {
        let brought = Some(std::mem::take(&mut *self.extensions.lock())).filter(|all| !all.is_empty());
        wanted(is_wanted, brought, "extensions: PUT /extensions/{name} brings them first")
    }

    /// Takes the state.
    pub(super) fn take_storage(&self, is_wanted: bool) -> Result<Option<StorageState>, ApiError> {
        wanted(is_wanted, self.storage.lock().take(), "storage: PUT /storage brings the state first")
    }
}

/// What was brought, if it is wanted.
/// Fails with `missing` when it is, and was not brought.
fn wanted<T>(is_wanted: bool, brought: Option<T>, missing: &'static str) -> Result<Option<T>, ApiError> {
    if is_wanted && brought.is_none() {
        return Err(ApiError::bad_request(missing));
    }
    Ok(brought.filter(|_| is_wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_has_what_it_wants_and_nothing_is_left_for_another() {
        let brought = Brought::default();
        let profile = || PathBuf::from("/home/worker/profile-1");
        assert!(brought.take_folder(true).unwrap_err().message.starts_with("folder: PUT /folder"));
        assert_eq!(brought.take_folder(false).unwrap(), None);
        brought.bring_folder(profile());
        assert_eq!(brought.take_folder(true).unwrap(), Some(profile()));
        brought.bring_folder(profile());
        assert_eq!(brought.take_folder(false).unwrap(), None);
        assert!(brought.take_folder(true).is_err());
    }

    #[tokio::test]
    async fn extensions_have_their_order_and_each_is_there_once() {
        let brought = Brought::default();
        assert!(brought.take_extensions(true).is_err());
        let places = ["a", "b", "a"].map(PathBuf::from);
        let (all, ()) = tokio::join!(brought.await_extensions(2), async {
            for place in places {
                brought.bring_extension(place);
            }
        });
        assert_eq!(all, ["b", "a"].map(PathBuf::from));
        brought.bring_extension(PathBuf::from("c"));
        assert_eq!(brought.take_extensions(true).unwrap(), Some(vec![PathBuf::from("c")]));
        assert_eq!(brought.take_extensions(false).unwrap(), None);
    }
}
