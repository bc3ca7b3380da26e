//! A new profile.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::ad_filter;

/// Preferences every browser starts with, by their dotted names: downloads go where the daemon
/// finds them, and no bubble asks anything.
pub(super) fn preferences(downloads: &Path) -> [(&'static str, Value); 6] {
    [
        ("download.default_directory", json!(downloads)),
        ("savefile.default_directory", json!(downloads)),
        ("download.prompt_for_download", json!(false)),
        ("credentials_enable_service", json!(false)),
        ("profile.password_manager_enabled", json!(false)),
        ("profile.password_manager_leak_detection", json!(false)),
    ]
}

/// Removes what lies where a profile is to be: a client may have downloaded something to there.
pub(super) fn clear(profile: &Path) -> io::Result<()> {
    let is_folder = match fs::symlink_metadata(profile) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.is_dir(),
    };
    if is_folder { fs::remove_dir_all(profile) } else { fs::remove_file(profile) }
}

/// Makes a profile, in place of an earlier one.
pub(super) fn make(profile: &Path, downloads: &Path) -> io::Result<()> {
    clear(profile)?;
    fs::create_dir_all(profile.join("Default"))?;
    let mut file = json!({});
    for (name, value) in preferences(downloads) {
        let place = name.split('.').fold(&mut file, |place, part| &mut place[part]);
        *place = value;
    }
    fs::write(profile.join("Default/Preferences"), file.to_string())?;
    if ad_filter::is_there() { ad_filter::install(profile) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_lies_there_becomes_part_of_a_profile() {
        let home = tempfile::tempdir().unwrap();
        let (profile, other) = (home.path().join("profile"), home.path().join("other"));
        fs::create_dir_all(other.join("kept")).unwrap();
        clear(&profile).unwrap();
        fs::create_dir_all(profile.join("Default")).unwrap();
        clear(&profile).unwrap();
        fs::write(&profile, "a file").unwrap();
        clear(&profile).unwrap();
        std::os::unix::fs::symlink(&other, &profile).unwrap();
        clear(&profile).unwrap();
        assert!(fs::symlink_metadata(&profile).is_err() && other.join("kept").exists());
    }

    #[test]
    fn preferences_are_nested_in_the_file() {
        let home = tempfile::tempdir().unwrap();
        let profile = home.path().join("profile");
        for _ in 0..2 {
            make(&profile, Path::new("/downloads")).unwrap();
        }
        let file = fs::read(profile.join("Default/Preferences")).unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        assert_eq!(file["download"]["default_directory"], "/downloads");
        assert_eq!(file["download"]["prompt_for_download"], false);
        assert_eq!(file["credentials_enable_service"], false);
    }
}
