#![no_main]
use warmpool::fuzzing::TASKS;

libfuzzer_sys::fuzz_target!(init: TASKS.write_seeds(), |bytes: &[u8]| TASKS.check(bytes));
