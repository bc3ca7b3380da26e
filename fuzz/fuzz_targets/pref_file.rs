#![no_main]
use warmpool::fuzzing::PREF_FILE;

libfuzzer_sys::fuzz_target!(init: PREF_FILE.write_seeds(), |bytes: &[u8]| PREF_FILE.check(bytes));
