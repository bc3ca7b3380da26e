#![no_main]
use warmpool::fuzzing::DUMP;

libfuzzer_sys::fuzz_target!(init: DUMP.write_seeds(), |bytes: &[u8]| DUMP.check(bytes));
