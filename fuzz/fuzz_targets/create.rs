#![no_main]
use warmpool::fuzzing::CREATE;

libfuzzer_sys::fuzz_target!(init: CREATE.write_seeds(), |bytes: &[u8]| CREATE.check(bytes));
