#![no_main]
use warmpool::fuzzing::CAPABILITIES;

libfuzzer_sys::fuzz_target!(init: CAPABILITIES.write_seeds(), |bytes: &[u8]| CAPABILITIES.check(bytes));
