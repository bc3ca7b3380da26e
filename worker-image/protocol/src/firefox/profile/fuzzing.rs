//! Profiles of Firefox for the fuzzer: whatever the archive says, a browser gets files of the list alone, each inside of the
//! profile, and preferences that a file can hold.

use std::io::{Cursor, Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::{Class, Profile, ProfileError, class, is_inside};
use crate::firefox::pref_file;

/// Archives, stored and compressed.
pub fn seeds() -> Vec<Vec<u8>> {
    let files: [(&str, &[u8]); 5] = [
        ("user.js", b"user_pref('a', 2);\n// x\nuser_pref(\"b\", \"c\");"),
        ("prefs.js", b"user_pref('a', true);"),
        ("handlers.json", b"{}"),
        ("cert9.db", b"certificates"),
        ("storage/default/https+++a.test/ls/data.sqlite", b"x"),
    ];
    let zipped = |method| {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            let options = SimpleFileOptions::default().compression_method(method);
            writer.start_file(name, options).ok()?;
            writer.write_all(content).ok()?;
        }
        Some(writer.finish().ok()?.into_inner())
    };
    [CompressionMethod::Stored, CompressionMethod::Deflated].into_iter().filter_map(zipped).collect()
}

/// Panics when a file gets out that may not, or a preference cannot be written down.
pub fn check(bytes: &[u8]) {
    let Ok(mut profile) = Profile::open(&STANDARD.encode(bytes)) else { return };
    for (_, name, value) in &profile.prefs {
        if let Some(line) = pref_file::line(name, value) {
            assert_eq!(pref_file::read(&line), Ok(vec![(name.clone(), value.clone())]));
        }
    }
    // An archive may say the size that it likes, so nobody reads to the end of a file without a limit.
    let _ = profile.unpack(|name, content| {
        assert!(is_inside(name) && class(name) == Class::Kept, "{name:?} gets out");
        let _ = content.take(1 << 16).read_to_end(&mut Vec::new());
        Ok::<_, ProfileError>(())
    });
}
