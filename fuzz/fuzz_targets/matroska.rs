#![no_main]
use warmpool::fuzzing::MATROSKA;

libfuzzer_sys::fuzz_target!(init: MATROSKA.write_seeds(), |bytes: &[u8]| MATROSKA.check(bytes));
