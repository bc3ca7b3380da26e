//! Whose a data directory is: a daemon can open the files of its own user alone.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::{AccessFlags, Uid, User, access, geteuid};

use super::ControlRequestError;

/// Refuses to write into the data directory of another user, whose daemon could not open what this one makes there.
/// Errors: [`ControlRequestError::OtherOwner`].
pub(crate) fn check_owner(data_dir: &Path) -> Result<(), ControlRequestError> {
    let Ok(found) = std::fs::metadata(data_dir) else { return Ok(()) };
    // A volume's own folder may be anybody's, with a group that may write. Root may write anywhere, which says nothing.
    let writes = !geteuid().is_root() && access(data_dir, AccessFlags::W_OK).is_ok();
    if found.uid() == geteuid().as_raw() || writes {
        return Ok(());
    }
    let uid = found.uid();
    Err(ControlRequestError::OtherOwner { data_dir: data_dir.to_owned(), owner: user(uid), run: run_as(uid) })
}

fn name(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

/// What a user is called.
pub(super) fn user(uid: u32) -> String {
    name(uid).unwrap_or_else(|| format!("user {uid}"))
}

/// How root runs a command as a user.
fn run_as(uid: u32) -> String {
    name(uid).map_or_else(|| format!("setpriv --reuid {uid} --clear-groups"), |name| format!("runuser -u {name} --"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let data = tempfile::tempdir().unwrap();
        check_owner(data.path()).unwrap();
        check_owner(&data.path().join("none")).unwrap();
        // Of root, who may be this one.
        let own = geteuid();
        let other = if own.is_root() {
            std::os::unix::fs::chown(data.path(), Some(12_345), None).unwrap();
            data.path()
        } else {
            Path::new("/")
        };
        let told = check_owner(other).unwrap_err().to_string();
        let run = if own.is_root() { "setpriv --reuid 12345 --clear-groups" } else { "runuser -u root --" };
        let wanted = format!("`{run} warmpool … --store-data-dir {}`", other.display());
        assert!(told.contains(&wanted), "{told}");
    }

    #[test]
    fn users_are_called_by_their_names() {
        assert_eq!((user(0).as_str(), run_as(0).as_str()), ("root", "runuser -u root --"));
        assert_eq!(user(12_345), "user 12345");
    }
}
