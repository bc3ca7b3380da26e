#![no_main]
use warmpool::fuzzing::INPUTS;

libfuzzer_sys::fuzz_target!(init: INPUTS.write_seeds(), |bytes: &[u8]| INPUTS.check(bytes));
