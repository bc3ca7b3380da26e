use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::*;

const LIMIT: u64 = 1 << 20;

fn manifest() -> FolderManifest {
    FolderManifest { engine: FolderEngine::Chromium, browser: "Chromium/140.0.7339.80".to_owned() }
}

/// An archive of these entries, whatever they are.
fn archive(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (kind, name, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        // As a hostile archive has it: the crate refuses such paths.
        let bytes = header.as_gnu_mut().unwrap();
        bytes.name[..name.len()].copy_from_slice(name.as_bytes());
        if *kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    zstd::encode_all(tar.into_inner().unwrap().as_slice(), 1).unwrap()
}

fn first(text: &str) -> (EntryType, &'static str, Vec<u8>) {
    (EntryType::Regular, MANIFEST, text.as_bytes().to_vec())
}

fn with_manifest(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let (kind, name, text) = first(r#"{"engine": "chromium", "browser": "Chromium/140.0.1.2"}"#);
    let mut all: Vec<(EntryType, &str, &[u8])> = vec![(kind, name, &text)];
    all.extend_from_slice(entries);
    archive(&all)
}

fn read(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, FolderError> {
    let mut files = Vec::new();
    read_folder(Some(FolderEngine::Chromium), LIMIT, bytes, |path, content| {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(FolderError::Io)?;
        files.push((path.to_owned(), bytes));
        Ok::<_, FolderError>(())
    })?;
    Ok(files)
}

fn write(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn a_file_that_becomes_a_pipe_or_a_link_is_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "Default/History", b"h");
    let history = root.path().join("Default/History");
    let list = PackingList::of(manifest(), root.path().to_owned(), LIMIT).unwrap();
    fs::remove_file(&history).unwrap();
    nix::unistd::mkfifo(&history, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(list.write(Vec::new()).is_err());
    fs::remove_file(&history).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &history).unwrap();
    assert!(list.write(Vec::new()).is_err());
}

#[test]
fn what_is_packed_is_unpacked_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let long = format!("Default/IndexedDB/https_{}_0.indexeddb.leveldb/000003.log", "a.".repeat(110));
    write(root.path(), "Default/Cookies", b"cookies");
    write(root.path(), &long, b"a long path");
    write(root.path(), "Default/Preferences", br#"{"proxy": {"mode": "direct"}}"#);
    for idle in ["SingletonLock", "Default/Login Data", "Default/Cache/x", "Default/Local Storage/leveldb/LOCK"] {
        write(root.path(), idle, b"x");
    }
    std::os::unix::fs::symlink("/etc/passwd", root.path().join("Default/History")).unwrap();
    let list = PackingList::of(manifest(), root.path().to_owned(), LIMIT).unwrap();
    let mut packed = Vec::new();
    list.write(&mut packed).unwrap();
    let files = read(&packed).unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Default/Cookies", long.as_str(), "Default/Preferences"]);
    assert_eq!(files[0].1, b"cookies");
    assert!(!String::from_utf8_lossy(&files[2].1).contains("proxy"));
    assert!(matches!(PackingList::of(manifest(), root.path().to_owned(), 9), Err(FolderError::TooLarge { limit: 9 })));
}

#[test]
fn hostile_archives_are_refused() {
    for name in ["../x", "/etc/passwd", "Default/IndexedDB/http_x/../../../x", "Default//Cookies", "Default/Cookies/"] {
        let refused = read(&with_manifest(&[(EntryType::Regular, name, b"x")]));
        assert!(matches!(refused, Err(FolderError::Unlisted(_))), "{name}: {refused:?}");
    }
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::Fifo, EntryType::Char] {
        let refused = read(&with_manifest(&[(kind, "Default/Cookies", b"")]));
        assert!(matches!(refused, Err(FolderError::NoFile(_))), "{kind:?}: {refused:?}");
    }
    let cookies: (EntryType, &str, &[u8]) = (EntryType::Regular, "Default/Cookies", b"x");
    assert!(matches!(read(&with_manifest(&[cookies, cookies])), Err(FolderError::Twice(_))));
    assert!(matches!(read(&archive(&[cookies])), Err(FolderError::Manifest(_))));
    let (kind, name, other) = first(r#"{"engine": "firefox", "browser": "Firefox/140"}"#);
    assert!(matches!(read(&archive(&[(kind, name, &other)])), Err(FolderError::Engine { .. })));
    let (kind, name, unknown) = first(r#"{"engine": "lynx", "browser": "x"}"#);
    assert!(matches!(read(&archive(&[(kind, name, &unknown)])), Err(FolderError::Manifest(_))));
    assert!(matches!(read(b"no archive"), Err(FolderError::Archive(_))));
    assert!(read(&[]).is_err());
    let swollen = vec![0; LIMIT as usize + 1];
    let refused = read(&with_manifest(&[(EntryType::Regular, "Default/Cookies", &swollen)]));
    assert!(matches!(refused, Err(FolderError::TooLarge { .. })));
    let mut long = with_manifest(&[cookies]);
    long.extend(zstd::encode_all(vec![0; 1 << 20].as_slice(), 1).unwrap());
    assert!(matches!(read(&long), Err(FolderError::Archive(_))));
    let whole = with_manifest(&[(EntryType::Regular, "Default/Cookies", &[7; 5000])]);
    assert!(read(&whole).is_ok());
    for end in [whole.len() / 2, whole.len() - 1] {
        assert!(read(&whole[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn of_preferences_only_permissions_stay() {
    let sites = json!({"https://a.b:443,*": {"setting": 1, "last_modified": "13", "model": 0}});
    let text = json!({
        "proxy": {"mode": "fixed_servers", "server": "evil:1"},
        "download": {"default_directory": "/etc"},
        "extensions": {"settings": {"x": {"path": "/tmp"}}},
        "session": {"restore_on_startup": 4, "startup_urls": ["file:///"]},
        "profile": {
            "name": "x",
            "content_settings": {
                "pref_version": 1,
                "exceptions": {"notifications": sites, "usb_chooser_data": sites, "geolocation": {"x": {"setting": {"a": 1}}}},
            },
        },
    });
    let kept = kept_preferences(text.to_string().as_bytes());
    let wanted = json!({"profile": {"content_settings": {"exceptions": {
        "notifications": {"https://a.b:443,*": {"setting": 1, "last_modified": "13"}}, "geolocation": {},
    }}}});
    assert_eq!(kept, wanted);
    for nonsense in ["", "[]", "{", r#"{"profile": 3}"#] {
        assert_eq!(kept_preferences(nonsense.as_bytes())["profile"]["content_settings"]["exceptions"], json!({}));
    }
}

#[test]
fn what_runs_or_redirects_is_in_no_folder() {
    for path in [
        "Default/Secure Preferences",
        "Default/Extensions/x/manifest.json",
        "Default/Extension Scripts/000003.log",
        "Default/Login Data",
        "Default/Web Data",
        "Default/Cache/Cache_Data/x",
        "Default/Code Cache/js/x",
        "Default/GPUCache/x",
        "Default/IndexedDB/file__0.indexeddb.leveldb/1.log",
        "Default/IndexedDB/http_",
        "Default/Service Worker/Database/LOCK",
        "Local State",
        "NativeMessagingHosts/x.json",
        "Subresource Filter/x",
        "WidevineCdm/x.so",
        "cookies.sqlite",
    ] {
        assert!(!FolderEngine::Chromium.has(path), "{path}");
    }
    for path in [
        "user.js",
        "prefs.js",
        "handlers.json",
        "pkcs11.txt",
        "extensions.json",
        "extensions/x@y.xpi",
        "addonStartup.json.lz4",
        "startupCache/scriptCache.bin",
        "chrome/userChrome.css",
        "cert9.db",
        "logins.json",
        "compatibility.ini",
        "storage/permanent/chrome/idb/x.sqlite",
        "storage/default/moz-extension+++x/idb/x.sqlite",
        "storage/default/https+++",
        "sessionstore-backups/recovery.jsonlz4",
        "Default/Cookies",
    ] {
        assert!(!FolderEngine::Firefox.has(path), "{path}");
    }
    assert!(FolderEngine::Firefox.has("storage/default/https+++a.test/ls/data.sqlite"));
    for path in [
        "cache/WebKitCache/Version 17/Records/x",
        "cache/hsts-storage.sqlite",
        "data/databases/indexeddb/v1/file__0/x/IndexedDB.sqlite3",
        "data/mediakeys/v1/salt",
        "data/deviceidhashsalts/1/x",
        "../cookies.sqlite",
    ] {
        assert!(!FolderEngine::Webkit.has(path), "{path}");
    }
    assert!(FolderEngine::Webkit.has("data/databases/indexeddb/v1/https_a.test_0/x/IndexedDB.sqlite3"));
    assert!(FolderEngine::Chromium.has("Default/Service Worker/ScriptCache/index"));
}

#[test]
fn a_service_worker_is_of_a_site() {
    let list = |scope: &str| {
        let text = format!("9\n^partitionKey=%28https%2Ca.b%29\n{scope}\n{scope}sw.js\n{{ab-1}}\ntrue\n1\n#\n");
        let entries: Vec<u8> = text.into_bytes();
        let (kind, name, first) = first(r#"{"engine": "firefox", "browser": "Firefox/140.1"}"#);
        let packed = archive(&[(kind, name, &first), (EntryType::Regular, "serviceworker.txt", &entries)]);
        read_folder(None, LIMIT, packed.as_slice(), |_, _| Ok::<_, FolderError>(()))
    };
    assert!(list("https://a.b/").is_ok());
    for scope in ["chrome://browser/", "resource://x/", "about:config", "moz-extension://x/", "file:///"] {
        assert!(list(scope).is_err(), "{scope}");
    }
}

#[test]
fn a_limit_goes_by_a_query() {
    let query = FolderQuery { limit: 7 };
    assert_eq!(FolderQuery::from_query(&query.query()), Some(query));
    for wrong in ["", "limit", "limit=", "limit=x", "limit=-1", "limit=7&x=1", "most=7"] {
        assert_eq!(FolderQuery::from_query(wrong), None, "{wrong}");
    }
}

#[test]
fn releases_count() {
    let newer = |had: &str, has: &str| FolderManifest { browser: had.to_owned(), ..manifest() }.is_newer_than(has);
    assert!(newer("Chromium/141.0.1", "Chromium/140.9.9"));
    assert!(!newer("Chromium/140.0.2", "Chromium/140.0.1"));
    assert!(!newer("Chromium/99.0", "Chromium/140.0"));
    assert!(!newer("x", "Chromium/140.0"));
    let webkit = |had: &str, has: &str| {
        FolderManifest { engine: FolderEngine::Webkit, browser: had.to_owned() }.is_newer_than(has)
    };
    assert!(webkit("WebKitGTK/2.52.0", "WebKitGTK/2.50.4"));
    assert!(!webkit("WebKitGTK/2.50.4", "WebKitGTK/2.50.1"));
}

proptest! {
    #[test]
    fn no_path_leads_out(path in "([A-Za-z.]{0,3}/){0,4}[a-z.]{0,4}", start in 0..CASES.len()) {
        let path = format!("{}{path}", CASES[start]);
        for engine in [FolderEngine::Chromium, FolderEngine::Firefox, FolderEngine::Webkit] {
            if engine.has(&path) {
                let is_plain = |part: &str| !matches!(part, "" | "." | "..");
                prop_assert!(path.split('/').all(is_plain), "{path}");
            }
        }
    }

    #[test]
    fn no_bytes_bring_it_down(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in ".{0,60}") {
        prop_assert!(read(&bytes).is_err());
        let _: Value = kept_preferences(text.as_bytes());
        let _ = read(&zstd::encode_all(bytes.as_slice(), 1).unwrap());
    }
}

const CASES: [&str; 4] = ["Default/Service Worker/", "storage/default/http+++a/", "data/storage/", ""];
