//! Percent-encoding: of names in paths, and of texts in lines.

use std::fmt::Write as _;

use crate::error::ApiError;

/// Undoes percent-encoding of a path component.
pub(crate) fn decode(component: &str) -> Result<String, ApiError> {
    let wrong = || ApiError::bad_request("name: percent-encoded UTF-8 wanted");
    let mut bytes = Vec::with_capacity(component.len());
    let mut rest = component.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let digits = tail.first_chunk::<2>().ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Appends a text so that nothing but letters and digits of ASCII stays as it is.
pub(crate) fn encode(text: &str, to: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            to.push(char::from(byte));
        } else {
            let _ = write!(to, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_percent_decoded() {
        assert_eq!(decode("report%20%281%29.pdf").unwrap(), "report (1).pdf");
        assert_eq!(decode("%C3%BCbersicht").unwrap(), "übersicht");
        assert_eq!(decode("..%2Fetc").unwrap(), "../etc");
        for wrong in ["%", "%2", "%zz", "%ff", "%é"] {
            assert!(decode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_encoded_comes_back() {
        let text = "a/b %\n é 日本";
        let mut encoded = String::new();
        encode(text, &mut encoded);
        assert!(encoded.is_ascii() && !encoded.contains(['/', ' ', '\n']), "{encoded}");
        assert_eq!(decode(&encoded).unwrap(), text);
    }
}
