#![no_main]
use warmpool::fuzzing::SOCKS;

libfuzzer_sys::fuzz_target!(init: SOCKS.write_seeds(), |bytes: &[u8]| SOCKS.check(bytes));
