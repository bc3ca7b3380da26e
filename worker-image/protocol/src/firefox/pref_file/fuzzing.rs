//! Files with preferences for the fuzzer: what is read can be written, and is read from there the same.

use super::{line, read};

/// Files with each form of an entry.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "user_pref(\"a.b\", true);\nuser_pref('c', -2147483648);",
        "# comment\n/* more\n */ pref(\"x\", \"\\x41\\u00e4\\n\\\"\", sticky, locked);\nsticky_pref(\"y\", +1);",
        "user_pref(\"emoji\", \"\\uD83D\\uDE00\");",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Panics when a preference is another one after it was written.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(prefs) = read(text) else { return };
    for (name, value) in prefs {
        let written = line(&name, &value);
        let again = written.as_deref().map(read);
        assert_eq!(again, Some(Ok(vec![(name, value)])), "written as {written:?}");
    }
}
