//! Percent-encoding of names in paths and of texts in lines.

use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};

use crate::error::ApiError;

/// Decodes a component of a path. Unlike browsers, it refuses an incomplete escape instead of taking it literally.
pub(crate) fn decode(component: &str) -> Result<String, ApiError> {
    let is_escape = |text: &str| text.len() >= 2 && text.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    let decoded = percent_decode_str(component).decode_utf8().ok();
    let decoded = decoded.filter(|_| component.split('%').skip(1).all(is_escape));
    decoded.map(Into::into).ok_or_else(|| ApiError::bad_request("name: percent-encoded UTF-8 wanted"))
}

/// Encodes all but the letters and digits of ASCII.
pub(crate) fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
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
    fn decoding_undoes_encoding() {
        let text = "a/b %\n é 日本";
        let encoded = encode(text).to_string();
        assert!(encoded.is_ascii() && !encoded.contains(['/', ' ', '\n']), "{encoded}");
        assert_eq!(decode(&encoded).unwrap(), text);
    }
}
