#![no_main]
use warmpool::fuzzing::TEMPLATE;

libfuzzer_sys::fuzz_target!(init: TEMPLATE.write_seeds(), |bytes: &[u8]| TEMPLATE.check(bytes));
