//! What a case notes of its run for RELIABILITY.md: rounds, seed, what it saw, and what this machine cannot do.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::suite::lane;

/// Set while `scripts/faults` runs rows: their numbers with commas between them, or `all`.
pub const ROWS: &str = "WARMPOOL_FAULT_ROWS";
const ROUNDS: &str = "WARMPOOL_FAULT_ROUNDS";
const SEED: &str = "WARMPOOL_FAULT_SEED";

/// What a case noted.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// How many times it made the fault.
    pub rounds: Option<u64>,
    /// What its random choices began with.
    pub seed: Option<u64>,
    /// What it measured, in words.
    pub saw: Vec<String>,
    /// Why it could not do here what it is for. It proves nothing then, or not all.
    pub cannot: Option<String>,
}

/// What the running case of each lane has noted.
static NOTED: Mutex<BTreeMap<usize, Evidence>> = Mutex::new(BTreeMap::new());

fn note(change: impl FnOnce(&mut Evidence)) {
    change(NOTED.lock().entry(lane()).or_default());
}

/// What this lane's case has noted, which begins anew.
pub(crate) fn take() -> Evidence {
    NOTED.lock().remove(&lane()).unwrap_or_default()
}

/// How many rounds to run: `WARMPOOL_FAULT_ROUNDS`, or as many as this.
#[must_use]
pub fn rounds(usual: u64) -> u64 {
    let rounds = number(ROUNDS).unwrap_or(usual);
    note(|evidence| evidence.rounds = Some(rounds));
    rounds
}

/// Says how many times a case made the fault that cannot be told how often.
pub fn made(rounds: u64) {
    note(|evidence| evidence.rounds = Some(rounds));
}

/// Random numbers that begin with `WARMPOOL_FAULT_SEED`, or with another number each time.
#[must_use]
pub fn random() -> Random {
    use std::hash::{BuildHasher as _, RandomState};
    let seed = number(SEED).unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    println!("seed {seed}");
    note(|evidence| evidence.seed = Some(seed));
    Random(seed)
}

/// Notes something measured.
pub fn saw(what: impl Into<String>) {
    let what = what.into();
    println!("{what}");
    note(|evidence| evidence.saw.push(what));
}

/// Notes that the case cannot do what it is for, or not all of it, and why: on this machine, or with these settings of the run. The run
/// says so at its end.
pub fn cannot(why: impl Into<String>) {
    let why = why.into();
    eprintln!("skipped: {why}");
    note(|evidence| evidence.cannot = Some(why));
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Splitmix64: the same numbers for the same seed.
#[derive(Debug)]
pub struct Random(u64);

impl From<u64> for Random {
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}

impl Random {
    /// A number below this one.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    /// One of these.
    pub fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[usize::try_from(self.below(choices.len() as u64)).unwrap_or_default()]
    }
}
