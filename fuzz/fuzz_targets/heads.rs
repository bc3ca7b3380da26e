#![no_main]
use warmpool::fuzzing::HEADS;

libfuzzer_sys::fuzz_target!(init: HEADS.write_seeds(), |bytes: &[u8]| HEADS.check(bytes));
