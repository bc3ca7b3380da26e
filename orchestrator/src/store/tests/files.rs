//! Dumps that hold the files beside the database.

use std::fs;
use std::os::unix::fs::PermissionsExt;

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
    let (before, good) = (files(&data.join("pictures")), fs::read(&file).unwrap());
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
        let refused = restore(&data, &file, &[PICTURES, FILMS]);
        assert!(matches!(refused, Err(StoreError::Backup { .. })), "round {round}, byte {at}: {refused:?}");
        assert_eq!(files(&data.join("pictures")), before);
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
