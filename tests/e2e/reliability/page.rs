//! RELIABILITY.md: written from the rows and their runs, and read back for the runs that stay.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};
use warmpool_tests::suite::{Ended, checks_group};

use super::fuzzed;
use super::rows::{INCIDENTS, ON_SWARM, ROWS, Row};

const HEAD: &str = "# Reliability

`scripts/faults` makes each of these faults: in the real daemon, with real containers and browsers. After each, the cases check that
the daemon has not panicked, that the gauges are idle, that no container and no folder of a worker is left that the daemon does not own,
and that the pool is full again; where cases share a daemon, that is checked once behind them, and counts for the rows of each.
`scripts/faults --row N` repeats a row; `--rounds` and `--seed` set what it prints. A line says what its last run saw, and
with which commit and build: it stays while the row does, and later changes of the daemon are not in it. A row without a run says so, and
what a machine cannot do is not counted. Many runs are of debug builds,
which are slower and larger: [Performance](orchestrator/docs/performance.md) has the figures of the optimised one.

";

const COVERED: &str = "
## What tests each row

A row is whole if its cases make all of the fault, in part if something of it is missing, and otherwise has no test.

| row | | cases | what is missing |
|---|---|---|---|
";

const FROM_OTHERS: &str = "
## Incidents elsewhere

What happened to others, and what keeps it from happening here.

| incident | what keeps it away | tests |
|---|---|---|
";

const ELSEWHERE: &str = "
## On a Swarm

These faults are others where workers run on several nodes, and these tests make them there. All other rows happen inside a container,
or between the daemon and its clients, which know nothing of nodes.

| row | on a Swarm | tests |
|---|---|---|
";

/// What a row's last run saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    seen: String,
    rounds: String,
    seed: String,
    took: String,
    commit: String,
}

/// The page.
pub(super) struct Page {
    path: PathBuf,
    on_disk: String,
    runs: BTreeMap<u8, Run>,
}

impl Run {
    /// What came of these cases, of which one row's line tells.
    pub(super) fn of(cases: &[&Ended]) -> Self {
        let failed: Vec<&&Ended> = cases.iter().filter(|case| case.failure.is_some()).collect();
        let skipped: Vec<&str> = cases.iter().filter_map(|case| case.evidence.cannot.as_deref()).collect();
        let mut seen = match (failed.as_slice(), skipped.as_slice()) {
            ([], []) => format!("as expected, {} of {} cases", cases.len(), cases.len()),
            ([], [why, ..]) => {
                format!("not counted: {} of {} cases could not run here: {why}", skipped.len(), cases.len())
            }
            (failed, _) => {
                let name = |case: &&&Ended| match checks_group(&case.title) {
                    // There may be several of one name.
                    Some(_) => case.title.clone(),
                    None => case.title.rsplit("::").next().unwrap_or_default().to_owned(),
                };
                format!("FAILED: {}", failed.iter().map(name).collect::<Vec<_>>().join(", "))
            }
        };
        for saw in cases.iter().flat_map(|case| &case.evidence.saw) {
            let _ = write!(seen, "; {saw}");
        }
        let joined = |numbers: Vec<u64>| {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            if numbers.is_empty() { "-".to_owned() } else { numbers.join(", ") }
        };
        // What a group's daemon has given back is looked at once, and is no fault.
        let faults = cases.iter().filter(|case| checks_group(&case.title).is_none());
        let took: f64 = cases.iter().map(|case| case.took.as_secs_f64()).sum();
        Self {
            seen: seen.replace(['|', '\n'], " "),
            rounds: faults.map(|case| case.evidence.rounds.unwrap_or(1)).sum::<u64>().to_string(),
            seed: joined(cases.iter().filter_map(|case| case.evidence.seed).collect()),
            took: format!("{took:.0} s"),
            commit: commit(),
        }
    }

    fn read(cells: &[&str]) -> Option<Self> {
        let [seen, rounds, seed, took, commit] = cells else { return None };
        let text = |cell: &&str| (*cell).to_owned();
        let run = [seen, rounds, seed, took, commit].map(text);
        let [seen, rounds, seed, took, commit] = run;
        (seen != NEVER).then_some(Self { seen, rounds, seed, took, commit })
    }
}

const NEVER: &str = "not run";

/// The commit, the day and the build of this run, as `scripts/faults` says.
fn commit() -> String {
    env::var("WARMPOOL_FAULT_COMMIT").unwrap_or_else(|_| {
        let git = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
        git.map(|git| String::from_utf8_lossy(&git.stdout).trim().to_owned()).unwrap_or_default()
    })
}

impl Page {
    /// The page as it lies at the top of the tree, with the runs of rows whose fault and expectation are still the same.
    pub(super) fn read() -> Result<Self> {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../RELIABILITY.md");
        let on_disk = fs::read_to_string(&path).unwrap_or_default();
        let mut runs = BTreeMap::new();
        for line in on_disk.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [number, fault, expected, run @ ..] = cells.as_slice() else { continue };
            let row = ROWS.iter().find(|row| row.number.to_string() == *number);
            if let Some(row) = row.filter(|row| row.fault == *fault && row.expected == *expected)
                && let Some(run) = Run::read(run)
            {
                runs.insert(row.number, run);
            }
        }
        Ok(Self { path, on_disk, runs })
    }

    pub(super) fn on_disk(&self) -> &str {
        &self.on_disk
    }

    /// Takes down a run.
    pub(super) fn ran(&mut self, row: &Row, run: Run) {
        println!("row {}: {}", row.number, run.seen);
        self.runs.insert(row.number, run);
    }

    pub(super) fn write(&self) -> Result<()> {
        fs::write(&self.path, self.text()).with_context(|| self.path.display().to_string())
    }

    /// The whole page.
    pub(super) fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        text += "| row | fault | what must follow | what was seen | rounds | seed | took | commit, day, build |\n|---|---|---|---|---|---|---|---|\n";
        for Row { number, fault, expected, .. } in ROWS {
            let cells = match self.runs.get(number) {
                Some(Run { seen, rounds, seed, took, commit }) => {
                    format!("{seen} | {rounds} | {seed} | {took} | {commit}")
                }
                None => format!("{NEVER} | - | - | - | -"),
            };
            let _ = writeln!(text, "| {number} | {fault} | {expected} | {cells} |");
        }
        text += COVERED;
        for row in ROWS {
            let whole = match (row.cases, row.falls_short) {
                ([], _) => "none",
                (_, Some(_)) => "in part",
                (_, None) => "whole",
            };
            let missing = row.falls_short.unwrap_or_default();
            let _ = writeln!(text, "| {} | {whole} | {} | {missing} |", row.number, listed(row.cases));
        }
        text += ELSEWHERE;
        for (row, fault, cases) in ON_SWARM {
            let _ = writeln!(text, "| {row} | {fault} | {} |", listed(cases));
        }
        if !INCIDENTS.is_empty() {
            text += FROM_OTHERS;
        }
        for (incident, control, cases) in INCIDENTS {
            let _ = writeln!(text, "| {incident} | {control} | {} |", listed(cases));
        }
        text += &fuzzed::section();
        text
    }
}

fn listed(cases: &[&str]) -> String {
    cases.iter().map(|case| format!("`{case}`")).collect::<Vec<_>>().join(" ")
}
