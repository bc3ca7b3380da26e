//! Where the browsers of an engine have their profiles.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

/// The profiles of one worker's browsers, which come one after another.
pub(crate) struct ProfileFolders {
    home: PathBuf,
    /// How many there have been.
    count: AtomicU32,
    /// The present browser's.
    current: Mutex<PathBuf>,
    /// Whether the session began with a profile folder.
    has_folder: AtomicBool,
}

impl ProfileFolders {
    /// None yet; each is to be in this directory.
    pub(crate) fn new(home: PathBuf) -> Self {
        Self { home, count: AtomicU32::new(0), current: Mutex::default(), has_folder: AtomicBool::new(false) }
    }

    /// The place of another profile.
    pub(crate) fn next(&self) -> PathBuf {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.home.join(format!("profile-{number}"))
    }

    /// The present browser's profile.
    pub(crate) fn current(&self) -> PathBuf {
        self.current.lock().clone()
    }

    /// The present browser has this profile.
    pub(crate) fn set_current(&self, profile: PathBuf) {
        *self.current.lock() = profile;
    }

    /// Whether the session began with a profile folder, which its browsers keep.
    pub(crate) fn has_folder(&self) -> bool {
        self.has_folder.load(Ordering::Relaxed)
    }

    /// The session has begun with one.
    pub(crate) fn keep_folder(&self) {
        self.has_folder.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_has_a_place_of_its_own() {
        let profiles = ProfileFolders::new(PathBuf::from("/home/worker"));
        let (first, second) = (profiles.next(), profiles.next());
        assert_eq!(first, PathBuf::from("/home/worker/profile-0"));
        assert_eq!(second, PathBuf::from("/home/worker/profile-1"));
        assert_eq!(profiles.current(), PathBuf::new());
        profiles.set_current(second.clone());
        assert_eq!(profiles.current(), second);
        assert!(!profiles.has_folder());
        profiles.keep_folder();
        assert!(profiles.has_folder());
    }
}
