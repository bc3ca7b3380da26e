#![no_main]
use warmpool::fuzzing::EXPORT;

libfuzzer_sys::fuzz_target!(init: EXPORT.write_seeds(), |bytes: &[u8]| EXPORT.check(bytes));
