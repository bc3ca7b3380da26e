#![no_main]
use warmpool::fuzzing::UPLOAD;

libfuzzer_sys::fuzz_target!(init: UPLOAD.write_seeds(), |bytes: &[u8]| UPLOAD.check(bytes));
