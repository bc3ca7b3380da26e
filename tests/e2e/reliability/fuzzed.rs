//! What `scripts/fuzz` has run, for the page.

pub(super) const HEAD: &str = "
## Fuzzing

`scripts/fuzz` feeds each parser of what strangers send with bytes that lead to new ways through it, and the unit tests repeat a few thousand
inputs. A target also says what must hold whatever comes: the same result however the bytes are split, what is written is read again, nothing
gets out that the lists do not have. These are the longest runs so far, of commit 25c5bf1 with the targets added, on 2026-11-26.

| target | what it reads | longest run | what was found |
|---|---|---|---|
";

/// A target, what it reads, its longest run, and what it found.
pub(super) type Target = (&'static str, &'static str, &'static str, &'static str);

pub(super) const TARGETS: &[Target] = &[
    ("frames", "Frame headers of websockets", "only in the unit tests", "nothing"),
    ("rfb", "A viewer's RFB messages", "only in the unit tests", "nothing"),
    ("matroska", "Recordings that a killed daemon left", "only in the unit tests", "nothing"),
    ("dump", "Dumps of the store", "only in the unit tests", "nothing"),
    ("backup", "Backups: tars of a dump and files", "60 s, 368412 inputs", "nothing"),
    ("heads", "Heads of requests, with path, Host, Origin and query", "60 s, 217273 inputs", "nothing"),
    (
        "dropin",
        "What clients of other services send: queries, and bodies of new sessions",
        "60 s, 1392548 inputs",
        "nothing",
    ),
    ("create", "Bodies of create calls", "60 s, 1071067 inputs", "nothing"),
    ("capabilities", "WebDriver's bodies of new sessions", "60 s, 2012701 inputs", "nothing"),
    ("upload", "Selenium's uploads, while they arrive", "only in the unit tests", "nothing"),
    ("switches", "Chromium's switches", "60 s, 1424461 inputs", "nothing"),
    ("firefox_profile", "Profiles that clients send for Firefox", "60 s, 745585 inputs", "nothing"),
    ("pref_file", "Firefox's files with preferences", "only in the unit tests", "nothing"),
    ("folder", "Packed profile folders", "60 s, 352910 inputs", "nothing"),
    ("storage", "Cookies and storage that a browser is to begin with", "60 s, 3229210 inputs", "nothing"),
    ("socks", "SOCKS, of browsers and of proxies", "60 s, 1725829 inputs", "nothing"),
    ("proxy", "Answers of HTTP proxies", "only in the unit tests", "nothing"),
    ("tasks", "Bodies of tasks: recordings, schemas, fleets", "60 s, 529246 inputs", "nothing"),
    ("template", "Templates in a task's strings, and the hiding of secrets", "60 s, 870857 inputs", "nothing"),
    ("export", "Tables that are written of what pages said", "only in the unit tests", "nothing"),
    ("inputs", "Tables and lines of a fleet's inputs", "60 s, 127683 inputs", "nothing"),
    ("world", "Requests for worlds", "60 s, 2548842 inputs", "nothing"),
    ("extension", "Browser extensions that clients upload", "only in the unit tests", "nothing"),
    ("picture", "Pictures that clients attach to them", "only in the unit tests", "nothing"),
];
