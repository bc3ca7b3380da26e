#![no_main]
use warmpool::fuzzing::PICTURE;

libfuzzer_sys::fuzz_target!(
    init: {
        // A panic of a decoder is contained, so no hook may end the process. One that leaves `check` still does.
        std::panic::set_hook(Box::new(|_| {}));
        PICTURE.write_seeds();
    },
    |bytes: &[u8]| PICTURE.check(bytes)
);
