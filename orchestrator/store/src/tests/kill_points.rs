//! `kill -9` before each call in turn that changes something on the disk loses nothing that was answered.

use std::process::Stdio;

use super::crash::Writer;
use super::*;

/// The system calls by which the store and sled change files.
const CALLS: [&str; 6] = ["write", "pwrite64", "rename", "unlink", "ftruncate", "mkdir"];

/// How many calls of one kind are looked at unless told otherwise, each thread counted for itself. A start makes fewer, but steps go on to
/// write.
const MOST: u64 = 25;

/// A writer that has answered so often without having met its call is past its start.
const PAST: usize = 100;

fn strace() -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "signal=none"]);
    strace
}

/// Kills itself before a thread makes this call for the time of this number, or has written much.
fn killed_before(call: &str, number: u64) -> Command {
    let kill = |call: &str, number: u64| format!("inject={call}:signal=KILL:when={number}");
    let mut strace = strace();
    strace.args(["-e", &format!("trace=write,{call}"), "-e", &kill(call, number)]);
    if call != "write" {
        strace.args(["-e", &kill("write", PAST as u64 * 2)]);
    }
    strace
}

/// How many steps a writer takes between two kills, at least.
const STEPS: usize = 5;

/// What is known of the store.
#[derive(Default)]
struct Known {
    /// The last step that was answered.
    answered: u64,
    /// How many writers were killed since: each may have done a step that it did not answer any more.
    kills: u64,
}

impl Known {
    /// Takes up the answers of a writer that was killed in the end.
    fn go_on(&mut self, answers: &[u64], kill: &str) {
        if let ([first, ..], [.., last]) = (answers, answers) {
            let expected = self.answered + 1..=self.answered + 1 + self.kills;
            assert!(expected.contains(first), "{kill}: {first} was done where {expected:?} were expected");
            (self.answered, self.kills) = (*last, 0);
        }
        self.kills += 1;
    }
}

/// Kills writers at each call. Returns how many.
fn kill_at_each_call(each_makes_its_store: bool) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let most = rounds("WARMPOOL_KILL_POINTS", MOST);
    let (mut known, mut kills) = (Known::default(), 0);
    for call in CALLS {
        for number in 1..=most {
            if each_makes_its_store && data.exists() {
                std::fs::remove_dir_all(&data).unwrap();
                known = Known::default();
            }
            let kill = format!("{call} {number}, new store: {each_makes_its_store}");
            let answers = Writer::start_under(killed_before(call, number), &data).answers();
            known.go_on(&answers, &kill);
            kills += 1;
            let is_past = answers.len() > PAST;
            // Two, so that the next start finds both a log to replay and a database that has more than its snapshot.
            for _ in 0..2 {
                let next = Writer::start(&data);
                let mut answers: Vec<u64> = std::iter::from_fn(|| next.answer()).take(STEPS).collect();
                assert_eq!(answers.len(), STEPS, "{kill}: the store does not open");
                answers.extend(next.kill(None));
                known.go_on(&answers, &kill);
            }
            if is_past {
                break;
            }
        }
    }
    kills
}

fn check(each_makes_its_store: bool) {
    if !strace().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("skipped: there is no strace, or it may not trace");
        return;
    }
    let kills = kill_at_each_call(each_makes_its_store);
    println!("{kills} kills");
    assert!(kills > 30, "{kills}");
}

#[test]
fn a_kill_before_each_call_that_changes_a_file_loses_nothing() {
    check(false);
}

#[test]
fn a_kill_before_each_call_that_makes_a_store_loses_nothing() {
    check(true);
}
