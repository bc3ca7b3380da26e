#![no_main]
use warmpool::fuzzing::BACKUP;

libfuzzer_sys::fuzz_target!(init: BACKUP.write_seeds(), |bytes: &[u8]| BACKUP.check(bytes));
