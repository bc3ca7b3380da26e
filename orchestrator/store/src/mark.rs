//! The high-water mark: a small file beside the database that says how many commits were handed over. A database with fewer
//! has lost some, which sled itself does not notice: it takes a damaged stretch for the end of its log.
//!
//! The mark never runs ahead of what the database must still have. After the death of the process that is everything flushed;
//! after another boot it is what a barrier has confirmed. So the mark holds both, and the name of the boot. It is written
//! over in place, in one of two slots by turns, so that one is whole at any time.
//!
//! To write it costs no sync: the page cache survives the process, and the barrier thread syncs it now and then.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::StoreError;
use super::backend::BackendError;
use super::layout::{MARK, sync_parent};
use warmpool_core::clock;

/// Distance of the two slots: no write of a page or a sector touches both.
const SLOT: u64 = 4096;
const MAGIC: [u8; 4] = *b"wpm1";
const BOOT_BYTES: usize = 36;
/// Magic, turn, flushed, durable, boot, checksum.
const RECORD: usize = 4 + 3 * 8 + BOOT_BYTES + 4;
/// Time between two syncs of the mark.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What the mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    /// Which of the two records is newer.
    turn: u64,
    /// Commits that outlive the process.
    flushed: u64,
    /// Commits that outlive loss of power.
    durable: u64,
    /// The boot in which it was written.
    boot: [u8; BOOT_BYTES],
}

impl Reached {
    /// What the mark of a data directory says; nothing when there is none, or none that can be read.
    pub(super) fn read(dir: &Path) -> Option<Self> {
        let file = File::open(dir.join(MARK)).ok()?;
        let slot = |at: u64| {
            let mut bytes = [0; RECORD];
            file.read_exact_at(&mut bytes, at * SLOT).ok()?;
            Self::decode(&bytes)
        };
        slot(0).into_iter().chain(slot(1)).max_by_key(|reached| reached.turn)
    }

    /// How many commits the database must have.
    pub(super) fn expected(&self) -> u64 {
        if self.boot == this_boot() && self.boot != [0; BOOT_BYTES] { self.highest() } else { self.durable }
    }

    /// No commit has had a higher number.
    pub(super) fn highest(&self) -> u64 {
        self.flushed.max(self.durable)
    }

    fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let (body, sum) = bytes.split_at_mut(RECORD - 4);
        body[..4].copy_from_slice(&MAGIC);
        for (place, number) in body[4..28].chunks_exact_mut(8).zip([self.turn, self.flushed, self.durable]) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        body[28..].copy_from_slice(&self.boot);
        sum.copy_from_slice(&crc32fast::hash(body).to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; RECORD]) -> Option<Self> {
        let (body, sum) = bytes.split_at(RECORD - 4);
        let whole = body.starts_with(&MAGIC) && sum == crc32fast::hash(body).to_be_bytes();
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| body[4 + 8 * at + byte]));
        let boot = body[28..].try_into().ok().filter(|_| whole)?;
        Some(Self { turn: number(0), flushed: number(1), durable: number(2), boot })
    }
}

fn this_boot() -> [u8; BOOT_BYTES] {
    let name = clock::boot().unwrap_or_default().as_bytes();
    std::array::from_fn(|at| name.get(at).copied().unwrap_or(0))
}

/// The mark of an open store. The storage thread and the barrier thread write it.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    reached: Reached,
    synced: Instant,
}

impl Mark {
    /// Takes up the mark of a database that is open, and durable up to this commit.
    /// Errors: when the file system refuses.
    pub(super) fn open(dir: &Path, commits: u64) -> Result<Self, StoreError> {
        let path = dir.join(MARK);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(StoreError::io("open", &path))?;
        let turn = Reached::read(dir).map_or(0, |reached| reached.turn);
        // Filled, so that no later write changes more than the content.
        let filled = file.metadata().and_then(|found| match found.len() < 2 * SLOT {
            true => file.write_all_at(&[0; 2 * SLOT as usize], 0),
            false => Ok(()),
        });
        let reached = Reached { turn, flushed: commits, durable: commits, boot: this_boot() };
        let mark = Self { file, state: Mutex::new(State { reached, synced: Instant::now() }) };
        let begun = filled.map_err(BackendError::Io).and_then(|()| mark.write(|_| {})).and_then(|()| mark.sync());
        begun.map_err(BackendError::writing)?;
        sync_parent(&path)?;
        Ok(mark)
    }

    fn write(&self, change: impl FnOnce(&mut Reached)) -> Result<(), BackendError> {
        let mut state = self.state.lock();
        change(&mut state.reached);
        state.reached.turn += 1;
        self.file.write_all_at(&state.reached.encode(), state.reached.turn % 2 * SLOT)?;
        Ok(())
    }

    /// Everything up to this commit was flushed.
    pub(super) fn flushed(&self, commits: u64) -> Result<(), BackendError> {
        self.write(|reached| reached.flushed = commits)
    }

    /// How far the flushes have come.
    pub(super) fn last_flushed(&self) -> u64 {
        self.state.lock().reached.flushed
    }

    /// A barrier was waited for since everything up to this commit was flushed.
    pub(super) fn durable(&self, commits: u64) -> Result<(), BackendError> {
        self.write(|reached| reached.durable = commits)
    }

    /// Syncs the mark if that is due.
    pub(super) fn sync_if_due(&self) -> Result<(), BackendError> {
        if self.state.lock().synced.elapsed() < SYNC_EVERY { Ok(()) } else { self.sync() }
    }

    /// Syncs the mark.
    pub(super) fn sync(&self) -> Result<(), BackendError> {
        // Without the lock: commits go on meanwhile.
        self.file.sync_data()?;
        self.state.lock().synced = Instant::now();
        Ok(())
    }
}

/// Makes the mark that of a boot before this one, after which only one commit was durable.
#[cfg(test)]
pub(super) fn mark_another_boot(dir: &Path) {
    let reached = Reached { boot: [b'x'; BOOT_BYTES], durable: 1, ..Reached::read(dir).unwrap() };
    let file = OpenOptions::new().write(true).open(dir.join(MARK)).unwrap();
    file.write_all_at(&reached.encode(), reached.turn % 2 * SLOT).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_another_boot_only_what_is_durable_is_expected() {
        let dir = tempfile::tempdir().unwrap();
        let mark = Mark::open(dir.path(), 7).unwrap();
        mark.flushed(9).unwrap();
        let reached = Reached::read(dir.path()).unwrap();
        assert_eq!((reached.expected(), reached.highest()), (9, 9));
        let booted = Reached { boot: [b'x'; BOOT_BYTES], ..reached };
        assert_eq!((booted.expected(), booted.highest()), (7, 9));
        mark.durable(8).unwrap();
        assert_eq!(Reached { boot: [b'x'; BOOT_BYTES], ..Reached::read(dir.path()).unwrap() }.expected(), 8);
        let unnamed = Reached { boot: [0; BOOT_BYTES], ..reached };
        assert_eq!(unnamed.expected(), 7, "a kernel that does not name its boots");
    }

    #[test]
    fn a_torn_or_damaged_record_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let mark = Mark::open(dir.path(), 1).unwrap();
        for commits in 2..6 {
            mark.flushed(commits).unwrap();
            let path = dir.path().join(MARK);
            let good = std::fs::read(&path).unwrap();
            let newest = usize::try_from(Reached::read(dir.path()).unwrap().turn % 2 * SLOT).unwrap();
            for bit in 0..RECORD * 8 {
                let mut bad = good.clone();
                bad[newest + bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, &bad).unwrap();
                assert_eq!(Reached::read(dir.path()).unwrap().flushed, commits - 1, "bit {bit}");
            }
            std::fs::write(&path, &good).unwrap();
        }
        std::fs::write(dir.path().join(MARK), "nonsense").unwrap();
        assert_eq!(Reached::read(dir.path()), None);
    }
}
