#![no_main]
use warmpool::fuzzing::PROXY;

libfuzzer_sys::fuzz_target!(init: PROXY.write_seeds(), |bytes: &[u8]| PROXY.check(bytes));
