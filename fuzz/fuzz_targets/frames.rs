#![no_main]
use warmpool::fuzzing::FRAMES;

libfuzzer_sys::fuzz_target!(init: FRAMES.write_seeds(), |bytes: &[u8]| FRAMES.check(bytes));
