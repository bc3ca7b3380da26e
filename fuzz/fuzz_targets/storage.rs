#![no_main]
use warmpool::fuzzing::STORAGE;

libfuzzer_sys::fuzz_target!(init: STORAGE.write_seeds(), |bytes: &[u8]| STORAGE.check(bytes));
