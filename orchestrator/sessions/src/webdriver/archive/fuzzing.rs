//! Uploads for the fuzzer: however a body is split, the same zip comes out, and it is the one that a parser of JSON reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Archive;

/// Bodies. The first byte of an input is the length of the pieces.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "\u{1}{\"file\":\"aGVsbG8gd29ybGQ=\"}",
        "\u{3} { \"file\" : \"aGVsbG8g\\nd29y\\r\\nbGQ\\u003d\" } ",
        "\u{7}{\"a\":{\"b\":[\"}\",{\"c\":\"\\\"]\"}]},\"f\\u0069le\":\"\\/\\/\\/\\/\",\"z\":-1.5e3}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Panics when the zip depends on how the body was split, or is another one.
pub fn check(bytes: &[u8]) {
    let Some((step, body)) = bytes.split_first() else { return };
    let whole = read(body, body.len().max(1));
    assert_eq!(whole, read(body, usize::from(*step).max(1)));
    let Ok(Value::Object(members)) = serde_json::from_slice::<Value>(body) else { return };
    let Some(Value::String(coded)) = members.get("file") else { return };
    let plain: String = coded.chars().filter(|character| !character.is_ascii_whitespace()).collect();
    // A member that is there twice is read the first time here, and the last time there.
    if let (Some(zip), Ok(decoded), 1) =
        (whole, STANDARD.decode(&plain), body.windows(4).filter(|at| at == b"file").count())
    {
        assert_eq!(zip, decoded);
    }
}

fn read(body: &[u8], step: usize) -> Option<Vec<u8>> {
    let (mut archive, mut zip) = (Archive::default(), Vec::new());
    for piece in body.chunks(step) {
        zip.extend(archive.feed(piece).ok()?);
    }
    zip.extend(archive.finish().ok()?);
    Some(zip)
}
