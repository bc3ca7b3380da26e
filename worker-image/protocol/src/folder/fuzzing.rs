//! Packed profile folders for the fuzzer: whatever the archive says, files of the list alone get out, no more bytes than
//! are allowed, and each path once.

use std::collections::HashSet;
use std::io::Read as _;

use tar::{Builder, EntryType, Header};

use super::{FolderEngine, FolderError, MANIFEST, read_folder};

/// The most bytes of a folder's files here.
const LIMIT: u64 = 4096;

/// Archives before they are compressed: no fuzzer finds its way through zstd.
pub fn seeds() -> Vec<Vec<u8>> {
    let packed = |engine: FolderEngine, files: &[(&str, &[u8])]| {
        let mut tar = Builder::new(Vec::new());
        let manifest = format!("{{\"engine\":\"{}\",\"browser\":\"X/1\"}}", engine.as_str());
        let all = [(MANIFEST, manifest.as_bytes())].into_iter().chain(files.iter().copied());
        for (name, content) in all {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, name, content).ok()?;
        }
        tar.into_inner().ok()
    };
    let long = format!("storage/default/https+++a.test/{}", "x".repeat(120));
    let archives = [
        packed(FolderEngine::Firefox, &[("cookies.sqlite", b"db"), ("serviceworker.txt", b"https://a.test/\n")]),
        packed(FolderEngine::Firefox, &[(&long, b"x")]),
        packed(FolderEngine::Chromium, &[("Default/Cookies", b"db"), ("Default/Preferences", b"{\"profile\":{}}")]),
    ];
    archives.into_iter().flatten().collect()
}

/// Panics when a file gets out that may not.
pub fn check(bytes: &[u8]) {
    // Twice: as what was sent, and as what was packed before.
    let packed = zstd::encode_all(bytes, 1).unwrap_or_default();
    for sent in [bytes, &packed] {
        let (mut seen, mut total) = (HashSet::new(), 0);
        let mut names = Vec::new();
        let read = read_folder(None, LIMIT, sent, |name, content| {
            let mut held = Vec::new();
            content.take(4 * LIMIT).read_to_end(&mut held).map_err(FolderError::Archive)?;
            total += held.len() as u64;
            names.push(name.to_owned());
            assert!(seen.insert(name.to_owned()), "{name:?} is there twice");
            Ok::<_, FolderError>(())
        });
        assert!(total <= LIMIT, "{total} bytes get out");
        for name in &names {
            let has = |engine: FolderEngine| engine.has(name);
            let fits =
                read.as_ref().map_or(has(FolderEngine::Chromium) || has(FolderEngine::Firefox), |it| has(it.engine));
            assert!(fits && !name.starts_with('/') && !name.split('/').any(|part| part == ".."), "{name:?} gets out");
        }
    }
}
