//! A client's profile: a zip in Base64, of which a browser gets some files.
//!
//! A profile is more than data. Firefox takes programs from `handlers.json`, libraries from `pkcs11.txt` and the folders of
//! plug-ins, compiled scripts from its caches, and rights of extensions from `extensions.json`. So there is a list of what
//! a browser gets, and everything else is left out.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::io::{Cursor, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use zip::ZipArchive;

use super::pref_file;

/// Files with preferences, in the order in which Firefox reads them.
const PREFS: [&str; 2] = ["prefs.js", "user.js"];
/// Entries of an archive at most.
const MAX_ENTRIES: usize = 10_000;
/// Bytes of a file with preferences at most.
const MAX_PREFS: u64 = 1 << 20;

/// Files that are data to Firefox: databases of what a user has, and style sheets.
const KEPT: [&str; 24] = [
    "SiteSecurityServiceState.bin",
    "autofill-profiles.json",
    "cert9.db",
    "cert_override.txt",
    "chrome/userChrome.css",
    "chrome/userContent.css",
    "containers.json",
    "content-prefs.sqlite",
    "cookies.sqlite",
    "cookies.sqlite-wal",
    "favicons.sqlite",
    "favicons.sqlite-wal",
    "formhistory.sqlite",
    "key4.db",
    "logins.json",
    "permissions.sqlite",
    "persdict.dat",
    "places.sqlite",
    "places.sqlite-wal",
    "storage-sync-v2.sqlite",
    "storage-sync-v2.sqlite-wal",
    "storage.sqlite",
    "webappsstore.sqlite",
    "webappsstore.sqlite-wal",
];
/// The folder of what sites have stored. What stands beside it is the browser's own.
const STORAGE: &str = "storage/default/";
/// The folder of extensions, which are archives there, and run with the rights of extensions.
const EXTENSIONS: &str = "extensions/";
const EXTENSION: &str = ".xpi";

/// Files that every profile has, and that each Firefox makes for itself: their loss is no loss.
const COMMON: [&str; 36] = [
    ".parentlock",
    ".startup-incomplete",
    "AlternateServices.bin",
    "AlternateServices.txt",
    "ExperimentStoreData.json",
    "SiteSecurityServiceState.txt",
    "addonStartup.json.lz4",
    "addons.json",
    "blocklist.xml",
    "bounce-tracking-protection.sqlite",
    "broadcast-listeners.json",
    "compatibility.ini",
    "cookies.sqlite-shm",
    "credentialstate.sqlite",
    "domain_to_categories.sqlite",
    "enumerate_devices.txt",
    "extension-preferences.json",
    "extension-settings.json",
    "extension-store.sqlite",
    "extensions.ini",
    "favicons.sqlite-shm",
    "lock",
    "notificationstore.json",
    "parent.lock",
    "places.sqlite-shm",
    "protections.sqlite",
    "search.json.mozlz4",
    "serviceworker-1.txt",
    "serviceworker.txt",
    "sessionCheckpoints.json",
    "shield-preference-experiments.json",
    "storage-sync-v2.sqlite-shm",
    "suggest.sqlite",
    "targeting.snapshot.json",
    "times.json",
    "webappsstore.sqlite-shm",
];
/// Folders of that kind.
const COMMON_FOLDERS: [&str; 20] = [
    "bookmarkbackups/",
    "cache2/",
    "crashes/",
    "datareporting/",
    "extension-store-menus/",
    "features/",
    "healthreport/",
    "jumpListCache/",
    "minidumps/",
    "safebrowsing-updating/",
    "safebrowsing/",
    "saved-telemetry-pings/",
    "security_state/",
    "sessionstore-backups/",
    "settings/",
    "shader-cache/",
    "startupCache/",
    "storage/",
    "thumbnails/",
    "weave/",
];

/// What becomes of a file of a client's profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The browser gets it as it is.
    Kept,
    /// It holds preferences, and the browser gets those that it may have.
    Prefs,
    /// It is left out, and the browser does without.
    Idle,
    /// It is left out, and the client hears of it: it could lead Firefox to programs, or nobody has judged it.
    LeftOut,
}

/// The class of a file by its path in the profile.
#[must_use]
pub fn class(path: &str) -> Class {
    let is_extension = |name: &str| name.len() > EXTENSION.len() && name.ends_with(EXTENSION) && !name.contains('/');
    if PREFS.contains(&path) {
        Class::Prefs
    } else if KEPT.contains(&path)
        || path.starts_with(STORAGE)
        || path.strip_prefix(EXTENSIONS).is_some_and(is_extension)
    {
        Class::Kept
    } else if COMMON.contains(&path) || COMMON_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        Class::Idle
    } else {
        Class::LeftOut
    }
}

/// Why a profile cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It is no zip in Base64.
    #[error("must be a zip of a profile, in base64: {0}")]
    Archive(String),
    /// It has too many files, or too large ones.
    #[error("{0}")]
    Limit(String),
    /// An entry would lie outside of it, or is no file.
    #[error("{0:?} is no file inside of it")]
    Outside(String),
    /// Preferences that cannot be read.
    #[error("{file} cannot be read: {problem}")]
    Prefs {
        /// Which file.
        file: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// A client's profile, opened.
pub struct Profile {
    archive: ZipArchive<Cursor<Vec<u8>>>,
    /// Its preferences, each with the file that has it; those of a later file count.
    pub prefs: Vec<(&'static str, String, Value)>,
    /// Files that it loses and that somebody may miss, by name.
    pub left_out: Vec<String>,
    kept: Vec<usize>,
}

impl Profile {
    /// Opens a profile and reads its preferences.
    ///
    /// # Errors
    ///
    /// See [`ProfileError`].
    pub fn open(encoded: &str) -> Result<Self, ProfileError> {
        let wrong = |e: &dyn std::fmt::Display| ProfileError::Archive(e.to_string());
        let text: Vec<u8> = encoded.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let bytes = STANDARD.decode(text).map_err(|e| wrong(&e))?;
        let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| wrong(&e))?;
        if archive.len() > MAX_ENTRIES {
            return Err(ProfileError::Limit(format!("has more than {MAX_ENTRIES} files")));
        }
        let (mut kept, mut left_out, mut texts) = (Vec::new(), Vec::new(), [None, None]);
        for index in 0..archive.len() {
            let mut file = archive.by_index(index).map_err(|e| wrong(&e))?;
            let name = file.name().map_err(|e| wrong(&e))?.into_owned();
            if !is_inside(&name) || file.is_symlink() {
                return Err(ProfileError::Outside(name));
            }
            if file.is_dir() {
                continue;
            }
            match class(&name) {
                Class::Kept => kept.push(index),
                Class::Prefs => {
                    let at = usize::from(name == PREFS[1]);
                    texts[at] = Some(text_of(PREFS[at], &mut file)?);
                }
                Class::Idle => {}
                Class::LeftOut => left_out.push(name),
            }
        }
        let mut prefs = Vec::new();
        for (file, text) in PREFS.into_iter().zip(texts) {
            let read = pref_file::read(text.as_deref().unwrap_or_default());
            let read = read.map_err(|e| ProfileError::Prefs { file, problem: e.to_string() })?;
            prefs.extend(read.into_iter().map(|(name, value)| (file, name, value)));
        }
        Ok(Self { archive, prefs, left_out, kept })
    }

    /// Hands out each file that a browser gets, by its path, with its content.
    ///
    /// # Errors
    ///
    /// Those of `take`, and of an archive that ends too early.
    pub fn unpack<E: From<ProfileError>>(
        &mut self,
        mut take: impl FnMut(&str, &mut dyn Read) -> Result<(), E>,
    ) -> Result<(), E> {
        for index in std::mem::take(&mut self.kept) {
            let wrong = |e: &dyn std::fmt::Display| ProfileError::Archive(e.to_string());
            let mut file = self.archive.by_index(index).map_err(|e| wrong(&e))?;
            let name = file.name().map_err(|e| wrong(&e))?.into_owned();
            take(&name, &mut file)?;
        }
        Ok(())
    }
}

fn text_of(file: &'static str, content: &mut dyn Read) -> Result<String, ProfileError> {
    let mut text = String::new();
    // The size in the archive's directory may be a lie, so the bytes themselves are counted.
    let read = content.take(MAX_PREFS + 1).read_to_string(&mut text);
    read.map_err(|e| ProfileError::Prefs { file, problem: e.to_string() })?;
    if text.len() as u64 > MAX_PREFS {
        return Err(ProfileError::Limit(format!("has more than {MAX_PREFS} bytes in {file}")));
    }
    Ok(text)
}

/// Whether a path stays below where it starts.
fn is_inside(name: &str) -> bool {
    let name = name.strip_suffix('/').unwrap_or(name);
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    name.split('/').all(plain)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    fn zipped(files: &[(&str, &[u8])]) -> String {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        STANDARD.encode(writer.finish().unwrap().into_inner())
    }

    #[test]
    fn what_runs_something_is_left_out() {
        for path in [
            "handlers.json",
            "pkcs11.txt",
            "secmod.db",
            "extensions.json",
            "xulstore.json",
            "sessionstore.jsonlz4",
            "gmp-widevinecdm/4.10/libwidevinecdm.so",
            "extensions/x@y/manifest.json",
            "extensions/x@y",
            "extensions/.xpi",
            "chrome/other.css",
            "chrome/chrome.manifest",
            "Cookies.sqlite",
            "prefs.js/x",
            "cookies.sqlite ",
            "plugins/x.so",
        ] {
            assert_eq!(class(path), Class::LeftOut, "{path}");
        }
        for path in [
            "addonStartup.json.lz4",
            "startupCache/scriptCache.bin",
            "storage/permanent/chrome/idb/x.sqlite",
            "sessionstore-backups/recovery.jsonlz4",
        ] {
            assert_eq!(class(path), Class::Idle, "{path}");
        }
        for path in ["cookies.sqlite", "storage/default/https+++a.test/ls/data.sqlite", "extensions/x@y.xpi"] {
            assert_eq!(class(path), Class::Kept, "{path}");
        }
        assert_eq!(["user.js", "prefs.js"].map(class), [Class::Prefs; 2]);
    }

    #[test]
    fn a_profile_is_opened() {
        let archive = zipped(&[
            ("user.js", b"user_pref('a', 2);"),
            ("prefs.js", b"user_pref('a', 1);"),
            ("handlers.json", b"{}"),
            ("cert9.db", b"certificates"),
            ("times.json", b"{}"),
        ]);
        let mut profile = Profile::open(&archive).unwrap();
        let prefs = [("prefs.js", "a".to_owned(), json!(1)), ("user.js", "a".to_owned(), json!(2))];
        assert_eq!(
            (profile.prefs.as_slice(), profile.left_out.as_slice()),
            (&prefs[..], &["handlers.json".to_owned()][..])
        );
        let mut got = Vec::new();
        let taken = profile.unpack(|name, content| {
            let mut text = String::new();
            content.read_to_string(&mut text).unwrap();
            got.push((name.to_owned(), text));
            Ok::<_, ProfileError>(())
        });
        taken.unwrap();
        assert_eq!(got, [("cert9.db".to_owned(), "certificates".to_owned())]);
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        for name in ["../x", "/etc/x", "a/../../x", "a\\..\\x", "a//b", "./user.js", "user.js\0"] {
            assert!(matches!(Profile::open(&zipped(&[(name, b"x")])), Err(ProfileError::Outside(_))), "{name}");
        }
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.add_symlink("cert9.db", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        let link = STANDARD.encode(writer.finish().unwrap().into_inner());
        assert!(matches!(Profile::open(&link), Err(ProfileError::Outside(_))));
        for nonsense in ["?", "aGVsbG8=", ""] {
            assert!(matches!(Profile::open(nonsense), Err(ProfileError::Archive(_))), "{nonsense}");
        }
        let blanks = vec![b' '; 2 << 20];
        assert!(matches!(Profile::open(&zipped(&[("user.js", &blanks)])), Err(ProfileError::Limit(_))));
        for (name, content) in [("user.js", &b"lockPref('a', 1);"[..]), ("prefs.js", b"user_pref('\xff', 1);")] {
            assert!(matches!(Profile::open(&zipped(&[(name, content)])), Err(ProfileError::Prefs { .. })), "{name}");
        }
    }
}
