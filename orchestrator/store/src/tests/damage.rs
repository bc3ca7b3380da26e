//! Random damage to the database's files: it always opens in the end, and never lies.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use super::*;

const ROWS: u64 = 300;

fn value(number: u64) -> Vec<u8> {
    format!("value {number} ").repeat(20).into_bytes()
}

/// A store that was closed in order, and the same as the death of the process leaves it.
async fn sample(dir: &Path, killed: &Path) {
    let store = open_sled(dir);
    put(&store, Table::Keys, b"key", b"active").await;
    for number in 0..ROWS {
        put(&store, Table::Sessions, &number.to_be_bytes(), &value(number)).await;
        if number == ROWS / 2 {
            store.backup().await.unwrap();
        }
        if number == ROWS / 2 + 10 {
            let mut batch = Batch::new();
            batch.put(Table::Keys, *b"key", *b"revoked").irrevocable();
            store.commit(batch, Durability::Power).await.unwrap();
        }
    }
    copy_dir(dir, killed);
    store.close().await.unwrap();
}

/// The files that have something to damage.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0));
    found.sort();
    found
}

/// Damages one file, and says how; its name comes first.
fn damage(database: &Path, random: &mut Random) -> String {
    let files = files(database);
    let file = &files[usize::try_from(random.below(files.len() as u64)).unwrap()];
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let mut bytes = fs::read(file).unwrap();
    // Most of the file is unwritten; what is written is more worth damaging.
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64 + 1;
    let at = usize::try_from(random.below(used.min(bytes.len() as u64))).unwrap();
    let how = match random.below(6) {
        0 => {
            bytes.truncate(at);
            format!("{name} cut at {at}")
        }
        1 => {
            let end = bytes.len().min(at + 4096);
            bytes[at..end].fill(0);
            format!("{name} zeroed from {at}")
        }
        2 => {
            let end = bytes.len().min(at + 64);
            for byte in &mut bytes[at..end] {
                *byte = u8::try_from(random.below(256)).unwrap();
            }
            format!("{name} garbage at {at}")
        }
        3 if name != "db" => {
            fs::remove_file(file).unwrap();
            return format!("{name} removed");
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
            format!("{name} flipped at {at}")
        }
    };
    fs::write(file, bytes).unwrap();
    how
}

/// Opens the store and uses it. False if it failed in use, which the next start must know how to deal with.
async fn use_it(dir: &Path, how: &str) -> bool {
    let fatal = Fatal::default();
    let hooked = StoreOptions { on_fatal: fatal.hook(), ..options() };
    let opened = Store::open(dir, hooked).unwrap_or_else(|error| panic!("{how}: {error}"));
    let store = opened.store;
    let rows = store.scan(Table::Sessions, KeyRange::all(), usize::MAX).await;
    let Ok(rows) = rows else {
        assert!(!fatal.reasons().is_empty(), "{how}: {rows:?}");
        return false;
    };
    for row in &rows {
        let number = u64::from_be_bytes(row.key.clone().try_into().unwrap());
        assert_eq!(row.value, value(number), "{how}");
    }
    // Whatever was answered is there, or it is said how much of it is not. A start that died later has written more.
    let kept = rows.len() as u64;
    match &opened.recovery {
        None => assert_eq!(kept, ROWS, "{how}: silently lost"),
        Some(recovery) => {
            assert!(recovery.quarantined.as_ref().unwrap().exists(), "{how}");
            assert!(kept + recovery.lost.unwrap() >= ROWS, "{how}: {kept} rows, {recovery}");
            assert!(kept > ROWS / 2, "{how}: {recovery}");
            // The backup and the log since then have everything.
            assert!(
                how.starts_with("wal") || (kept, recovery.lost) == (ROWS, Some(0)),
                "{how}: {kept} rows, {recovery}"
            );
        }
    }
    let key = store.get(Table::Keys, b"key").await.unwrap();
    assert_eq!(key.as_deref(), Some(&b"revoked"[..]), "{how}: a revoked key came back");
    for number in 0..ROWS {
        let mut batch = Batch::new();
        batch.put(Table::Sessions, number.to_be_bytes(), value(number));
        if store.commit(batch, Durability::Process).await.is_err() {
            assert!(!fatal.reasons().is_empty(), "{how}");
            return false;
        }
    }
    if store.close().await.is_err() {
        assert!(!fatal.reasons().is_empty(), "{how}");
        return false;
    }
    true
}

const VARIABLE: &str = "WARMPOOL_TEST_DAMAGED";
const HOW: &str = "WARMPOOL_TEST_DAMAGED_HOW";

/// Run as a process of its own for each start, as the daemon would be.
#[tokio::test]
async fn start_once() {
    if let Some(dir) = std::env::var_os(VARIABLE)
        && !use_it(Path::new(&dir), &std::env::var(HOW).unwrap()).await
    {
        std::process::abort();
    }
}

fn start(dir: &Path, how: &str) -> std::process::Output {
    again_as("damage::start_once", VARIABLE, dir).env(HOW, how).output().unwrap()
}

#[tokio::test]
async fn damage_never_keeps_it_from_starting() {
    let work = tempfile::tempdir().unwrap();
    let template = work.path().join("template");
    let killed = work.path().join("killed");
    sample(&template, &killed).await;
    let mut random = Random::seeded("WARMPOOL_DAMAGE_SEED");
    let (mut recovered, mut deaths) = (0, 0);
    let rounds = rounds("WARMPOOL_DAMAGE_ROUNDS", 25);
    for round in 0..rounds {
        let dir = work.path().join(format!("{round}"));
        copy_dir(if round % 2 == 0 { &template } else { &killed }, &dir);
        let how = damage(&dir.join("db"), &mut random);
        // A start may crash, but only a few times.
        let mut attempts = 0;
        loop {
            let output = start(&dir, &how);
            if output.status.success() {
                break;
            }
            let said = String::from_utf8_lossy(&output.stderr);
            // It may die, but fails no check.
            assert!(output.status.signal().is_some(), "{how}: {said}\n{}", String::from_utf8_lossy(&output.stdout));
            attempts += 1;
            deaths += 1;
            assert!(attempts < 5, "{how}: {said}");
        }
        // And then it is sound.
        let store = open_sled(&dir);
        assert_eq!(contents(&store).await[1].1.len() as u64, ROWS, "{how}");
        store.close().await.unwrap();
        if fs::read_dir(&dir).unwrap().any(|entry| {
            let name = entry.unwrap().file_name();
            name.to_string_lossy().starts_with("db.corrupt-")
        }) {
            recovered += 1;
        }
        fs::remove_dir_all(&dir).unwrap();
    }
    println!("{rounds} rounds: {recovered} recovered, {deaths} starts died");
}
