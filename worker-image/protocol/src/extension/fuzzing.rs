//! Extensions for the fuzzer: whatever an archive says, plain files at plain paths get out, no more bytes than are allowed, and
//! each path once; and whatever a header says, its parts are parts of what was sent.

use std::collections::HashSet;
use std::io::{Cursor, Read as _, Write as _};

use zip::write::{SimpleFileOptions, ZipWriter};

use super::crx::{Header, is_crx};
use super::{ExtensionArchive, ExtensionError, ExtensionLimits, MANIFEST, Manifest, check_size};

/// How much an archive may hold here.
const LIMITS: ExtensionLimits = ExtensionLimits { unpacked: 4096, files: 8 };

/// A zip of these files.
fn zipped(files: &[(&str, &[u8])]) -> Option<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, SimpleFileOptions::default()).ok()?;
        writer.write_all(content).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}

/// A field of a protocol buffer that is bytes.
fn field(number: u64, value: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    for mut rest in [number << 3 | 2, value.len() as u64] {
        while rest >= 0x80 {
            written.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
            rest >>= 7;
        }
        written.push(u8::try_from(rest).unwrap_or_default());
    }
    written.extend_from_slice(value);
    written
}

/// A `.crx` around an archive, whose signature is none.
pub(super) fn crx(archive: &[u8]) -> Vec<u8> {
    let proof = [field(1, b"key"), field(2, b"signature")].concat();
    let header = [field(2, &proof), field(10_000, &field(1, &[7; 16]))].concat();
    let length = u32::try_from(header.len()).unwrap_or_default();
    [b"Cr24", &3u32.to_le_bytes()[..], &length.to_le_bytes(), &header, archive].concat()
}

/// Archives, headers and manifests.
pub fn seeds() -> Vec<Vec<u8>> {
    let manifest: &[u8] = br#"{"manifest_version":3,"name":"__MSG_n__","version":"1","default_locale":"en","permissions":["storage"], // no
        "content_scripts":[{"matches":["https://a.test/*"],"js":["a.js"]}]}"#;
    let texts: &[u8] = br#"{"n":{"message":"Trial"}}"#;
    let zip = zipped(&[(MANIFEST, manifest), ("_locales/en/messages.json", texts), ("js/a.js", b"1")]);
    let crx = zip.as_deref().map(crx);
    [Some(manifest.to_vec()), zip, crx].into_iter().flatten().collect()
}

/// Panics when something gets out that may not.
pub fn check(bytes: &[u8]) {
    let _ = Manifest::parse(bytes);
    let archive = match Header::read(bytes) {
        Ok(header) => {
            assert!(is_crx(bytes) && header.archive.len() < bytes.len() && header.id_text().len() == 32);
            assert!(header.signed().ends_with(header.archive));
            header.archive
        }
        Err(_) => bytes,
    };
    // As it was sent, and as a zip that has it as its manifest: no fuzzer finds its way through a checksum.
    let packed = zipped(&[(MANIFEST, archive), ("a/b.js", archive)]).unwrap_or_default();
    for sent in [archive, &packed] {
        if check_size(sent, LIMITS).is_err() {
            continue;
        }
        let Ok(mut opened) = ExtensionArchive::open(Cursor::new(sent), LIMITS) else { continue };
        let _ = opened.manifest();
        let (mut seen, mut total) = (HashSet::new(), 0);
        let read = opened.each(|path, content| {
            let mut held = Vec::new();
            content.take(4 * LIMITS.unpacked).read_to_end(&mut held)?;
            total += held.len() as u64;
            assert!(seen.insert(path.to_owned()), "{path:?} is there twice");
            assert!(!path.starts_with('/') && !path.split('/').any(|name| matches!(name, "" | "." | "..")), "{path:?}");
            Ok::<_, ExtensionError>(())
        });
        assert!(total <= LIMITS.unpacked && seen.len() <= LIMITS.files, "{total} bytes in {} files", seen.len());
        if let Ok(read) = read {
            assert_eq!(read, total);
        }
    }
}
