//! A new profile, empty or a client's own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use zip::ZipArchive;

use crate::error::ApiError;

/// Where a profile keeps preferences that its user chose, in a form people write.
const PREFS: &str = "user.js";
/// Files in a client's profile at most.
const MAX_FILES: usize = 10_000;

/// Where the image keeps what spares a new profile the work of a first start.
const TEMPLATE: &str = "/usr/lib/firefox-esr/warmpool/profile";
/// The folder of it whose files are large and only read.
const CACHE: &str = "startupCache";

/// Makes a profile that nobody has used.
pub(super) fn empty(profile: &Path) -> io::Result<()> {
    begin(profile, Path::new(TEMPLATE))
}

fn begin(profile: &Path, template: &Path) -> io::Result<()> {
    fs::create_dir_all(profile.join(CACHE))?;
    // An image without a template only takes longer.
    for file in fs::read_dir(template).into_iter().flatten() {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), profile.join(file.file_name()))?;
        }
    }
    for file in fs::read_dir(template.join(CACHE)).into_iter().flatten() {
        let file = file?;
        // Not copied, for the profile lies in memory and all workers can share what the image has.
        std::os::unix::fs::symlink(file.path(), profile.join(CACHE).join(file.file_name()))?;
    }
    Ok(())
}

/// Makes a profile of a client's archive, unpacked to at most `limit` bytes, and preferences.
///
/// Blocks; meant for a thread of its own.
pub(super) fn make(
    profile: &Path,
    archive: Option<&str>,
    prefs: &Map<String, Value>,
    limit: u64,
) -> Result<(), ApiError> {
    empty(profile)?;
    if let Some(archive) = archive {
        unpack(archive, profile, limit)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(profile.join(PREFS))?;
    for (name, value) in prefs {
        // Its strings are written as in JSON.
        writeln!(file, "\nuser_pref({}, {value});", Value::from(name.as_str()))?;
    }
    Ok(())
}

fn unpack(archive: &str, profile: &Path, limit: u64) -> Result<(), ApiError> {
    let bad = |e: &dyn std::fmt::Display| ApiError::bad_request(format!("moz:firefoxOptions.profile: {e}"));
    let text: Vec<u8> = archive.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(text).map_err(|e| bad(&e))?;
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| bad(&e))?;
    if archive.len() > MAX_FILES {
        return Err(bad(&format!("more than {MAX_FILES} files in it")));
    }
    let mut left = limit;
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(|e| bad(&e))?;
        let name = file.name().map_err(|e| bad(&e))?.into_owned();
        let Some(path) = inside(&name) else { return Err(bad(&format!("{name:?} lies outside of it"))) };
        let path = profile.join(path);
        if file.is_dir() {
            fs::create_dir_all(path)?;
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // What lies there already may be a link into the image.
        let _ = fs::remove_file(&path);
        // The size in the archive's directory may be a lie, so the bytes themselves are counted.
        let size = io::copy(&mut file.take(left.saturating_add(1)), &mut File::create(path)?).map_err(|e| bad(&e))?;
        left = left.checked_sub(size).ok_or_else(|| ApiError::too_large(limit))?;
    }
    Ok(())
}

/// A relative path that stays below where it starts, if the name is one.
fn inside(name: &str) -> Option<PathBuf> {
    let name = name.strip_suffix('/').unwrap_or(name);
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\\') && !part.contains('\0');
    name.split('/').all(plain).then(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zip::write::{SimpleFileOptions, ZipWriter};

    fn zipped(files: &[(&str, &str)]) -> String {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        STANDARD.encode(writer.finish().unwrap().into_inner())
    }

    #[test]
    fn a_clients_profile_keeps_its_preferences_and_gets_more() {
        let home = tempfile::tempdir().unwrap();
        let profile = home.path().join("profile");
        let archive = zipped(&[("user.js", "user_pref(\"a\", 1);"), ("chrome/userChrome.css", "x")]);
        let prefs = json!({"b": "\"two\"", "c": true, "d": 4});
        make(&profile, Some(&archive), prefs.as_object().unwrap(), 100).unwrap();
        let text = fs::read_to_string(profile.join(PREFS)).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
        let wanted = [
            r#"user_pref("a", 1);"#,
            r#"user_pref("b", "\"two\"");"#,
            r#"user_pref("c", true);"#,
            r#"user_pref("d", 4);"#,
        ];
        assert_eq!(lines, wanted);
        assert_eq!(fs::read(profile.join("chrome/userChrome.css")).unwrap(), b"x");
    }

    #[test]
    fn a_profile_begins_with_the_images_template() {
        let home = tempfile::tempdir().unwrap();
        let (template, profile) = (home.path().join("template"), home.path().join("profile"));
        begin(&profile, &template).unwrap();
        fs::create_dir_all(template.join(CACHE)).unwrap();
        fs::write(template.join("compatibility.ini"), "x").unwrap();
        fs::write(template.join(CACHE).join("scripts.bin"), "y").unwrap();
        begin(&profile, &template).unwrap();
        assert_eq!(fs::read(profile.join("compatibility.ini")).unwrap(), b"x");
        assert!(profile.join(CACHE).join("scripts.bin").is_symlink());
        assert_eq!(fs::read(profile.join(CACHE).join("scripts.bin")).unwrap(), b"y");
    }

    #[test]
    fn archives_that_reach_out_or_swell_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let none = Map::new();
        for name in ["../x", "/etc/x", "a/../../x", "a\\..\\x"] {
            let archive = zipped(&[(name, "x")]);
            assert!(make(&home.path().join("p"), Some(&archive), &none, 100).is_err(), "{name}");
        }
        let archive = zipped(&[("a", "12345"), ("b", "12345")]);
        assert!(make(&home.path().join("p"), Some(&archive), &none, 9).is_err());
        assert!(make(&home.path().join("p"), Some(&archive), &none, 10).is_ok());
        for nonsense in ["?", "aGVsbG8="] {
            assert!(make(&home.path().join("p"), Some(nonsense), &none, 100).is_err());
        }
    }
}
