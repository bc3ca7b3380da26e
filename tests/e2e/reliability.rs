//! Which faults the tests make, and what RELIABILITY.md says of each. `scripts/faults` runs the rows and writes the page.

mod fuzzed;
mod page;
mod rows;

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use warmpool_tests::suite::Ended;
use warmpool_tests::{Group, Stage, evidence, group, suite};

use page::{Page, Run};
pub(crate) use rows::{ROWS, Row};

pub(crate) fn group() -> Group {
    group!(None, quick: [the_page_and_the_rows_agree], full: [])
}

/// The rows that `scripts/faults` asks for; `None` in any other run.
pub(crate) fn chosen() -> Option<Result<Vec<&'static Row>>> {
    let chosen = env::var(evidence::ROWS).ok().filter(|chosen| !chosen.is_empty())?;
    if chosen == "all" {
        return Some(Ok(ROWS.iter().collect()));
    }
    let row = |number: &str| {
        let row = ROWS.iter().find(|row| row.number.to_string() == number.trim());
        row.with_context(|| format!("there is no row {number}, only 1 to {}", ROWS.len()))
    };
    Some(chosen.split(',').map(row).collect())
}

/// Runs the rows and writes down what was seen, each row's line when all of its cases have run.
pub(crate) fn run(rows: &[&'static Row], groups: Vec<Group>) -> Result<ExitCode> {
    let wanted: BTreeSet<&str> = rows.iter().flat_map(|row| row.cases).copied().collect();
    let groups = groups.into_iter().filter_map(|group| group.only(|title| wanted.contains(title))).collect();
    let outcomes = suite::run(groups);
    let mut page = Page::read()?;
    for row in rows {
        let cases: Vec<&Ended> = outcomes.cases.iter().filter(|case| row.tells_of(&case.title)).collect();
        let own = cases.iter().filter(|case| row.cases.contains(&&*case.title)).count();
        // A filter among the arguments may leave some out.
        if own == row.cases.len() && own > 0 {
            page.ran(row, Run::of(&cases));
        }
    }
    page.write()?;
    Ok(outcomes.code)
}

/// Whether a crate of the daemon has this test: `crate::module::test`.
fn is_in_a_crate(test: &str) -> Result<bool> {
    let Some((module, name)) = test.rsplit_once("::") else { return Ok(false) };
    let mut parts = module.split("::");
    let package = parts.next().unwrap_or_default();
    let folder = package.strip_prefix("warmpool_").unwrap_or(package);
    let file = parts.collect::<Vec<_>>().join("/");
    let file = format!("{}/../orchestrator/{folder}/src/{file}.rs", env!("CARGO_MANIFEST_DIR"));
    if !Path::new(&file).is_file() {
        return Ok(false);
    }
    Ok(std::fs::read_to_string(&file)?.contains(&format!("fn {name}(")))
}

async fn the_page_and_the_rows_agree(_: Stage) -> Result<()> {
    let numbers = ROWS.iter().map(|row| usize::from(row.number));
    ensure!(numbers.eq(1..=ROWS.len()), "the rows have the numbers from 1, in this order");
    let groups = crate::groups().into_iter().chain(crate::long_groups());
    let titles: BTreeSet<String> = groups.flat_map(|group| group.titles().collect::<Vec<_>>()).collect();
    for row in ROWS {
        ensure!(row.falls_short.is_some() || !row.cases.is_empty(), "row {} has no case and no reason", row.number);
        for case in row.cases {
            ensure!(titles.contains(*case), "row {} names {case}, which is no case", row.number);
            let group = case.split("::").next().unwrap_or_default();
            let is_told = row.tells_of(case) && row.tells_of(&format!("{group}::everything_is_given_back"));
            ensure!(is_told, "row {}: the line tells neither of {case} nor of what {group} leaves", row.number);
        }
        ensure!(!row.tells_of("no_group::everything_is_given_back"), "row {} tells of other groups", row.number);
    }
    let named = rows::INCIDENTS.iter().map(|(incident, _, cases)| (*incident, *cases));
    for (what, cases) in named.chain(rows::ON_SWARM.iter().map(|(_, fault, cases)| (*fault, *cases))) {
        ensure!(!cases.is_empty(), "{what}: no test");
        for case in cases {
            ensure!(
                titles.contains(*case) || is_in_a_crate(case)?,
                "{what}: {case} is no case, and no test of a crate"
            );
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fuzz").join("fuzz_targets");
    let files = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let files = files.filter_map(|file| Some(file.ok()?.path().file_stem()?.to_str()?.to_owned()));
    let listed = fuzzed::TARGETS.iter().map(|(target, ..)| (*target).to_owned());
    ensure!(
        files.collect::<BTreeSet<_>>() == listed.collect(),
        "reliability/fuzzed.rs lists each target of fuzz/fuzz_targets"
    );
    let page = Page::read()?;
    let (has, should) = (page.on_disk(), page.text());
    if let Some((line, (is, wanted))) =
        has.lines().zip(should.lines()).enumerate().find(|(_, (is, wanted))| is != wanted)
    {
        bail!("RELIABILITY.md, line {}: `scripts/faults --write` writes it anew\n{is}\n{wanted}", line + 1);
    }
    ensure!(has == should, "RELIABILITY.md has another length: `scripts/faults --write` writes it anew");
    Ok(())
}

/// Writes the page from the rows, with what earlier runs saw.
pub(crate) fn write() -> Result<()> {
    Page::read()?.write()
}
