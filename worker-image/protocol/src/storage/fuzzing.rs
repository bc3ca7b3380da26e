//! States of a browser for the fuzzer: what passes the check is the same after it was written and read.

use super::StorageState;

/// A state with each kind of storage.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        r#"{"cookies":[{"name":"a","value":"b","domain":".a.test","path":"/","expires":-1,"httpOnly":true,"secure":false,"sameSite":"Lax"}],"origins":[]}"#,
        r#"{"cookies":[],"origins":[{"origin":"https://a.test","localStorage":[{"name":"k","value":"v"}],"sessionStorage":[{"name":"k","value":"v"}]}]}"#,
        r#"{"origins":[{"origin":"http://[::1]:8080","localStorage":[],"indexedDB":[{"name":"d","version":1,"stores":[{"name":"s","autoIncrement":false,"keyPath":"id","records":[{"value":{"id":1}},{"keyEncoded":1,"valueEncoded":{"d":"x"}}],"indexes":[{"name":"i","keyPathArray":["a","b"],"multiEntry":false,"unique":true}]}]}]}]}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Panics when a state that was taken is refused or another one after it was written.
pub fn check(bytes: &[u8]) {
    let Ok(state) = serde_json::from_slice::<StorageState>(bytes) else { return };
    if state.check().is_err() {
        return;
    }
    let _ = state.left_out();
    let written = serde_json::to_vec(&state).unwrap_or_default();
    let again = serde_json::from_slice::<StorageState>(&written);
    assert!(again.as_ref().is_ok_and(|again| again.check().is_ok()), "{again:?}");
    assert_eq!(again.ok(), Some(state));
}
