//! A new profile, empty or a client's own.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Map, Value};
use warmpool_protocol::firefox::profile::{Profile, ProfileError};
use warmpool_protocol::firefox::{Allowed, pref_file, prefs};

use crate::error::ApiError;

/// Where a profile keeps preferences that its user chose, in a form people write.
const PREFS: &str = "user.js";

/// Where Firefox keeps the preferences that it sets itself: in the template, for which version its list of add-ons is.
const OWN_PREFS: &str = "prefs.js";

/// Where the image keeps what spares a new profile the work of a first start.
const TEMPLATE: &str = "/usr/lib/firefox-esr/warmpool/profile";
/// The folder of it whose files are large and only read.
const CACHE: &str = "startupCache";

/// Makes a profile that nobody has used.
pub(super) fn empty(profile: &Path) -> io::Result<()> {
    begin(profile, Path::new(TEMPLATE))
}

fn begin(profile: &Path, template: &Path) -> io::Result<()> {
    // A download of the browser before may have gone there.
    match fs::remove_dir_all(profile) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(profile.join(CACHE))?;
    // An image without a template only takes longer.
    if !template.exists() {
        return Ok(());
    }
    // Not copied, for the profile lies in memory and all workers can share what the image has.
    for file in fs::read_dir(template.join(CACHE)).into_iter().flatten() {
        let file = file?;
        std::os::unix::fs::symlink(file.path(), profile.join(CACHE).join(file.file_name()))?;
    }
    copy(template, profile, &[CACHE])
}

/// Copies a folder's files and folders, but for these at its top.
fn copy(from: &Path, to: &Path, without: &[&str]) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, place) = (entry.file_name(), to.join(entry.file_name()));
        if without.iter().any(|other| name == *other) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&place)?;
            copy(&entry.path(), &place, &[])?;
        } else {
            fs::copy(entry.path(), place)?;
        }
    }
    Ok(())
}

/// A client's archive with the preferences that a client may set.
pub(super) struct ClientProfile {
    archive: Profile,
    prefs: Vec<(String, Value)>,
}

impl ClientProfile {
    /// Opens a client's archive.
    /// Fails when it is none, or has what no client may set: the daemon has looked at it with the same tables.
    pub(super) fn open(archive: &str, allowed: &Allowed) -> Result<Self, ApiError> {
        let mut archive = Profile::open(archive).map_err(|e| bad(&e))?;
        let mut open = Vec::new();
        for (file, name, value) in std::mem::take(&mut archive.prefs) {
            match prefs::class(&name, &allowed.prefs) {
                class if class == prefs::Class::Refused || !prefs::is_name(&name) => {
                    return Err(bad(&format!("{file}: {name} is no client's to set")));
                }
                prefs::Class::Free => open.push((name, value)),
                _ => {}
            }
        }
        Ok(Self { archive, prefs: open })
    }
}

/// Makes a profile of a client's archive, unpacked to at most `limit` bytes, and of preferences.
///
/// Blocks; meant for a thread of its own.
pub(super) fn make(
    profile: &Path,
    own: Option<ClientProfile>,
    prefs: &Map<String, Value>,
    limit: u64,
) -> Result<(), ApiError> {
    empty(profile)?;
    let mut own_prefs = Vec::new();
    if let Some(ClientProfile { mut archive, prefs }) = own {
        // Firefox looks for extensions that a profile brings only where it finds no version of its own in there.
        match fs::remove_file(profile.join(OWN_PREFS)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        unpack(&mut archive, profile, limit)?;
        own_prefs = prefs;
    }
    choose(profile, own_prefs.iter().map(|(name, value)| (name, value)).chain(prefs))
}

/// Writes preferences that a client chose into a profile whose browser does not run.
pub(super) fn choose<'a>(
    profile: &Path,
    prefs: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<(), ApiError> {
    let line = |(name, value): (&String, &Value)| {
        pref_file::line(name, value).ok_or_else(|| ApiError::bad_request(format!("{name}: no file can hold it")))
    };
    let text = prefs.into_iter().map(line).collect::<Result<String, ApiError>>()?;
    fs::write(profile.join(PREFS), text)?;
    Ok(())
}

fn bad(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("moz:firefoxOptions.profile: {error}"))
}

/// Why a file of an archive does not become one of a profile.
enum UnpackError {
    Archive(ProfileError),
    Write(io::Error),
    TooLarge,
}

impl From<ProfileError> for UnpackError {
    fn from(error: ProfileError) -> Self {
        Self::Archive(error)
    }
}

impl From<io::Error> for UnpackError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

fn unpack(archive: &mut Profile, profile: &Path, limit: u64) -> Result<(), ApiError> {
    let mut left = limit;
    let unpacked = archive.unpack(|name, content| {
        let path = profile.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // The size in the archive's directory may be a lie, so the bytes themselves are counted.
        let size = io::copy(&mut content.take(left.saturating_add(1)), &mut File::create(path)?)?;
        left = left.checked_sub(size).ok_or(UnpackError::TooLarge)?;
        Ok(())
    });
    unpacked.map_err(|error| match error {
        UnpackError::Archive(error) => bad(&error),
        UnpackError::Write(error) => bad(&error),
        UnpackError::TooLarge => ApiError::too_large(limit),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    fn zipped(files: &[(&str, &str)]) -> String {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        STANDARD.encode(writer.finish().unwrap().into_inner())
    }

    fn own(files: &[(&str, &str)]) -> Result<Option<ClientProfile>, ApiError> {
        ClientProfile::open(&zipped(files), &Allowed { prefs: vec!["my".to_owned()], ..Allowed::default() }).map(Some)
    }

    #[test]
    fn a_clients_profile_keeps_what_it_may_have_and_gets_more() {
        let home = tempfile::tempdir().unwrap();
        let profile = home.path().join("profile-1");
        // What an earlier browser may have put there.
        fs::create_dir(&profile).unwrap();
        fs::write(profile.join(PREFS), "pref('security.sandbox.content.level', 0);").unwrap();
        let own = own(&[
            ("prefs.js", "user_pref('dom.a', 1); user_pref('unheard.of', 1); user_pref('app.update.auto', true);"),
            ("user.js", "/* mine */ pref(\"my.own\" , 'x');"),
            ("chrome/userChrome.css", "x"),
            ("handlers.json", "{}"),
            ("extensions.json", "{}"),
        ]);
        let prefs = json!({"dom.b": "\"two\"\u{8}", "dom.c": true, "dom.d": 4});
        make(&profile, own.unwrap(), prefs.as_object().unwrap(), 100).unwrap();
        let text = fs::read_to_string(profile.join(PREFS)).unwrap();
        let wanted = [
            r#"user_pref("dom.a", 1);"#,
            r#"user_pref("my.own", "x");"#,
            r#"user_pref("dom.b", "\"two\"\x08");"#,
            r#"user_pref("dom.c", true);"#,
            r#"user_pref("dom.d", 4);"#,
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
        assert_eq!(fs::read(profile.join("chrome/userChrome.css")).unwrap(), b"x");
        for gone in ["prefs.js", "handlers.json", "extensions.json"] {
            assert!(!profile.join(gone).exists(), "{gone}");
        }
    }

    #[test]
    fn a_profile_begins_with_the_images_template() {
        let home = tempfile::tempdir().unwrap();
        let (template, profile) = (home.path().join("template"), home.path().join("profile"));
        begin(&profile, &template).unwrap();
        fs::create_dir_all(template.join(CACHE)).unwrap();
        fs::write(template.join("compatibility.ini"), "x").unwrap();
        fs::create_dir_all(template.join("storage/permanent")).unwrap();
        fs::write(template.join("storage/permanent/lists"), "z").unwrap();
        fs::write(template.join(CACHE).join("scripts.bin"), "y").unwrap();
        begin(&profile, &template).unwrap();
        assert_eq!(fs::read(profile.join("compatibility.ini")).unwrap(), b"x");
        assert_eq!(fs::read(profile.join("storage/permanent/lists")).unwrap(), b"z");
        assert!(profile.join(CACHE).join("scripts.bin").is_symlink());
        assert_eq!(fs::read(profile.join(CACHE).join("scripts.bin")).unwrap(), b"y");
    }

    #[test]
    fn archives_with_more_than_a_client_may_have_are_refused() {
        for (name, text) in [
            ("user.js", "user_pref('security.sandbox.content.level', 0);"),
            ("prefs.js", "user_pref('extensions.experiments.enabled', true);"),
            ("user.js", "user_pref('network.proxy.type ', 0);"),
            ("user.js", "lockPref('dom.a', 1);"),
            ("../x", "x"),
        ] {
            assert!(own(&[(name, text)]).is_err(), "{name}: {text}");
        }
        let home = tempfile::tempdir().unwrap();
        let none = Map::new();
        let swelling = || own(&[("key4.db", "12345"), ("cert9.db", "12345")]).unwrap();
        assert!(make(&home.path().join("p"), swelling(), &none, 9).is_err());
        assert!(make(&home.path().join("p"), swelling(), &none, 10).is_ok());
    }
}
