//! `warmpool doctor`: what is wrong with the host, in plain words, and the remedy.
//!
//! [`Facts::gather`] looks at the host, [`check()`] judges what was found and is pure, [`report`] shows it. [`probe_egress`]
//! starts workers and tries to get out of them; [`probe_nodes`] looks at each node of a swarm or cluster.
//!
//! `facts` gathers, with `port` for the listening port; `check` judges. `egress` and `programs` try what a worker reaches and executes,
//! `nodes` what a node has of the fence; `interrupt` removes what they started when somebody interrupts them.

mod check;
mod egress;
mod facts;
mod interrupt;
mod nodes;
mod port;
mod programs;

use std::io::{self, Write};
use std::sync::Arc;

pub(crate) use check::check;
use check::silent_flaws;
pub(crate) use egress::probe_egress;
pub(crate) use facts::{Directory, Facts, Needs, RuntimeFacts, Socket};
pub(crate) use nodes::probe_nodes;
pub(crate) use port::Port;
use serde::Serialize;
use warmpool_config::Config;

pub(crate) use warmpool_runtime::{DockerFacts, ImageFact};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// The daemon runs, but not as well or as safely as it could.
    Warn,
    /// Sessions cannot be served until this is mended.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// How serious it is.
    pub level: Level,
    /// What was looked at, in a few words.
    pub title: &'static str,
    /// What was found.
    pub detail: String,
    /// What to do about it; none where nothing needs doing.
    pub remedy: Option<String>,
}

/// Logs what the container engine lacks and sessions do not show, such as limits that it cannot set. Logs nothing where the
/// engine does not answer, or where workers run on Kubernetes.
pub(crate) async fn log_silent_flaws(config: Arc<Config>) {
    let Ok(docker) = RuntimeFacts::ask(&config).await.docker else { return };
    for Finding { detail, remedy, .. } in silent_flaws(&docker, &Needs::of(&config)) {
        tracing::warn!(remedy = remedy.unwrap_or_default(), "{detail}");
    }
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// A table for people; colours suit terminals only.
    Text {
        /// Whether to use terminal colours.
        colour: bool,
    },
    /// One JSON object: `ok` and `findings`.
    Json,
}

/// What a report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Whether this host can serve sessions.
    Host,
    /// What workers reach and execute.
    Egress,
    /// Whether the nodes of the swarm or cluster can have workers.
    Nodes,
}

impl Subject {
    /// The report in a sentence.
    fn summary(self, failed: usize, warned: usize) -> String {
        let verdict = match (self, failed) {
            (Self::Host, 0) => "This host is ready",
            (Self::Host, _) => "This host is not ready",
            (Self::Nodes, 0) => "Workers can run on all nodes",
            (Self::Nodes, _) => "Some nodes get no workers",
            (Self::Egress, 0) => "Workers reach nothing that no rule allows, and execute nothing but their engine",
            (Self::Egress, _) => "Workers reach or execute what they must not",
        };
        match (failed, warned) {
            (0, 0) => format!("{verdict}."),
            (0, warned) => format!("{verdict}; warnings: {warned}."),
            (failed, warned) => format!("{verdict}; failures: {failed}, warnings: {warned}."),
        }
    }
}

/// Whether nothing failed; warnings do not count.
pub(crate) fn healthy(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.level < Level::Fail)
}

/// Writes the findings.
pub(crate) fn report(findings: &[Finding], subject: Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    match style {
        Style::Text { colour } => text(findings, subject, colour, out),
        Style::Json => {
            let object = serde_json::json!({ "ok": healthy(findings), "findings": findings });
            writeln!(out, "{object:#}")
        }
    }
}

fn text(findings: &[Finding], subject: Subject, colour: bool, out: &mut dyn Write) -> io::Result<()> {
    let width = findings.iter().map(|finding| finding.title.len()).max().unwrap_or(0);
    for Finding { level, title, detail, remedy } in findings {
        let (word, code) = match level {
            Level::Ok => (" ok ", "32"),
            Level::Warn => ("warn", "33"),
            Level::Fail => ("FAIL", "1;31"),
        };
        match colour {
            true => write!(out, "\x1b[{code}m{word}\x1b[0m")?,
            false => write!(out, "{word}")?,
        }
        writeln!(out, "  {title:width$}  {detail}")?;
        for line in remedy.iter().flat_map(|remedy| remedy.lines()) {
            writeln!(out, "      {:width$}  {line}", "")?;
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    writeln!(out, "\n{}", subject.summary(count(Level::Fail), count(Level::Warn)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding { level: Level::Ok, title: "Port", detail: "free".to_owned(), remedy: None },
            Finding {
                level: Level::Fail,
                title: "Worker image",
                detail: "is absent".to_owned(),
                remedy: Some("build it".to_owned()),
            },
        ]
    }

    fn shown(findings: &[Finding], style: Style) -> String {
        let mut out = Vec::new();
        report(findings, Subject::Host, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_is_a_table_with_remedies_below() {
        let expected = " ok   Port          free\nFAIL  Worker image  is absent\n                    build it\n\n\
                        This host is not ready; failures: 1, warnings: 0.\n";
        assert_eq!(shown(&findings(), Style::Text { colour: false }), expected);
        assert!(shown(&findings(), Style::Text { colour: true }).contains("\x1b[1;31mFAIL\x1b[0m"));
        assert_eq!(
            Subject::Egress.summary(1, 2),
            "Workers reach or execute what they must not; failures: 1, warnings: 2."
        );
        assert!(shown(&findings()[..1], Style::Text { colour: false }).ends_with("\nThis host is ready.\n"));
    }

    #[test]
    fn json_has_every_field() {
        let shown: serde_json::Value = serde_json::from_str(&shown(&findings(), Style::Json)).unwrap();
        assert_eq!(shown["ok"], false);
        let first = serde_json::json!({ "level": "ok", "title": "Port", "detail": "free", "remedy": null });
        assert_eq!(shown["findings"][0], first);
    }
}
