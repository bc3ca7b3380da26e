#![no_main]
use warmpool::fuzzing::SWITCHES;

libfuzzer_sys::fuzz_target!(init: SWITCHES.write_seeds(), |bytes: &[u8]| SWITCHES.check(bytes));
