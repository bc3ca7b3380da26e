//! What looks at a node from inside: a script that runs in a container as a worker's, and says what holds for it.

use std::time::Duration;

use super::requirements::{NodeRequirements, Report, judge};
use crate::{MissingRequirement, RuntimeError};

/// What runs there.
const SCRIPT: &str = include_str!("probe.sh");
/// Time for it to end once it runs.
pub(crate) const RUN_TIMEOUT: Duration = Duration::from_secs(30);
/// What a probe prints that tried how many processes it may have, and ran into a limit.
pub(crate) const PROCESSES_LIMITED: &str = "Processes: limited";
/// The exit code of a probe that finds everything as in the report that it was given the hash of.
pub(crate) const UNCHANGED: i64 = 42;

/// The command of a container that looks around, given the hash of an earlier report. With `most_processes` it also tries how
/// many processes it may have, up to that many.
pub(crate) fn command(good: Option<&str>, most_processes: Option<u32>) -> Vec<String> {
    let most = most_processes.map(|most| most.to_string()).unwrap_or_default();
    ["/bin/sh", "-c", SCRIPT, "probe", good.unwrap_or_default(), &most].map(str::to_owned).to_vec()
}

/// What a probe that knew this report found, when it says that nothing has changed.
/// Errors: `Failed` where nobody gave it one.
pub(crate) fn unchanged(good: Option<String>) -> Result<ProbeFindings, ProbeError> {
    let report = good.ok_or_else(|| ProbeError::Failed("it knows a report that nobody gave it".to_owned()))?;
    Ok(ProbeFindings { missing: Vec::new(), report })
}

/// What a probe found that printed this.
/// Errors: `Silent` where it is not whole.
pub(crate) fn read(text: &str, wanted: &NodeRequirements) -> Result<ProbeFindings, ProbeError> {
    let report = Report::read(text).ok_or(ProbeError::Silent)?;
    Ok(ProbeFindings { missing: judge(&report, wanted), report: report.hash().to_owned() })
}

/// Whether the report is whole.
pub(crate) fn is_whole(text: &str) -> bool {
    Report::read(text).is_some()
}

/// What a look at a node found.
pub(crate) struct ProbeFindings {
    /// What is missing.
    pub missing: Vec<MissingRequirement>,
    /// The hash of its report.
    pub report: String,
}

/// Why nothing is known of a node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Its engine does not start the container.
    #[error("{0}")]
    Rejected(String),
    /// The cluster puts nothing there.
    #[error("no worker can be put there: {0}")]
    NotPlaced(String),
    #[error("the probe container failed: {0}")]
    Failed(String),
    #[error("the probe container did not exit in time")]
    Slow,
    #[error("the output of the probe container cannot be read")]
    Silent,
    /// Containers that were removed while it was away still run there.
    #[error("workers that were removed still run there")]
    Stale,
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    /// Runs the script on this machine, after these lines, with this hash.
    fn run(before: &str, good: &str) -> Output {
        let script = format!("{before}\n{SCRIPT}");
        Command::new("/bin/sh").args(["-c", &script, "probe", good]).output().unwrap()
    }

    #[test]
    fn only_a_report_that_is_known_needs_no_reading() {
        let first = run("", "");
        assert_eq!(first.status.code(), Some(0));
        let text = String::from_utf8(first.stdout).unwrap();
        let hash = Report::read(&text).unwrap().hash();
        assert_eq!(run("", hash).status.code(), Some(42));
        assert_eq!(run("", "5f2b").status.code(), Some(0));
        // An image without the program leaves every hash empty, and so is that of no report.
        let without = run("sha256sum() { :; }", "");
        assert_eq!(without.status.code(), Some(0));
        assert!(Report::read(&String::from_utf8(without.stdout).unwrap()).is_none());
    }

    #[test]
    fn the_number_of_processes_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        let script = SCRIPT.replace("/tmp/probe", &folder.path().join("probe").display().to_string());
        let run = |before: &str| {
            let _ = std::fs::remove_file(folder.path().join("probe"));
            let script = format!("{before}\n{script}");
            let output = Command::new("/bin/sh").args(["-c", &script, "probe", "", "40"]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let text = run("");
        assert!(text.contains("Processes: unlimited") && is_whole(&text), "{text}");
        assert!(SCRIPT.contains(&format!("'{PROCESSES_LIMITED}'")));
    }
}
