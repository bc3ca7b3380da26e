//! What the daemon remembers: keys, sessions, tasks, and facts about itself.
//!
//! A [`Store`] is a handle; one thread of its own does the work, another waits for the disk. Every call has a
//! deadline. A commit that has not begun by then is withdrawn, so that it is certain that nothing was written; one that
//! the disk is at stays open until the disk answers, and its outcome is never guessed: see [`Commit`]. A failure of the
//! storage ends the process, because sled cannot go on after one: a fresh process recovers everything that was answered.
//! Damage found at the start is put aside, the newest backup restored and the log since then replayed; see [`Recovery`]. sled takes a damaged stretch for the
//! end of its log and opens with what comes before, so a ledger in the database and a mark beside it say what there must be.
//!
//! What must never come back, such as a revoked key or a deleted patient, is committed in a batch that is
//! [irrevocable](Batch::irrevocable): it is kept beside the database, too, and made again after every recovery and in every
//! backup that is restored.
//!
//! The directory:
//!
//! ```text
//! db/                    the database; only `sled.rs` knows what is in it, but for `wal`
//! db/wal                 the write-ahead log: commits that the database may not have yet
//! db.log/                what the log held since the newest backup
//! db.mark                how many commits the database must have
//! db.irrevocable         the journal of what must never come back; `db.irrevocable.new` while it is compacted
//! db.lock                held while a process uses the store
//! db.trouble             what the next start must know about the last one, if anything
//! db.corrupt-<unix ms>/  a damaged database, kept for a human
//! db.aside/              one that does not open, put there by a human
//! backups/               hourly dumps, `warmpool-<unix ms>.jsonl`, and `patient-keys.jsonl`, which is in none of them
//! ```
//!
//! | file         | what it holds |
//! |--------------|---------------|
//! | `handle.rs`  | the calls |
//! | `batch.rs`   | tables, batches, ranges, rows |
//! | `pages.rs`   | a table that is read from one end to the other |
//! | `commit.rs`  | a commit on its way; `ticket.rs` says whether it can be withdrawn |
//! | `options.rs` | how the store behaves |
//! | `error.rs`   | what can go wrong |
//! | `health.rs`  | what `/status` shows, and what happens on failure |
//! | `request.rs` | what the storage thread is asked to do |
//! | `thread.rs`  | the storage thread and the barrier thread; `executor.rs` is the work of the former |
//! | `backend.rs` | what a place for rows must do; `sled.rs` does it; for tests, `memory.rs` and `fault.rs` do |
//! | `logged.rs`  | a place for rows behind its write-ahead log; `wal.rs` is the log |
//! | `kept_log.rs` | the log since the newest backup, with which nothing is lost where the database is damaged |
//! | `record.rs`  | version and checksum of each value |
//! | `ledger.rs`  | how many commits there were and what all rows amount to, written with each batch |
//! | `mark.rs`    | how many commits there must be |
//! | `line.rs`    | lines of JSON with a checksum, of which the log and the journal are made |
//! | `journal.rs` | irrevocable changes beside the database; `compaction.rs` says which lines of it are needed no more |
//! | `newborn.rs` | which rows no dump has |
//! | `provenance.rs` | of which instance the data is, and whether it went back to an older state |
//! | `schema.rs`  | the version of the data and its migrations |
//! | `disk.rs`    | how much of the disk is used and free |
//! | `dump.rs`    | everything as JSON lines, with counts and a hash |
//! | `archive.rs` | a dump and files as a tar; `unfinished.rs` is a backup that is being written |
//! | `folder.rs`  | folders whose files go with the rows; `owner_folders.rs` is one of them as its crate sees it |
//! | `whole_file.rs` | files beside the database that are whole or not there |
//! | `backup.rs`  | hourly dumps, and restoring one; `backup_folder.rs` is where they are |
//! | `layout.rs`  | what lies where in the directory |
//! | `verify.rs`  | opening a database and looking at all of it, within a deadline |
//! | `recover.rs` | opening: quarantine, restore; with `lock.rs`, `recovery_file.rs`, `build.rs` |
//!
//! The crate may use `core` alone: it knows its callers' rows as bytes or JSON.
//!
//! - *Only `sled.rs` knows sled*, behind a trait. Tables in memory are the model that property tests compare it with, and the
//!   third implementation injects faults.
//! - *Commits wait for the log alone.* sled waits for the device twice for each transaction and wakes its threads for it. So a commit is one
//!   `write` to the write-ahead log, and sled hears of many commits in one transaction, when nobody waits. It is always in the state after
//!   some commit, and a start makes again what the log has beyond that.
//! - *Commits share their disk barrier.* Each says what it must survive: the death of the process takes a flush, loss of power
//!   one `fdatasync` of the log for all that wait for one.
//! - *A change is more than its commit.* What follows in memory is [carried out](carry_out()) with it, although the caller may be gone
//!   by then. Dropping a commit's future alone leaves the two apart.
//! - *The mark is never ahead.* It holds what was flushed and what a barrier confirmed, with the name of the boot: after the death
//!   of the process the database must have the former, after another boot the latter. It is written in place, without a sync of
//!   its own. A database that is behind its mark and whole by its ledger is carried over to a fresh one; one whose rows do not add
//!   up is replaced by the newest backup. Either way the operator is told how many commits are lost.
//! - *The journal keeps the last change of each row*, since a backup may be of any age. The ledger's numbers tell which of them came
//!   after it. A recovery counts a batch as lost of which nothing is left there: it may tell of more than is lost, and never of less.
//!   It keeps no change whose time is over, nor the deletion of a row that was made and deleted between two dumps: whoever makes and
//!   deletes rows over and over does not make it grow.
//! - *Who is signed in is in no dump*: a sign-in is made anew with its key, and one that was ended cannot come back.
//! - *Patients' keys are in no dump* but in one file, which is written anew at each deletion: backups can be read without the
//!   daemon, and must not tell whom it forgot.
//! - *Backups are plain files*: JSON lines with counts and a hash, and with files a tar that ends in a list of checksums. The
//!   reader checks all of one before it uses any of it, and takes regular files and directories at known places only. On the
//!   way back files are put in place before the database: old rows beside new files are merely too many files.

mod archive;
mod backend;
mod backup;
mod backup_folder;
mod batch;
mod build;
mod carry_out;
mod change;
mod commit;
mod compaction;
mod disk;
pub mod dump;
mod error;
mod executor;
#[cfg(any(test, feature = "testing"))]
pub mod fault;
mod folder;
mod handle;
mod health;
mod journal;
mod kept_log;
mod layout;
mod ledger;
mod line;
mod lock;
mod logged;
mod mark;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod newborn;
mod options;
mod owner_folders;
mod pages;
mod provenance;
mod record;
mod recover;
mod recovery_file;
mod request;
mod schema;
mod sled;
#[cfg(test)]
mod tests;
mod thread;
mod ticket;
mod unfinished;
mod verify;
mod wal;
mod whole_file;

/// The parsers of this crate, for the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::archive::fuzzing as archive;
}

pub use backup::restore;
pub use backup::run_backups;
pub(crate) use batch::Row;
pub use batch::{Batch, Durability, KeyRange, MAX_BATCH_OPS, MAX_VALUE_BYTES, Table};
pub use carry_out::carry_out;
pub use commit::Commit;
pub use disk::free_bytes;
pub use error::StoreError;
pub use folder::Folder;
pub use handle::{Opened, Store};
pub use health::{FatalHook, StoreHealth, StoreState};
pub use layout::create_private_dir;
pub use options::StoreOptions;
pub use owner_folders::{Kept, OwnerFolders, Unowned};
pub use provenance::NAMES_KEY_CHECK;
pub use recover::Recovery;
pub(crate) use schema::SCHEMA_VERSION;
pub use whole_file::{UnfinishedFile, is_whole, write_whole, write_whole_with};
