#![no_main]
use warmpool::fuzzing::RFB;

libfuzzer_sys::fuzz_target!(init: RFB.write_seeds(), |bytes: &[u8]| RFB.check(bytes));
