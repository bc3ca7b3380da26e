#![no_main]
use warmpool::fuzzing::WORLD;

libfuzzer_sys::fuzz_target!(init: WORLD.write_seeds(), |bytes: &[u8]| WORLD.check(bytes));
