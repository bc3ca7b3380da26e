use std::io::{Cursor, Write as _};

use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::json;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::crx::{Algorithm, Header};
use super::*;

const LIMITS: ExtensionLimits = ExtensionLimits { unpacked: 1 << 20, files: 10 };

fn manifest() -> String {
    json!({"manifest_version": 3, "name": "Trial", "version": "1.2"}).to_string()
}

fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    zipped_with(files, SimpleFileOptions::default())
}

fn zipped_with(files: &[(&str, &[u8])], options: SimpleFileOptions) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The files of an archive that is an extension.
fn read(archive: &[u8], limits: ExtensionLimits) -> Result<Vec<(String, Vec<u8>)>, ExtensionError> {
    check_size(archive, limits)?;
    let mut archive = ExtensionArchive::open(Cursor::new(archive), limits)?;
    archive.manifest()?;
    let mut files = Vec::new();
    archive.each(|path, content| {
        let mut held = Vec::new();
        content.read_to_end(&mut held)?;
        files.push((path.to_owned(), held));
        Ok::<_, ExtensionError>(())
    })?;
    Ok(files)
}

fn refusal(archive: &[u8]) -> String {
    read(archive, LIMITS).unwrap_err().to_string()
}

#[test]
fn an_extension_is_read_as_it_was_packed() {
    let manifest = manifest();
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.add_directory("js/", SimpleFileOptions::default()).unwrap();
    for (name, content) in [("manifest.json", manifest.as_bytes()), ("js/a.js", b"1"), ("js/deep/b.js", b"2")] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    let files = read(&writer.finish().unwrap().into_inner(), LIMITS).unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["manifest.json", "js/a.js", "js/deep/b.js"]);
    assert_eq!(files[2].1, b"2");
}

#[test]
fn hostile_archives_are_refused_by_what_is_wrong() {
    let manifest = manifest();
    let with = |name: &str| zipped(&[("manifest.json", manifest.as_bytes()), (name, b"x")]);
    for path in ["../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "a\\..\\b", "C:x", "a\u{7}b", &"n".repeat(256)] {
        let said = refusal(&with(path));
        assert!(said.contains("is no path"), "{path:?}: {said}");
    }
    let mut link = ZipWriter::new(Cursor::new(Vec::new()));
    link.start_file("manifest.json", SimpleFileOptions::default()).unwrap();
    link.write_all(manifest.as_bytes()).unwrap();
    link.add_symlink("passwd", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    assert!(refusal(&link.finish().unwrap().into_inner()).contains("\"passwd\" is no plain file"));

    let both = zipped(&[("manifest.json", manifest.as_bytes()), ("a", b"1"), ("a/b", b"2")]);
    assert!(refusal(&both).contains("\"a\" is in it twice"));
    // The library writes no name twice, so the second is renamed in the bytes.
    let mut twice = zipped(&[("manifest.json", manifest.as_bytes()), ("a.js", b"1"), ("b.js", b"2")]);
    while let Some(at) = twice.windows(4).position(|bytes| bytes == b"b.js") {
        twice[at] = b'a';
    }
    assert!(refusal(&twice).contains("is in it twice"));

    for nonsense in [&b""[..], b"PK", b"not a zip", &zipped(&[("manifest.json", manifest.as_bytes())])[..60]] {
        assert!(refusal(nonsense).contains("not a zip"), "{nonsense:?}");
    }
    assert!(refusal(&zipped(&[("x/manifest.json", manifest.as_bytes())])).contains("at the root"));
    assert!(refusal(&zipped(&[("a.js", b"1")])).contains("is missing"));
}

#[test]
fn limits_hold_for_what_is_unpacked() {
    let manifest = manifest();
    let zeros = vec![0; 2 << 20];
    let bomb = zipped(&[("manifest.json", manifest.as_bytes()), ("zeros", &zeros)]);
    assert!(bomb.len() < 10_000, "it is a bomb");
    assert!(refusal(&bomb).contains("more than the 1048576 bytes"));

    // A list that lies about a size: only what is read tells. Each size stands in front of the file, and in the list.
    let mut liar = bomb.clone();
    let truth = 2u32 << 20;
    while let Some(at) = liar.windows(4).position(|bytes| bytes == truth.to_le_bytes()) {
        liar[at..at + 4].copy_from_slice(&1000u32.to_le_bytes());
    }
    assert!(read(&liar, LIMITS).is_err());

    let names: Vec<String> = (0..10).map(|number| format!("{number}.js")).collect();
    let mut many: Vec<(&str, &[u8])> = vec![("manifest.json", manifest.as_bytes())];
    many.extend(names.iter().map(|name| (name.as_str(), &b""[..])));
    assert!(refusal(&zipped(&many)).contains("more than the 10 files"));
    assert!(read(&zipped(&many[..10]), LIMITS).is_ok());
}

/// The most memory that this process has had, in bytes.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn deep_paths_take_little_memory() {
    let manifest = manifest();
    let paths: Vec<String> = (0..5000).map(|number| format!("{number:04}{}", "/a".repeat(254))).collect();
    let mut files: Vec<(&str, &[u8])> = vec![("manifest.json", manifest.as_bytes())];
    files.extend(paths.iter().map(|path| (path.as_str(), &b""[..])));
    let archive = zipped(&files);
    assert!(archive.len() < 6 << 20, "a small upload: {}", archive.len());
    let before = most_memory();
    let opened = ExtensionArchive::open(Cursor::new(&archive), ExtensionLimits { files: 5001, ..LIMITS }).unwrap();
    let taken = most_memory() - before;
    assert_eq!(opened.count(), 5001);
    assert!(taken < 64 << 20, "{taken} bytes for {} of an archive", archive.len());
}

#[test]
fn what_is_damaged_is_noticed() {
    let manifest = manifest();
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut archive = zipped_with(&[("manifest.json", manifest.as_bytes()), ("a.js", b"let secret = 1")], stored);
    let at = archive.windows(6).position(|bytes| bytes == b"secret").unwrap();
    archive[at] = b'S';
    assert!(refusal(&archive).contains("a.js"));
}

#[test]
fn a_manifest_is_read_as_browsers_read_it() {
    let text =
        "\u{feff}{ // three\n \"manifest_version\": 3, /* its \"name\" */ \"name\": \"a//b \\\"c\", \"version\": \"1\",
        \"permissions\": [\"storage\", {\"x\": 1}], \"host_permissions\": [\"https://a.test/*\"],
        \"content_scripts\": [{\"matches\": [\"https://b.test/*\", \"https://a.test/*\"]}],
        \"browser_specific_settings\": {\"gecko\": {\"id\": \"x@y\"}}}";
    let manifest = Manifest::parse(text.as_bytes()).unwrap();
    assert_eq!((manifest.manifest_version, manifest.name.as_str(), manifest.version.as_str()), (3, "a//b \"c", "1"));
    assert_eq!(manifest.permissions, ["storage"]);
    assert_eq!(manifest.hosts, ["https://a.test/*", "https://b.test/*"]);
    assert_eq!(manifest.gecko_id.as_deref(), Some("x@y"));
    for (text, said) in [
        (&b"[]"[..], "must be a JSON object"),
        (b"{", "is not valid JSON"),
        (b"\xff{}", "UTF-8"),
        (b"{}", "manifest_version"),
        (br#"{"manifest_version":"3","name":"a","version":"1"}"#, "2 or 3"),
        (br#"{"manifest_version":1,"name":"a","version":"1"}"#, "2 or 3"),
        (br#"{"manifest_version":3,"version":"1"}"#, "has no `name`"),
        (br#"{"manifest_version":3,"name":" ","version":"1"}"#, "`name`"),
        (br#"{"manifest_version":3,"name":"a","version":1}"#, "`version`"),
    ] {
        let error = Manifest::parse(text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_name_comes_from_the_texts_of_the_default_language() {
    let manifest = json!({"manifest_version": 3, "name": "__MSG_AppName__", "version": "1", "default_locale": "de"});
    let texts = json!({"appname": {"message": "Probe"}});
    let (manifest, texts) = (manifest.to_string(), texts.to_string());
    let mut files = vec![("manifest.json", manifest.as_bytes()), ("_locales/de/messages.json", texts.as_bytes())];
    let name = |files: &[(&str, &[u8])]| {
        let zip = zipped(files);
        ExtensionArchive::open(Cursor::new(zip), LIMITS).unwrap().manifest().unwrap().name
    };
    assert_eq!(name(&files), "Probe");
    files.pop();
    assert_eq!(name(&files), "__MSG_AppName__");
}

#[test]
fn a_crx_is_its_header_and_a_zip() {
    let zip = zipped(&[("manifest.json", manifest().as_bytes())]);
    let crx = fuzzing::crx(&zip);
    let header = Header::read(&crx).unwrap();
    assert_eq!((header.archive, header.id_text()), (zip.as_slice(), "ah".repeat(16)));
    assert_eq!((header.proofs.len(), header.proofs[0].algorithm), (1, Algorithm::Rsa));
    assert!(header.signed().starts_with(b"CRX3 SignedData\0\x12\0\0\0"));
    for end in 0..crx.len() - zip.len() {
        assert!(Header::read(&crx[..end]).is_err(), "cut at {end}");
    }
    let changed = |at: usize, to: u8| {
        let mut crx = crx.clone();
        crx[at] = to;
        Header::read(&crx).map(|_| ()).unwrap_err().to_string()
    };
    assert!(changed(4, 2).contains("version 2"));
    assert!(changed(11, 0xff).contains("may have"));
    assert!(changed(12, 0x17).contains("protocol buffer"));
}

#[test]
fn limits_go_by_a_query() {
    let limits = ExtensionLimits { unpacked: 7, files: 9 };
    assert_eq!(ExtensionLimits::from_query(&limits.query()), Some(limits));
    for wrong in ["", "unpacked=7", "files=9&unpacked=7", "unpacked=x&files=9", "unpacked=7&files=9&x=1"] {
        assert_eq!(ExtensionLimits::from_query(wrong), None, "{wrong}");
    }
    assert!(is_name("ext_aB-9") && !is_name("") && !is_name("../x") && !is_name("a b") && !is_name(&"n".repeat(65)));
}

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,3}",
        prop::sample::select(vec!["", ".", "..", "a\\b", "c:", "\u{0}", "ä"]).prop_map(str::to_owned)
    ]
}

proptest! {
    /// Whatever paths an archive has: what gets out stays below its folder, and is all that was packed.
    #[test]
    fn no_path_leads_out(paths in prop::collection::btree_set(prop::collection::vec(part(), 1..4), 1..6)) {
        let paths: Vec<String> = paths.into_iter().map(|parts| parts.join("/")).collect();
        let manifest = manifest();
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file("manifest.json", SimpleFileOptions::default()).unwrap();
        writer.write_all(manifest.as_bytes()).unwrap();
        let mut count = 1;
        for path in &paths {
            // The library tidies some of them itself.
            if writer.start_file(path.as_str(), SimpleFileOptions::default()).is_ok() {
                writer.write_all(b"x").unwrap();
                count += 1;
            }
        }
        if let Ok(files) = read(&writer.finish().unwrap().into_inner(), LIMITS) {
            prop_assert!(files.len() <= count);
            for (path, _) in &files {
                let place = std::path::Path::new("/home").join(path);
                prop_assert!(place.components().all(|part| part.as_os_str() != ".."), "{}", path);
                prop_assert!(place.starts_with("/home") && place.as_path() != std::path::Path::new("/home"), "{}", path);
            }
            let mut names: Vec<&String> = files.iter().map(|(path, _)| path).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), files.len());
        }
    }

    /// No bytes make the parsers panic, or let more out than is allowed.
    #[test]
    fn nothing_breaks_the_parsers(bytes in prop::collection::vec(proptest::num::u8::ANY, 0..600), seed in 0usize..3, at in 0usize..600) {
        fuzzing::check(&bytes);
        let mut changed = fuzzing::seeds().swap_remove(seed);
        let at = at % changed.len();
        let end = (at + 1 + bytes.len() % 4).min(changed.len());
        changed.splice(at..end, bytes.into_iter().take(4));
        fuzzing::check(&changed);
    }
}
