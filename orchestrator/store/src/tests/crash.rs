//! `kill -9` at any time loses nothing that was answered and tears no batch; nor does a full disk.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use super::*;

const VARIABLE: &str = "WARMPOOL_TEST_WRITER";
const HALF: &str = "WARMPOOL_TEST_HALF_A_DUMP";
const IRREVOCABLE: &str = "WARMPOOL_TEST_IRREVOCABLE_WRITER";
const WINDOW: u64 = 8;

fn value(number: u64) -> Vec<u8> {
    let length = usize::try_from(number * 131 % 3000).unwrap();
    let mut value = number.to_be_bytes().to_vec();
    value.resize(8 + length, u8::try_from(number % 251).unwrap());
    value
}

/// Step `number`: the cursor, a new row and the removal of an old one, in three tables.
fn step(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch
        .put(Table::Meta, *b"cursor", number.to_be_bytes())
        .put(Table::Sessions, number.to_be_bytes(), value(number))
        .put(Table::Keys, (number % 5).to_be_bytes(), value(number));
    if number > WINDOW {
        batch.delete(Table::Sessions, (number - WINDOW).to_be_bytes());
    }
    batch
}

/// Where the store is, after checking that it is somewhere whole.
pub(super) async fn check(store: &Store) -> u64 {
    let cursor = match store.get(Table::Meta, b"cursor").await.unwrap() {
        Some(bytes) => u64::from_be_bytes(bytes.try_into().unwrap()),
        None => 0,
    };
    let sessions = store.scan(Table::Sessions, KeyRange::all(), usize::MAX).await.unwrap();
    let first = cursor.saturating_sub(WINDOW) + 1;
    let expected: Vec<Row> =
        (first..=cursor).map(|number| Row { key: number.to_be_bytes().to_vec(), value: value(number) }).collect();
    assert!(sessions == expected, "torn at {cursor}");
    for number in cursor.saturating_sub(4).max(1)..=cursor {
        let key = (number % 5).to_be_bytes();
        let found = store.get(Table::Keys, &key).await.unwrap();
        assert!(found == Some(value(number)), "torn at {cursor}");
    }
    cursor
}

/// Run as a process of its own: takes steps for ever and says so after each.
#[tokio::test]
async fn writer() {
    let Some(dir) = std::env::var_os(VARIABLE) else {
        return;
    };
    let store = open_sled(Path::new(&dir));
    let mut number = check(&store).await;
    let mut out = std::io::stdout();
    writeln!(out, "\nopened").unwrap();
    loop {
        number += 1;
        let durability = if number.is_multiple_of(3) { Durability::Power } else { Durability::Process };
        if let Err(error) = store.commit(step(number), durability).await {
            // The process is about to abort; otherwise the parent should see why this ends.
            eprintln!("step {number}: {error}");
            std::future::pending::<()>().await;
        }
        out.write_all(format!("ack {number}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

/// So large that the journal is compacted after some of them.
fn large(number: u64) -> Vec<u8> {
    [&number.to_be_bytes()[..], &[b'x'; 60_000]].concat()
}

/// The last irrevocable step, after checking that those before it are there.
async fn last_irrevocable(store: &Store) -> u64 {
    let rows = store.scan(Table::Keys, KeyRange::all(), usize::MAX).await.unwrap();
    let number = |row: &Row| u64::from_be_bytes(row.value[..8].try_into().unwrap());
    let last = rows.iter().map(number).max().unwrap_or(0);
    for number in last.saturating_sub(2).max(1)..=last {
        let row = rows.iter().find(|row| row.key == (number % 3).to_be_bytes());
        assert!(row.is_some_and(|row| row.value == large(number)), "{number} of {last} is lost");
    }
    last
}

/// Run as a process of its own: takes irrevocable steps for ever and says so after each.
#[tokio::test]
async fn irrevocable_writer() {
    let Some(dir) = std::env::var_os(IRREVOCABLE) else {
        return;
    };
    let store = open_sled(Path::new(&dir));
    let mut number = last_irrevocable(&store).await;
    let mut out = std::io::stdout();
    loop {
        number += 1;
        let mut batch = Batch::new();
        batch.put(Table::Keys, (number % 3).to_be_bytes(), large(number)).irrevocable();
        store.commit(batch, Durability::Process).await.unwrap();
        out.write_all(format!("\nack {number}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

#[tokio::test]
async fn a_kill_while_the_journal_is_compacted_loses_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::seeded("WARMPOOL_CRASH_SEED");
    let mut acked = 0;
    open_sled(dir.path()).close().await.unwrap();
    for round in 0..rounds("WARMPOOL_CRASH_ROUNDS", 8) {
        let writer = Writer::start_as("crash::irrevocable_writer", IRREVOCABLE, dir.path());
        let last = writer.run(Duration::from_millis(random.below(600)));
        acked = writer.kill(last).unwrap_or(acked);
        // Without the database there is the journal alone.
        std::fs::write(dir.path().join("db/db"), b"").unwrap();
        let store = Store::open(dir.path(), options()).unwrap().store;
        let recovered = last_irrevocable(&store).await;
        assert!(recovered == acked || recovered == acked + 1, "round {round}: {acked} answered, {recovered} recovered");
        acked = recovered;
        store.close().await.unwrap();
        let length = std::fs::metadata(dir.path().join("db.irrevocable")).unwrap().len();
        assert!(length < 2 << 20, "{length} bytes");
        assert!(!dir.path().join("db.irrevocable.new").exists());
    }
    println!("{acked} steps");
}

/// Run as a process of its own: writes half a dump, and says so.
#[test]
fn half_a_dump() {
    let Some(dir) = std::env::var_os(HALF) else {
        return;
    };
    let path = Path::new(&dir).join("all.jsonl");
    let mut writer = super::super::dump::Writer::create(&path, SCHEMA_VERSION, Default::default()).unwrap();
    for number in 0..1000 {
        writer.change(Table::Sessions, &value(number), Some(&value(number))).unwrap();
    }
    println!("\nhalf");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_dump_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = again_as("crash::half_a_dump", HALF, dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "half"));
    child.kill().unwrap();
    child.wait().unwrap();
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn the_next_start_removes_what_was_never_finished() {
    let dir = tempfile::tempdir().unwrap();
    open_sled(dir.path()).close().await.unwrap();
    let (backups, staging) = (dir.path().join("backups"), dir.path().join("files.new/tasks/a"));
    for folder in [&backups, &staging, &dir.path().join("db.new")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    for file in ["backups/warmpool-7.jsonl.tmp", "backups/notes.tmp", "files.new/tasks/a/b", "db.new/db"] {
        std::fs::write(dir.path().join(file), "half").unwrap();
    }
    let store = open_sled(dir.path());
    let left: Vec<_> = std::fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.tmp"], "what is not the daemon's own stays");
    assert!(!dir.path().join("files.new").exists() && !dir.path().join("db.new").exists());
    store.close().await.unwrap();
}

/// The writer, and its answers as they come.
pub(super) struct Writer {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Writer {
    pub(super) fn start(dir: &Path) -> Self {
        Self::start_as("crash::writer", VARIABLE, dir)
    }

    fn start_as(test: &str, variable: &str, dir: &Path) -> Self {
        Self::spawn(again_as(test, variable, dir))
    }

    /// Starts it as the arguments of another program.
    pub(super) fn start_under(mut program: Command, dir: &Path) -> Self {
        let writer = again_as("crash::writer", VARIABLE, dir);
        program.arg(writer.get_program()).args(writer.get_args());
        program.envs(writer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::spawn(program)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::sync_channel(1 << 20);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Lets it run for so long, or until it ends.
    pub(super) fn run(&self, time: Duration) -> Option<u64> {
        let end = Instant::now() + time;
        let mut last = None;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => last = acknowledged(&line).or(last),
                Err(_) => return last,
            }
        }
    }

    /// Its next answer, unless it ends, or hangs.
    pub(super) fn answer(&self) -> Option<u64> {
        let line = || self.lines.recv_timeout(Duration::from_secs(60)).ok();
        std::iter::from_fn(line).find_map(|line| acknowledged(&line))
    }

    /// All its answers, once it has ended.
    pub(super) fn answers(mut self) -> Vec<u64> {
        let answers = std::iter::from_fn(|| self.answer()).collect();
        assert!(self.wait().is_some(), "it hangs after {answers:?}");
        answers
    }

    /// How it ended, if it does. Its output ends a little earlier.
    fn wait(&mut self) -> Option<std::process::ExitStatus> {
        for _ in 0..1000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Kills it and returns the last step it had answered for.
    pub(super) fn kill(mut self, before: Option<u64>) -> Option<u64> {
        let _ = self.child.kill();
        self.child.wait().unwrap();
        self.lines.iter().filter_map(|line| acknowledged(&line)).last().or(before)
    }
}

fn acknowledged(line: &str) -> Option<u64> {
    line.strip_prefix("ack ")?.parse().ok()
}

#[tokio::test]
async fn a_kill_loses_nothing_that_was_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::seeded("WARMPOOL_CRASH_SEED");
    let mut acked = 0;
    let rounds = rounds("WARMPOOL_CRASH_ROUNDS", 15);
    for round in 0..rounds {
        let writer = Writer::start(dir.path());
        // Some die while they open the store.
        let time = if round % 4 == 3 { 40 } else { 250 };
        let last = writer.run(Duration::from_millis(random.below(time)));
        acked = writer.kill(last).unwrap_or(acked);
        let store = open_sled(dir.path());
        let recovered = check(&store).await;
        assert!(recovered == acked || recovered == acked + 1, "round {round}: {acked} answered, {recovered} recovered");
        acked = recovered;
        store.close().await.unwrap();
    }
    println!("{rounds} rounds, {acked} steps");
    assert!(acked > 0);
}

#[tokio::test]
async fn a_kill_while_sled_writes_its_snapshot_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sled(dir.path());
    store.commit(step(1), Durability::Power).await.unwrap();
    store.close().await.unwrap();
    let database = dir.path().join("db");
    for content in ["", "torn"] {
        // A start writes a snapshot where the one before is older, under a name that sorts behind it.
        std::fs::write(database.join("snap.7FFFFFFFFFFFFFFF.generating"), content).unwrap();
        let store = open_sled(dir.path());
        assert_eq!(check(&store).await, 1, "{content:?}");
        store.close().await.unwrap();
        assert!(!database.join("snap.7FFFFFFFFFFFFFFF.generating").exists());
    }
}

/// A small file system in memory.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount() -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(dir.path())
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() { Ok(Self(dir)) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    fn grow(&self) {
        let status = Command::new("mount").args(["-o", "remount,size=64m"]).arg(self.0.path()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: after a failed assertion something may still be open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_ends_the_process_and_loses_nothing() {
    use std::os::unix::process::ExitStatusExt;
    let disk = match Tmpfs::mount() {
        Ok(disk) => disk,
        Err(reason) => {
            println!("skipped: cannot mount a tmpfs: {}", reason.trim());
            return;
        }
    };
    // The guard is off, so that sled meets the end of the disk.
    let data = disk.0.path().join("data");
    let mut writer = Writer::start(&data);
    let last = writer.run(Duration::from_secs(30));
    let status = writer.wait();
    let acked = writer.kill(last).unwrap();
    let status = status.expect("the process hangs instead of ending");
    assert_eq!(status.signal(), Some(nix::libc::SIGABRT), "{status:?}");
    disk.grow();
    let store = open_sled(&data);
    let recovered = check(&store).await;
    assert!(recovered == acked || recovered == acked + 1, "{acked} answered, {recovered} recovered");
    store.commit(step(recovered + 1), Durability::Power).await.unwrap();
    store.close().await.unwrap();
}
