//! Dumps that hold the files beside the database.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sha2::{Digest as _, Sha256};

use super::*;

const PICTURES: Folder = Folder { name: "pictures", has: |name| name.ends_with(".png") };
const FILMS: Folder = Folder { name: "films", has: |name| name.ends_with(".webm") };

fn write(data: &Path, place: &str, content: &[u8]) {
    let path = data.join(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The files of a folder with their content, in the order of their names.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for owner in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        for file in fs::read_dir(owner.path()).unwrap().map(Result::unwrap) {
            let name = format!("{}/{}", owner.file_name().display(), file.file_name().display());
            found.push((name, fs::read(file.path()).unwrap()));
        }
    }
    found.sort();
    found
}

fn large() -> Vec<u8> {
    (0..300_000_u32).flat_map(|number| number.to_le_bytes()).collect()
}

/// A data directory with a row, pictures, a film, and what belongs to none of them.
async fn sample(data: &Path) -> Store {
    let store = open_sled(data);
    put(&store, Table::Keys, b"row", b"1").await;
    write(data, "pictures/ann/large.png", &large());
    write(data, "pictures/ann/empty.png", b"");
    write(data, "pictures/bob/line.png", b"{\"lines\":{},\"sha256\":\"\"}\n");
    write(data, "pictures/bob/half.png.tmp", b"half");
    write(data, "films/ann/one.webm", b"film");
    std::os::unix::fs::symlink("/etc/hostname", data.join("pictures/bob/link.png")).unwrap();
    store
}

#[tokio::test]
async fn a_dump_brings_files_to_another_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, file) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("dump"));
    let store = sample(&from).await;
    let dumped = store.dump(&file, &[PICTURES]).await.unwrap();
    assert_eq!((dumped.files, dumped.bytes), (3, fs::metadata(&file).unwrap().len()));
    store.close().await.unwrap();

    write(&to, "pictures/cem/old.png", b"old");
    write(&to, "films/cem/old.webm", b"old");
    let restored = restore(&to, &file, &[PICTURES, FILMS]).unwrap();
    assert_eq!((restored.lines, restored.files), (dumped.lines, 3));
    let copy = open_sled(&to);
    assert_eq!(copy.get(Table::Keys, b"row").await.unwrap(), Some(b"1".to_vec()));
    copy.close().await.unwrap();
    let line = fs::read(from.join("pictures/bob/line.png")).unwrap();
    let expected = [("ann/empty.png", vec![]), ("ann/large.png", large()), ("bob/line.png", line)];
    assert_eq!(files(&to.join("pictures")), expected.map(|(name, content)| (name.to_owned(), content)));
    assert_eq!(fs::metadata(to.join("pictures/ann/large.png")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(files(&to.join("films")).len(), 1, "the dump holds no films, so those that are there stay");
    let kept = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.display().to_string().contains("pictures.replaced-")).collect();
    assert_eq!(files(&kept[0]), [("cem/old.png".to_owned(), b"old".to_vec())], "what was there is kept");
    assert!(!to.join("files.new").exists());
}

#[tokio::test]
async fn damaged_dumps_bring_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("dump"));
    let store = sample(&data).await;
    store.dump(&file, &[PICTURES, FILMS]).await.unwrap();
    store.close().await.unwrap();
    let good = fs::read(&file).unwrap();
    restore(&data, &file, &[PICTURES, FILMS]).unwrap();
    let before = files(&data.join("pictures"));
    let mut random = Random::seeded("WARMPOOL_DUMP_SEED");
    for round in 0..40 {
        let mut bad = good.clone();
        // Most of the dump is one file; lines and their ends deserve as much.
        let at =
            if round % 2 == 0 { random.below(good.len() as u64) } else { good.len() as u64 - 1 - random.below(600) };
        let at = usize::try_from(at).unwrap();
        if round % 4 < 2 {
            bad.truncate(at)
        } else {
            bad[at] ^= 1 << random.below(8)
        }
        fs::write(&file, &bad).unwrap();
        match restore(&data, &file, &[PICTURES, FILMS]) {
            Err(StoreError::Backup { .. }) => {}
            // Readers ignore the padding between the entries.
            Ok(restored) => assert_eq!(restored.files, 4, "round {round}, byte {at}"),
            other => panic!("round {round}, byte {at}: {other:?}"),
        }
        assert_eq!(files(&data.join("pictures")), before, "round {round}, byte {at}");
        assert!(!data.join("files.new").exists());
    }
}

#[tokio::test]
async fn files_that_have_no_place_here_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, file) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("dump"));
    let store = sample(&from).await;
    let all = Folder { has: |_| true, ..PICTURES };
    store.dump(&file, &[all]).await.unwrap();
    store.close().await.unwrap();
    for known in [&[FILMS][..], &[PICTURES]] {
        assert!(matches!(restore(&to, &file, known), Err(StoreError::Io { .. })), "{known:?}");
        assert!(!to.join("db").exists() && !to.join("pictures").exists() && !to.join("files.new").exists());
    }
}

#[tokio::test]
async fn a_disk_without_room_gets_no_dump() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    sample(&data).await.close().await.unwrap();
    let options = StoreOptions { min_free_bytes: u64::MAX, ..options() };
    let store = Store::open(&data, options).unwrap().store;
    let refused = store.dump(&dir.path().join("dump"), &[PICTURES]).await;
    assert!(matches!(refused, Err(StoreError::DiskNearlyFull { .. })), "{refused:?}");
    store.close().await.unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left of it");
}

/// The entries of a tar, each with its header and content.
fn entries_of(file: &Path) -> Vec<(tar::Header, Vec<u8>)> {
    let mut archive = tar::Archive::new(fs::File::open(file).unwrap());
    let entries = archive.entries().unwrap().raw(true).map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        (entry.header().clone(), content)
    });
    entries.collect()
}

/// A tar of these entries, with the right checksums at its end.
fn pack(file: &Path, entries: &[(tar::Header, Vec<u8>)]) {
    let mut tar = tar::Builder::new(fs::File::create(file).unwrap());
    let mut sums = String::new();
    for (header, content) in entries {
        let path = String::from_utf8(header.path_bytes().into_owned()).unwrap();
        if path != "SHA256SUMS" {
            if header.entry_type().is_file() {
                sums += &format!("{}  {path}\n", hex::encode(Sha256::digest(content)));
            }
            tar.append(header, content.as_slice()).unwrap();
        }
    }
    let mut header = tar::Header::new_ustar();
    header.set_path("SHA256SUMS").unwrap();
    header.set_size(sums.len() as u64);
    header.set_cksum();
    tar.append(&header, sums.as_bytes()).unwrap();
    tar.finish().unwrap();
}

#[tokio::test]
async fn names_and_links_that_lead_elsewhere_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, file) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("dump"));
    let store = sample(&from).await;
    store.dump(&file, &[PICTURES]).await.unwrap();
    store.close().await.unwrap();
    let good = entries_of(&file);
    let forged = |path: &str, kind: tar::EntryType| {
        let mut header = tar::Header::new_ustar();
        // `set_path` would refuse them.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(0);
        if !kind.is_file() && !kind.is_dir() {
            header.set_link_name("/etc/hostname").unwrap();
        }
        header.set_cksum();
        (header, Vec::new())
    };
    use tar::EntryType as Kind;
    for (path, kind) in [
        ("../outside.png", Kind::Regular),
        ("pictures/../../outside.png", Kind::Regular),
        ("pictures/../outside.png", Kind::Regular),
        ("/pictures/ann/outside.png", Kind::Regular),
        ("pictures/ann/deep/outside.png", Kind::Regular),
        ("films/ann/outside.webm", Kind::Regular),
        ("pictures/ann/link.png", Kind::Symlink),
        ("pictures/ann/link.png", Kind::Link),
        ("pictures/ann/device.png", Kind::Char),
        ("pictures/ann/long.png", Kind::GNULongName),
    ] {
        let mut entries = good.clone();
        entries.push(forged(path, kind));
        pack(&file, &entries);
        let refused = restore(&to, &file, &[PICTURES, FILMS]);
        assert!(matches!(refused, Err(StoreError::Backup { .. })), "{path}, {kind:?}: {refused:?}");
        assert!(!to.join("db").exists() && !to.join("pictures").exists() && !to.join("files.new").exists());
        assert!(!dir.path().join("outside.png").exists());
    }
    for path in ["../films", "/films", "."] {
        let mut entries = good.clone();
        entries.push(forged(path, Kind::Directory));
        pack(&file, &entries);
        assert!(restore(&to, &file, &[PICTURES, FILMS]).is_err(), "{path}");
        assert!(!to.join("db").exists(), "{path}");
    }
    pack(&file, &good);
    assert_eq!(restore(&to, &file, &[PICTURES]).unwrap().files, 3);
}

#[tokio::test]
async fn a_backup_of_an_earlier_release_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, file) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("dump"));
    let store = sample(&from).await;
    store.dump(&file, &[]).await.unwrap();
    store.close().await.unwrap();
    // Its header names the folders, and the files lie between the rows and the trailer.
    let dump = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<&str> = dump.lines().collect();
    let mut header: serde_json::Value = serde_json::from_str(lines.remove(0)).unwrap();
    let mut trailer: serde_json::Value = serde_json::from_str(lines.pop().unwrap()).unwrap();
    header["warmpool_dump"] = 2.into();
    header["folders"] = serde_json::json!(["pictures"]);
    let mut old = format!("{header}\n{}\n", lines.join("\n")).into_bytes();
    for (name, content) in [("ann/large.png", large()), ("bob/empty.png", Vec::new())] {
        let line = serde_json::json!({"file": format!("pictures/{name}"), "bytes": content.len()});
        old.extend_from_slice(format!("{line}\n").as_bytes());
        old.extend_from_slice(&content);
        old.push(b'\n');
    }
    trailer["files"] = 2.into();
    trailer["sha256"] = hex::encode(Sha256::digest(&old)).into();
    old.extend_from_slice(format!("{trailer}\n").as_bytes());
    fs::write(&file, &old).unwrap();

    assert_eq!(restore(&to, &file, &[PICTURES]).unwrap().files, 2);
    let expected = [("ann/large.png", large()), ("bob/empty.png", vec![])];
    assert_eq!(files(&to.join("pictures")), expected.map(|(name, content)| (name.to_owned(), content)));
    old.truncate(old.len() / 2);
    fs::write(&file, &old).unwrap();
    assert!(matches!(restore(&to, &file, &[PICTURES]), Err(StoreError::Backup { .. })));
}
