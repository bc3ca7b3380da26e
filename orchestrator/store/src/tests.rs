//! Tests of the store as a whole.

mod apart;
mod conformance;
mod crash;
mod damage;
mod failure;
mod files;
mod irrevocable;
mod kept_log;
mod kill_points;
mod log_gaps;
mod model;
mod opening;
mod recoveries;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;

/// A small generator whose seed can be printed and given again.
struct Random(u64);

impl Random {
    /// Seeded by the variable, else by the clock; prints the seed.
    fn seeded(variable: &str) -> Self {
        let seed = std::env::var(variable)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| warmpool_core::clock::unix_ms() ^ u64::from(std::process::id()) << 40);
        println!("{variable}={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

fn rounds(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Collects the reasons that the fatal hook gets, instead of ending the process.
#[derive(Clone, Default)]
struct Fatal(Arc<Mutex<Vec<String>>>);

impl Fatal {
    fn hook(&self) -> FatalHook {
        let told = Arc::clone(&self.0);
        FatalHook::new(move |reason| told.lock().push(reason.to_owned()))
    }

    fn reasons(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

fn options() -> StoreOptions {
    StoreOptions { min_free_bytes: 0, call_timeout: Duration::from_secs(20), ..StoreOptions::default() }
}

fn open_sled(dir: &Path) -> Store {
    let opened = Store::open(dir, options()).unwrap();
    assert_eq!(opened.recovery, None);
    opened.store
}

async fn put(store: &Store, table: Table, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(table, key, value);
    store.commit(batch, Durability::Process).await.unwrap();
}

/// Every row of the tables but the store's own.
async fn contents(store: &Store) -> Vec<(Table, Vec<Row>)> {
    let mut all = Vec::new();
    for table in [Table::Keys, Table::Sessions] {
        let rows = store.scan(table, KeyRange::all(), usize::MAX).await.unwrap();
        all.push((table, rows));
    }
    all
}

/// This test binary, to run the one test named, with a variable set that makes it play its part.
fn again_as(test: &str, variable: &str, value: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let module = module_path!().split_once("::").unwrap().1;
    command
        .args(["--exact", &format!("{module}::{test}"), "--nocapture"])
        .env(variable, value)
        .env("RUST_BACKTRACE", "0");
    command
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
