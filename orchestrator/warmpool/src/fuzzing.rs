//! The parsers that read bytes from outside, as fuzz targets: seeds to start from, and what holds for any bytes.
//! `fuzz/` runs each of them for as long as you like; the tests below run all of them for a moment.

use std::path::PathBuf;

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

impl Parser {
    /// Panics if the parser does something with these bytes that it must not do.
    pub fn check(&self, bytes: &[u8]) {
        (self.check)(bytes);
    }

    /// Writes the seeds into the corpus folder, which is the first folder among this process's arguments.
    ///
    /// # Panics
    /// The folder cannot be written to.
    pub fn write_seeds(&self) {
        let Some(folder) = std::env::args().skip(1).map(PathBuf::from).find(|path| path.is_dir()) else { return };
        for (number, seed) in (self.seeds)().iter().enumerate() {
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

    const PARSERS: [Parser; 4] = [FRAMES, RFB, MATROSKA, DUMP];

    #[test]
    fn the_seeds_are_taken() {
        for parser in PARSERS {
            for seed in (parser.seeds)() {
                parser.check(&seed);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

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
