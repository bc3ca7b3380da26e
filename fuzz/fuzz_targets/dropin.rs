#![no_main]
use warmpool::fuzzing::DROPIN;

libfuzzer_sys::fuzz_target!(init: DROPIN.write_seeds(), |bytes: &[u8]| DROPIN.check(bytes));
