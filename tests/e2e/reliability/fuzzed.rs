//! What `scripts/fuzz` has run, for the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

const HEAD: &str = "
## Fuzzing

`scripts/fuzz` feeds each parser of what strangers send with bytes that lead to new ways through it, and the unit tests repeat a few thousand
inputs. A target also says what must hold whatever comes: the same result however the bytes are split, what is written is read again, nothing
gets out that the lists do not have. A run goes on with what `fuzz/corpus` has of earlier ones, and one with `--keep` counts here. Parsers have
changed between the runs.

| target | what it reads | processor time | inputs | last run | what was found, and mended |
|---|---|--:|--:|---|---|
";

/// What `scripts/fuzz --keep` writes: target, seconds of processor time, inputs and day, apart by tabs.
const RUNS: &str = include_str!("../../../fuzz/runs.tsv");

/// A target, what it reads, and what it found.
pub(super) type Target = (&'static str, &'static str, &'static str);

pub(super) const TARGETS: &[Target] = &[
    ("frames", "Frame headers of websockets", "nothing"),
    ("rfb", "A viewer's RFB messages", "nothing"),
    ("matroska", "Recordings that a killed daemon left", "a file with a cluster before its head was cut to nothing"),
    ("dump", "Dumps of the store", "nothing"),
    ("backup", "Backups: tars of a dump and files", "nothing"),
    ("heads", "Heads of requests, with path, Host, Origin and query", "nothing"),
    ("dropin", "What clients of other services send: queries, and bodies of new sessions", "nothing"),
    ("create", "Bodies of create calls", "nothing"),
    ("capabilities", "WebDriver's bodies of new sessions", "nothing"),
    ("upload", "Selenium's uploads, while they arrive", "nothing"),
    ("switches", "Chromium's switches", "nothing"),
    ("firefox_profile", "Profiles that clients send for Firefox", "nothing"),
    ("pref_file", "Firefox's files with preferences", "nothing"),
    ("folder", "Packed profile folders", "nothing"),
    ("storage", "Cookies and storage that a browser is to begin with", "nothing"),
    ("socks", "SOCKS, of browsers and of proxies", "nothing"),
    ("proxy", "Answers of HTTP proxies", "nothing"),
    ("tasks", "Bodies of tasks: recordings, schemas, fleets", "nothing"),
    ("template", "Templates in a task's strings, and the hiding of secrets", "nothing"),
    ("export", "Tables that are written of what pages said", "nothing"),
    ("inputs", "Tables and lines of a fleet's inputs", "nothing"),
    ("world", "Requests for worlds", "nothing"),
    ("extension", "Browser extensions that clients upload", "nothing"),
    ("picture", "Pictures that clients attach to them", "a JPEG at which its decoder panicked, since contained"),
];

/// The section of the page.
pub(super) fn section() -> String {
    let runs: BTreeMap<&str, Vec<&str>> = RUNS
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t');
            Some((fields.next()?, fields.collect()))
        })
        .collect();
    let mut text = HEAD.to_owned();
    for (target, what, found) in TARGETS {
        let run = match runs.get(target).map(Vec::as_slice) {
            Some([seconds, inputs, day]) => format!("{seconds} s | {inputs} | {day}"),
            _ => "in the unit tests alone | | ".to_owned(),
        };
        let _ = writeln!(text, "| `{target}` | {what} | {run} | {found} |");
    }
    text
}
