#![no_main]
use warmpool::fuzzing::EXTENSION;

libfuzzer_sys::fuzz_target!(init: EXTENSION.write_seeds(), |bytes: &[u8]| EXTENSION.check(bytes));
