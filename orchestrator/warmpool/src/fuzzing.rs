//! The parsers that read bytes from outside, as fuzz targets: seeds to start from, and what holds for any bytes.
//! `fuzz/` runs each of them for as long as you like; the tests below run all of them for a moment.
//!
//! Beside the seeds there is a corpus for each, `fuzz/kept/NAME`: inputs that earlier runs found, each of which takes a way
//! through the parser that no other takes, one a line in base64. `scripts/fuzz --keep` adds to it.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A parser under test.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    name: &'static str,
    seeds: fn() -> Vec<Vec<u8>>,
    check: fn(&[u8]),
}

/// Frame headers of websockets.
pub const FRAMES: Parser = Parser {
    name: "frames",
    seeds: warmpool_sessions::relay::frames::fuzzing::seeds,
    check: warmpool_sessions::relay::frames::fuzzing::check,
};

/// A viewer's RFB messages.
pub const RFB: Parser = Parser {
    name: "rfb",
    seeds: warmpool_sessions::live::rfb::fuzzing::seeds,
    check: warmpool_sessions::live::rfb::fuzzing::check,
};

/// Recordings that a killed daemon left.
pub const MATROSKA: Parser = Parser {
    name: "matroska",
    seeds: warmpool_sessions::video::matroska::fuzzing::seeds,
    check: warmpool_sessions::video::matroska::fuzzing::check,
};

/// Dumps of the store.
pub const DUMP: Parser =
    Parser { name: "dump", seeds: warmpool_store::dump::fuzzing::seeds, check: warmpool_store::dump::fuzzing::check };

/// Backups: tars of a dump and files.
pub const BACKUP: Parser = Parser {
    name: "backup",
    seeds: warmpool_store::fuzzing::archive::seeds,
    check: warmpool_store::fuzzing::archive::check,
};

/// Heads of requests, with path, Host, Origin and query.
pub const HEADS: Parser =
    Parser { name: "heads", seeds: crate::http::fuzzing::seeds, check: crate::http::fuzzing::check };

/// What clients of other services send: queries, and bodies of new sessions.
pub const DROPIN: Parser =
    Parser { name: "dropin", seeds: crate::dropin::fuzzing::seeds, check: crate::dropin::fuzzing::check };

/// Bodies of create calls.
pub const CREATE: Parser = Parser {
    name: "create",
    seeds: warmpool_sessions::session::fuzzing::request::seeds,
    check: warmpool_sessions::session::fuzzing::request::check,
};

/// WebDriver's bodies of new sessions.
pub const CAPABILITIES: Parser = Parser {
    name: "capabilities",
    seeds: warmpool_sessions::webdriver::fuzzing::capabilities::seeds,
    check: warmpool_sessions::webdriver::fuzzing::capabilities::check,
};

/// Selenium's uploads, while they arrive.
pub const UPLOAD: Parser = Parser {
    name: "upload",
    seeds: warmpool_sessions::webdriver::fuzzing::archive::seeds,
    check: warmpool_sessions::webdriver::fuzzing::archive::check,
};

/// Chromium's switches.
pub const SWITCHES: Parser = Parser {
    name: "switches",
    seeds: warmpool_protocol::fuzzing::switches::seeds,
    check: warmpool_protocol::fuzzing::switches::check,
};

/// Profiles that clients send for Firefox.
pub const FIREFOX_PROFILE: Parser = Parser {
    name: "firefox_profile",
    seeds: warmpool_protocol::fuzzing::firefox_profile::seeds,
    check: warmpool_protocol::fuzzing::firefox_profile::check,
};

/// Firefox's files with preferences.
pub const PREF_FILE: Parser = Parser {
    name: "pref_file",
    seeds: warmpool_protocol::fuzzing::pref_file::seeds,
    check: warmpool_protocol::fuzzing::pref_file::check,
};

/// Browser extensions.
pub const EXTENSION: Parser = Parser {
    name: "extension",
    seeds: warmpool_protocol::fuzzing::extension::seeds,
    check: warmpool_protocol::fuzzing::extension::check,
};

/// Packed profile folders.
pub const FOLDER: Parser = Parser {
    name: "folder",
    seeds: warmpool_protocol::fuzzing::folder::seeds,
    check: warmpool_protocol::fuzzing::folder::check,
};

/// Cookies and storage that a browser is to begin with.
pub const STORAGE: Parser = Parser {
    name: "storage",
    seeds: warmpool_protocol::fuzzing::storage::seeds,
    check: warmpool_protocol::fuzzing::storage::check,
};

/// SOCKS, of browsers and of proxies.
pub const SOCKS: Parser = Parser {
    name: "socks",
    seeds: warmpool_workers::egress::fuzzing::socks::seeds,
    check: warmpool_workers::egress::fuzzing::socks::check,
};

/// Answers of HTTP proxies.
pub const PROXY: Parser = Parser {
    name: "proxy",
    seeds: warmpool_workers::egress::fuzzing::proxy::seeds,
    check: warmpool_workers::egress::fuzzing::proxy::check,
};

/// Bodies of tasks: recordings, schemas, fleets.
pub const TASKS: Parser = Parser {
    name: "tasks",
    seeds: warmpool_tasks::fuzzing::submit::seeds,
    check: warmpool_tasks::fuzzing::submit::check,
};

/// Templates in a task's strings, and the hiding of secrets.
pub const TEMPLATE: Parser = Parser {
    name: "template",
    seeds: warmpool_tasks::fuzzing::template::seeds,
    check: warmpool_tasks::fuzzing::template::check,
};

/// Tables that are written of what pages said.
pub const EXPORT: Parser = Parser {
    name: "export",
    seeds: warmpool_tasks::fuzzing::export::seeds,
    check: warmpool_tasks::fuzzing::export::check,
};

/// Tables and lines of a fleet's inputs.
pub const INPUTS: Parser = Parser {
    name: "inputs",
    seeds: warmpool_client::fuzzing::inputs::seeds,
    check: warmpool_client::fuzzing::inputs::check,
};

/// Requests for worlds.
pub const WORLD: Parser = Parser {
    name: "world",
    seeds: warmpool_worlds::fuzzing::request::seeds,
    check: warmpool_worlds::fuzzing::request::check,
};

/// Pictures that clients attach to them.
pub const PICTURE: Parser = Parser {
    name: "picture",
    seeds: warmpool_worlds::fuzzing::attachment::seeds,
    check: warmpool_worlds::fuzzing::attachment::check,
};

/// All of them.
pub const PARSERS: [Parser; 24] = [
    FRAMES,
    RFB,
    MATROSKA,
    DUMP,
    BACKUP,
    HEADS,
    DROPIN,
    CREATE,
    CAPABILITIES,
    UPLOAD,
    SWITCHES,
    FIREFOX_PROFILE,
    PREF_FILE,
    EXTENSION,
    FOLDER,
    STORAGE,
    SOCKS,
    PROXY,
    TASKS,
    TEMPLATE,
    EXPORT,
    INPUTS,
    WORLD,
    PICTURE,
];

impl Parser {
    /// Panics if the parser does something with these bytes that it must not do.
    pub fn check(&self, bytes: &[u8]) {
        (self.check)(bytes);
    }

    /// What earlier runs found.
    fn kept(&self) -> Vec<Vec<u8>> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/kept").join(self.name);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| STANDARD.decode(line).ok()).collect()
    }

    /// Writes seeds and kept inputs into the corpus folder, which is the first folder among this process's arguments.
    ///
    /// # Panics
    /// The folder cannot be written to.
    pub fn write_seeds(&self) {
        let Some(folder) = std::env::args().skip(1).map(PathBuf::from).find(|path| path.is_dir()) else { return };
        for (number, seed) in (self.seeds)().iter().chain(&self.kept()).enumerate() {
            let written = std::fs::write(folder.join(format!("seed-{number}")), seed);
            assert!(written.is_ok(), "write a seed of {}: {written:?}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;

    #[test]
    fn the_seeds_are_taken() {
        for parser in PARSERS {
            assert!(!(parser.seeds)().is_empty(), "{} has no seeds", parser.name);
            for seed in (parser.seeds)() {
                parser.check(&seed);
            }
        }
    }

    #[test]
    fn what_was_found_once_breaks_no_parser() {
        for parser in PARSERS {
            for input in parser.kept() {
                parser.check(&input);
            }
        }
    }

    #[test]
    fn every_target_and_corpus_is_of_a_parser() {
        let names = |folder: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder);
            let name = |entry: std::fs::DirEntry| entry.path().file_stem().unwrap().to_string_lossy().into_owned();
            std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| name(entry.unwrap()))
                .collect::<std::collections::BTreeSet<_>>()
        };
        let parsers = PARSERS.map(|parser| parser.name.to_owned()).into();
        assert_eq!(names("fuzz_targets"), parsers);
        assert!(names("kept").is_subset(&parsers), "{:?}", names("kept"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn no_bytes_break_a_parser(
            parser in select(&PARSERS[..]),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            parser.check(&bytes);
        }

        #[test]
        fn no_damaged_seed_breaks_a_parser(
            parser in select(&PARSERS[..]),
            seed in any::<Index>(),
            length in any::<Index>(),
            damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..6),
        ) {
            let mut bytes = seed.get(&(parser.seeds)()).clone();
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            parser.check(&bytes);
            parser.check(&bytes[..length.index(bytes.len())]);
        }
    }
}
