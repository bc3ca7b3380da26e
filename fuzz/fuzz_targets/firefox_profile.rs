#![no_main]
use warmpool::fuzzing::FIREFOX_PROFILE;

libfuzzer_sys::fuzz_target!(init: FIREFOX_PROFILE.write_seeds(), |bytes: &[u8]| FIREFOX_PROFILE.check(bytes));
