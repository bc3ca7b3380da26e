#![no_main]
use warmpool::fuzzing::PICTURE;

libfuzzer_sys::fuzz_target!(init: PICTURE.write_seeds(), |bytes: &[u8]| PICTURE.check(bytes));
