#![no_main]
use warmpool::fuzzing::FOLDER;

libfuzzer_sys::fuzz_target!(init: FOLDER.write_seeds(), |bytes: &[u8]| FOLDER.check(bytes));
