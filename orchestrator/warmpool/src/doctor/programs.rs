//! What a worker executes that it must not, tried from inside.

use std::collections::BTreeMap;
use std::sync::Arc;

use warmpool_protocol::{ProgramTry, ProgramsProbed};

use super::egress::ProbeError;
use super::{Finding, Level};
use warmpool_core::browser::Engine;
use warmpool_workers::worker::Worker;

const TITLE: &str = "Programs";
const LANDLOCK: &str = "Landlock";
/// What is said of a program that the loader runs for another one: between what is executed, and a path.
const BY_LOADER: &str = " by /";

/// Tries it in a worker of each engine. `noexec` says whether the runtime can forbid execution where workers write: Kubernetes cannot.
pub(super) async fn probe(workers: &[Arc<Worker>], noexec: bool) -> Result<Vec<Finding>, ProbeError> {
    let workers: BTreeMap<Engine, _> = workers.iter().map(|worker| (worker.key.engine, worker)).collect();
    let mut findings = Vec::new();
    let mut landlock = true;
    for worker in workers.into_values() {
        let probed = worker.agent.probe_programs().await?;
        landlock &= probed.landlock;
        findings.extend(judge(&probed, noexec));
    }
    findings.insert(0, kernel(landlock));
    Ok(findings)
}

fn kernel(landlock: bool) -> Finding {
    let (level, detail, remedy) = if landlock {
        (Level::Ok, "on: each program of a worker executes what it needs and nothing else", None)
    } else {
        (
            Level::Warn,
            "off: the image alone says which programs may be executed",
            Some("use a kernel of 5.19 or newer, with landlock in its list of security modules (lsm=)"),
        )
    };
    Finding { level, title: LANDLOCK, detail: detail.to_owned(), remedy: remedy.map(str::to_owned) }
}

/// A line for each program that executed something, and one for all others.
fn judge(probed: &ProgramsProbed, noexec: bool) -> Vec<Finding> {
    let mut by_program: BTreeMap<&str, Vec<&ProgramTry>> = BTreeMap::new();
    for tried in &probed.tries {
        by_program.entry(&tried.from).or_default().push(tried);
    }
    let finding = |(from, tries): (&str, Vec<&ProgramTry>)| {
        let executed: Vec<&str> =
            tries.iter().filter(|tried| tried.executed).map(|tried| tried.what.as_str()).collect();
        if executed.is_empty() {
            let detail = format!("{from} executes none of {} others", tries.len());
            return Finding { level: Level::Ok, title: TITLE, detail, remedy: None };
        }
        let (level, remedy) = if !noexec && executed.iter().all(|what| what.contains(BY_LOADER)) {
            let remedy = "a Pod cannot ask for volumes without execution: the guide on Kubernetes says what such a program may do; a \
                          sandbox as kubernetes.runtime_class gives it a kernel of its own";
            (Level::Warn, remedy)
        } else {
            let remedy = "build the images anew with scripts/images, and use the engine's default for tmpfs (noexec)";
            (Level::Fail, remedy)
        };
        let detail = format!("{from} executes {}", executed.join(", "));
        Finding { level, title: TITLE, detail, remedy: Some(remedy.to_owned()) }
    };
    by_program.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_program_that_is_executed_is_a_failure() {
        let tried = |from: &str, what: &str, executed| ProgramTry {
            from: from.to_owned(),
            what: what.to_owned(),
            executed,
            detail: String::new(),
        };
        let tries = vec![tried("a", "/bin/sh", false), tried("b", "/bin/sh", true), tried("b", "/bin/ls", false)];
        let findings = judge(&ProgramsProbed { landlock: true, tries }, true);
        assert_eq!(findings.iter().map(|finding| finding.level).collect::<Vec<_>>(), [Level::Ok, Level::Fail]);
        assert!(findings[1].detail.contains("/bin/sh") && !findings[1].detail.contains("/bin/ls"));
        assert_eq!((kernel(true).level, kernel(false).level), (Level::Ok, Level::Warn));
    }

    #[test]
    fn what_a_pod_cannot_forbid_is_a_warning() {
        let level = |executed: &[&str], noexec| {
            let tries = executed.iter().map(|what| ProgramTry {
                from: "a".to_owned(),
                what: (*what).to_owned(),
                executed: true,
                detail: String::new(),
            });
            judge(&ProgramsProbed { landlock: true, tries: tries.collect() }, noexec)[0].level
        };
        let by_loader = "a program in /tmp by /lib64/ld-linux-x86-64.so.2";
        assert_eq!(level(&[by_loader], true), Level::Fail, "elsewhere it is forbidden");
        assert_eq!(level(&[by_loader], false), Level::Warn);
        assert_eq!(level(&[by_loader, "/bin/sh"], false), Level::Fail);
        assert_eq!(level(&["a program in /tmp"], false), Level::Fail);
    }
}
