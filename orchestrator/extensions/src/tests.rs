//! Extensions over a store in memory and files in a folder of their own.

use std::io::{Cursor, Write as _};

use bytes::Bytes;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SigningKey as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::*;
use warmpool_api::extension::ExtensionFormat;
use warmpool_config::{Config, Flags, Host};
use warmpool_core::error::Fault as _;
use warmpool_keys::KeyId;
use warmpool_store::fault::{Faults, until};
use warmpool_store::{Batch, Durability, Store, StoreOptions, Table};

async fn opened(folder: &TempDir, store: &Store, settings: &[(&str, &str)]) -> Extensions {
    opened_by(7, folder, store, settings).await
}

/// Opens them with the key of this instance.
async fn opened_by(instance: u8, folder: &TempDir, store: &Store, settings: &[(&str, &str)]) -> Extensions {
    let environment = settings.iter().map(|(name, value)| (format!("WARMPOOL_EXTENSIONS_{name}"), (*value).to_owned()));
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    let limits = Config::resolve(None, environment, &Flags::default(), &host).unwrap().extensions.clone();
    Extensions::open(limits, folder.path(), 0, [instance; 32], store.clone()).await.unwrap()
}

fn key(id: &str) -> KeyId {
    id.parse().unwrap()
}

fn owner() -> KeyId {
    key("0123456789ab")
}

fn zipped(name: &str, more: &[&str]) -> Vec<u8> {
    let manifest = json!({"manifest_version": 3, "name": name, "version": "1", "permissions": ["storage"]}).to_string();
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, content) in
        [("manifest.json", manifest.as_str())].into_iter().chain(more.iter().map(|path| (*path, "x")))
    {
        writer.start_file(path, SimpleFileOptions::default()).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A field of a protocol buffer that is bytes.
fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    for mut rest in [u64::from(number << 3 | 2), value.len() as u64] {
        while rest >= 0x80 {
            written.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        written.push(rest as u8);
    }
    [written, value.to_vec()].concat()
}

/// A `.crx` as a store makes it, and the id that its key gives it.
fn crx(archive: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let public = pair.subject_public_key_info();
    let id: [u8; 16] = Sha256::digest(&public)[..16].try_into().unwrap();
    let data = field(1, &id);
    let signed = [b"CRX3 SignedData\0", &(data.len() as u32).to_le_bytes()[..], &data, archive].concat();
    let proof = [field(1, &public), field(2, &pair.sign(&signed).unwrap())].concat();
    let header = [field(3, &proof), field(10_000, &data)].concat();
    let crx = [b"Cr24", &3u32.to_le_bytes()[..], &(header.len() as u32).to_le_bytes(), &header, archive].concat();
    (crx, id)
}

async fn content(extensions: &Extensions, id: &str) -> Vec<u8> {
    use std::future::poll_fn;
    use std::pin::Pin;
    let opened = extensions.begin(&owner(), &[id.into()]).await.unwrap();
    let mut stream = opened[0].archive.stream();
    let mut all = Vec::new();
    while let Some(chunk) = poll_fn(|cx| futures_util::Stream::poll_next(Pin::new(&mut stream), cx)).await {
        all.extend_from_slice(&chunk.unwrap());
    }
    all
}

#[tokio::test]
async fn what_is_uploaded_is_kept_for_its_key() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::memory());
    let extensions = opened(&folder, &store, &[]).await;
    let zip = zipped("Probe", &["a/b.js"]);
    let view = extensions.create(&owner(), Bytes::from(zip.clone())).await.unwrap();
    assert_eq!((view.name.as_str(), view.format, view.files), ("Probe", ExtensionFormat::Zip, 2));
    assert_eq!((view.permissions.as_slice(), view.size), (&["storage".to_owned()][..], zip.len() as u64));
    let id = view.extension_id.as_str();
    assert_eq!(content(&extensions, id).await, zip);
    let on_disk = std::fs::read(folder.path().join("extensions").join(id).join("archive")).unwrap();
    assert!(!on_disk.windows(8).any(|bytes| bytes == b"manifest"), "it is encrypted");

    // After a restart, too.
    let extensions = opened(&folder, &store, &[]).await;
    assert_eq!(extensions.list(|_| true), std::slice::from_ref(&view));
    assert_eq!(content(&extensions, id).await, zip);

    let other = key("ba9876543210");
    assert!(extensions.list(|key| *key == other).is_empty());
    assert!(matches!(extensions.get(id, |key| *key == other), Err(Error::UnknownExtension { .. })));
    assert!(matches!(extensions.begin(&other, &[id.into()]).await, Err(Error::UnknownExtension { .. })));
    assert!(matches!(extensions.delete(id, |key| *key == other).await, Err(Error::UnknownExtension { .. })));
    assert!(extensions.get(id, |key| *key == owner()).is_ok());
}

#[tokio::test]
async fn a_session_that_has_begun_reads_on_after_the_deletion() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::memory());
    let extensions = opened(&folder, &store, &[]).await;
    let id = extensions.create(&owner(), zipped("Probe", &[]).into()).await.unwrap().extension_id;
    let begun = extensions.begin(&owner(), std::slice::from_ref(&id)).await.unwrap();
    extensions.delete(id.as_str(), |_| true).await.unwrap();
    assert!(!folder.path().join("extensions").join(id.as_str()).exists());
    assert!(extensions.begin(&owner(), std::slice::from_ref(&id)).await.is_err());
    let mut stream = begun[0].archive.stream();
    let first = std::future::poll_fn(|cx| futures_util::Stream::poll_next(std::pin::Pin::new(&mut stream), cx));
    assert!(first.await.unwrap().unwrap().starts_with(b"PK"));
}

#[tokio::test]
async fn no_key_has_more_than_it_may() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::memory());
    let archive = zipped("Probe", &["a", "b"]);
    assert!((342..=512).contains(&archive.len()), "two fit, and three do not: {}", archive.len());
    let extensions = opened(&folder, &store, &[("MAX_PER_KEY", "3"), ("MAX_TOTAL", "1KiB")]).await;
    let upload = async |owner: &KeyId| extensions.create(owner, archive.clone().into()).await;
    let first = upload(&owner()).await.unwrap();
    upload(&owner()).await.unwrap();
    assert!(matches!(upload(&owner()).await, Err(Error::SizeLimit { .. })));
    assert!(upload(&key("ba9876543210")).await.is_ok(), "another key has its own room");
    extensions.delete(first.extension_id.as_str(), |_| true).await.unwrap();
    upload(&owner()).await.unwrap();

    let extensions = opened(&folder, &store, &[("MAX_PER_KEY", "2")]).await;
    let error = extensions.create(&owner(), zipped("Probe", &[]).into()).await.unwrap_err();
    assert!(matches!(error, Error::CountLimit { limit: 2 }) && error.code().status() == 409, "{error}");
}

#[tokio::test]
async fn what_is_no_extension_is_refused_and_leaves_nothing() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::memory());
    let extensions = opened(&folder, &store, &[("MAX_FILES", "2"), ("MAX_UNPACKED", "1KiB")]).await;
    for (upload, code, said) in [
        (b"nothing".to_vec(), "invalid_extension", "not a zip"),
        (zipped("x", &["../y"]), "invalid_extension", "is no path"),
        (zipped("x", &["a", "b"]), "body_too_large", "extensions.max_files"),
        (zipped(&"long".repeat(300), &[]), "body_too_large", "extensions.max_unpacked"),
        (b"Cr24\x02\0\0\0\0\0\0\0".to_vec(), "invalid_extension", "version 2"),
    ] {
        let error = extensions.create(&owner(), upload.into()).await.unwrap_err();
        assert_eq!(error.code().as_str(), code, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    assert!(extensions.list(|_| true).is_empty() && !folder.path().join("extensions").exists());
}

#[tokio::test]
async fn few_uploads_are_checked_at_once() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::memory());
    let extensions = opened(&folder, &store, &[]).await;
    let checks = extensions.checks();
    let held = checks.acquire_many(u32::try_from(checks.available_permits()).unwrap()).await.unwrap();
    let uploading = extensions.clone();
    let upload = tokio::spawn(async move { uploading.create(&owner(), zipped("Probe", &[]).into()).await });
    tokio::time::pause();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert!(!upload.is_finished(), "it waits for its turn");
    tokio::time::resume();
    drop(held);
    upload.await.unwrap().unwrap();
    assert_eq!(checks.available_permits(), 2, "it has given its place back");
}

#[tokio::test]
async fn the_signatures_of_a_crx_are_checked() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::memory());
    let extensions = opened(&folder, &store, &[]).await;
    let zip = zipped("Signed", &[]);
    let (good, id) = crx(&zip);
    let view = extensions.create(&owner(), good.clone().into()).await.unwrap();
    let store_id = view.store_id.clone().unwrap();
    assert!(store_id.is_verified && view.format == ExtensionFormat::Crx && view.size == zip.len() as u64);
    assert_eq!(store_id.id.len(), 32);
    assert_eq!(content(&extensions, view.extension_id.as_str()).await, zip);

    // Another archive behind the same header, and another id in it.
    let mut other = good[..good.len() - zip.len()].to_vec();
    other.extend(zipped("Forged", &[]));
    let mut renamed = good.clone();
    let at = renamed.windows(16).position(|bytes| bytes == id).unwrap();
    renamed[at] ^= 1;
    for forged in [other, renamed] {
        let error = extensions.create(&owner(), forged.into()).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid { reason } if reason.contains("CRX header")), "{error}");
    }
}

#[tokio::test]
async fn what_was_left_behind_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, gone);
    {
        let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
        let store = Store::open(folder.path(), options).unwrap().store;
        let extensions = opened(&folder, &store, &[]).await;
        kept = extensions.create(&owner(), zipped("Kept", &[]).into()).await.unwrap();
        gone = extensions.create(&owner(), zipped("Gone", &[]).into()).await.unwrap();
        store.close().await.unwrap();
    }
    // A file of no record, and a record without its file.
    let root = folder.path().join("extensions");
    std::fs::create_dir(root.join("ext_unknown")).unwrap();
    std::fs::remove_dir_all(root.join(gone.extension_id.as_str())).unwrap();
    let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options).unwrap().store;
    let extensions = opened(&folder, &store, &[]).await;
    assert_eq!(extensions.list(|_| true), [kept]);
    assert!(!root.join("ext_unknown").exists());
}

#[tokio::test]
async fn no_archive_goes_while_a_row_names_it_or_one_cannot_be_read() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::memory());
    let kept = opened(&folder, &store, &[]).await.create(&owner(), zipped("Kept", &[]).into()).await.unwrap();
    let root = folder.path().join("extensions");
    let archive = root.join(kept.extension_id.as_str()).join("archive");
    let wrong = opened_by(8, &folder, &store, &[]).await;
    assert!(wrong.list(|_| true).is_empty() && archive.exists(), "its key may come back");

    let odd = root.join("ext_odd");
    std::fs::create_dir(&odd).unwrap();
    std::fs::create_dir(root.join("lost+found")).unwrap();
    std::fs::write(root.join("notes.txt"), "by hand").unwrap();
    let mut batch = Batch::new();
    batch.put(Table::Extensions, *b"ext_odd", *b"of another release");
    store.commit(batch, Durability::Process).await.unwrap();
    assert_eq!(opened(&folder, &store, &[]).await.list(|_| true), std::slice::from_ref(&kept));
    assert!(odd.exists());
    let mut batch = Batch::new();
    batch.delete(Table::Extensions, *b"ext_odd");
    store.commit(batch, Durability::Process).await.unwrap();
    assert_eq!(opened(&folder, &store, &[]).await.list(|_| true), [kept]);
    assert!(!odd.exists() && root.join("lost+found").exists() && root.join("notes.txt").exists());
}

#[tokio::test]
async fn a_deleted_extension_comes_back_from_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(folder.path(), options.clone()).unwrap().store;
    let extensions = opened(&folder, &store, &[]).await;
    let kept = extensions.create(&owner(), zipped("Kept", &[]).into()).await.unwrap();
    let gone = extensions.create(&owner(), zipped("Gone", &[]).into()).await.unwrap();
    let archive = folder.path().join("extensions").join(gone.extension_id.as_str());
    let copy = std::fs::read(archive.join("archive")).unwrap();
    store.backup().await.unwrap();
    extensions.delete(gone.extension_id.as_str(), |_| true).await.unwrap();
    // Something that is lost with the database.
    let mut batch = Batch::new();
    batch.put(Table::Tasks, *b"task", *b"x");
    store.commit(batch, Durability::Process).await.unwrap();
    store.close().await.unwrap();
    warmpool_store::fault::damage(folder.path());
    // Even where a copy of the file has survived.
    std::fs::create_dir(&archive).unwrap();
    std::fs::write(archive.join("archive"), copy).unwrap();
    let recovered = Store::open(folder.path(), options).unwrap();
    assert!(recovered.recovery.is_some());
    let lost = folder.path().join("extensions/ext_lost");
    std::fs::create_dir(&lost).unwrap();
    let again = opened(&folder, &recovered.store, &[]).await;
    assert_eq!(again.list(|_| true), [kept]);
    assert!(!archive.exists() && !lost.exists());
    let mut left = std::fs::read_dir(folder.path().join("extensions")).unwrap().map(|entry| entry.unwrap().path());
    let aside = left.find(|path| path.display().to_string().contains("/lost-")).unwrap();
    let set_aside: Vec<_> = std::fs::read_dir(aside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(set_aside, ["ext_lost"], "a record may be lost where nobody deleted it");
    recovered.store.close().await.unwrap();
}

#[tokio::test]
async fn what_is_deleted_is_gone_although_its_client_left() {
    let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::default());
    let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() });
    let extensions = opened(&folder, &store, &[]).await;
    let view = extensions.create(&owner(), Bytes::from(zipped("Probe", &[]))).await.unwrap();
    let id = view.extension_id.clone();
    let deleting = extensions.clone();
    faults.abandon(async move { deleting.delete(id.as_str(), |_| true).await }).await;
    until("it is listed no longer", || extensions.list(|_| true).is_empty()).await;
    let archive = folder.path().join("extensions").join(view.extension_id.as_str());
    until("its archive is removed", || !archive.exists()).await;
    let uploading = extensions.clone();
    faults.abandon(async move { uploading.create(&owner(), Bytes::from(zipped("Other", &[]))).await }).await;
    until("what was accepted is listed", || extensions.list(|_| true).len() == 1).await;
}
